/* attention.cuh - one attention call as the kernels see it.
 *
 * A problem is the query heads that read the same keys: a key-value head with its group of query heads, or
 * one query head where every query head has a list of its own. Its rows are (query, head of the group),
 * queries outside: row r is query r / group, head r % group. So a group's heads share every key that is read,
 * and the causal bound grows with the row. */
#ifndef SAC_KERNELS_ATTENTION_CUH
#define SAC_KERNELS_ATTENTION_CUH

#include "mma.cuh"

namespace sac::attention {

typedef struct attention_job {
    void *o;
    const void *q, *k, *v;
    int64_t o_stride, q_stride, k_row, k_head; /* elements */
    const int32_t *rows;                       /* lists on the device, or NULL */
    const int64_t *start;
    float *lse;
    int64_t n_kv, first, batch_rows, kv_batch_rows, window, list_block;
    int n_q, n_heads, n_problems, group, heads_per_kv, n_lists, d;
    float scale_log2; /* scores in units of log 2: exp2 is what the hardware has */
    bool causal;
} attention_job;

/* One whose scores are capped: a score s becomes cap tanh(s / cap). A kernel is made for one or the other, so that those
 * without a cap do nothing for it. */
typedef struct capped_job : attention_job {
    float to_tanh;  /* of a product of query and key: 2 log2(e) scale / cap */
    float cap_log2; /* cap in units of log 2 */
} capped_job;

/* A score in units of log 2, of a product of query and key. */
__device__ __forceinline__ float score_of(const attention_job &a, float product) {
    return product * a.scale_log2;
}
/* tanh x = 1 - 2 / (exp(2 x) + 1): wrong by a few 2^-24 of the cap, powers that become infinite included. */
__device__ __forceinline__ float score_of(const capped_job &a, float product) {
    return a.cap_log2 - __fdividef(2 * a.cap_log2, exp2_fast(product * a.to_tanh) + 1);
}

/* The keys of a problem or, with list_block, of it and a block of queries. */
typedef struct attention_keys {
    const int32_t *rows; /* NULL: key j is row j */
    int64_t begin, end;
} attention_keys;

__device__ __forceinline__ attention_keys keys_of(const attention_job &a, int problem, int64_t query = 0) {
    if (!a.rows) return attention_keys{NULL, 0, a.n_kv};
    /* n_lists divides the problems: 1, kv heads or heads */
    int64_t list = problem / (a.n_problems / a.n_lists);
    if (a.list_block) list += query / a.list_block * a.n_lists;
    int64_t begin = a.start[list];
    return attention_keys{a.rows + begin, 0, a.start[list + 1] - begin};
}
__device__ __forceinline__ int64_t key_row(const attention_keys &k, int64_t j) {
    return k.rows ? k.rows[j] : j;
}

/* Which query a problem's row is of; no division for one query, where it would count. */
__device__ __forceinline__ int query_of(const attention_job &a, int row) {
    return a.n_q == 1 ? 0 : row / a.group;
}

enum { MOST_CHANNELS = 256 }; /* of a head, that kernels with tensor cores take */

static inline bool attention_is_half(const sac_attention_args *a) {
    const sac_kv_view *kv = &a->kv;
    sac_dtype t = kv->dtype;
    return is_half(t) && a->q.dtype == t && a->o.dtype == t && kv->head_dim % 8 == 0 && kv->head_dim <= MOST_CHANNELS &&
           is_aligned(kv->k, kv->row_stride) && is_aligned(kv->v, kv->row_stride) &&
           kv->head_stride % 8 == 0 && mat_aligned(a->q) && mat_aligned(a->o);
}

/* Row numbers and positions as int. */
static inline bool attention_fits_int(const sac_attention_args *a) {
    const int64_t most = 1 << 30;
    return a->n_kv <= most && a->kv.n_rows <= most && a->window <= most && a->first <= most &&
           a->first >= -most && a->n_q <= most;
}

static inline attention_job attention_prepare(const sac_attention_args *a) {
    const sac_kv_view *kv = &a->kv;
    attention_job j;
    j.o = a->o.data, j.q = a->q.data, j.k = kv->k, j.v = kv->v;
    j.o_stride = a->o.stride, j.q_stride = a->q.stride, j.k_row = kv->row_stride, j.k_head = kv->head_stride;
    j.rows = a->lists ? a->lists->rows : NULL;
    j.start = a->lists ? a->lists->start : NULL;
    j.n_lists = a->lists ? a->lists->n_lists : 1;
    j.list_block = a->lists ? a->list_block : 0;
    j.lse = a->lse;
    j.n_kv = a->n_kv, j.first = a->first, j.window = a->window, j.causal = a->causal;
    /* keys after the last query: no query sees them, and nobody says that they are numbers */
    if (a->causal && !a->lists) j.n_kv = max_of(0, min_of(a->n_kv, a->first + a->n_q));
    j.batch_rows = a->n_batch > 1 ? a->batch_rows : 0;
    j.kv_batch_rows = a->n_batch > 1 && a->kv_batch_rows ? a->kv_batch_rows : j.batch_rows;
    j.n_q = (int)a->n_q, j.n_heads = a->n_heads, j.d = kv->head_dim;
    j.heads_per_kv = a->n_heads / kv->n_heads;
    bool by_head = a->lists && a->lists->n_lists == a->n_heads;
    j.n_problems = by_head ? a->n_heads : kv->n_heads;
    j.group = by_head ? 1 : j.heads_per_kv;
    j.scale_log2 = a->scale * LOG2_E;
    return j;
}

/* The same as a kernel with a cap or without one wants it. */
template <typename JOB> static inline JOB attention_job_of(const sac_attention_args *a);
template <> inline attention_job attention_job_of<attention_job>(const sac_attention_args *a) {
    return attention_prepare(a);
}
template <> inline capped_job attention_job_of<capped_job>(const sac_attention_args *a) {
    return capped_job{attention_prepare(a), 2 * LOG2_E * a->scale / a->softcap, a->softcap * LOG2_E};
}

/* A warp's 16 rows from row0 on before any key: STATE has o[][4], max[2], sum[2] and rows (before[2],
 * last[2]] that are seen, of which a lane has rows g and g + 8. */
template <typename ROW, typename STATE>
__device__ __forceinline__ void begin_rows(const attention_job &a, ROW row0, int lane, STATE &w) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int position = (int)(a.first + (row0 + lane / 4 + 8 * i) / a.group);
        w.last[i] = a.causal ? position : INT32_MAX;
        w.before[i] = a.window ? position - (int)a.window : -1;
        w.max[i] = -CUDART_INF_F;
        w.sum[i] = 0;
    }
#pragma unroll
    for (int n = 0; n < (int)(sizeof w.o / sizeof w.o[0]); n++)
#pragma unroll
        for (int i = 0; i < 4; i++) w.o[n][i] = 0;
}

} // namespace sac::attention

#endif
