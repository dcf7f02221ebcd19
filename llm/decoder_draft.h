/* decoder_draft.h - the model drafts for itself: steps through a sparse decode policy over the sequence's own rows. */
#ifndef SAC_LLM_DECODER_DRAFT_H
#define SAC_LLM_DECODER_DRAFT_H

#include "decoder_batch.h"

/* Whether the policy that s->drafting was opened with can draft: it keeps a row of every token and chooses among them.
 * UNSUPPORTED says why not; so does a policy that would read all rows of every context of this length. */
sac_status sac_decoder_check_draft(const sac_decoder_state *s, const char *line, sac_error *err);

/* What follows token `id`, the next after `past` cached ones: at most `most` <= n_ahead tokens into out, *n of them, each the likeliest by
 * the steps before it. Afterwards the sequence is what it was; s->logits are nobody's. past + most <= n_ctx. */
sac_status sac_decoder_draft(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops, const sac_stream *stream,
                             int64_t past, int32_t id, int most, int32_t *out, int *n, sac_error *err);

/* One of several sequences that go on by their likeliest tokens. */
typedef struct sac_draft_lane {
    sac_decoder_state *s; /* whose steps compute no tokens again */
    const int32_t *given; /* [n_given >= 1] tokens to run, behind what the sequence holds */
    int n_given, vocab;   /* of what may follow ids below vocab alone */
    int most;             /* >= 1 tokens; there is room for n_given - 1 + most in the context */
    int n;                /* found so far, in out [most]; all but the last one are run too */
    int32_t *out;
} sac_draft_lane;

/* Of n <= b->capacity sequences, a row each. On failure each is as long as its last step left it. */
sac_status sac_decoder_go_on_together(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                                      sac_draft_lane *lanes, int64_t n, sac_error *err);
/* Of sequences that draft for themselves, n_given = 1: sac_decoder_draft of all of them. */
sac_status sac_decoder_draft_together(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                                      sac_draft_lane *lanes, int64_t n, sac_error *err);

#endif
