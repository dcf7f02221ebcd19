#include "quants.h"

#include "ref/weights/ref_weights.h"

#include <assert.h>

static sac_weight row_as_weight(sac_dtype t, const void *row, int64_t n) {
    return sac_weight_of((sac_tensor){row, t, 2, {1, n}});
}

void sac_dequantize_row(sac_dtype t, const void *row, float *y, int64_t n) {
    sac_weight w = row_as_weight(t, row, n);
    assert(n % sac_dtype_block(t) == 0);
    sac_ref_weight_of(&w)->row(&w, 0, n, y);
}

static const sac_ref_weight *blocks_of(sac_dtype t) {
    sac_weight w = row_as_weight(t, NULL, 0);
    assert(sac_ref_weight_of(&w)->dot && "not a quantised dtype");
    return sac_ref_weight_of(&w);
}

void sac_quantize_activations(sac_dtype w, const float *x, void *xq, int64_t n) {
    assert(n % sac_dtype_block(w) == 0);
    blocks_of(w)->round_x(x, xq, n);
}

size_t sac_activation_row_bytes(sac_dtype w, int64_t n) {
    return (size_t)(n / sac_dtype_block(w)) * blocks_of(w)->x_block_bytes;
}

float sac_quant_dot(sac_dtype w, const void *row, const void *xq, int64_t n) {
    return blocks_of(w)->dot(row, xq, n);
}
