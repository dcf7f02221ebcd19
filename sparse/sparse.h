/* sparse.h - attention as a choice: which queries meet which keys in prefill, which stored rows a decode step
 * reads.
 *
 * A policy chooses rows; the shared attention op reads them. One file a method, one line in policies.c.
 * `dense` reads everything and is the oracle for the others: every method's off-value takes its path and
 * gives its bits. */
#ifndef SAC_SPARSE_H
#define SAC_SPARSE_H

#include "ops.h"

/* One layer of a prefill or of a decode step, keys and values already stored. */
typedef struct sac_layer_attention {
    const sac_ops *ops;
    const sac_stream *stream;
    int layer, n_layers;
    int n_heads;
    sac_mat q;      /* [n][n_heads * head_dim], rotated; the output replaces it */
    sac_kv_view kv; /* past + n rows */
    int64_t past;   /* tokens before the first query */
    int64_t window; /* the model's own sliding window, 0 = none */
    float scale;
} sac_layer_attention;

typedef struct sac_prefill_policy {
    const char *name, *source;
    sac_status (*attend)(void *state, const sac_layer_attention *a);
} sac_prefill_policy;

typedef struct sac_decode_policy {
    const char *name, *source;
    sac_status (*attend)(void *state, const sac_layer_attention *a);
} sac_decode_policy;

extern const sac_prefill_policy sac_prefill_dense;
extern const sac_decode_policy sac_decode_dense;

const sac_prefill_policy *sac_prefill_policy_find(const char *name); /* NULL when there is none */
const sac_decode_policy *sac_decode_policy_find(const char *name);

#endif
