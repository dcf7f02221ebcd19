/* packed_step.h - a decode step over packed rows and a plain tail: both in one op where the backend gains by
 * that, else one op for each, joined by the logarithms of their softmax denominators. */
#ifndef SAC_KV_PACKED_STEP_H
#define SAC_KV_PACKED_STEP_H

#include "unturned.h"

typedef struct sac_packed_step {
    double top_p; /* < 1: of the packed rows only those that hold this share are mixed */
    bool turns; /* keys of parts are turned when they are read */
    int64_t n_ctx;
    sac_buffer lse; /* float [n_heads] of everything that the last step read, as ops left it */
    /* Where ops run. */
    float *out;        /* [n_heads * head_dim] over the packed rows */
    float *lse_packed; /* [n_heads] of those that were mixed */
    /* When top_p < 1 or keys are turned, where ops run. */
    float *q;                /* [n_heads * head_dim] the query as floats */
    float *weights;          /* [n_heads][n_ctx] of the packed rows */
    float *least, *lse_kept; /* [n_heads] the smallest that is mixed (0 with top_p 1); ln of the share that is */
    /* When top_p < 1, where ops run. */
    int64_t *n_kept;         /* [n_heads] */
    int32_t *rows;           /* [n_kv_heads][n_ctx] that any head of a group mixes */
    int64_t *start;          /* [n_kv_heads + 1] of these lists */
    sac_buffer sums;         /* int64_t [2] rows of the lists, and of the heads alone, of all steps so far */
    int64_t known[2];        /* of sums */
    /* For the host, on a device where mass is measured: [n_ctx] of one head's weights, [n_heads] of least. */
    float *seen_weights, *seen_least;
} sac_packed_step;

void sac_packed_step_take(sac_packed_step *s, const sac_attention_shape *shape, double top_p, bool turns,
                          const sac_memory *memory);

/* a->q, one row, is replaced by its attention over the parts and the rows of a->kv; s->lse.device says over
 * what denominator. Counts what was read. turned [n_parts]: how keys are turned, where they are; else NULL. */
sac_status sac_packed_step_attend(sac_packed_step *s, const sac_layer_attention *a,
                                  const sac_packed_rows *parts, const sac_turned_part *turned, int n_parts);

/* What sac_packed_step_attend asks of the op packed_step where all rows are mixed, counted as if it were
 * done. Without a denominator: s->lse stays what it was. */
sac_packed_step_args sac_packed_step_alone(const sac_layer_attention *a, const sac_packed_rows *parts,
                                           int n_parts);

#endif
