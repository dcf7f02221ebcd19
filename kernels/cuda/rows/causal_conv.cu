/* causal_conv.cu - a thread has a channel of a part and goes down its rows, with those before in registers. Rows are read
 * AHEAD at a time, so that reading them does not wait for writing those before, which may be the same memory. */
#include "activation.cuh"
#include "states.cuh"

namespace sac::rows {

enum { CONV_THREADS = 128, CONV_AHEAD = 16 };

template <typename T>
static __global__ void __launch_bounds__(CONV_THREADS)
    causal_conv_kernel(T *y, const T *x, const float *w, int width, int64_t channels, int64_t y_stride, int64_t x_stride,
                       states s) {
    const int64_t c = (int64_t)blockIdx.x * CONV_THREADS + threadIdx.x, first = s.first[blockIdx.y], n = s.n[blockIdx.y];
    float *state = s.state[blockIdx.y];
    float tap[SAC_CONV_MOST], seen[SAC_CONV_MOST]; /* aligned to the end: the first ones are 0 */
    start_next();
    wait_for_last();
    if (c >= channels) return;
#pragma unroll
    for (int j = 0; j < SAC_CONV_MOST; j++) {
        const int k = j - (SAC_CONV_MOST - width); /* tap k, and row k of the state */
        tap[j] = k >= 0 ? w[k * channels + c] : 0;
        seen[j] = k >= 0 && k < width - 1 ? state[k * channels + c] : 0;
    }
    for (int64_t t = 0; t < n; t += CONV_AHEAD) {
        float row[CONV_AHEAD];
#pragma unroll
        for (int i = 0; i < CONV_AHEAD; i++) row[i] = t + i < n ? to_f32(x[(first + t + i) * x_stride + c]) : 0;
#pragma unroll
        for (int i = 0; i < CONV_AHEAD; i++) {
            if (t + i >= n) break;
            float sum = 0;
            seen[SAC_CONV_MOST - 1] = row[i];
#pragma unroll
            for (int j = 0; j < SAC_CONV_MOST; j++) sum += tap[j] * seen[j];
            y[(first + t + i) * y_stride + c] = from_f32<T>(activate_as<T>(SAC_ACT_SILU, sum));
#pragma unroll
            for (int j = 0; j + 1 < SAC_CONV_MOST; j++) seen[j] = seen[j + 1];
        }
    }
#pragma unroll
    for (int j = 0; j + 1 < SAC_CONV_MOST; j++) {
        const int k = j - (SAC_CONV_MOST - width);
        if (k >= 0) state[k * channels + c] = seen[j];
    }
}

extern "C" sac_status sac_cuda_causal_conv(const sac_stream *s, const sac_causal_conv_args *a) {
    if (a->x.dtype != a->y.dtype || a->width > SAC_CONV_MOST) return SAC_UNSUPPORTED;
    const unsigned blocks = (unsigned)ceil_div(a->x.cols, CONV_THREADS);
    return for_states(a->parts, a->n_parts, [&](const states &p, int n) {
        BY_DTYPE(a->x.dtype, return launch(s, early({dim3(blocks, (unsigned)n), CONV_THREADS}), causal_conv_kernel<T>,
                                           (T *)a->y.data, (const T *)a->x.data, a->w, a->width, a->x.cols, a->y.stride,
                                           a->x.stride, p));
        return SAC_OK;
    });
}

} // namespace sac::rows
