#include "ref_weights.h"

bool sac_ref_holds_rows(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *t = &w->tensor;
    return t->data && t->n_dims == 2 && t->dim[0] == n && t->dim[1] == k &&
           k % sac_dtype_block(t->dtype) == 0;
}

const void *sac_ref_row_of(const sac_weight *w, int64_t j) {
    const sac_tensor *t = &w->tensor;
    return (const uint8_t *)t->data + (size_t)j * sac_dtype_row_bytes(t->dtype, t->dim[1]);
}
