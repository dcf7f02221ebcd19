/* linear_quant_amx.c - many rows on AMX tiles: 16 rows of x (a panel) by 16 columns by one block.
 *
 * The weights' scales change every 32 elements (q6_k: 16), so a tile product covers one such group, and its 256
 * integer sums leave through memory to be scaled on vectors, where the 16 f32 sums of the panel stay in
 * registers. That epilogue, two or three fused multiply-adds for every 16 sums, is what bounds the speed; tile
 * and vector units work side by side. Few rows are left to the vectors. */
#if defined(__AMX_INT8__) || defined(__AMXINT8__) || defined(__AMX_TILE__)
#include "linear_quant_tmpl.h"

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Tile registers: sums 0-3, rows of x and of weights of 32 and of 16 elements. Macros, as gcc pastes them. */
#define X32 4
#define W32 5
#define X16 6
#define W16 7

/* gcc 12's _tile_loadconfig tells the compiler of the first eight bytes only; the barrier keeps the rest from
 * being dropped as dead stores. */
static void configure_tiles(int n_panel_rows) {
    tile_config c = {.palette = 1};
    uint8_t rows = (uint8_t)n_panel_rows;
    for (int i = 0; i < 4; i++) c.row_bytes[i] = 64, c.rows[i] = rows;
    c.row_bytes[X32] = 32, c.rows[X32] = rows;
    c.row_bytes[W32] = 64, c.rows[W32] = 8;
    c.row_bytes[X16] = 16, c.rows[X16] = rows;
    c.row_bytes[W16] = 64, c.rows[W16] = 4;
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

/* Sums of one group into out[rows][16]. */
#define TILE_PRODUCT(sums, xt, wt, x, w, out)                                                                \
    do {                                                                                                     \
        _tile_loadd(xt, x, 32);                                                                              \
        _tile_loadd(wt, w, 64);                                                                              \
        _tile_zero(sums);                                                                                    \
        _tile_dpbssd(sums, xt, wt);                                                                          \
        _tile_stored(sums, out, 64);                                                                         \
    } while (0)

SAC_INLINE void scale32(sac_dtype t, const weights32 *w, const uint8_t *x, int rows, int32_t sums[][16], vf *acc) {
    const uint8_t *d = x + 32 * rows, *s = d + 4 * rows;
    for (int r = 0; r < rows; r++) {
        vf sum = vi_to_float(vi_load(sums[r]));
        acc[r] = vf_fma(vf_mul(w->d, sum), vf_set1(load_f32(d + 4 * r)), acc[r]);
        if (t == SAC_DTYPE_Q4_1) acc[r] = vf_fma(w->m, vf_set1(load_f32(s + 4 * r)), acc[r]);
    }
}

SAC_INLINE void tiles32(sac_dtype t, int rows, const sac_lq_job *j, const weights32 *w, const uint8_t *x,
                        int64_t n_blocks, float *acc) {
    _Alignas(64) int32_t sums[2][PANEL_ROWS][16];
    vf a[PANEL_ROWS];
    for (int r = 0; r < rows; r++) a[r] = vf_load(acc + r * VF);
    for (int64_t b = 0; b < n_blocks; b += 2) {
        const uint8_t *x1 = x + j->record_bytes;
        TILE_PRODUCT(0, X32, W32, x, w[b].q, sums[0]);
        if (b + 1 < n_blocks) TILE_PRODUCT(1, X32, W32, x1, w[b + 1].q, sums[1]);
        scale32(t, &w[b], x, rows, sums[0], a);
        if (b + 1 < n_blocks) scale32(t, &w[b + 1], x1, rows, sums[1], a);
        x = x1 + j->record_bytes;
    }
    for (int r = 0; r < rows; r++) vf_store(acc + r * VF, a[r]);
}

SAC_INLINE void tiles256(sac_dtype t, int rows, const sac_lq_job *j, const weights256 *w, const uint8_t *x,
                         int64_t n_blocks, float *acc) {
    _Alignas(64) int32_t sums[2][PANEL_ROWS][16];
    for (int64_t b = 0; b < n_blocks; b++, w++, x += j->record_bytes) {
        vf scaled[PANEL_ROWS];
        for (int r = 0; r < rows; r++) scaled[r] = vf_zero();
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = x + 32 * g * rows;
            if (t == SAC_DTYPE_Q4_K) {
                TILE_PRODUCT(0, X32, W32, q, w->q + 8 * g, sums[0]);
                for (int r = 0; r < rows; r++)
                    scaled[r] = vf_fma(vi_to_float(vi_load(sums[0][r])), w->scale[g], scaled[r]);
            } else {
                TILE_PRODUCT(0, X16, W16, q, w->q + 8 * g, sums[0]);
                TILE_PRODUCT(1, X16, W16, q + 16, w->q + 8 * g + 4, sums[1]);
                for (int r = 0; r < rows; r++) {
                    scaled[r] = vf_fma(vi_to_float(vi_load(sums[0][r])), w->scale[2 * g], scaled[r]);
                    scaled[r] = vf_fma(vi_to_float(vi_load(sums[1][r])), w->scale[2 * g + 1], scaled[r]);
                }
            }
        }
        for (int r = 0; r < rows; r++)
            vf_store(acc + r * VF, join256(t, w, scaled[r], x, rows, r, vf_load(acc + r * VF)));
    }
}

SAC_INLINE void tile_rows(sac_dtype t, int rows, const sac_lq_job *j, const uint8_t *w, const uint8_t *x,
                          int64_t n_blocks, float *acc) {
    if (is_k_quant(t))
        tiles256(t, rows, j, (const void *)w, x, n_blocks, acc);
    else
        tiles32(t, rows, j, (const void *)w, x, n_blocks, acc);
}

SAC_INLINE void tile_panel(sac_dtype t, const sac_lq_job *j, const uint8_t *w, const uint8_t *x, int64_t n_blocks,
                           float *acc) {
    if (j->n_panel_rows == 8)
        tile_rows(t, 8, j, w, x, n_blocks, acc);
    else
        tile_rows(t, 16, j, w, x, n_blocks, acc);
}

#define PANEL     tile_panel
#define AS_SIGNED true
#include "linear_quant_variant.h"

static void multiply_with_tiles(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,
                                int64_t last_panel, void *scratch) {
    if (j->m > SAC_LQ_DIRECT_ROWS) configure_tiles(j->n_panel_rows);
    multiply(j, first, last, first_panel, last_panel, scratch);
    if (j->m > SAC_LQ_DIRECT_ROWS) _tile_release();
}

sac_status sac_linear_quant_amx(const sac_stream *s, const sac_linear_args *a) {
    static const sac_lq_variant tiles = {VF, quantize_row, multiply_with_tiles};
    (void)variant;
    return sac_lq_run(s, a, &tiles);
}
#else
typedef int sac_no_amx;
#endif
