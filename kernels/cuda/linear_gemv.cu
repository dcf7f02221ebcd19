/* linear_gemv.cu - up to 8 rows of x against weights that are read once: bound by memory, so each lane streams
 * 16 bytes of weights at a time and the tensor cores do the sums (with x as the 8 columns of B, most of them
 * empty: they cost nothing). A block has 16 rows of w; its warps share k and their sums meet in a fixed order.
 *
 * Sums over k may take k in any order as long as both factors do: a lane's 8 neighbours of a row, which a
 * 16-byte load gives, are handed to two products as if they were the pairs 2t, 2t + 8 of each. */
#include "mma.cuh"

#define AHEAD 4 /* loads of a row in flight: 128 of k */

template <typename T>
static __global__ void gemv_kernel(sac_mat y, const T *x, int64_t x_stride, const T *w, int64_t k,
                                   const float *bias, sac_activation act, bool accumulate) {
    __shared__ float part[16][16][9];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int n_warps = blockDim.x / 32;
    int64_t n = y.cols, row0 = (int64_t)blockIdx.x * 16 + g, row1 = row0 + 8;
    const T *w0 = w + min(row0, n - 1) * k + t * 8, *w1 = w + min(row1, n - 1) * k + t * 8;
    const T *xg = x + min((int64_t)g, y.rows - 1) * x_stride + t * 8;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    float acc[4] = {0};
    for (int64_t k0 = (int64_t)warp * 32 * AHEAD; k0 < k; k0 += (int64_t)n_warps * 32 * AHEAD) {
        uint4 a0[AHEAD], a1[AHEAD], b[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            bool in = k0 + u * 32 + t * 8 < k;
            a0[u] = in ? __ldcs((const uint4 *)(w0 + k0 + u * 32)) : zero;
            a1[u] = in ? __ldcs((const uint4 *)(w1 + k0 + u * 32)) : zero;
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            bool in = k0 + u * 32 + t * 8 < k && g < y.rows;
            b[u] = in ? __ldg((const uint4 *)(xg + k0 + u * 32)) : zero;
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            mma<T>(acc, a0[u].x, a1[u].x, a0[u].y, a1[u].y, b[u].x, b[u].y);
            mma<T>(acc, a0[u].z, a1[u].z, a0[u].w, a1[u].w, b[u].z, b[u].w);
        }
    }
    part[warp][g][2 * t] = acc[0];
    part[warp][g][2 * t + 1] = acc[1];
    part[warp][g + 8][2 * t] = acc[2];
    part[warp][g + 8][2 * t + 1] = acc[3];
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * y.rows; i += blockDim.x) {
        int r = i % 16, col = i / 16;
        int64_t row = (int64_t)blockIdx.x * 16 + r, at = col * y.stride + row;
        if (row >= n) continue;
        float sum = bias ? bias[row] : 0.0f;
        for (int j = 0; j < n_warps; j++) sum += part[j][r][col];
        sum = activate(act, sum);
        store_any(y.dtype, y.data, at, accumulate ? load_any(y.dtype, y.data, at) + sum : sum);
    }
}

extern "C" sac_status sac_cuda_linear_gemv(const sac_stream *s, const sac_linear_args *a) {
    int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols;
    if (m > 8 || !is_half(a->x.dtype) || a->w.dtype != a->x.dtype || !is_float(a->y.dtype))
        return SAC_UNSUPPORTED;
    if (!mat_aligned(a->x) || !is_aligned(a->w.data, k)) return SAC_UNSUPPORTED;
    if (!m) return SAC_OK;
    int64_t blocks = ceil_div(n, 16);
    /* few rows of w: more warps on each, so that enough bytes are on their way */
    unsigned threads = blocks >= 2 * s->device->n_processors || k < 8192 / 2 ? 256 : 512;
    if (a->x.dtype == SAC_DTYPE_F16)
        gemv_kernel<half><<<(unsigned)blocks, threads, 0, cuda_stream(s)>>>(
            a->y, (const half *)a->x.data, a->x.stride, (const half *)a->w.data, k, a->bias, a->act,
            a->accumulate);
    else
        gemv_kernel<bf16><<<(unsigned)blocks, threads, 0, cuda_stream(s)>>>(
            a->y, (const bf16 *)a->x.data, a->x.stride, (const bf16 *)a->w.data, k, a->bias, a->act,
            a->accumulate);
    return launched();
}
