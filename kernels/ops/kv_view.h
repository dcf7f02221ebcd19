#ifndef SAC_KV_VIEW_H
#define SAC_KV_VIEW_H

#include "device.h"

/* Keys and values of one layer where they lie: element (row, head, channel) of k is k[row * k_row + head *
 * k_head + channel]. */
typedef struct sac_kv_view {
    void *k, *v;
    sac_dtype dtype; /* F32, F16 or BF16 */
    int n_heads, head_dim;
    int64_t n_rows;
    int64_t row_stride, head_stride; /* elements, of k and of v */
} sac_kv_view;

#endif
