/* blocks_e4m3_rows.cu - code_layout.h's e4m3_rows on a GPU: rows unpacked to 16 bits. Products: row_e4m3.cuh, few_e4m3.cu and
 * linear_e4m3.cu. */
#include "blocks.cuh"
#include "device.cuh"

#include <cuda_fp8.h>

namespace sac::blocks {

enum { STRETCH = SAC_BLOCK_STRETCH, UNPACK_THREADS = 256 };

/* Four elements a thread. */
template <typename T> static __global__ void __launch_bounds__(UNPACK_THREADS) unpack_plain_kernel(const unpack_job j) {
    const int64_t fours = j.y.cols / 4, at = (int64_t)blockIdx.x * UNPACK_THREADS + threadIdx.x, i = at / fours,
                  col = (at - i * fours) * 4, pitch = j.layout.n_stretches * STRETCH;
    if (i >= j.y.rows) return;
    const int64_t row = j.ids ? j.ids[i] : j.first + i;
    const uint32_t codes = *(const uint32_t *)((const uint8_t *)j.w + row * pitch + col);
    const float scale = ((const float *)((const uint8_t *)j.w +
                                         j.layout.at[SAC_BLOCK_SCALES]))[j.by_blocks ? row / 128 * ((pitch + 511) / 512 * 4) + col / 128 : row];
    T *to = (T *)j.y.data + i * j.y.stride + col;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const __nv_fp8_storage_t code = (__nv_fp8_storage_t)(codes >> (8 * e));
        to[e] = from_f32<T>(j.factor * (scale * __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)))));
    }
}

sac_status unpack_e4m3_rows(const sac_stream *s, const unpack_job &j) {
    const int64_t blocks = ceil_div(j.y.rows * (j.y.cols / 4), UNPACK_THREADS);
    if (blocks > INT32_MAX || j.order) return SAC_UNSUPPORTED;
    if (!blocks) return SAC_OK;
    return launch(s, {(unsigned)blocks, UNPACK_THREADS},
                  j.y.dtype == SAC_DTYPE_F16 ? unpack_plain_kernel<half> : unpack_plain_kernel<bf16>, j);
}

} // namespace sac::blocks
