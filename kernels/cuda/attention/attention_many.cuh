/* attention_many.cuh - one query each of several sequences against their own keys, all of them or those of
 * lists, in one launch: the blocks of attention_decode.cuh, shared out such that the one with most keys has
 * least. */
#ifndef SAC_KERNELS_ATTENTION_MANY_CUH
#define SAC_KERNELS_ATTENTION_MANY_CUH

#include "attention_decode.cuh"
#include "context.cuh"
#include "waves.cuh"

namespace sac::attention::decode {

enum { MANY = 32 /* sequences of a launch: its arguments fit 4 KiB */ };

typedef struct many_sequence {
    const void *q, *k, *v;
    void *o;
    const int32_t *rows; /* of its lists, or NULL */
    const int64_t *start;
    int64_t k_row, k_head;
    int n_kv, first, n_lists;  /* keys, with lists those of the longest; the query's row */
    int n_splits, first_block; /* of each of its problems; blocks of the sequences before */
} many_sequence;

template <typename JOB> struct many_job {
    JOB common; /* what all have in common */
    many_sequence sequence[MANY];
    int n, tiles, n_warps; /* tiles of 16 rows in a problem */
    bool brief;
    float2 *tops; /* [block][ROWS] */
    float *sums;  /* [block][ROWS][d] */
    unsigned *counters;
};

template <typename T, int D, int STAGES, typename JOB>
static __global__ void __launch_bounds__(256, 1)
    attention_many_kernel(const __grid_constant__ many_job<JOB> m) {
    extern __shared__ __align__(128) uint8_t shared[];
    int i = 0, block = blockIdx.x;
    while (i + 1 < m.n && block >= m.sequence[i + 1].first_block) i++;
    const many_sequence &s = m.sequence[i];
    JOB a = m.common;
    a.q = s.q, a.k = s.k, a.v = s.v, a.o = s.o;
    a.k_row = s.k_row, a.k_head = s.k_head;
    a.rows = s.rows, a.start = s.start, a.n_lists = s.n_lists;
    a.n_kv = s.n_kv, a.first = s.first;
    int at = block - s.first_block, number = at / s.n_splits, first = s.first_block + number * s.n_splits;
    int per_sequence = a.n_problems * m.tiles;
    decode_place place = {number / m.tiles,
                          number % m.tiles,
                          at % s.n_splits,
                          s.n_splits,
                          m.n_warps,
                          0,
                          m.brief,
                          m.tops + first * ROWS,
                          m.sums + (int64_t)first * ROWS * a.d,
                          m.counters + i * per_sequence + number};
    decode_block<T, D, STAGES>(a, place, shared);
}

/* ---------------------------------------------------------------- the host's side */

template <typename JOB>
static int64_t splits_of(const many_job<JOB> *m, const many_sequence *s, int64_t most) {
    int64_t n_keys = m->common.window && !s->rows ? min_of(s->n_kv, m->common.window) : s->n_kv;
    int64_t wanted = ceil_div(n_keys, (int64_t)KEYS * m->n_warps); /* a tile for every warp at least */
    return max_of(1, min_of(min_of(ceil_div(ceil_div(n_keys, KEYS), most), wanted), MAX_SPLITS));
}
template <typename JOB> static int64_t blocks_for(const many_job<JOB> *m, int64_t most) {
    int64_t n = 0, each = (int64_t)m->common.n_problems * m->tiles;
    for (int i = 0; i < m->n; i++) n += each * splits_of(m, &m->sequence[i], most);
    return n;
}

/* Shares out blocks: as many waves of them as are through first. Returns how many. */
template <typename JOB> static int64_t share_out(many_job<JOB> *m, int64_t processors) {
    int64_t worst = 1, n = 0;
    for (int i = 0; i < m->n; i++) worst = max_of(worst, ceil_div(m->sequence[i].n_kv, KEYS));
    int64_t best = best_share([m](int64_t most) { return blocks_for(m, most); }, worst, MANY_WAVES,
                              processors, 0, MANY_BLOCK_TILES);
    for (int i = 0; i < m->n; i++) {
        many_sequence *s = &m->sequence[i];
        s->n_splits = (int)splits_of(m, s, best);
        s->first_block = (int)n;
        n += (int64_t)m->common.n_problems * m->tiles * s->n_splits;
    }
    return n;
}

template <typename T, int D, int STAGES, typename JOB = attention_job>
static sac_status run_many(const sac_stream *s, const sac_attention_args *each, int n, bool do_it) {
    many_job<JOB> m = {};
    m.common = attention_job_of<JOB>(each);
    m.n = n, m.tiles = (int)ceil_div(m.common.group, ROWS), m.n_warps = decode_warps<D, STAGES>(s->device);
    if (!m.n_warps) return SAC_DEVICE;
    int64_t n_bytes = 0;
    for (int i = 0; i < n; i++) {
        attention_job j = attention_prepare(&each[i]);
        m.sequence[i] =
            many_sequence{j.q,      j.k,         j.v,          j.o,       j.rows, j.start, j.k_row,
                          j.k_head, (int)j.n_kv, (int)j.first, j.n_lists, 0,      0};
        n_bytes += j.n_kv * j.d * 4 * each->kv.n_heads;
    }
    m.brief = n_bytes <= BRIEF_BYTES;
    int64_t blocks = share_out(&m, s->device->n_processors),
            counters = (int64_t)n * m.common.n_problems * m.tiles;
    size_t room;
    float *rest = (float *)scratch_rest(s, &room);
    if ((size_t)blocks * ROWS * (size_t)(m.common.d + 2) * sizeof(float) > room ||
        (size_t)counters * sizeof(unsigned) > SCRATCH_COUNTER_BYTES)
        return SAC_UNSUPPORTED;
    if (!do_it) return SAC_OK;
    m.tops = (float2 *)rest, m.sums = rest + blocks * ROWS * 2, m.counters = scratch_counters(s);
    int bytes = decode_bytes<D, STAGES>(m.n_warps);
    auto kernel = attention_many_kernel<T, D, STAGES, JOB>;
    return launch(s, early({(unsigned)blocks, (unsigned)m.n_warps * 32, (size_t)bytes, bytes}), kernel, m);
}

/* Heads of more than 128 channels, and capped scores. */
sac_status run_many_wide(const sac_stream *s, const sac_attention_args *each, int n, bool do_it);
sac_status run_many_capped(const sac_stream *s, const sac_attention_args *each, int n, bool do_it);

} // namespace sac::attention::decode

#endif
