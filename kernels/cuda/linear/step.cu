/* step.cu - what one token does around attention, fused: norm and projections in one kernel, with the
 * rotation and the store of keys and values, or with the gate, at its end. Bound by reading the weights
 * once: stream_pairs.cuh. A pair is the two channels that rope turns together, or a channel's gate and up.
 * One token each of a few sequences: the gate alone, stream_tiles.cuh, or of 9 to 32 few_rows.cuh. */
#include "context.cuh"
#include "few_rows.cuh"
#include "stream_pairs.cuh"
#include "stream_tiles.cuh"
#include "turn.cuh"

namespace sac::linear {

using weights::half_weights;

using stream_pairs::extra;

enum { MAX_K = 16384 };

/* ---------------------------------------------------------------- queries, keys, values */

/* OUT: type of q, k and v. */
template <typename OUT> struct qkv_job {
    static const bool NORMED = true, HALVES = false;
    static const int LATE = 0;
    const void *w[3];
    const float *bias[3];
    sac_rotation rotation;
    const int32_t *pos;
    void *q, *k, *v;             /* k and v: the view's */
    int64_t row_at, head_stride; /* of the view: where its row begins */
    int d, n_heads, n_kv_heads;

    /* Pairs: d / 2 a head; heads of q, then of k, then of v. Which matrix, which row of it first. */
    __device__ int matrix(int pair, int &head, int &first, int &second) const {
        int half = d / 2, i, m;
        head = pair / half, i = pair - head * half;
        m = head < n_heads ? 0 : head < n_heads + n_kv_heads ? 1 : 2;
        head -= m == 0 ? 0 : m == 1 ? n_heads : n_heads + n_kv_heads;
        int turned = rotation.rot_dim / 2;
        if (rotation.interleaved || i >= turned) /* neighbours; behind the turned ones what is left */
            first = rotation.interleaved ? 2 * i : rotation.rot_dim + 2 * (i - turned), second = first + 1;
        else
            first = i, second = i + turned;
        return m;
    }
    template <typename T> __device__ void rows(int pair, int k_cols, const T *&w0, const T *&w1) const {
        int head, first, second, m = matrix(pair, head, first, second);
        const T *from = (const T *)(m == 0 ? w[0] : m == 1 ? w[1] : w[2]) + (int64_t)head * d * k_cols;
        w0 = from + (int64_t)first * k_cols;
        w1 = from + (int64_t)second * k_cols;
    }
    /* Where the sums go, the bias, and the cosine and sine of a pair that is turned. Position and table come
     * by upload, so no kernel that may still run writes them. */
    __device__ void early(int pair, extra &e) const {
        int head, first, second, m = matrix(pair, head, first, second);
        uint16_t *to =
            m == 0 ? (uint16_t *)q + head * d : (uint16_t *)(m == 1 ? k : v) + row_at + head * head_stride;
        e.to = to + first, e.second = second - first;
        const float *b = bias[m] ? bias[m] + head * d : NULL;
        stream_pairs::copy_float(&e.bias[0], b ? b + first : rotation.cos_sin, b);
        stream_pairs::copy_float(&e.bias[1], b ? b + second : rotation.cos_sin, b);
        e.turned = m < 2 && first < rotation.rot_dim;
        if (!e.turned) return;
        int i = rotation.interleaved ? first / 2 : first;
        const float *cs = rotation.cos_sin + (int64_t)pos[0] * rotation.rot_dim + 2 * i;
        stream_pairs::copy_float(&e.more[0], cs, true);
        stream_pairs::copy_float(&e.more[1], cs + 1, true);
    }
    __device__ void warm(int) const {}
    template <typename T> __device__ void late(int, extra &) const {}
    template <typename T> __device__ void finish(int, float x, float y, const extra &e) const {
        x += e.bias[0], y += e.bias[1];
        if (e.turned) turn(e.more[0], e.more[1], x, y);
        OUT *to = (OUT *)e.to;
        to[0] = from_f32<OUT>(x);
        to[e.second] = from_f32<OUT>(y);
    }
};

static bool is_weight(const sac_weight *w, sac_dtype t, int64_t k) {
    const sac_tensor *m = &w->tensor;
    return w->format == SAC_WEIGHT_FLOATS && m->dtype == t && (uintptr_t)m->data % 16 == 0 && m->dim[1] == k;
}

template <typename T, typename OUT>
static sac_status run_qkv(const sac_stream *s, const sac_qkv_step_args *a) {
    const sac_kv_view *kv = &a->kv;
    const qkv_job<OUT> j = {{a->wq.tensor.data, a->wk.tensor.data, a->wv.tensor.data},
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
                            kv->n_heads};
    int64_t n_pairs = (int64_t)(a->n_heads + 2 * kv->n_heads) * kv->head_dim / 2;
    return stream_pairs::run<half_weights<T>>(s, a->x.data, a->norm, a->eps, a->x.cols, n_pairs, j);
}

extern "C" sac_status sac_cuda_qkv_step(const sac_stream *s, const sac_qkv_step_args *a) {
    const sac_kv_view *kv = &a->kv;
    const sac_dtype t = a->x.dtype, out = kv->dtype;
    int64_t k = a->x.cols;
    if (sac_dtype_block(a->wq.tensor.dtype) > 1) return sac_cuda_qkv_blocks(s, a);
    if (!is_half(t) || !is_half(out) || a->q.dtype != out || kv->head_dim % 2 || k % 8 || k > MAX_K)
        return SAC_UNSUPPORTED;
    if (!is_weight(&a->wq, t, k) || !is_weight(&a->wk, t, k) || !is_weight(&a->wv, t, k) ||
        (uintptr_t)a->x.data % 16 || (uintptr_t)a->norm % 16)
        return SAC_UNSUPPORTED;
    if (t == SAC_DTYPE_F16) return out == t ? run_qkv<half, half>(s, a) : run_qkv<half, bf16>(s, a);
    return out == t ? run_qkv<bf16, bf16>(s, a) : run_qkv<bf16, half>(s, a);
}

/* ---------------------------------------------------------------- gate and up */

typedef struct gate_up_job {
    static const bool NORMED = true, HALVES = false;
    static const int LATE = 2;
    const void *gate, *up;
    void *y;

    template <typename T> __device__ void rows(int pair, int k_cols, const T *&w0, const T *&w1) const {
        w0 = (const T *)gate + (int64_t)pair * k_cols;
        w1 = (const T *)up + (int64_t)pair * k_cols;
    }
    __device__ void early(int, extra &) const {}
    __device__ void warm(int) const {}
    template <typename T> __device__ void late(int, extra &) const {}
    template <typename T> __device__ void finish(int pair, float g, float u, const extra &) const {
        ((T *)y)[pair] = from_f32<T>(activate_as<T>(SAC_ACT_SILU, g) * u);
    }
} gate_up_job;

/* A few tokens: a unit is a channel, a tile has the gate of eight and then their up. */
typedef struct gate_up_tiles {
    static const int UNITS = 8;
    const void *gate, *up;
    sac_mat y;

    __host__ __device__ const void *w(int second) const { return second ? up : gate; }
    __device__ void rows(int first, int g, int last, int &row0, int &row1) const {
        row0 = row1 = min(first + g, last);
    }
    __device__ float more(int, int) const { return 0; }
    __device__ void finish(int unit, int m, float g, float u, float) const {
        float silu = y.dtype == SAC_DTYPE_F16 ? activate_as<half>(SAC_ACT_SILU, g)
                                              : activate_as<bf16>(SAC_ACT_SILU, g);
        store_any(y.dtype, y.data, m * y.stride + unit, silu * u);
    }
} gate_up_tiles;

/* 9 to 32 tokens: few_rows.cuh. */
template <typename E> struct gate_up_boxes {
    sac_mat y;
    bool in_pairs; /* two neighbours lie on as many bytes */

    __device__ void finish(int m, int row, float2 g, float2 u) const {
        if (m >= y.rows || row >= y.cols) return;
        struct __align__(2 * sizeof(E)) pair {
            E first, second;
        } const v = {from_f32<E>(activate_as<E>(SAC_ACT_SILU, g.x) * u.x),
                     from_f32<E>(activate_as<E>(SAC_ACT_SILU, g.y) * u.y)};
        E *to = (E *)y.data + m * y.stride + row;
        if (in_pairs && row + 1 < y.cols) {
            *(pair *)to = v;
        } else {
            to[0] = v.first;
            if (row + 1 < y.cols) to[1] = v.second;
        }
    }
};

/* x: the normalised rows, at the beginning of scratch. */
template <typename E>
static sac_status multiply_boxes(const sac_stream *s, const sac_gate_up_step_args *a, sac_mat x, bool only_asks) {
    const void *const w[] = {a->gate.tensor.data, a->up.tensor.data};
    const gate_up_boxes<E> job = {a->y, (uintptr_t)a->y.data % (2 * sizeof(E)) == 0 && a->y.stride % 2 == 0};
    const size_t used = ((size_t)(x.rows * x.cols) * sizeof(E) + 255) / 256 * 256;
    size_t room;
    uint8_t *scratch = scratch_rest(s, &room);
    if (used > room) return SAC_UNSUPPORTED;
    return few_rows::run<E>(s, job, x, w, a->y.cols, scratch + used, room - used, only_asks);
}
static sac_status some_gates(const sac_stream *s, const sac_gate_up_step_args *a) {
    const bool is_f16 = a->x.dtype == SAC_DTYPE_F16;
    size_t room;
    sac_mat x = a->x;
    x.data = scratch_rest(s, &room), x.stride = x.cols;
    SAC_TRY(is_f16 ? multiply_boxes<half>(s, a, x, true) : multiply_boxes<bf16>(s, a, x, true));
    const sac_rmsnorm_args norm = {x, a->x, a->norm, a->eps};
    SAC_TRY(sac_cuda_rmsnorm(s, &norm));
    return is_f16 ? multiply_boxes<half>(s, a, x, false) : multiply_boxes<bf16>(s, a, x, false);
}

/* The normalised rows lie in scratch. */
static sac_status few_gates(const sac_stream *s, const sac_gate_up_step_args *a) {
    size_t room;
    sac_mat x = a->x;
    x.data = scratch_rest(s, &room), x.stride = x.cols;
    if (!stream_tiles::fits(x, a->gate.tensor.data, a->y.cols) || (size_t)(x.rows * x.cols) * 2 > room)
        return SAC_UNSUPPORTED;
    const sac_rmsnorm_args norm = {x, a->x, a->norm, a->eps};
    SAC_TRY(sac_cuda_rmsnorm(s, &norm));
    const gate_up_tiles j = {a->gate.tensor.data, a->up.tensor.data, a->y};
    return x.dtype == SAC_DTYPE_F16 ? stream_tiles::run<half_weights<half>>(s, x, a->y.cols, j)
                                    : stream_tiles::run<half_weights<bf16>>(s, x, a->y.cols, j);
}

extern "C" sac_status sac_cuda_gate_up_step(const sac_stream *s, const sac_gate_up_step_args *a) {
    sac_dtype t = a->x.dtype;
    int64_t k = a->x.cols;
    if (sac_dtype_block(a->gate.tensor.dtype) > 1) return sac_cuda_gate_up_blocks(s, a);
    if (!is_half(t) || a->y.dtype != t || k % 8 || k > MAX_K || a->y.cols > 1 << 30) return SAC_UNSUPPORTED;
    if (!is_weight(&a->gate, t, k) || !is_weight(&a->up, t, k) || (uintptr_t)a->x.data % 16 ||
        (uintptr_t)a->norm % 16)
        return SAC_UNSUPPORTED;
    if (a->x.rows > stream_tiles::MOST_ROWS) return some_gates(s, a);
    if (a->x.rows > 1) return few_gates(s, a);
    gate_up_job j = {a->gate.tensor.data, a->up.tensor.data, a->y.data};
    return t == SAC_DTYPE_F16
               ? stream_pairs::run<half_weights<half>>(s, a->x.data, a->norm, a->eps, k, a->y.cols, j)
               : stream_pairs::run<half_weights<bf16>>(s, a->x.data, a->norm, a->eps, k, a->y.cols, j);
}

extern "C" sac_status sac_cuda_out_step(const sac_stream *s, const sac_out_step_args *a) {
    return sac_dtype_block(a->wo.tensor.dtype) > 1 ? sac_cuda_out_blocks(s, a) : SAC_UNSUPPORTED;
}

} // namespace sac::linear
