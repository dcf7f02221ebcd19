/* decoder_batch.h - one step of several sequences together: every linear layer runs once over a row of each,
 * so that its weights are read once. Rotation, keys and values and attention stay each sequence's own. */
#ifndef SAC_LLM_DECODER_BATCH_H
#define SAC_LLM_DECODER_BATCH_H

#include "decoder.h"

typedef struct sac_decoder_batch {
    int64_t capacity;         /* sequences */
    const sac_device *device; /* NULL: the CPU */
    sac_dtype dtype;          /* of activations, as in sac_decoder_state */
    void *hidden, *norm;      /* [capacity][hidden] */
    void *queries;            /* [capacity][heads * head_dim] */
    void *k, *v;              /* [capacity][kv_heads * head_dim] */
    void *gate, *up;          /* [capacity][intermediate] */
    void *qkv, *gate_up;      /* on a device: the same side by side, for weights that lie so; else NULL */
    float *logits;            /* [capacity][vocab] */
    int32_t *ids;             /* [capacity] on a device, else NULL */
} sac_decoder_batch;

/* Out of an arena of the device's memory, or of the host's with device NULL. */
void sac_decoder_batch_take(sac_decoder_batch *b, const sac_decoder *d, int64_t capacity,
                            const sac_device *device, sac_arena *arena);

/* Whether a sequence's steps can go through a batch: not when its method computes old tokens again. */
bool sac_decoder_can_batch(const sac_decoder_state *s);

/* One token, ids[i], for each of n sequences; logits go to each state. On failure every sequence is cut back
 * to where it was (or to nothing, as after a failed step). */
sac_status sac_decoder_batch_step(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops,
                                  const sac_stream *stream, sac_decoder_state *const *states,
                                  const int32_t *ids, int64_t n, sac_error *err);

/* ---- the parts of a step that are a sequence's own (decoder.c); past = s->cache.n_rows ---- */

/* x: the embedding of the new token. */
sac_status sac_decoder_step_start(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                  const sac_stream *stream, sac_mat x, sac_error *err);
/* A layer's attention of each of n states: rotates q and k [n][heads * head_dim], stores k and v, attends;
 * the outputs replace q. On a device in one go, as far as ops and methods go. */
sac_status sac_decoder_step_attend(const sac_decoder *d, sac_decoder_state *const *states, int64_t n,
                                   const sac_ops *ops, const sac_stream *stream, int layer, sac_mat q,
                                   sac_mat k, sac_mat v);
/* The token counts from now on; or a failed step leaves no trace. */
void sac_decoder_step_finish(sac_decoder_state *s);
void sac_decoder_step_undo(sac_decoder_state *s);

#endif
