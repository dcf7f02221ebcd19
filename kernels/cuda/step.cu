/* step.cu - what one token does around attention, fused: norm and projections in one kernel, with the
 * rotation and the store of keys and values, or with the gate, at its end. Bound by reading the weights once.
 *
 * A block normalises the token for itself (a few KiB, out of the L2 cache) while its first weights are on
 * their way. A warp then streams two rows of weights side by side: the two channels that rope turns together,
 * or a channel's gate and up. Where there are few pairs, several warps share one, every so many lines, and
 * their sums meet in a fixed order. */
#include "gemv.cuh"

enum { WARPS = 8, AHEAD = 4, MAX_K = 16384 };

typedef struct step_input {
    const void *x;
    const float *norm;
    float eps;
    int k, share;
} step_input;

/* x / sqrt(mean x^2 + eps) * norm, rounded to T as the op alone would. */
template <typename T> __device__ __forceinline__ void normalise(const step_input &in, T *to, float *part) {
    const T *x = (const T *)in.x;
    float sum = 0;
    for (int i = threadIdx.x * 8; i < in.k; i += blockDim.x * 8) {
        float e[8];
        load<8>(e, x + i);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += e[j] * e[j];
    }
    float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)in.k + in.eps);
    for (int i = threadIdx.x * 8; i < in.k; i += blockDim.x * 8) {
        float e[8], g[8];
        load<8>(e, x + i);
        load<8>(g, in.norm + i);
#pragma unroll
        for (int j = 0; j < 8; j++) e[j] = e[j] * scale * g[j];
        store<8>(to + i, e);
    }
    __syncthreads();
}

/* The two rows of pair `pair`, and what becomes of their products: both are the job's business. JOB has
 * rows(pair, &first, &second) and finish<T>(pair, sum of the first, sum of the second). */
template <typename T, typename JOB>
static __global__ void __launch_bounds__(WARPS * 32, 4) step_kernel(step_input in, JOB job) {
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ float part[32], sums[WARPS][2];
    T *x = (T *)shared;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pairs = WARPS / in.share, step = in.share * LINE;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    int begin = warp % in.share * LINE + lane * 8;
    bool is_first = true;
    start_next();
    for (int base = blockIdx.x * pairs; base < job.n_pairs; base += gridDim.x * pairs) {
        int pair = base + warp / in.share;
        bool valid = pair < job.n_pairs;
        const T *w0, *w1;
        job.rows(valid ? pair : 0, in.k, w0, w1);
        uint4 a[2][AHEAD];
        auto fetch = [&](int k0) {
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                bool there = valid && k0 + u * step < in.k;
                a[0][u] = there ? stream(w0 + k0 + u * step) : zero;
                a[1][u] = there ? stream(w1 + k0 + u * step) : zero;
            }
        };
        fetch(begin);
        if (is_first) {
            wait_for_last();
            normalise<T>(in, x, part);
        }
        is_first = false;
        float acc[2] = {0, 0};
        for (int k0 = begin; k0 < in.k + begin % LINE; k0 += step * AHEAD) {
            if (k0 != begin) fetch(k0);
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                float f[8], e[8];
                int at = k0 + u * step;
                unpack(at < in.k ? *(const uint4 *)(x + at) : zero, f, T());
                unpack(a[0][u], e, T());
#pragma unroll
                for (int i = 0; i < 8; i++) acc[0] += e[i] * f[i];
                unpack(a[1][u], e, T());
#pragma unroll
                for (int i = 0; i < 8; i++) acc[1] += e[i] * f[i];
            }
        }
        acc[0] = warp_sum(acc[0]);
        acc[1] = warp_sum(acc[1]);
        if (in.share == 1) {
            if (valid && lane == 0) job.template finish<T>(pair, acc[0], acc[1]);
            continue;
        }
        if (lane == 0) sums[warp][0] = acc[0], sums[warp][1] = acc[1];
        __syncthreads();
        if (valid && lane == 0 && warp % in.share == 0) {
            acc[0] = acc[1] = 0;
            for (int i = 0; i < in.share; i++) acc[0] += sums[warp + i][0], acc[1] += sums[warp + i][1];
            job.template finish<T>(pair, acc[0], acc[1]);
        }
        __syncthreads();
    }
}

template <typename T, typename JOB>
static sac_status launch(const sac_stream *s, step_input in, const JOB &job) {
    in.share = 1;
    while (in.share < WARPS && (int64_t)job.n_pairs * in.share < (int64_t)s->device->n_processors * 24 &&
           in.k > LINE * in.share * 2)
        in.share *= 2;
    int64_t blocks = ceil_div(job.n_pairs, WARPS / in.share);
    blocks = min_of(blocks, (int64_t)s->device->n_processors * 4);
    return launch_early(s, step_kernel<T, JOB>, (unsigned)blocks, WARPS * 32, (size_t)in.k * sizeof(T), in,
                        job);
}

/* ---------------------------------------------------------------- queries, keys, values */

typedef struct qkv_job {
    const void *w[3];
    const float *bias[3];
    sac_rotation rotation;
    const int32_t *pos;
    void *q, *k, *v;             /* k and v: the view's */
    int64_t row_at, head_stride; /* of the view: where its row begins */
    int d, n_heads, n_kv_heads, n_pairs;

    /* Pairs: d / 2 a head; heads of q, then of k, then of v. Which matrix, which row of it first. */
    __device__ int matrix(int pair, int &head, int &first, int &second) const {
        int half = d / 2, i = pair % half, m = 0;
        head = pair / half;
        if (head >= n_heads) {
            head -= n_heads;
            m = 1 + head / n_kv_heads;
            head %= n_kv_heads;
        }
        int turned = rotation.rot_dim / 2;
        if (rotation.interleaved || i >= turned) /* neighbours; behind the turned ones what is left */
            first = rotation.interleaved ? 2 * i : rotation.rot_dim + 2 * (i - turned), second = first + 1;
        else
            first = i, second = i + turned;
        return m;
    }
    template <typename T> __device__ void rows(int pair, int k_cols, const T *&w0, const T *&w1) const {
        int head, first, second, m = matrix(pair, head, first, second);
        const T *from = (const T *)w[m] + (int64_t)head * d * k_cols;
        w0 = from + (int64_t)first * k_cols;
        w1 = from + (int64_t)second * k_cols;
    }
    template <typename T> __device__ void finish(int pair, float x, float y) const {
        int head, first, second, m = matrix(pair, head, first, second);
        if (bias[m]) x += bias[m][head * d + first], y += bias[m][head * d + second];
        if (m < 2 && first < rotation.rot_dim) {
            int i = rotation.interleaved ? first / 2 : first;
            const float *cs = rotation.cos_sin + (int64_t)pos[0] * rotation.rot_dim + 2 * i;
            float u = x * cs[0] - y * cs[1];
            y = y * cs[0] + x * cs[1];
            x = u;
        }
        T *to = m == 0 ? (T *)q + head * d : (T *)(m == 1 ? k : v) + row_at + head * head_stride;
        to[first] = from_f32<T>(x);
        to[second] = from_f32<T>(y);
    }
} qkv_job;

static bool is_weight(const sac_tensor *w, sac_dtype t, int64_t k) {
    return w->dtype == t && (uintptr_t)w->data % 16 == 0 && w->dim[1] == k;
}

extern "C" sac_status sac_cuda_qkv_step(const sac_stream *s, const sac_qkv_step_args *a) {
    const sac_kv_view *kv = &a->kv;
    sac_dtype t = a->x.dtype;
    int64_t k = a->x.cols;
    if (!is_half(t) || a->q.dtype != t || kv->dtype != t || kv->head_dim % 2 || k % 8 || k > MAX_K)
        return SAC_UNSUPPORTED;
    if (!is_weight(&a->wq, t, k) || !is_weight(&a->wk, t, k) || !is_weight(&a->wv, t, k) ||
        (uintptr_t)a->x.data % 16 || (uintptr_t)a->norm % 16)
        return SAC_UNSUPPORTED;
    qkv_job j = {{a->wq.data, a->wk.data, a->wv.data},
                 {a->q_bias, a->k_bias, a->v_bias},
                 a->rotation,
                 a->pos,
                 a->q.data,
                 kv->k,
                 kv->v,
                 a->first * kv->row_stride,
                 kv->head_stride,
                 kv->head_dim,
                 a->n_heads,
                 kv->n_heads,
                 (a->n_heads + 2 * kv->n_heads) * kv->head_dim / 2};
    step_input in = {a->x.data, a->norm, a->eps, (int)k, 1};
    return t == SAC_DTYPE_F16 ? launch<half>(s, in, j) : launch<bf16>(s, in, j);
}

/* ---------------------------------------------------------------- gate and up */

typedef struct gate_up_job {
    const void *gate, *up;
    void *y;
    int n_pairs;

    template <typename T> __device__ void rows(int pair, int k_cols, const T *&w0, const T *&w1) const {
        w0 = (const T *)gate + (int64_t)pair * k_cols;
        w1 = (const T *)up + (int64_t)pair * k_cols;
    }
    template <typename T> __device__ void finish(int pair, float g, float u) const {
        ((T *)y)[pair] = from_f32<T>(activate_as<T>(SAC_ACT_SILU, g) * u);
    }
} gate_up_job;

extern "C" sac_status sac_cuda_gate_up_step(const sac_stream *s, const sac_gate_up_step_args *a) {
    sac_dtype t = a->x.dtype;
    int64_t k = a->x.cols;
    if (!is_half(t) || a->y.dtype != t || k % 8 || k > MAX_K || a->y.cols > 1 << 30) return SAC_UNSUPPORTED;
    if (!is_weight(&a->gate, t, k) || !is_weight(&a->up, t, k) || (uintptr_t)a->x.data % 16 ||
        (uintptr_t)a->norm % 16)
        return SAC_UNSUPPORTED;
    gate_up_job j = {a->gate.data, a->up.data, a->y.data, (int)a->y.cols};
    step_input in = {a->x.data, a->norm, a->eps, (int)k, 1};
    return t == SAC_DTYPE_F16 ? launch<half>(s, in, j) : launch<bf16>(s, in, j);
}
