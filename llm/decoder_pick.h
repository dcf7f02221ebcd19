/* decoder_pick.h - what a prefill policy takes out of a layer: queries that it picks, tokens that it drops. Of
 * the decoder alone. */
#ifndef SAC_LLM_DECODER_PICK_H
#define SAC_LLM_DECODER_PICK_H

#include "decoder_run.h"
#include "prefill.h"

static inline decoder_run decoder_run_of(const sac_prefill_work *w) {
    return (decoder_run){w->d, w->s, w->ops, w->stream};
}

/* Whether the layer's prefill picks queries: outputs may then be those of some tokens. */
bool sac_decoder_picks_queries(const sac_prefill_work *w);

/* Of a sac_query_maker; ctx is the sac_prefill_work: queries of the listed tokens, or with rows NULL of the
 * first q.rows ones. */
sac_status sac_decoder_make_queries(void *ctx, sac_mat q, const int32_t *rows);

/* Outputs of picked queries that one piece adds to their hidden states. */
int64_t sac_decoder_attended_part(const sac_prefill_work *w);

/* Adds those from w->at on, n of them. */
sac_status sac_decoder_add_attended(const sac_prefill_work *w, int64_t n);

/* Takes the tokens that the policy drops here out of the hidden rows and positions; w->n is what is left. */
sac_status sac_decoder_drop_tokens(sac_prefill_work *w);

#endif
