/* blocks_q4_k.cu - GGUF's q4_k on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q4_k)

namespace sac::blocks {
sac_status qkv_q4_k_q6_k(const sac_stream *s, const qkv_product &j) {
    return j.x_type == SAC_DTYPE_F16 ? digits_qkv<q4_k<half>, q6_k<half>>(s, j)
                                     : digits_qkv<q4_k<bf16>, q6_k<bf16>>(s, j);
}
} // namespace sac::blocks
