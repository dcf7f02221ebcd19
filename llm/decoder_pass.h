/* decoder_pass.h - one pass over the model for the steps of some sequences and for rows of other sequences' prompts: linear
 * layers run once over all of them, so that weights are read once. A prompt that goes through passes is cut by rows, each of
 * which sees all layers in a pass, not by layers (prefill.h); what is left of it may go on either way, and its rows have the
 * same bits. Rotation, keys and values and attention stay each sequence's own. */
#ifndef SAC_LLM_DECODER_PASS_H
#define SAC_LLM_DECODER_PASS_H

#include "decoder_batch.h"
#include "prefill.h"

enum { SAC_PASS_CHUNKS = 8 }; /* prompts in a pass at most */

typedef struct sac_pass_chunk {
    sac_prefill_work *work;
    int64_t n; /* its next rows, as many as sac_prefill_pass_rows says */
} sac_pass_chunk;

/* How many of its next rows, at most `most`, may go into a pass. 0: none, because it stands within its layers, or something of
 * the sequence has to see the prompt as a whole: another prefill policy than a dense one, a decode policy that learns from the
 * prompt or drops rows, a packed format, rows of a picture that see one another, layers with linear
 * attention, drafts through a policy, what is measured; or few rows are left, which have other bits than many; or the decoder has
 * adapters. */
int64_t sac_prefill_pass_rows(const sac_prefill_work *w, int64_t most);

/* A token, ids[i], for each of n >= 1 sequences, as sac_decoder_batch_step has them, and the next rows of n_chunks prompts
 * of the same decoder, whose works go on: each of those that end is done. Rows of chunks are b->n_prompt at most, in all. On
 * failure every sequence is cut back as after a failed step, and the works are dropped. On a device the stream goes on after what
 * the works' own have in flight (the caller sees to that), and is through with everything when this returns. */
sac_status sac_decoder_pass(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                            sac_decoder_state *const *states, const int32_t *ids, int64_t n, const sac_pass_chunk *chunks,
                            int64_t n_chunks, sac_error *err);

/* ---- of the decoder alone (decoder_step.c) */

struct decoder_steps;
/* The chunks' hidden rows to those of the batch. */
sac_status sac_decoder_pass_begin(const struct decoder_steps *t);
sac_status sac_decoder_pass_layer(const struct decoder_steps *t, int layer);
/* All went well: the works are so much further. */
void sac_decoder_pass_end(const struct decoder_steps *t);

#endif
