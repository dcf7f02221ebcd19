/* packed_vote_tmpl.h - the soft vote over packed keys: scores, their sums, the vote, one after the other. */
#include "cpu.h"

static sac_status SAC_ISA(packed_vote_over)(const sac_stream *s, const sac_packed_vote_args *a,
                                            sac_packed_scores_fn scores) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    SAC_TRY(scores(s, &(sac_packed_scores_args){.scores = a->scores,
                                                .stride = a->stride,
                                                .n = a->n,
                                                .q = a->q,
                                                .keys = a->keys,
                                                .n_heads = a->n_heads,
                                                .scale = a->scale,
                                                .first = a->first}));
    SAC_TRY(SAC_ISA(softmax)(
        s, &(sac_softmax_args){
               .scores = a->scores, .stride = a->stride, .n = a->n, .n_rows = a->n_heads, .lse = a->lse}));
    return SAC_ISA(soft_vote)(s, &(sac_soft_vote_args){.scores = a->scores,
                                                       .stride = a->stride,
                                                       .n = a->n,
                                                       .n_rows = a->n_heads,
                                                       .lse = a->lse,
                                                       .votes = a->votes});
}
