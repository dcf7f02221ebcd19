/* part.h - a part of a prompt's tokens attends to itself: compact, then dense. */
#ifndef SAC_PART_H
#define SAC_PART_H

#include "policy.h"

/* Room for a part of a prompt. */
typedef struct sac_part_scratch {
    void *q;          /* [n_ctx][n_heads * head_dim], where ops run, as are k, v and zeros */
    void *k, *v;      /* [n_kv_heads][n_ctx][head_dim], in the queries' type as they are */
    float *zeros;     /* [n_heads * head_dim] */
    sac_buffer part;  /* int32_t [n_ctx]: the part, then which of its tokens each query is */
    sac_buffer rows;  /* int32_t [n_ctx] that the part reads */
    sac_buffer start; /* int64_t [2] of rows */
} sac_part_scratch;

void sac_part_scratch_take(sac_part_scratch *s, const sac_attention_shape *shape, const sac_memory *memory);

/* Two-sided sparse prefill: the queries of the part (ascending, counted from the first query) meet the rows
 * before the prompt and each other's, in order; the outputs of all other queries are zeros. Not with a
 * sliding window. */
sac_status sac_attend_part(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                           sac_part_scratch *s);

#endif
