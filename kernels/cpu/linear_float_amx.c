/* linear_float_amx.c - f32 x times bf16 weights on the matrix unit (AMX), without losing f32.
 *
 * A bf16 has 8 bits of mantissa, an f32 24: x = x0 + x1 + x2 exactly, each a bf16 (round, subtract, round the
 * rest, twice). A product of two bf16 is exact in f32, so x w = x0 w + x1 w + x2 w, summed in f32, is what an
 * f32 product of unrounded x gives. Three passes of a unit that multiplies sixteen times faster than f32
 * vectors do. `fast` keeps x0 only. (Infinite x gives NaN: infinity - infinity. Parts of x below 2^-126 count
 * as zero.)
 *
 * x is split once a call, in tiles as the unit loads them, into the shared scratch. A task then takes a block
 * of x rows by a block of weight rows: for each stretch of k it packs 32 weight rows at a time as pairs of k
 * by columns and runs down x. Stretches depend on k alone, so a row's bits depend neither on threads nor on
 * other rows. */
#include "cpu.h"
#if defined(__AMX_BF16__) || defined(__AMXBF16__) /* the second is what clang 14 says */
#include "linear_epilogue.h"
#include "linear_float_vbmi.h"

#define TILE_BYTES 1024 /* 16 rows of 64 bytes: 32 elements of k for A, 16 pairs of k by 16 columns for B */
#define STEP       32   /* elements of k a tile */
#define ROWS       32   /* x rows and columns of a block of sums: 2 x 2 tiles */
#define MAX_K      512  /* longest stretch of k */
#define MAX_M      256  /* x rows of a task */
#define MAX_N      256  /* weight rows of a task */
#define TERMS      3

typedef struct amx_job {
    const sac_stream *s;
    const sac_linear_args *a;
    int64_t row, rows;        /* of x, those that are split in the shared scratch now */
    int64_t n_steps, n_terms; /* of the whole k */
    int64_t m_block, n_block, k_steps;
    int64_t n_m_blocks;
} amx_job;

_Static_assert(MAX_K *ROWS * 2 + MAX_M * MAX_N * 4 + ROWS * ROWS * 4 <= SAC_THREAD_SCRATCH_BYTES,
               "packed weights and sums of a task fit the scratch of a thread");

/* Tile (panel of 16 rows, step, term) of the split x. */
static uint8_t *x_tile(const amx_job *job, int64_t panel, int64_t step, int64_t term) {
    return job->s->shared_scratch + ((panel * job->n_steps + step) * job->n_terms + term) * TILE_BYTES;
}

static __m512 low_half(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(pairs)), 16));
}
static __m512 high_half(__m512i pairs) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(pairs, 1)), 16));
}

/* 32 elements of a row of x to their terms. */
static inline void split(const float *x, int64_t n, uint8_t *to, int64_t n_terms) {
    __m512 low = vf_load_part(x, n), high = n > VF ? vf_load_part(x + VF, n - VF) : vf_zero();
    for (int64_t term = 0;; term++) {
        __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        _mm512_store_si512(to + term * TILE_BYTES, rounded);
        if (term + 1 == n_terms) return;
        low = _mm512_sub_ps(low, low_half(rounded));
        high = _mm512_sub_ps(high, high_half(rounded));
    }
}

/* A panel of 16 rows; rows past the end are zero, so are elements past k. */
static void split_task(void *ctx, int64_t panel, int thread) {
    const amx_job *job = ctx;
    int64_t k = job->a->x.cols;
    (void)thread;
    for (int64_t step = 0; step < job->n_steps; step++)
        for (int64_t r = 0; r < 16; r++) {
            bool inside = panel * 16 + r < job->rows;
            const float *x =
                sac_mat_row_f32(job->a->x, job->row + (inside ? panel * 16 + r : 0)) + step * STEP;
            split(x, inside ? k - step * STEP : 0, x_tile(job, panel, step, 0) + r * 64, job->n_terms);
        }
}

/* Weight rows [j, j + ROWS) as B tiles: [step][2][16 pairs of k][16 columns][2]. */
static void pack(const sac_linear_args *a, int64_t j, int64_t step0, int64_t n_steps, uint8_t *to) {
    int64_t k = a->x.cols, n = a->y.cols;
    for (int64_t half = 0; half < 2; half++) {
        const void *row[16];
        for (int64_t i = 0; i < 16; i++) /* columns past the last repeat it; nobody reads their sums */
            row[i] = (const uint16_t *)a->w.tensor.data + sac_min_i64(n - 1, j + half * 16 + i) * k;
        for (int64_t s = 0; s < n_steps; s++) {
            uint8_t *tile = to + (s * 2 + half) * TILE_BYTES;
            uint16_t rest[16][STEP] = {{0}};
            const void *from[16];
            int64_t at = (step0 + s) * STEP, left = sac_min_i64(STEP, k - at);
            for (int64_t i = 0; i < 16; i++) {
                from[i] = (const uint16_t *)row[i] + at;
                if (left < STEP) from[i] = memcpy(rest[i], from[i], (size_t)left * 2);
            }
            for (int64_t q = 0; q < 4; q++) {
                vi column[4];
                vi_load_columns(from, (size_t)q * 16, column);
                for (int64_t c = 0; c < 4; c++) _mm512_store_si512(tile + (q * 4 + c) * 64, column[c]);
            }
        }
    }
}

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* gcc's tile intrinsics do not tell the compiler that they read and write memory: nothing may
 * move over this. */
#define TILE_BARRIER() __asm__ volatile("" : : : "memory")

static void configure(void) {
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = 16;
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* c is read */
    _tile_loadconfig(&c);
}

/* sums[32][32] (+)= x panels x, x + 1 times packed weights. Tiles 0 to 3 are sums, 4 and 5 x, 6 and 7
 * weights; a sum is touched again after three others, as long as a product takes. */
static inline void block(const uint8_t *x0, const uint8_t *x1, const uint8_t *w, int64_t n_steps,
                         int64_t n_terms, float *sums, int64_t stride, bool first) {
    size_t bytes = (size_t)stride * 4;
    TILE_BARRIER();
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, bytes);
        _tile_loadd(1, sums + 16, bytes);
        _tile_loadd(2, sums + 16 * stride, bytes);
        _tile_loadd(3, sums + 16 * stride + 16, bytes);
    }
    for (int64_t s = 0; s < n_steps; s++) {
        _tile_loadd(6, w, 64);
        _tile_loadd(7, w + TILE_BYTES, 64);
        w += 2 * TILE_BYTES;
        for (int64_t term = 0; term < n_terms; term++) {
            _tile_loadd(4, x0, 64);
            _tile_loadd(5, x1, 64);
            x0 += TILE_BYTES;
            x1 += TILE_BYTES;
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, bytes);
    _tile_stored(1, sums + 16, bytes);
    _tile_stored(2, sums + 16 * stride, bytes);
    _tile_stored(3, sums + 16 * stride + 16, bytes);
    TILE_BARRIER();
}

static void product_task(void *ctx, int64_t task, int thread) {
    const amx_job *job = ctx;
    const sac_linear_args *a = job->a;
    int64_t i0 = task % job->n_m_blocks * job->m_block, j0 = task / job->n_m_blocks * job->n_block;
    int64_t i_end = sac_min_i64(job->rows, i0 + job->m_block),
            j_end = sac_min_i64(a->y.cols, j0 + job->n_block);
    uint8_t *w = sac_stream_thread_scratch(job->s, thread);
    float *sums = (float *)(void *)(w + MAX_K * ROWS * 2);
    bool at_once =
        job->n_steps <= job->k_steps; /* no sums to keep between stretches: one block's room is enough */
    int64_t stride = at_once ? ROWS : job->n_block;
    configure();
    for (int64_t s0 = 0; s0 < job->n_steps; s0 += job->k_steps) {
        int64_t n_steps = sac_min_i64(job->k_steps, job->n_steps - s0);
        for (int64_t j = j0; j < j_end; j += ROWS) {
            pack(a, j, s0, n_steps, w);
            for (int64_t i = i0; i < i_end; i += ROWS) {
                int64_t panel = i / 16, second = i + 16 < i_end ? panel + 1 : panel;
                float *c = at_once ? sums : sums + (i - i0) * stride + (j - j0);
                block(x_tile(job, panel, s0, 0), x_tile(job, second, s0, 0), w, n_steps, job->n_terms, c,
                      stride, s0 == 0);
                if (s0 + n_steps == job->n_steps)
                    linear_finish_rows(a, job->row + i, sac_min_i64(ROWS, i_end - i), j, c, stride,
                                       sac_min_i64(ROWS, j_end - j));
            }
        }
    }
    _tile_release();
}

static int64_t round_up(int64_t n, int64_t to) {
    return sac_div_up(n, to) * to;
}

size_t sac_linear_float_amx_scratch_bytes(int64_t m, int64_t k) {
    size_t bytes = (size_t)(round_up(m, 16) * round_up(k, STEP)) * 2 * TERMS, most = (size_t)16 << 20;
    size_t least = (size_t)(16 * round_up(k, STEP)) * 2 * TERMS;
    return bytes < most ? bytes : most > least ? most : least;
}

sac_status sac_linear_float_amx(const sac_stream *s, const sac_linear_args *a) {
    int64_t m = a->x.rows, n = a->y.cols, n_threads = sac_pool_n_threads(s->pool);
    amx_job job = {.s = s, .a = a, .n_steps = sac_div_up(a->x.cols, STEP), .n_terms = a->fast ? 1 : TERMS};
    int64_t room = (int64_t)s->shared_scratch_bytes / (job.n_steps * job.n_terms * TILE_BYTES) * 16;
    if (a->n_unsteady && a->w.tensor.dtype == SAC_DTYPE_BF16) return linear_apart(s, a, sac_linear_float_amx);
    if (m <= LINEAR_FEW_ROWS || a->steady || a->w.tensor.dtype != SAC_DTYPE_BF16 || room < 16)
        return sac_linear_float_vbmi(s, a);
    if (room >= MAX_M) room = room / MAX_M * MAX_M;
    job.k_steps = sac_div_up(job.n_steps, sac_div_up(job.n_steps, MAX_K / STEP));
    for (job.row = 0; job.row < m; job.row += room) {
        job.rows = sac_min_i64(room, m - job.row);
        sac_pool_run(s->pool, sac_div_up(job.rows, 16), split_task, &job);
        job.n_m_blocks = sac_div_up(job.rows, MAX_M);
        job.m_block = round_up(sac_div_up(job.rows, job.n_m_blocks), ROWS);
        job.n_m_blocks = sac_div_up(job.rows, job.m_block);
        int64_t n_n_blocks = sac_max_i64(sac_div_up(n, MAX_N), sac_div_up(4 * n_threads, job.n_m_blocks));
        job.n_block = round_up(sac_div_up(n, n_n_blocks), ROWS);
        sac_pool_run(s->pool, job.n_m_blocks * sac_div_up(n, job.n_block), product_task, &job);
    }
    return SAC_OK;
}
#endif
