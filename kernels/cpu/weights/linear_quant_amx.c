/* linear_quant_amx.c - many rows on AMX tiles: 16 rows of x (a panel) by 16 columns by one unit of k.
 *
 * The weights' scales change every 32 elements (some formats: 16), so a tile product covers one such unit, and its
 * 256 integer sums leave through memory to be scaled on vectors, where the 16 f32 sums of the panel stay in
 * registers. That epilogue, two or three fused multiply-adds for every 16 sums, bounds the speed. The tile
 * unit takes about 16 cycles a product but some 80 from load to store, so products run two quads of units
 * ahead of the vectors, over the ends of panels: in a step, four products start, the four before them are
 * stored and the four before those are scaled. */
#if defined(__AMX_INT8__) || defined(__AMXINT8__) /* the second is what clang 14 says */
#include "linear_quant_tmpl.h"

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Tile registers: 0-3 sums, 4-5 rows of x, 6-7 weights, four elements of 16 columns a row.
 * gcc 12's _tile_loadconfig tells the compiler of the first eight bytes only; the barrier keeps the rest from
 * being dropped as dead stores. */
static void configure_tiles(int n_panel_rows, int unit) {
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = (uint16_t)(i < 4 || i > 5 ? 64 : unit);
        c.rows[i] = (uint8_t)(i < 6 ? n_panel_rows : unit / 4);
    }
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

/* ---- where the units lie ---- */

SAC_INLINE const uint8_t *unit_x(sac_dtype t, const sac_lq_job *j, int rows, const uint8_t *panel,
                                 int64_t u) {
    const int64_t n = units_a_block(t), a_group = n < 8 ? 1 : n / 8; /* units of a block, of a group of 32 */
    return panel + (size_t)(u / n) * j->record_bytes + 32 * rows * (u % n / a_group) +
           32 / a_group * (u % a_group);
}
SAC_INLINE const void *unit_w(sac_dtype t, const uint8_t *weights, int64_t u) {
    const int64_t n = units_a_block(t);
    if (is_large(t)) return ((const weights256 *)(const void *)weights)[u / n].q + 64 / n * (u % n);
    return ((const weights32 *)(const void *)weights)[u].q;
}

/* ---- the vectors' half; sums are those of one unit, [rows][16] ---- */

/* 32-element blocks: acc is the panel's f32 sums. MAGIC is added by the integer unit: while tiles are at work
 * only one 512-bit float unit runs (measured on Sapphire Rapids), so float operations are what counts. */
SAC_INLINE void scale32(sac_dtype t, int rows, const weights32 *w, const uint8_t *x, const int32_t *sums,
                        vf *acc) {
    const uint8_t *d = x + 32 * rows;
    vf offset = minus_magic(w->d);
    vi magic = vi_set1(magic_of(t));
    for (int r = 0; r < rows; r++) {
        vf sum = scaled_sum(t, w->d, offset, vi_add(magic, vi_load(sums + 16 * r)));
        acc[r] = vf_fma(sum, vf_set1(load_f32(d + 4 * r)), acc[r]);
    }
}

/* 256-element blocks: acc is the block's scaled sums, joined to the panel's in memory when it ends. */
SAC_INLINE void scale256(int rows, vf scale, const int32_t *sums, vf *acc) {
    for (int r = 0; r < rows; r++) acc[r] = vf_fma(vi_to_float(vi_load(sums + 16 * r)), scale, acc[r]);
}

SAC_INLINE void scale_unit(sac_dtype t, const pass *p, int rows, const uint8_t *panel, int64_t u,
                           const int32_t *sums, vf *acc) {
    if (is_large(t)) {
        const weights256 *w = (const weights256 *)(const void *)p->weights + u / units_a_block(t);
        scale256(rows, w->head.scale[u % units_a_block(t)], sums, acc);
    } else {
        const weights32 *w = (const weights32 *)(const void *)p->weights + u;
        scale32(t, rows, w, panel + (size_t)u * p->j->record_bytes, sums, acc);
    }
}

SAC_INLINE void join_block(sac_dtype t, const pass *p, int rows, const uint8_t *panel, int64_t b, float *sum,
                           vf *acc) {
    const weights256 *w = (const weights256 *)(const void *)p->weights + b;
    const uint8_t *record = panel + (size_t)b * p->j->record_bytes;
    for (int r = 0; r < rows; r++) {
        vf_store(sum + r * VF, join256(t, &w->head, acc[r], record, rows, r, vf_load(sum + r * VF)));
        acc[r] = vf_zero();
    }
}

/* ---- both together ---- */

/* A position in the sequence of quads of all panels. */
typedef struct cursor {
    int64_t panel, unit;
} cursor;

SAC_INLINE void advance(cursor *c, int64_t n_units) {
    c->unit += 4;
    if (c->unit < n_units) return;
    c->unit = 0;
    c->panel++;
}

/* One of the four products of a step, with the store and the scaling that go beside it. `at`, `stored` and
 * `scaled` say whether each has a unit i in its quad. */
#define TILE_STEP(i, x_tile, w_tile)                                                                         \
    do {                                                                                                     \
        if (i < n_started) {                                                                                 \
            const uint8_t *panel = p->x + (size_t)start.panel * p->j->panel_bytes;                           \
            _tile_loadd(x_tile, unit_x(t, p->j, rows, panel, start.unit + i), 32);                           \
            _tile_loadd(w_tile, unit_w(t, p->weights, start.unit + i), 64);                                  \
        }                                                                                                    \
        if (i < n_stored) _tile_stored(i, sums[step & 1][i], 64);                                            \
        if (i < n_started) {                                                                                 \
            _tile_zero(i);                                                                                   \
            _tile_dpbssd(i, x_tile, w_tile);                                                                 \
        }                                                                                                    \
        if (i < n_scaled) scale_unit(t, p, rows, scale_x, scale.unit + i, sums[~step & 1][i], acc);          \
    } while (0)

SAC_INLINE void tile_rows(sac_dtype t, int rows, const pass *p) {
    _Alignas(64) int32_t sums[2][4][PANEL_ROWS * 16];
    int64_t n_units = p->n_blocks * units_a_block(t), n_steps = p->n_panels * sac_div_up(n_units, 4);
    cursor start = {0, 0}, scale = {0, 0};
    int64_t n_stored = 0, n_scaled = 0;
    vf acc[PANEL_ROWS];
    for (int r = 0; r < rows; r++) acc[r] = is_large(t) ? vf_zero() : vf_load(p->sum + r * VF);
    for (int64_t step = 0; step < n_steps + 2; step++) {
        int64_t n_started = step < n_steps ? sac_min_i64(4, n_units - start.unit) : 0;
        const uint8_t *scale_x = p->x + (size_t)scale.panel * p->j->panel_bytes;
        TILE_STEP(0, 4, 6);
        TILE_STEP(1, 5, 7);
        TILE_STEP(2, 4, 6);
        TILE_STEP(3, 5, 7);
        if (n_scaled) {
            int64_t row = scale.panel * rows;
            float *sum = p->sum + row * VF;
            if (is_large(t) && (scale.unit + 4) % units_a_block(t) == 0)
                join_block(t, p, rows, scale_x, scale.unit / units_a_block(t), sum, acc);
            advance(&scale, n_units);
            if (scale.unit == 0) { /* the panel is complete */
                for (int r = 0; r < rows && !is_large(t); r++) vf_store(sum + r * VF, acc[r]);
                rows_done(p, row, rows);
                for (int r = 0; r < rows && !is_large(t); r++) acc[r] = vf_load(sum + (rows + r) * VF);
            }
        }
        advance(&start, n_units);
        n_scaled = n_stored;
        n_stored = n_started;
    }
}

SAC_INLINE void tile_panels(sac_dtype t, const pass *p) {
    if (p->j->n_panel_rows == 8)
        tile_rows(t, 8, p);
    else
        tile_rows(t, 16, p);
}

#define PANELS    tile_panels
#define AS_SIGNED true
#include "linear_quant_variant.h"

static void multiply_with_tiles(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,
                                int64_t last_panel, void *scratch) {
    if (j->m > SAC_LQ_DIRECT_ROWS)
        configure_tiles(j->n_panel_rows, sac_lq_format_of(j->a->w.tensor.dtype).unit);
    multiply(j, first, last, first_panel, last_panel, scratch);
    if (j->m > SAC_LQ_DIRECT_ROWS) _tile_release();
}

sac_status sac_linear_quant_amx(const sac_stream *s, const sac_linear_args *a) {
    static const sac_lq_variant tiles = {VF, quantize_panel, multiply_with_tiles};
    (void)variant;
    return sac_lq_run(s, a, &tiles);
}
#else
typedef int sac_no_amx;
#endif
