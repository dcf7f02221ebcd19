/* e4m3_product.cuh - products of e4m3 with e4m3 by cuBLASLt, on Hopper's tensor cores (linear.cu). */
#ifndef SAC_KERNELS_E4M3_PRODUCT_CUH
#define SAC_KERNELS_E4M3_PRODUCT_CUH

#include "cuda_ops.h"

namespace sac::linear {

/* What numbers are times. By rows: w [n], x [m]. By blocks: w [n / 128][L] for 128 rows and 128 elements each, L being
 * the number of blocks of a row, up to a multiple of 4; x [k / 128][m]. Quotients are rounded up. (cuBLAS, "Using the
 * cuBLASLt API", scaling modes of 8-bit types.) */
struct e4m3_scales {
    const float *w, *x;
    bool by_blocks;
    int64_t w_stride; /* between rows of w, or 0: they lie behind one another */
};
static inline int64_t scales_of_block_row(int64_t k) {
    return (k + 511) / 512 * 4;
}

/* As sac_cuda_linear_lt, where x and w.tensor are of SAC_DTYPE_FP8, a byte each, and y is a float. UNSUPPORTED where the
 * library has nothing for it, before anything is started; with only_asks nothing is. */
sac_status linear_e4m3(const sac_stream *s, const sac_linear_args *a, const e4m3_scales &e, bool only_asks);

} // namespace sac::linear

#endif
