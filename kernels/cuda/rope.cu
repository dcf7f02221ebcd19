#include "device.cuh"

typedef struct turn {
    const float *cos_sin;
    const int32_t *pos;
    float factor;
    int half, head_dim;
    bool back;
} turn;

__device__ __forceinline__ void rotate(const turn &t, float c, float s, float &u, float &v) {
    if (t.back) {
        c /= t.factor;
        s = -s / t.factor;
    }
    float x = u, y = v;
    u = x * c - y * s;
    v = y * c + x * s;
}

/* A block turns one row: all heads share its angles. A thread has V pairs (i, i + half). */
template <typename T, int V>
static __global__ void rope_kernel(T *x, int64_t rows, int64_t stride, int n_heads, turn t) {
    start_next();
    wait_for_last();
    int per_head = t.half / V;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *angles = t.cos_sin + (int64_t)t.pos[row] * t.half * 2;
        for (int item = threadIdx.x; item < n_heads * per_head; item += blockDim.x) {
            int i = item % per_head * V;
            T *p = x + row * stride + (int64_t)(item / per_head) * t.head_dim + i;
            float u[V], v[V], cs[2 * V];
            load<V>(u, p);
            load<V>(v, p + t.half);
            if constexpr (V == 1) {
                cs[0] = angles[2 * i];
                cs[1] = angles[2 * i + 1];
            } else {
                load<2 * V>(cs, angles + 2 * i);
            }
#pragma unroll
            for (int j = 0; j < V; j++) rotate(t, cs[2 * j], cs[2 * j + 1], u[j], v[j]);
            store<V>(p, u);
            store<V>(p + t.half, v);
        }
    }
}

/* Pairs (2i, 2i + 1): V elements are V / 2 pairs. */
template <typename T, int V>
static __global__ void rope_interleaved_kernel(T *x, int64_t rows, int64_t stride, int n_heads, turn t) {
    start_next();
    wait_for_last();
    int per_head = 2 * t.half / V;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *angles = t.cos_sin + (int64_t)t.pos[row] * t.half * 2;
        for (int item = threadIdx.x; item < n_heads * per_head; item += blockDim.x) {
            int i = item % per_head * V;
            T *p = x + row * stride + (int64_t)(item / per_head) * t.head_dim + i;
            float u[V], cs[V];
            if constexpr (V == 2) {
                load<1>(u, p);
                load<1>(u + 1, p + 1);
                load<1>(cs, angles + i);
                load<1>(cs + 1, angles + i + 1);
            } else {
                load<V>(u, p);
                load<V>(cs, angles + i);
            }
#pragma unroll
            for (int j = 0; j < V; j += 2) rotate(t, cs[j], cs[j + 1], u[j], u[j + 1]);
            if constexpr (V == 2) {
                store<1>(p, u);
                store<1>(p + 1, u + 1);
            } else {
                store<V>(p, u);
            }
        }
    }
}

extern "C" sac_status sac_cuda_rope(const sac_stream *s, const sac_rope_args *a) {
    const sac_rotation *r = &a->rotation;
    turn t = {r->cos_sin, a->pos, r->factor, r->rot_dim / 2, a->head_dim, a->back};
    if (!a->x.rows) return SAC_OK;
    bool wide =
        mat_aligned(a->x) && a->head_dim % 8 == 0 && t.half % 8 == 0 && (uintptr_t)r->cos_sin % 16 == 0;
    int64_t items = (int64_t)a->n_heads * t.half / (wide ? (r->interleaved ? 4 : 8) : 1);
    unsigned threads = (unsigned)min_of(256, ceil_div(items, 32) * 32);
    unsigned blocks = (unsigned)min_of(a->x.rows, (int64_t)1 << 30);
#define LAUNCH(kernel, V)                                                                                    \
    launch_step(s, kernel<T, V>, dim3(blocks), dim3(threads), 0, (T *)a->x.data, a->x.rows, a->x.stride,     \
                a->n_heads, t)
    if (r->interleaved) {
        BY_DTYPE(a->x.dtype,
                 return wide ? LAUNCH(rope_interleaved_kernel, 8) : LAUNCH(rope_interleaved_kernel, 2));
    } else {
        BY_DTYPE(a->x.dtype, return wide ? LAUNCH(rope_kernel, 8) : LAUNCH(rope_kernel, 1));
    }
    return SAC_OK;
}
