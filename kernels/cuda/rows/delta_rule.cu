/* delta_rule.cu - a block has some columns of the state of one head of one part in registers, a column in LANES threads, and
 * goes down the rows. What rows need that all columns share (keys and queries of length 1, gates) is made for TILE rows at a
 * time in shared memory. One row after the other, so it is bound by their number, not by what they read: a prompt gains by
 * heads and columns alone. */
#include "reduce.cuh"
#include "states.cuh"

namespace sac::rows {

enum { DELTA_THREADS = 128, DELTA_TILE = 8 };

/* Columns of q, k and v begin at the head's. */
template <typename T> struct delta_matrices {
    T *y;
    const T *q, *k, *v, *a, *b;
    int64_t y_stride, q_stride, k_stride, v_stride, a_stride, b_stride;
    const float *a_log, *dt_bias;
    int dk, dv, share; /* value heads of a key head */
    float eps;
};

/* A warp makes a row's key or query: divided by its length, times factor; zeros behind dk. */
template <typename T>
__device__ __forceinline__ void delta_unit(float *to, const T *from, int dk, int room, float eps, float factor) {
    const int lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = lane; i < dk; i += 32) {
        const float x = to_f32(from[i]);
        sum += x * x;
    }
    const float scale = factor / sqrtf(warp_sum(sum) + eps);
    for (int i = lane; i < room; i += 32) to[i] = i < dk ? to_f32(from[i]) * scale : 0;
}

/* R: channels of a key that a thread has, every LANES-th one. */
template <typename T, int R, int LANES>
static __global__ void __launch_bounds__(DELTA_THREADS, 2) delta_rule_kernel(delta_matrices<T> m, states s) {
    constexpr int COLUMNS = DELTA_THREADS / LANES, ROOM = LANES * R;
    __shared__ float q[DELTA_TILE][ROOM], k[DELTA_TILE][ROOM], v[DELTA_TILE][COLUMNS], decay[DELTA_TILE], beta[DELTA_TILE];
    const int head = blockIdx.y, lane = threadIdx.x % LANES, column = threadIdx.x / LANES,
              c = blockIdx.x * COLUMNS + column, warp = threadIdx.x / 32;
    const int64_t first = s.first[blockIdx.z], n = s.n[blockIdx.z], key = (int64_t)(head / m.share) * m.dk,
                  value = (int64_t)head * m.dv;
    float *state = s.state[blockIdx.z] + (int64_t)head * m.dk * m.dv, own[R];
    start_next();
    wait_for_last();
#pragma unroll
    for (int i = 0; i < R; i++) {
        const int d = lane + LANES * i;
        own[i] = d < m.dk && c < m.dv ? state[(int64_t)d * m.dv + c] : 0;
    }
    const float rate = expf(m.a_log[head]), bias = m.dt_bias[head];
    for (int64_t t = 0; t < n; t += DELTA_TILE) {
        const int rows = (int)(n - t < DELTA_TILE ? n - t : DELTA_TILE);
        __syncthreads(); /* the tile before is still read */
        for (int i = warp; i < 2 * rows; i += DELTA_THREADS / 32) {
            const int64_t row = first + t + i / 2;
            if (i % 2)
                delta_unit(k[i / 2], m.k + row * m.k_stride + key, m.dk, ROOM, m.eps, 1.0f);
            else
                delta_unit(q[i / 2], m.q + row * m.q_stride + key, m.dk, ROOM, m.eps, rsqrtf((float)m.dk));
        }
        for (int i = threadIdx.x; i < rows * COLUMNS; i += DELTA_THREADS) {
            const int at = blockIdx.x * COLUMNS + i % COLUMNS;
            v[i / COLUMNS][i % COLUMNS] =
                at < m.dv ? to_f32(m.v[(first + t + i / COLUMNS) * m.v_stride + value + at]) : 0;
        }
        if (threadIdx.x < rows) {
            const int64_t row = first + t + threadIdx.x;
            const float x = to_f32(m.a[row * m.a_stride + head]) + bias;
            decay[threadIdx.x] = expf(-rate * (x > 20 ? x : log1pf(expf(x))));
            beta[threadIdx.x] = 1 / (1 + expf(-to_f32(m.b[row * m.b_stride + head])));
        }
        __syncthreads();
        for (int r = 0; r < rows; r++) {
            const float g = decay[r];
            float held = 0, sum = 0;
#pragma unroll
            for (int i = 0; i < R; i++) held += own[i] * k[r][lane + LANES * i];
#pragma unroll
            for (int o = 1; o < LANES; o *= 2) held += __shfl_xor_sync(~0u, held, o);
            const float change = (v[r][column] - g * held) * beta[r];
#pragma unroll
            for (int i = 0; i < R; i++) {
                own[i] = g * own[i] + k[r][lane + LANES * i] * change;
                sum += own[i] * q[r][lane + LANES * i];
            }
#pragma unroll
            for (int o = 1; o < LANES; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
            if (lane == 0 && c < m.dv) m.y[(first + t + r) * m.y_stride + value + c] = from_f32<T>(sum);
        }
    }
#pragma unroll
    for (int i = 0; i < R; i++) {
        const int d = lane + LANES * i;
        if (d < m.dk && c < m.dv) state[(int64_t)d * m.dv + c] = own[i];
    }
}

template <typename T, int R, int LANES>
static sac_status delta_start(const sac_stream *s, const sac_delta_rule_args *a, const delta_matrices<T> &m) {
    return for_states(a->parts, a->n_parts, [&](const states &p, int n) {
        const dim3 grid((unsigned)ceil_div(m.dv, DELTA_THREADS / LANES), (unsigned)a->n_heads, (unsigned)n);
        return launch(s, early({grid, DELTA_THREADS}), delta_rule_kernel<T, R, LANES>, m, p);
    });
}

template <typename T> static sac_status delta_run(const sac_stream *s, const sac_delta_rule_args *a) {
    const int dk = (int)sac_delta_key_dim(a), dv = (int)sac_delta_value_dim(a);
    const delta_matrices<T> m = {(T *)a->y.data, (const T *)a->q.data, (const T *)a->k.data, (const T *)a->v.data,
                                 (const T *)a->a.data, (const T *)a->b.data, a->y.stride, a->q.stride, a->k.stride,
                                 a->v.stride, a->a.stride, a->b.stride, a->a_log, a->dt_bias, dk, dv,
                                 a->n_heads / a->n_key_heads, a->eps};
    if (dk <= 32) return delta_start<T, 8, 4>(s, a, m);
    if (dk <= 64) return delta_start<T, 16, 4>(s, a, m);
    return dk <= 128 ? delta_start<T, 32, 4>(s, a, m) : delta_start<T, 32, 8>(s, a, m);
}

extern "C" sac_status sac_cuda_delta_rule(const sac_stream *s, const sac_delta_rule_args *a) {
    const sac_dtype t = a->y.dtype;
    if (a->q.dtype != t || a->k.dtype != t || a->v.dtype != t || a->a.dtype != t || a->b.dtype != t ||
        sac_delta_key_dim(a) > SAC_DELTA_KEY_MOST)
        return SAC_UNSUPPORTED;
    BY_DTYPE(t, return delta_run<T>(s, a));
    return SAC_OK;
}

} // namespace sac::rows
