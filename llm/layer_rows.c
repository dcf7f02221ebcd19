#include "layer_rows.h"

#include <assert.h>
#include <string.h>

static void forget(sac_layer_rows *r, int64_t at) {
    r->first = r->end = at;
    r->n_read = 0;
}

void sac_layer_rows_keep(sac_layer_rows *r, int layer, int64_t at, sac_mat x) {
    assert(x.dtype == SAC_DTYPE_F32 && x.cols == r->hidden);
    for (int i = 0; i < SAC_LAYER_ROWS; i++) {
        if (r->layer[i] != layer) continue;
        for (int64_t k = 0; k < x.rows; k++)
            memcpy(r->rows + ((at + k) * SAC_LAYER_ROWS + i) * r->hidden, sac_mat_row_f32(x, k),
                   (size_t)r->hidden * sizeof(float));
    }
    if (layer != r->layer[SAC_LAYER_ROWS - 1]) return;
    if (at < r->first || at > r->end) forget(r, at);
    r->end = at + x.rows;
}

void sac_layer_rows_cut(sac_layer_rows *r, int64_t n) {
    if (n <= r->first) {
        forget(r, n);
        return;
    }
    if (r->end > n) r->end = n;
    if (r->n_read > n - 1 - r->first) r->n_read = n - 1 - r->first; /* the last one's next token is another */
}
