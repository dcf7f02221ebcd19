/* key_scores.cuh - queries in f32 as operands of tensor cores: cut into three halves, q = a + b + c, whose
 * products with a half are exact in f32. For f16 keys a query is first brought near 1 by a power of two, so
 * that the parts are numbers that f16 has. */
#ifndef SAC_KERNELS_KEY_SCORES_CUH
#define SAC_KERNELS_KEY_SCORES_CUH

#include "mma.cuh"

namespace sac::select {

/* The three parts of two neighbours of the query, packed. */
template <typename T>
__device__ __forceinline__ void cut(float x, float y, uint32_t &a, uint32_t &b, uint32_t &c) {
    float xa = to_f32(from_f32<T>(x)), ya = to_f32(from_f32<T>(y));
    float xb = to_f32(from_f32<T>(x - xa)), yb = to_f32(from_f32<T>(y - ya));
    a = pack<T>(xa, ya);
    b = pack<T>(xb, yb);
    c = pack<T>(x - xa - xb, y - ya - yb);
}

/* The power of two that brings `top`, the largest of a head's |q|, to [1, 2). */
__device__ __forceinline__ float unit_below(float top) {
    top = warp_max(top);
    return top > 0 && top < CUDART_INF_F ? exp2f(floorf(log2f(top))) : 1;
}
/* unit_below() of a head, by a warp; 1 for bf16, whose exponents are f32's. */
template <typename T> __device__ __forceinline__ float unit_of(const float *q, int d, int lane) {
    if constexpr (sizeof(T) == 2 && !__is_same(T, half)) {
        return 1;
    } else {
        float top = 0;
        for (int c = lane; c < d; c += 32) top = fmaxf(top, fabsf(q[c]));
        return unit_below(top);
    }
}
/* unit_of() where each lane has four of the head's numbers. */
template <typename T> __device__ __forceinline__ float unit_of(float4 q) {
    if constexpr (sizeof(T) == 2 && !__is_same(T, half)) return 1;
    return unit_below(fmaxf(fmaxf(fabsf(q.x), fabsf(q.y)), fmaxf(fabsf(q.z), fabsf(q.w))));
}

/* Several queries at once: the rows of a key-value head are its group's heads of all queries. */
struct queries_job {
    float *scores;
    const float *q;
    int64_t stride, first;
    int n, n_last, n_more; /* keys of the first query, of the last one, and from one to the next */
    int n_rows, group, n_heads;
    float scale;
    bool pairs; /* neighbouring scores lie on 8-byte lines */
    const int32_t *skip;
};

/* Where row r of a key-value head's rows begins, in queries and in scores, counted in heads. */
__device__ __forceinline__ int64_t head_of(const queries_job &a, int kv_head, int r) {
    return (int64_t)(r / a.group) * a.n_heads + kv_head * a.group + r % a.group;
}

/* False for what no such launch takes: lists, keys that are turned back, f32, more than it counts. */
static inline bool take_queries(queries_job *j, const sac_key_scores_args *a) {
    const sac_kv_view *kv = &a->kv;
    const int64_t most = 1 << 30, n_last = a->n + (a->n_queries - 1) * a->n_more;
    if (a->lists || a->back || !is_half(kv->dtype) || kv->n_heads > 65535 || kv->n_rows > most ||
        n_last > most || (int64_t)a->n_queries * a->n_heads > 1 << 16)
        return false;
    j->scores = a->scores, j->q = a->q, j->stride = a->stride, j->first = a->first;
    j->n = (int)a->n, j->n_last = (int)n_last, j->n_more = (int)a->n_more;
    j->group = a->n_heads / kv->n_heads, j->n_rows = j->group * a->n_queries, j->n_heads = a->n_heads;
    j->scale = a->scale, j->skip = a->skip;
    j->pairs = a->stride % 2 == 0 && (uintptr_t)a->scores % 8 == 0;
    return true;
}

/* All queries in one launch, on Hopper with lse, elsewhere without. UNSUPPORTED also for keys that lie askew
 * and heads of other sizes. */
sac_status key_scores_hopper(const sac_stream *s, const sac_key_scores_args *a);
sac_status key_scores_many(const sac_stream *s, const sac_key_scores_args *a);

} // namespace sac::select

#endif
