/* store_many.cu - one token each of several sequences: q turned in place, k turned and v into their caches,
 * in one launch. A thread has a pair of channels of a head; a block a stretch of one token's pairs. */
#include "turn.cuh"

namespace sac::rows {

enum { MANY = 32, THREADS = 128 };

typedef struct store_token {
    void *q;
    const void *k, *v;
    const float *cos_sin;
    const int32_t *pos;
    void *to_k, *to_v; /* the token's row of the view, first head */
    int64_t head_stride;
} store_token;

typedef struct store_job {
    store_token token[MANY];
    int n_heads, n_kv_heads, d, rot_dim;
    bool interleaved;
    sac_dtype to; /* of the views */
} store_job;

/* Pairs of a token: d / 2 (rounded up) of each head of q, then of k, then of v. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) store_many_kernel(const __grid_constant__ store_job a) {
    const store_token &e = a.token[blockIdx.y];
    int per_head = (a.d + 1) / 2, item = blockIdx.x * THREADS + threadIdx.x;
    int head = item / per_head, i = item % per_head, turned = a.rot_dim / 2, m = 0;
    start_next();
    wait_for_last();
    if (head >= a.n_heads + 2 * a.n_kv_heads) return;
    if (head >= a.n_heads) {
        head -= a.n_heads;
        m = 1 + head / a.n_kv_heads;
        head %= a.n_kv_heads;
    }
    bool turns = i < turned;
    int first = turns && !a.interleaved ? i : 2 * i,
        second = turns && !a.interleaved ? i + turned : first + 1;
    bool has_second = second < a.d;
    const T *from = (const T *)(m == 0 ? e.q : m == 1 ? e.k : e.v) + (int64_t)head * a.d;
    float x = to_f32(from[first]), y = has_second ? to_f32(from[second]) : 0;
    if (turns && m < 2) {
        const float *cs = e.cos_sin + (int64_t)e.pos[0] * a.rot_dim + 2 * i;
        turn(cs[0], cs[1], x, y);
    }
    if (m == 0) {
        T *to = (T *)e.q + (int64_t)head * a.d;
        to[first] = from_f32<T>(x);
        if (has_second) to[second] = from_f32<T>(y);
        return;
    }
    void *to = m == 1 ? e.to_k : e.to_v; /* rounded to T first, as rope leaves a key */
    store_any(a.to, to, head * e.head_stride + first, to_f32(from_f32<T>(x)));
    if (has_second) store_any(a.to, to, head * e.head_stride + second, to_f32(from_f32<T>(y)));
}

static bool is_alike(const sac_token_store *a, const sac_token_store *b) {
    return a->n_heads == b->n_heads && a->kv.n_heads == b->kv.n_heads && a->kv.head_dim == b->kv.head_dim &&
           a->kv.dtype == b->kv.dtype && a->q.dtype == b->q.dtype && b->k.dtype == b->q.dtype &&
           b->v.dtype == b->q.dtype && a->rotation.rot_dim == b->rotation.rot_dim &&
           a->rotation.interleaved == b->rotation.interleaved;
}

extern "C" sac_status sac_cuda_store_many(const sac_stream *s, const sac_store_many_args *a) {
    for (int i = 0; i < a->n; i++)
        if (!is_alike(&a->each[0], &a->each[i])) return SAC_UNSUPPORTED;
    if (a->n && (!is_float(a->each->q.dtype) || !is_float(a->each->kv.dtype))) return SAC_UNSUPPORTED;
    for (int at = 0; at < a->n; at += MANY) {
        store_job j = {};
        int n = (int)min_of(a->n - at, MANY);
        for (int i = 0; i < n; i++) {
            const sac_token_store *e = &a->each[at + i];
            int64_t row = e->first * e->kv.row_stride * element_bytes(e->kv.dtype);
            j.token[i] = store_token{e->q.data,
                                     e->k.data,
                                     e->v.data,
                                     e->rotation.cos_sin,
                                     e->pos,
                                     (char *)e->kv.k + row,
                                     (char *)e->kv.v + row,
                                     e->kv.head_stride};
        }
        const sac_token_store *e = a->each;
        j.n_heads = e->n_heads, j.n_kv_heads = e->kv.n_heads, j.d = e->kv.head_dim;
        j.rot_dim = e->rotation.rot_dim, j.interleaved = e->rotation.interleaved, j.to = e->kv.dtype;
        int64_t items = (int64_t)(j.n_heads + 2 * j.n_kv_heads) * ((j.d + 1) / 2);
        dim3 grid((unsigned)ceil_div(items, THREADS), (unsigned)n);
        BY_DTYPE(e->q.dtype, SAC_TRY(launch(s, early({grid, THREADS}), store_many_kernel<T>, j)));
    }
    return SAC_OK;
}

} // namespace sac::rows
