/* decoder_batch.h - one step of several sequences together: every linear layer runs once over a row of
 * each, and over those of tokens that a method computes again, so that its weights are read once.
 * Rotation, keys and values and attention stay each sequence's own. */
#ifndef SAC_LLM_DECODER_BATCH_H
#define SAC_LLM_DECODER_BATCH_H

#include "decoder.h"

typedef struct sac_decoder_batch {
    int64_t capacity;         /* rows of steps */
    int64_t n_prompt;         /* rows of prompts' chunks that may stand before them (decoder_pass.h) */
    const sac_device *device; /* NULL: the CPU */
    sac_dtype dtype;          /* of activations, as in sac_decoder_state */
    void *hidden, *norm;      /* [n_prompt + capacity][hidden], and so many of all but logits and what follows */
    void *qkv;                /* [capacity][heads * head_dim + 2 * kv_heads * head_dim]; of gated attention the first
                                 are twice as many, queries and gates, and those that it works on in: */
    void *queries, *query_gates; /* [capacity][heads * head_dim]; NULL otherwise */
    void *gate_up;            /* [capacity][2 * sac_decoder_mlp_width] */
    sac_expert_rows experts;
    sac_linear_rows linear;
    void *low;                /* [capacity][most_rank]; NULL where the decoder has no adapters */
    int *adapters; /* [capacity] room on the host, the caller's to give where the decoder has adapters */
    float *logits; /* [capacity][vocab] */
    int32_t *ids;  /* [capacity] on a device, else NULL */
    sac_told_room told_room; /* of a device; what is pinned is the caller's to give (sac_told_room_lay). n_rows 0: all logits come to
                                the host */
    /* Room on the host, the caller's to give where methods compute tokens again: */
    int64_t *first; /* [capacity + 1] where the rows of each sequence begin */
    int32_t *own;   /* [capacity] its last one */
} sac_decoder_batch;

/* For states with these activations. Out of an arena of the device's memory, or of the host's with device NULL. */
void sac_decoder_batch_take(sac_decoder_batch *b, const sac_decoder *d, int64_t capacity, int64_t n_prompt,
                            const sac_device *device, sac_dtype activations, sac_arena *arena);

/* The batch's rows for a step of n sequences; ops, stream and `fast` are the caller's to fill in. */
sac_block_rows sac_decoder_batch_rows(const sac_decoder_batch *b, const sac_decoder *d, int64_t n);

/* A row of the batch for a lone step of a sequence that computes no tokens again (n_spare 0), as sac_decoder_lend
 * lends. */
void sac_decoder_batch_lend(const sac_decoder_batch *b, const sac_decoder *d, sac_decoder_state *s);

/* Rows of a batch that a sequence's step may take: its token's, and those that its method computes again. */
int64_t sac_decoder_step_rows(const sac_decoder_state *s);

/* One token, ids[i], for each of n sequences whose rows fit; logits go to each state, or what is
 * wanted of them. On failure every sequence is cut back
 * to where it was (or to nothing, as after a failed step). */
sac_status sac_decoder_batch_step(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops,
                                  const sac_stream *stream, sac_decoder_state *const *states,
                                  const int32_t *ids, int64_t n, sac_error *err);

/* Whether a sequence may be in such a pass with drafted rows as the next: it drafts (n_ahead > 0), or its step computes no tokens again,
 * and it is on the CPU and keeps no states of linear attention. */
bool sac_decoder_may_go_along(const sac_decoder_state *s);

/* The same of n sequences that may go along, with drafted tokens behind those of them that draft, as sac_decoder_step_ahead has them:
 * ids[first[i]] is the token of sequence i, those up to first[i + 1] are drafted, first[n] <= b->capacity. */
sac_status sac_decoder_batch_step_ahead(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                                        sac_decoder_state *const *states, const int64_t *first, const int32_t *ids, int64_t n,
                                        sac_error *err);

#endif
