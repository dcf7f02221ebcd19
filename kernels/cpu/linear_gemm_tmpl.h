/* linear_gemm_tmpl.h - many rows of x against the weights: packed panels and register tiles (tile.h).
 *
 * A task is a block of x rows by a block of weight rows. For each stretch of k it packs its weights as f32
 * panels into the thread's scratch (they stay in the second-level cache) and walks down x a tile of rows at a
 * time (they stay in the first), so each weight is converted once for all rows of the task. Stretches of k
 * depend on k alone: a row's bits depend neither on the number of threads nor on the other rows. */
#include "cpu.h"
#include "linear_epilogue.h"
#include "linear_few_rows.h"
#include "tile.h"

#ifdef __AVX512F__
#define GEMM_TILE_ROWS SAC_TILE_ROWS_AVX512
#else
#define GEMM_TILE_ROWS SAC_TILE_ROWS_AVX2
#endif
#define GEMM_PANEL (2 * VF) /* columns of a tile */
#define GEMM_MAX_K 512      /* longest stretch of k */
#define GEMM_MAX_N 256      /* weight rows of a task */
#define GEMM_MAX_M 480      /* x rows of a task; also bounds the sums kept between stretches of k */
#define GEMM_FEW_M                                                                                           \
    192 /* fewer x rows than this and packing shows: then a panel at a time, out of that cache */
#define GEMM_BALANCE 4 /* tasks a thread that even out */

/* Weight rows [j, j + n), elements [k0, k0 + k), as an f32 panel of GEMM_PANEL columns (sac_pack); n is at most that. */
typedef void (*gemm_pack_fn)(const sac_linear_args *a, int64_t j, int64_t n, int64_t k0, int64_t k,
                             float *panel);

/* The rows of a against weight rows [j, j + n) as they lie. */
typedef void (*gemm_few_fn)(const sac_linear_args *a, int64_t j, int64_t n);

typedef struct gemm_job {
    const sac_stream *s;
    const sac_linear_args *a;
    gemm_pack_fn pack;
    const sac_linear_args *beside; /* steady rows of the same weights; NULL: there are none */
    gemm_few_fn few;               /* for these */
    int64_t m_block, n_block, k_block;
    int64_t n_m_blocks;
} gemm_job;

_Static_assert((GEMM_MAX_K * GEMM_MAX_N + GEMM_MAX_M * GEMM_MAX_N) * sizeof(float) <=
                   SAC_THREAD_SCRATCH_BYTES,
               "panels and sums of a task fit the scratch of a thread");

/* Rows of x [i, i + rows) against all packed panels. */
static void gemm_tile_rows(const gemm_job *job, int64_t i, int64_t rows, int64_t n, int64_t k0, int64_t k,
                           const float *panels, float *sums) {
    static const float ones[GEMM_TILE_ROWS] = {1,
                                               1,
                                               1,
                                               1,
                                               1,
                                               1
#ifdef __AVX512F__
                                               ,
                                               1,
                                               1,
                                               1,
                                               1,
                                               1,
                                               1
#endif
    };
    const float *x = sac_mat_row_f32(job->a->x, i) + k0;
    for (int64_t j = 0; j < n; j += GEMM_PANEL) SAC_ISA(sac_tiles)
    [1][rows - 1](k, x, job->a->x.stride, panels + j * SAC_PACK_ROWS(k), GEMM_PANEL, sums + j, job->n_block,
                  k0 ? ones : NULL);
}

static void gemm_task(void *ctx, int64_t task, int thread) {
    const gemm_job *job = ctx;
    const sac_linear_args *a = job->a;
    int64_t i0 = task % job->n_m_blocks * job->m_block, j0 = task / job->n_m_blocks * job->n_block;
    int64_t m = sac_min_i64(job->m_block, a->x.rows - i0), n = sac_min_i64(job->n_block, a->y.cols - j0);
    int64_t k_all = a->x.cols, n_tiles = sac_div_up(m, GEMM_TILE_ROWS), tile_rows = sac_div_up(m, n_tiles);
    float *panels = sac_stream_thread_scratch(job->s, thread), *sums = panels + GEMM_MAX_K * GEMM_MAX_N;
    if (job->beside && i0 == 0) job->few(job->beside, j0, n); /* packing finds the weights in the cache */
    for (int64_t k0 = 0; k0 < k_all; k0 += job->k_block) {
        int64_t k = sac_min_i64(job->k_block, k_all - k0);
        for (int64_t j = 0; j < n; j += GEMM_PANEL)
            job->pack(a, j0 + j, sac_min_i64(GEMM_PANEL, n - j), k0, k, panels + j * SAC_PACK_ROWS(k));
        for (int64_t i = 0; i < m; i += tile_rows) {
            int64_t rows = sac_min_i64(tile_rows, m - i);
            float *tile_sums = k_all <= job->k_block ? sums : sums + i * job->n_block;
            gemm_tile_rows(job, i0 + i, rows, n, k0, k, panels, tile_sums);
            if (k0 + k == k_all) linear_finish_rows(a, i0 + i, rows, j0, tile_sums, job->n_block, n);
        }
    }
}

static int64_t round_up(int64_t n, int64_t to) {
    return sac_div_up(n, to) * to;
}

static void gemm_beside(const sac_stream *s, const sac_linear_args *a, gemm_pack_fn pack, const sac_linear_args *beside,
                        gemm_few_fn few) {
    int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols, n_threads = sac_pool_n_threads(s->pool);
    int64_t tasks = n_threads > 1 ? GEMM_BALANCE * n_threads : 1;
    gemm_job job = {.s = s, .a = a, .pack = pack, .beside = beside, .few = few};
    job.k_block = round_up(sac_div_up(k, sac_div_up(k, GEMM_MAX_K)), 8);
    int64_t n_m_blocks = sac_div_up(m, GEMM_MAX_M);
    int64_t n_n_blocks = sac_div_up(n, m < GEMM_FEW_M ? GEMM_PANEL : GEMM_MAX_N);
    if (n_m_blocks * n_n_blocks < tasks) /* more blocks: of x first, as far as packing does not show */
        n_m_blocks = sac_max_i64(n_m_blocks, sac_min_i64(m / GEMM_FEW_M, sac_div_up(tasks, n_n_blocks)));
    if (n_m_blocks * n_n_blocks < tasks) n_n_blocks = sac_max_i64(n_n_blocks, sac_div_up(tasks, n_m_blocks));
    job.m_block = sac_div_up(m, n_m_blocks);
    job.n_block = round_up(sac_div_up(n, n_n_blocks), GEMM_PANEL);
    job.n_m_blocks = sac_div_up(m, job.m_block);
    sac_pool_run(s->pool, job.n_m_blocks * sac_div_up(n, job.n_block), gemm_task, &job);
}

static void linear_gemm(const sac_stream *s, const sac_linear_args *a, gemm_pack_fn pack) {
    gemm_beside(s, a, pack, NULL, NULL);
}

/* A call with rows of both kinds: weights come from memory once. */
static void linear_gemm_both(const sac_stream *s, const sac_linear_args *a, gemm_pack_fn pack, gemm_few_fn few) {
    const sac_linear_args unsteady = linear_unsteady_rows(a), steady = linear_steady_rows(a);
    gemm_beside(s, &unsteady, pack, steady.x.rows ? &steady : NULL, few);
}
