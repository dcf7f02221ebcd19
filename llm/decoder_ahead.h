/* decoder_ahead.h - a step that runs drafted tokens behind its own. Of a sequence with n_ahead > 0. */
#ifndef SAC_LLM_DECODER_AHEAD_H
#define SAC_LLM_DECODER_AHEAD_H

#include "decoder.h"

/* Token ids[0] after `past` cached ones, as sac_decoder_step, and n - 1 <= n_ahead drafted ones behind it. The sequence
 * is longer by ids[0] alone, and s->logits are its, or s->told is; keys and values of the others lie behind its end, where the
 * next step writes over them. past + n <= n_ctx. Every row has the bits that steps one by one would give it; on a device it is
 * rounded as in a batch. */
sac_status sac_decoder_step_ahead(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                  const sac_stream *stream, int64_t past, const int32_t *ids, int64_t n,
                                  sac_error *err);

/* Whether what is wanted of a row of the last sac_decoder_step_ahead is there: on a device logits have stayed where no more than
 * the largest of each row was wanted. */
bool sac_decoder_may_accept(const sac_decoder *d, const sac_decoder_state *s);

/* Token i >= 1 of the last sac_decoder_step_ahead, the next after the sequence's end, becomes part of it, and s->logits
 * are its, or s->told is; they may be accepted. Nothing may have been run in between. */
void sac_decoder_accept(sac_decoder_state *s, int64_t i);

#endif
