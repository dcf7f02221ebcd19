/* Formats without quantisation: every element rounded to a float type. */
#include "kvquant.h"

static size_t bytes4(int64_t n_rows, int head_dim) {
    return (size_t)n_rows * (size_t)head_dim * 4;
}
static size_t bytes2(int64_t n_rows, int head_dim) {
    return (size_t)n_rows * (size_t)head_dim * 2;
}

const sac_kv_format sac_kv_f32 = {"f32", "single precision", SAC_DTYPE_F32, bytes4};
const sac_kv_format sac_kv_f16 = {"f16", "IEEE half", SAC_DTYPE_F16, bytes2};
const sac_kv_format sac_kv_bf16 = {"bf16", "bfloat16", SAC_DTYPE_BF16, bytes2};
