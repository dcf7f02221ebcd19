/* rope.cu - queries or keys turned to their positions, or back, in place. */
#include "turn.cuh"

namespace sac::rows {

typedef struct rope_job {
    const float *cos_sin;
    const int32_t *pos;
    float inverse; /* of the factor */
    int half, head_dim;
    bool back;
} rope_job;

__device__ __forceinline__ void rotate(const rope_job &t, float c, float s, float &u, float &v) {
    if (t.back) {
        c *= t.inverse;
        s *= -t.inverse;
    }
    turn(c, s, u, v);
}

/* A thread turns V pairs (i, i + half) of HEADS heads of a row, which share their angles. */
template <typename T, int V, int HEADS>
static __global__ void __launch_bounds__(256)
    rope_kernel(T *x, int64_t rows, int64_t stride, int n_heads, rope_job t) {
    start_next();
    wait_for_last();
    const int per_head = t.half / V, per_row = (n_heads + HEADS - 1) / HEADS * per_head;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < rows * per_row;
         at += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = at / per_row;
        const int item = (int)(at - row * per_row), i = item % per_head * V, first = item / per_head * HEADS;
        const float *angles = t.cos_sin + (int64_t)t.pos[row] * t.half * 2;
        T *p = x + row * stride + first * t.head_dim + i;
        float u[HEADS][V], v[HEADS][V], cs[2 * V];
#pragma unroll
        for (int h = 0; h < HEADS; h++)
            if (first + h < n_heads) {
                load<V>(u[h], p + h * t.head_dim);
                load<V>(v[h], p + h * t.head_dim + t.half);
            }
        if constexpr (V == 1) {
            cs[0] = angles[2 * i];
            cs[1] = angles[2 * i + 1];
        } else {
            load<2 * V>(cs, angles + 2 * i);
        }
#pragma unroll
        for (int h = 0; h < HEADS; h++)
            if (first + h < n_heads) {
#pragma unroll
                for (int j = 0; j < V; j++) rotate(t, cs[2 * j], cs[2 * j + 1], u[h][j], v[h][j]);
                store<V>(p + h * t.head_dim, u[h]);
                store<V>(p + h * t.head_dim + t.half, v[h]);
            }
    }
}

template <typename T, int V>
static __global__ void rope_interleaved_kernel(T *x, int64_t rows, int64_t stride, int n_heads, rope_job t) {
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

enum { HEADS = 4 /* of a thread, where there are rows enough */ };

extern "C" sac_status sac_cuda_rope(const sac_stream *s, const sac_rope_args *a) {
    const sac_rotation *r = &a->rotation;
    rope_job t = {r->cos_sin, a->pos, 1 / r->factor, r->rot_dim / 2, a->head_dim, a->back};
    if (!a->x.rows) return SAC_OK;
    bool wide =
        mat_aligned(a->x) && a->head_dim % 8 == 0 && t.half % 8 == 0 && (uintptr_t)r->cos_sin % 16 == 0;
    if (r->interleaved) {
        int64_t items = (int64_t)a->n_heads * t.half / (wide ? 4 : 1);
        dim3 threads((unsigned)min_of(256, ceil_div(items, 32) * 32)),
            blocks((unsigned)min_of(a->x.rows, (int64_t)1 << 30));
        BY_DTYPE(a->x.dtype,
                 return launch(s, of_step({blocks, threads}),
                               wide ? rope_interleaved_kernel<T, 8> : rope_interleaved_kernel<T, 2>,
                               (T *)a->x.data, a->x.rows, a->x.stride, a->n_heads, t));
        return SAC_OK;
    }
    const bool many = wide && a->x.rows >= ROPE_MANY_ROWS;
    int64_t items = a->x.rows * ceil_div(a->n_heads, many ? HEADS : 1) * (t.half / (wide ? 8 : 1));
    dim3 threads((unsigned)min_of(256, ceil_div(items, 32) * 32)),
        blocks((unsigned)min_of(ceil_div(items, 256), (int64_t)1 << 30));
    BY_DTYPE(a->x.dtype, return launch(s, of_step({blocks, threads}),
                                       many   ? rope_kernel<T, 8, HEADS>
                                       : wide ? rope_kernel<T, 8, 1>
                                              : rope_kernel<T, 1, 1>,
                                       (T *)a->x.data, a->x.rows, a->x.stride, a->n_heads, t));
    return SAC_OK;
}

} // namespace sac::rows
