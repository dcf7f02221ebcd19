/* patchify.cu - pixels to rows of patches, normalised on the way. */
#include "device.cuh"

namespace sac::rows {

/* There are 3 x 256 values: a table, in double as the reference computes it, then only moves. */
static __global__ void patchify_kernel(sac_mat y, sac_patchify_args a) {
    __shared__ float table[3 * 256];
    for (int i = threadIdx.x; i < 3 * 256; i += blockDim.x) {
        int c = i / 256;
        table[i] = (float)(((double)(i % 256) / 255.0 - (double)a.mean[c]) / (double)a.std[c]);
    }
    __syncthreads();
    int area = (int)(y.cols / 3);
    for (int64_t row = blockIdx.x; row < y.rows; row += gridDim.x) {
        const uint8_t *pixels = a.pixels + row * y.cols;
        for (int i = threadIdx.x; i < 3 * area; i += blockDim.x) {
            int c = i / area, p = i % area;
            store_any(y.dtype, y.data, row * y.stride + i, table[c * 256 + pixels[p * 3 + c]]);
        }
    }
}

extern "C" sac_status sac_cuda_patchify(const sac_stream *s, const sac_patchify_args *a) {
    if (!is_float(a->y.dtype)) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    unsigned blocks = (unsigned)min_of(a->y.rows, s->device->n_processors * 8);
    return launch(s, {blocks, 256}, patchify_kernel, a->y, *a);
}

} // namespace sac::rows
