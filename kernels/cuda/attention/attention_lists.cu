/* attention_lists.cu - many queries over lists of rows on Hopper, heads of 128 halves: the work of the
 * flash kernel (attention_flash.cu) by wgmma. A block is four warps with 64 rows of a problem
 * (attention.cuh). Keys and values come row by row, in tiles of 64, into a ring of stages, as lines of 128
 * bytes in the order in which wgmma reads them; where the rows of a tile lie is asked for a tile earlier.
 * A tile's values are multiplied while the next tile's scores become weights, and two blocks share a
 * processor. */
#include "attention_hopper.cuh"

namespace sac::attention::lists {

using namespace hopper; /* its shape, its rows and its products */

enum { ROWS = 64, LIST_KEYS = 64, LIST_STAGES = 3 };
enum { CHUNKS = D / 8, TILE_BYTES = LIST_KEYS * D * 2, SHARE = LIST_KEYS * CHUNKS / GROUP };

typedef struct list_shared {
    uint8_t q[ROWS * D * 2], k[LIST_STAGES][TILE_BYTES], v[LIST_STAGES][TILE_BYTES];
} list_shared;

/* A job, and of how many problems tiles run side by side: as many as have their keys in the L2 cache together. */
typedef struct lists_job : attention_job {
    int section, n_tiles;
} lists_job;

/* Which problem and tile of it a block has. */
__device__ __forceinline__ int2 place_of(const lists_job &a) {
    const int a_section = a.section * a.n_tiles, section = blockIdx.x / a_section, rest = blockIdx.x - section * a_section,
              problems = min(a.section, a.n_problems - section * a.section), tile = rest / problems;
    return make_int2(section * a.section + rest - tile * problems, tile);
}

/* Chunk c of 16 bytes of row r of a tile of 64 rows. */
__device__ __forceinline__ int chunk_at(int r, int c) {
    return (c / 8 * ROWS + r) * HALF_BYTES_A_ROW + (c % 8 ^ r % 8) * 16;
}

/* A thread copies one chunk of every eighth row of a tile. */
typedef struct copier {
    const int32_t *list;
    const uint8_t *k, *v; /* its chunk of row 0 */
    int64_t row_bytes;
    int end, row[SHARE]; /* of the tile to be copied next; -1: none */
} copier;

__device__ __forceinline__ void look_up(copier &c, int j0) {
#pragma unroll
    for (int i = 0; i < SHARE; i++) {
        int j = j0 + threadIdx.x / CHUNKS + i * (GROUP / CHUNKS);
        c.row[i] = j < c.end ? c.list[j] : -1;
    }
}
__device__ __forceinline__ void copy_rows(const copier &c, list_shared &m, int stage) {
#pragma unroll
    for (int i = 0; i < SHARE; i++) {
        bool valid = c.row[i] >= 0;
        int64_t from = valid ? c.row[i] * c.row_bytes : 0;
        int to = chunk_at(threadIdx.x / CHUNKS + i * (GROUP / CHUNKS), threadIdx.x % CHUNKS);
        copy_async(m.k[stage] + to, c.k + from, valid);
        copy_async(m.v[stage] + to, c.v + from, valid);
    }
}

/* The block's queries; rows that do not exist are zeros. */
__device__ __forceinline__ void copy_queries(const attention_job &a, int problem, int64_t row0, uint8_t *to) {
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += GROUP) {
        int64_t r = row0 + i / CHUNKS, query = r / a.group;
        bool valid = query < a.n_q;
        int64_t at = valid ? query * a.q_stride + (problem * a.group + r % a.group) * D + i % CHUNKS * 8 : 0;
        copy_async(to + chunk_at(i / CHUNKS, i % CHUNKS), (const uint16_t *)a.q + at, valid);
    }
}

/* The scores of places j0 and on, where some query does not see some of the rows. */
__device__ __forceinline__ void mask_list(float (&s)[LIST_KEYS / 2], const int32_t *list, int j0, int end,
                                          const int last[2], const int before[2]) {
#pragma unroll
    for (int i = 0; i < LIST_KEYS / 2; i++) {
        int j = j0 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, row = j < end ? list[j] : INT32_MAX;
        if (j >= end || row > last[i / 2 % 2] || row <= before[i / 2 % 2]) s[i] = -CUDART_INF_F;
    }
}

template <typename T>
__device__ __forceinline__ void put_rows(const attention_job &a, int problem, int64_t row0, rows_state &w,
                                         const float (&o)[D / 2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = quad_sum(w.sum[r]);
        float share = sum > 0 ? 1 / sum : 0;
        int64_t row = row0 + 8 * r, query = row / a.group;
        int head = problem * a.group + (int)(row % a.group);
        T *to = (T *)a.o + query * a.o_stride + (int64_t)head * D + threadIdx.x % 4 * 8;
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            uint32_t u[4];
#pragma unroll
            for (int c = 0; c < 4; c++)
                u[c] = pack<T>(o[16 * j + 4 * c + 2 * r] * share, o[16 * j + 4 * c + 2 * r + 1] * share);
            transpose_quad(u);
            if (query < a.n_q) *(uint4 *)(to + 32 * j) = make_uint4(u[0], u[1], u[2], u[3]);
        }
        if (a.lse && query < a.n_q && threadIdx.x % 4 == 0)
            a.lse[query * a.n_heads + head] =
                sum > 0 ? (w.max[r] * a.scale_log2 + log2f(sum)) * LN_2 : -CUDART_INF_F;
    }
}

/* Places of the ascending list up to the row `last`. */
__device__ __forceinline__ int places_up_to(const int32_t *list, int n, int last) {
    int low = 0;
    while (low < n) {
        int mid = (low + n) / 2;
        if (list[mid] <= last)
            low = mid + 1;
        else
            n = mid;
    }
    return low;
}

/* s = q k^T and o += p v, left in flight. */
template <typename T>
__device__ __forceinline__ void score_list(float (&s)[LIST_KEYS / 2], uint64_t q, uint64_t k) {
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        const int at = i / 4 * (ROWS * HALF_BYTES_A_ROW / 16) + i % 4 * 2;
        product<T>(s, q + at, k + at, i > 0);
    }
    products_commit();
}
template <typename T>
__device__ __forceinline__ void mix_list(float (&o)[D / 2], const uint32_t (&p)[LIST_KEYS / 4], uint64_t v) {
#pragma unroll
    for (int i = 0; i < LIST_KEYS / 16; i++)
        product_of<T>(o, p + 4 * i, v + i * (16 * HALF_BYTES_A_ROW / 16));
    products_commit();
}

template <typename T>
static __global__ void __launch_bounds__(GROUP, 2) attention_lists_kernel(lists_job a) {
    extern __shared__ __align__(1024) uint8_t shared[];
#if HOPPER
    list_shared &m = *(list_shared *)(shared + (-shared_address(shared) & 1023));
    const int2 place = place_of(a);
    const int problem = place.x, lane = threadIdx.x % 32;
    const int64_t row0 = (int64_t)place.y * ROWS, row = row0 + threadIdx.x / 32 * 16 + lane / 4;
    const attention_keys keys = keys_of(a, problem, row0 / a.group);
    const int first = (int)(a.first + row0 / a.group),
              final = (int)(a.first + min((row0 + ROWS - 1) / a.group, (int64_t)a.n_q - 1));
    const int64_t head_at =
        (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head + threadIdx.x % CHUNKS * 8;
    copier c;
    c.list = keys.rows, c.row_bytes = a.k_row * 2;
    c.k = (const uint8_t *)a.k + head_at * 2, c.v = (const uint8_t *)a.v + head_at * 2;
    c.end = a.causal ? places_up_to(c.list, (int)keys.end, final) : (int)keys.end;
    /* all queries see the rows at places [hidden, whole) */
    const int whole = a.causal ? places_up_to(c.list, c.end, first) : c.end,
              hidden = a.window ? places_up_to(c.list, c.end, final - (int)a.window) : 0;
    const int n_tiles = max(1, (c.end + LIST_KEYS - 1) / LIST_KEYS); /* of an empty list one of zeros */

    copy_queries(a, problem, row0, m.q);
    look_up(c, 0);
    copy_rows(c, m, 0);
    copy_commit();
    look_up(c, LIST_KEYS);
    rows_state w;
    int last[2], before[2];
    float s[LIST_KEYS / 2], o[D / 2];
    uint32_t p[LIST_KEYS / 4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int position = (int)(a.first + (row + 8 * r) / a.group);
        last[r] = a.causal ? position : INT32_MAX, before[r] = a.window ? position - (int)a.window : -1;
        w.max[r] = -CUDART_INF_F, w.sum[r] = 0;
    }
#pragma unroll
    for (int i = 0; i < D / 2; i++) o[i] = 0;
    const uint64_t q = matrix_at(m.q, 16, 1024), k = matrix_at(m.k[0], 16, 1024),
                   v = matrix_at(m.v[0], ROWS * HALF_BYTES_A_ROW, 1024);
    const int stage_step = TILE_BYTES / 16; /* of descriptors */
    int stage = 0;
    auto begin_tile = [&](int i) { /* tile i has come, and all are through with the values of tile i - 2 */
                                   copy_wait<0>();
                                   written_for_products();
                                   __syncthreads();
                                   if (i + 1 < n_tiles)
                                       copy_rows(c, m, stage + 1 < LIST_STAGES ? stage + 1 : 0);
                                   copy_commit();
                                   look_up(c, (i + 2) * LIST_KEYS);
    };
    auto weigh = [&](int i) {
        settle(s);
        if ((i + 1) * LIST_KEYS > whole || i * LIST_KEYS < hidden)
            mask_list(s, c.list, i * LIST_KEYS, c.end, last, before);
        exponentials(s, w, a.scale_log2);
        settle(s);
    };
    begin_tile(0);
    products_begin();
    score_list<T>(s, q, k);
    products_wait<0>();
    weigh(0);
    round_all<T>(p, s);
    settle(p);
    for (int i = 1; i < n_tiles; i++) {
        const int value_stage = stage;
        stage = stage + 1 < LIST_STAGES ? stage + 1 : 0;
        begin_tile(i);
        products_begin();
        score_list<T>(s, q, k + stage * stage_step);
        mix_list<T>(o, p, v + value_stage * stage_step);
        products_wait<1>();
        weigh(i);
        products_wait<0>();
        settle(o);
        settle(p);
        round_all<T>(p, s);
#pragma unroll
        for (int d = 0; d < D / 2; d++) o[d] *= w.fade[d / 2 % 2];
        settle(p);
        settle(o);
    }
    products_begin();
    mix_list<T>(o, p, v + stage * stage_step);
    products_wait<0>();
    settle(o);
    settle(p);
    copy_wait<0>();
    put_rows<T>(a, problem, row, w, o);
#else
    (void)a, (void)shared;
#endif
}

template <typename T> static sac_status launch_lists(const sac_stream *s, const sac_attention_args *a) {
    lists_job j = {attention_prepare(a), 0, 0};
    const int n_bytes = (int)sizeof(list_shared) + 1024;
    const int64_t n_tiles = ceil_div(a->n_q * j.group, ROWS);
    auto kernel = attention_lists_kernel<T>;
    bool is_built;
    if (a->list_block * j.group % ROWS != 0 || n_tiles * j.n_problems > INT32_MAX) return SAC_UNSUPPORTED;
    const int64_t end = a->causal ? min_of(a->kv.n_rows, a->first + a->n_q) : a->kv.n_rows,
                  sharing = j.n_problems / a->kv.n_heads;
    j.n_tiles = (int)n_tiles;
    j.section = j.n_problems;
    if (a->list_block) /* long prompts in pieces */
        j.section = (int)min_of(j.section, max_of(1, HOPPER_L2_BYTES / max_of(1, end * D * 4)) * sharing);
    SAC_TRY(is_built_for_hopper(kernel, &is_built));
    if (!is_built) return SAC_UNSUPPORTED;
    return launch(s, {(unsigned)(n_tiles * j.n_problems), GROUP, (size_t)n_bytes, n_bytes}, kernel, j);
}

extern "C" sac_status sac_cuda_attention_lists(const sac_stream *s, const sac_attention_args *a) {
    if (!a->lists || a->segment_start || a->softcap > 0 || !attention_is_half(a) || !attention_fits_int(a) || !tuning_of(s->device).has_wgmma ||
        a->kv.head_dim != D || a->n_batch != 1 || !(a->scale > 0))
        return SAC_UNSUPPORTED;
    if (a->n_q == 0) return SAC_OK;
    return a->kv.dtype == SAC_DTYPE_F16 ? launch_lists<half>(s, a) : launch_lists<bf16>(s, a);
}

} // namespace sac::attention::lists
