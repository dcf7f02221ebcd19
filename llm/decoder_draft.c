#include "decoder_draft.h"

#include "decoder_run.h"
#include "largest.h"

#include <assert.h>

/* The policy takes the place of the sequence's own, and counts for itself; and back. */
static void exchange(sac_decoder_state *s) {
    const sac_decode own = s->decode;
    sac_layer_stats *stats = s->stats;
    s->decode = s->drafting, s->drafting = own;
    s->stats = s->drafting_stats, s->drafting_stats = stats;
}

sac_status sac_decoder_draft(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops, const sac_stream *stream,
                             int64_t past, int32_t id, int most, int32_t *out, int *n, sac_error *err) {
    sac_status st = SAC_OK;
    assert(s->drafting.policy && past == s->cache.n_rows && most <= s->n_ahead && past + most <= s->n_ctx);
    exchange(s);
    for (*n = 0; *n < most; ++*n) {
        st = sac_decoder_step(d, s, ops, stream, past + *n, id, err);
        if (st != SAC_OK) break;
        id = out[*n] = sac_largest_at(s->logits, s->vocab);
    }
    exchange(s);
    if (st != SAC_OK) {
        sac_decoder_cut_back(s, past); /* to before the first of them */
        return st;
    }
    for (int i = 0; i < s->shape.n_layers; i++) s->cache.layer_rows[i] = past;
    s->cache.n_rows = past;
    sac_decode_cut(&s->drafting, past);
    return SAC_OK;
}
