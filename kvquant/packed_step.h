/* packed_step.h - a decode step over packed rows and a plain tail: one op for each, joined by the logarithms
 * of their softmax denominators. */
#ifndef SAC_KV_PACKED_STEP_H
#define SAC_KV_PACKED_STEP_H

#include "policy.h"

typedef struct sac_packed_step {
    double top_p; /* < 1: of the packed rows only those that hold this share are mixed */
    int64_t n_ctx;
    float *out;        /* [n_heads * head_dim] over the packed rows */
    float *lse_packed; /* [n_heads] of those that were mixed */
    float *lse;        /* [n_heads] of the tail, then of everything; on a device: there */
    /* When top_p < 1. */
    float *weights;          /* [n_heads][n_ctx] of the packed rows */
    float *least, *lse_kept; /* [n_heads] the smallest that is mixed; ln of the share that is */
    int64_t *n_kept;         /* [n_heads] */
} sac_packed_step;

void sac_packed_step_take(sac_packed_step *s, const sac_attention_shape *shape, double top_p,
                          sac_arena *arena);

/* On a device after take; top_p is 1 there. */
void sac_packed_step_take_device(sac_packed_step *s, const sac_attention_shape *shape, sac_arena *arena);

/* a->q, one row, is replaced by its attention over the parts and the rows of a->kv; s->lse says over what
 * denominator. Counts what was read. */
sac_status sac_packed_step_attend(sac_packed_step *s, const sac_layer_attention *a,
                                  const sac_packed_rows *parts, int n_parts);

/* On a device: what sac_packed_step_attend asks of the op there, counted as if it were done. Without a
 * denominator: s->lse stays what it was. */
sac_packed_step_args sac_packed_step_alone(const sac_layer_attention *a, const sac_packed_rows *parts,
                                           int n_parts);

#endif
