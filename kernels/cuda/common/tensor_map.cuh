/* tensor_map.cuh - how a tensor lies, for bulk copies of its boxes (wgmma.cuh). */
#ifndef SAC_KERNELS_TENSOR_MAP_CUH
#define SAC_KERNELS_TENSOR_MAP_CUH

#include "device.cuh"

#include <cuda.h>

namespace sac {

typedef decltype(&cuTensorMapEncodeTiled) encode_map;

static inline encode_map find_encode_map(void) {
    void *f = NULL;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return (encode_map)f;
}

/* A tensor of halves [batch][head][row][n_cols] as boxes of 64 columns of `box` rows; `row`, `head` and
 * `batch` are strides. What there is one of has any stride that the driver takes: multiples of 16 bytes below
 * 2^40 (cuTensorMapEncodeTiled). */
static inline bool make_map(encode_map encode, CUtensorMap *map, sac_dtype t, const void *data,
                            int64_t n_cols, int64_t n_rows, int64_t row, int n_heads, int64_t head,
                            int64_t n_batch, int64_t batch, int box) {
    const cuuint64_t sizes[4] = {(cuuint64_t)n_cols, (cuuint64_t)n_rows, (cuuint64_t)n_heads,
                                 (cuuint64_t)n_batch};
    const cuuint64_t bytes[3] = {(cuuint64_t)(n_rows > 1 ? row : n_cols) * 2,
                                 (cuuint64_t)(n_heads > 1 ? head : n_cols) * 2,
                                 (cuuint64_t)(n_batch > 1 ? batch : n_cols) * 2};
    const cuuint32_t boxes[4] = {64, (cuuint32_t)box, 1, 1}, steps[4] = {1, 1, 1, 1};
    for (cuuint64_t stride : bytes)
        if (stride % 16 != 0 || stride >= (cuuint64_t)1 << 40) return false;
    return encode(map,
                  t == SAC_DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4,
                  (void *)data, sizes, bytes, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

} // namespace sac

#endif
