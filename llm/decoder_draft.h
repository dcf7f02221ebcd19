/* decoder_draft.h - the model drafts for itself: steps through a sparse decode policy over the sequence's own rows. */
#ifndef SAC_LLM_DECODER_DRAFT_H
#define SAC_LLM_DECODER_DRAFT_H

#include "decoder.h"

/* Whether the policy that s->drafting was opened with can draft: it keeps a row of every token and chooses among them.
 * UNSUPPORTED says why not; so does a policy that would read all rows of every context of this length. */
sac_status sac_decoder_check_draft(const sac_decoder_state *s, const char *line, sac_error *err);

/* What follows token `id`, the next after `past` cached ones: at most `most` <= n_ahead tokens into out, *n of them, each the likeliest by
 * the steps before it. Afterwards the sequence is what it was; s->logits are nobody's. past + most <= n_ctx. */
sac_status sac_decoder_draft(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops, const sac_stream *stream,
                             int64_t past, int32_t id, int most, int32_t *out, int *n, sac_error *err);

#endif
