/* linear_quant_tmpl.h - linear with quantised weights on vectors; see linear_quant.h for what is computed and
 * linear_quant_job.h for how x lies.
 *
 * A group of VF weight rows is unpacked a block at a time into vectors of four elements a row. Up to
 * SAC_LQ_DIRECT_ROWS rows of x meet a block right there, and a product runs at the speed of memory; for more
 * rows a group's blocks go to thread scratch first (in stretches of K_STRETCH, whose sums wait in scratch
 * too) and every panel of x passes over them. */
#ifndef SAC_LINEAR_QUANT_TMPL_H
#define SAC_LINEAR_QUANT_TMPL_H

#include "cpu/linear_epilogue.h"
#include "linear_quant_x.h"

enum { K_STRETCH = 16384, MAX_TASK_PANELS = 32, PANEL_ROWS = SAC_LQ_MAX_PANEL_ROWS };

/* ---- products: rows [r0, r0 + n) of a record with a block of unsigned weights ---- */

/* Where a sum over [8 q] of four elements begins; two chains, since each vi_dot waits for the one before. */
SAC_INLINE vi dot32(sac_dtype t, vi start, const vi *q, const uint8_t *x, int n_quads) {
    vi odd = vi_zero();
    for (int i = 0; i < n_quads; i += 2) {
        vi even_x = vi_set1(load_i32(x + 4 * i)), odd_x = vi_set1(load_i32(x + 4 * i + 4));
        start = has_eight_bits(t) ? vi_dot_q8(start, q[i], even_x) : vi_dot(start, q[i], even_x);
        odd = has_eight_bits(t) ? vi_dot_q8(odd, q[i + 1], odd_x) : vi_dot(odd, q[i + 1], odd_x);
    }
    return vi_add(start, odd);
}

SAC_INLINE void product32(sac_dtype t, const weights32 *w, const uint8_t *x, int n_panel_rows, int r0, int n,
                          vf *acc) {
    const uint8_t *d = x + 32 * n_panel_rows, *s = d + 4 * n_panel_rows;
    vf offset = minus_magic(w->d);
    for (int r = r0; r < r0 + n; r++) {
        vi start = vi_set1(has_minima(t) ? MAGIC : load_i32(s + 4 * r));
        vf sum = scaled_sum(t, w->d, offset, dot32(t, start, w->q, x + 32 * r, 8));
        acc[r - r0] = vf_fma(sum, vf_set1(load_f32(d + 4 * r)), acc[r - r0]);
    }
}

/* The other sum of formats with minima, of m times the sum of x. */
SAC_INLINE void product_minima(const weights32 *w, const uint8_t *x, int n_panel_rows, int r0, int n,
                               vf *acc) {
    const uint8_t *s = x + 36 * n_panel_rows;
    for (int r = r0; r < r0 + n; r++) acc[r - r0] = vf_fma(w->m, vf_set1(load_f32(s + 4 * r)), acc[r - r0]);
}

/* dmin (sum of min x), x summed by units: sums of row r, int16 [units] */
SAC_INLINE vf minima(sac_dtype t, const head256 *w, const uint8_t *sums) {
    vi sum = vi_zero();
    for (int i = 0; i < units_a_block(t) / 2; i++)
        sum = vi_dot16(sum, w->min[i], vi_set1(load_i32(sums + 4 * i)));
    return vf_mul(w->dmin, vi_to_float(sum));
}

/* The block's share of a row's sum, from its scaled integer sums. */
SAC_INLINE vf join256(sac_dtype t, const head256 *w, vf scaled, const uint8_t *x, int n_panel_rows, int r,
                      vf acc) {
    const uint8_t *d = x + 256 * n_panel_rows, *extra = d + 4 * n_panel_rows;
    const uint8_t *sums = extra + 2 * units_a_block(t) * r;
    vf v = has_minima(t) ? vf_msub(w->d, scaled, minima(t, w, sums)) : vf_mul(w->d, scaled);
    return vf_fma(v, vf_set1(load_f32(d + 4 * r)), acc);
}

/* Adds groups [g0, g0 + n) of 32, whose weights are q, to a row's scaled sums. */
SAC_INLINE vf scaled_groups(sac_dtype t, const head256 *w, const vi *q, int g0, int n, const uint8_t *x,
                            int n_panel_rows, int r, vf scaled) {
    int a_group = units_a_block(t) / 8, n_quads = 8 / a_group;
    const uint8_t *starts = x + 260 * n_panel_rows + 4 * units_a_block(t) * r;
    for (int g = g0; g < g0 + n; g++) {
        const uint8_t *xq = x + 32 * (g * n_panel_rows + r);
        for (int u = g * a_group; u < (g + 1) * a_group; u++, q += n_quads, xq += 4 * n_quads) {
            vi start = has_minima(t) ? vi_zero() : vi_set1(load_i32(starts + 4 * u));
            scaled = vf_fma(vi_to_float(dot32(t, start, q, xq, n_quads)), w->scale[u], scaled);
        }
    }
    return scaled;
}

SAC_INLINE void product256(sac_dtype t, const weights256 *w, const uint8_t *x, int n_panel_rows, int r0,
                           int n, vf *acc) {
    for (int r = r0; r < r0 + n; r++) {
        vf scaled = scaled_groups(t, &w->head, w->q, 0, 8, x, n_panel_rows, r, vf_zero());
        acc[r - r0] = join256(t, &w->head, scaled, x, n_panel_rows, r, acc[r - r0]);
    }
}

SAC_INLINE void product(sac_dtype t, const void *w, const uint8_t *x, int n_panel_rows, int r0, int n,
                        vf *acc) {
    if (is_large(t))
        product256(t, w, x, n_panel_rows, r0, n, acc);
    else
        product32(t, w, x, n_panel_rows, r0, n, acc);
}

/* ---- sums to y ---- */

SAC_INLINE void finish_rows_as(sac_activation act, const sac_lq_job *j, const sac_lq_columns *c, int64_t row,
                               int n, const float *sums) {
    const float *bias = j->a->bias ? j->a->bias + c->col : NULL;
    for (int r = 0; r < n; r++) {
        float *y = sac_mat_row_f32(j->a->y, row + r) + c->col;
        const float *sum = sums + r * VF + c->lane;
        if (c->n_cols == VF) /* a constant in this copy: whole vectors */
            linear_finish_row_as(act, y, sum, bias, VF, j->a->accumulate);
        else
            linear_finish_row_as(act, y, sum, bias, c->n_cols, j->a->accumulate);
    }
}

/* Sums [n][VF] of rows [row, row + n); one more vector may be read. */
SAC_LQ_ONE_COPY void finish_rows(const sac_lq_job *j, const sac_lq_columns *c, int64_t row, int n,
                                 const float *sums) {
    switch (j->a->act) { /* act a constant in each copy */
    case SAC_ACT_NONE: finish_rows_as(SAC_ACT_NONE, j, c, row, n, sums); break;
    case SAC_ACT_GELU: finish_rows_as(SAC_ACT_GELU, j, c, row, n, sums); break;
    case SAC_ACT_GELU_TANH: finish_rows_as(SAC_ACT_GELU_TANH, j, c, row, n, sums); break;
    case SAC_ACT_QUICK_GELU: finish_rows_as(SAC_ACT_QUICK_GELU, j, c, row, n, sums); break;
    case SAC_ACT_SILU: finish_rows_as(SAC_ACT_SILU, j, c, row, n, sums); break;
    case SAC_ACT_SIGMOID: finish_rows_as(SAC_ACT_SIGMOID, j, c, row, n, sums); break;
    }
}

/* ---- few rows ---- */

SAC_INLINE void prefetch(const uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i += 64) _mm_prefetch((const char *)(at + i), _MM_HINT_T0);
}

/* A block of a group of columns against n_rows of x. The bytes [ahead, ahead + VF blocks) of the next group
 * are asked for beside the work; they come in this order, whatever order the rows of a block have. */
SAC_INLINE void direct32(sac_dtype t, int n_rows, const uint8_t *p, size_t stride, const uint8_t *ahead,
                         const uint8_t *x, vf *acc, vf *low) {
    weights32 w;
    if (ahead) prefetch(ahead, VF * block_bytes_of(t));
    unpack(t, p, stride, false, &w);
    product32(t, &w, x, n_rows, 0, n_rows, acc);
    if (has_minima(t)) product_minima(&w, x, n_rows, 0, n_rows, low);
}

SAC_INLINE void direct256(sac_dtype t, int n_rows, const uint8_t *p, size_t stride, const uint8_t *ahead,
                          const uint8_t *x, vf *acc) {
    int n_groups = groups_a_part(t), n_parts = 8 / n_groups;
    size_t part_bytes = VF * block_bytes_of(t) / (size_t)n_parts;
    vf scaled[SAC_LQ_DIRECT_ROWS];
    head256 head;
    unpack_head(t, p, stride, &head);
    for (int r = 0; r < n_rows; r++) scaled[r] = vf_zero();
    for (int part = 0; part < n_parts; part++) {
        vi q[32];
        if (ahead) prefetch(ahead + (size_t)part * part_bytes, part_bytes);
        unpack_part(t, p, stride, part, false, q);
        for (int r = 0; r < n_rows; r++)
            scaled[r] = scaled_groups(t, &head, q, part * n_groups, n_groups, x, n_rows, r, scaled[r]);
    }
    for (int r = 0; r < n_rows; r++) acc[r] = join256(t, &head, scaled[r], x, n_rows, r, acc[r]);
}

SAC_INLINE void multiply_direct(sac_dtype t, int n_rows, const sac_lq_job *j, int64_t first, int64_t last) {
    size_t block_bytes = block_bytes_of(t);
    int64_t n_blocks = j->k / j->block;
    for (int64_t g = first; g < last; g++) {
        sac_lq_columns c = sac_lq_column_group(j, VF, g);
        const uint8_t *p = c.w, *ahead = g + 1 < last ? c.w + VF * c.stride : NULL, *x = j->x;
        vf acc[SAC_LQ_DIRECT_ROWS], low[SAC_LQ_DIRECT_ROWS];
        for (int r = 0; r < n_rows; r++) acc[r] = low[r] = vf_zero();
        for (int64_t b = 0; b < n_blocks; b++, p += block_bytes, x += j->record_bytes) {
            if (is_large(t))
                direct256(t, n_rows, p, c.stride, ahead, x, acc);
            else
                direct32(t, n_rows, p, c.stride, ahead, x, acc, low);
            if (ahead) ahead += VF * block_bytes;
        }
        float sums[(SAC_LQ_DIRECT_ROWS + 1) * VF];
        for (int r = 0; r < n_rows; r++)
            vf_store(sums + r * VF, !is_large(t) && has_minima(t) ? vf_add(acc[r], low[r]) : acc[r]);
        vf_store(sums + n_rows * VF, vf_zero());
        finish_rows(j, &c, 0, (int)j->m, sums);
    }
}

/* ---- many rows ---- */

/* A column group on its way past the panels of a task: sum and low are [panels][rows][VF]. */
typedef struct pass {
    const sac_lq_job *j;
    sac_lq_columns columns;
    int64_t first_row, n_panels;
    const uint8_t *weights, *x; /* of the stretch of n_blocks at hand */
    int64_t n_blocks;
    bool last; /* stretch of k */
    float *sum, *low;
} pass;

/* Called when rows [row, row + n) of the task have met all blocks of a stretch. */
SAC_LQ_ONE_COPY void rows_done(const pass *p, int64_t row, int n) {
    if (!p->last) return;
    float *sum = p->sum + row * VF;
    if (p->low)
        for (int i = 0; i < n * VF; i += VF)
            vf_store(sum + i, vf_add(vf_load(sum + i), vf_load(p->low + row * VF + i)));
    row += p->first_row;
    finish_rows(p->j, &p->columns, row, (int)sac_min_i64(n, p->j->m - row), sum);
}

/* Adds n_blocks of every panel to p->sum. */
typedef void (*panels_fn)(sac_dtype t, const pass *p);

/* The same for minima of blocks of 32, to p->low; goes first. */
SAC_LQ_ONE_COPY void add_minima(const pass *p) {
    const weights32 *w = (const void *)p->weights;
    int rows = p->j->n_panel_rows;
    for (int64_t row = 0; row < p->n_panels * rows; row += 8) {
        const uint8_t *panel = p->x + (size_t)(row / rows) * p->j->panel_bytes;
        float *low = p->low + row * VF;
        vf acc[8];
        for (int r = 0; r < 8; r++) acc[r] = vf_load(low + r * VF);
        for (int64_t b = 0; b < p->n_blocks; b++)
            product_minima(&w[b], panel + (size_t)b * p->j->record_bytes, rows, (int)(row % rows), 8, acc);
        for (int r = 0; r < 8; r++) vf_store(low + r * VF, acc[r]);
    }
}

/* Eight rows of x at a time: eight sums and eight vectors of weights stay in registers. */
SAC_INLINE void vector_panels(sac_dtype t, const pass *p) {
    int rows = p->j->n_panel_rows;
    for (int64_t row = 0; row < p->n_panels * rows; row += 8) {
        const uint8_t *panel = p->x + (size_t)(row / rows) * p->j->panel_bytes;
        float *sum = p->sum + row * VF;
        vf acc[8];
        for (int r = 0; r < 8; r++) acc[r] = vf_load(sum + r * VF);
        for (int64_t b = 0; b < p->n_blocks; b++)
            product(t, p->weights + (size_t)b * weights_bytes(t), panel + (size_t)b * p->j->record_bytes,
                    rows, (int)(row % rows), 8, acc);
        for (int r = 0; r < 8; r++) vf_store(sum + r * VF, acc[r]);
        rows_done(p, row, 8);
    }
}

SAC_INLINE void multiply_panels(sac_dtype t, const sac_lq_job *j, int64_t first, int64_t last,
                                int64_t first_panel, int64_t last_panel, void *scratch, bool as_signed,
                                panels_fn add_panels) {
    enum { SUMS = (MAX_TASK_PANELS * PANEL_ROWS + 1) * VF }; /* and a vector that finish_rows may read */
    _Static_assert(
        2 * SUMS * sizeof(float) + K_STRETCH / 32 * sizeof(weights32) <= SAC_THREAD_SCRATCH_BYTES &&
            2 * SUMS * sizeof(float) + K_STRETCH / 256 * sizeof(weights256) <= SAC_THREAD_SCRATCH_BYTES,
        "a stretch fits the scratch of a thread");
    int64_t n_blocks = j->k / j->block, stretch = K_STRETCH / j->block;
    uint8_t *weights = (uint8_t *)scratch + 2 * SUMS * sizeof(float);
    pass p = {.j = j,
              .first_row = first_panel * j->n_panel_rows,
              .n_panels = last_panel - first_panel,
              .weights = weights,
              .sum = scratch,
              .low = !is_large(t) && has_minima(t) ? (float *)scratch + SUMS : NULL};
    size_t sums_bytes = (size_t)(p.n_panels * j->n_panel_rows * VF) * sizeof(float);
    for (int64_t g = first; g < last; g++) {
        p.columns = sac_lq_column_group(j, VF, g);
        memset(p.sum, 0, sums_bytes);
        if (p.low) memset(p.low, 0, sums_bytes);
        for (int64_t b0 = 0; b0 < n_blocks; b0 += stretch) {
            p.n_blocks = sac_min_i64(stretch, n_blocks - b0);
            p.last = b0 + p.n_blocks == n_blocks;
            p.x = j->x + (size_t)first_panel * j->panel_bytes + (size_t)b0 * j->record_bytes;
            for (int64_t b = 0; b < p.n_blocks; b++)
                unpack(t, p.columns.w + (size_t)(b0 + b) * j->w_block_bytes, p.columns.stride, as_signed,
                       weights + (size_t)b * weights_bytes(t));
            if (p.low) add_minima(&p);
            add_panels(t, &p);
        }
    }
}

SAC_INLINE void multiply_as(sac_dtype t, const sac_lq_job *j, int64_t first, int64_t last,
                            int64_t first_panel, int64_t last_panel, void *scratch, bool as_signed,
                            panels_fn add_panels) {
    switch (j->n_panel_rows) { /* a constant in each copy */
    case 1: multiply_direct(t, 1, j, first, last); break;
    case 2: multiply_direct(t, 2, j, first, last); break;
    case 4: multiply_direct(t, 4, j, first, last); break;
    default: multiply_panels(t, j, first, last, first_panel, last_panel, scratch, as_signed, add_panels);
    }
}

#define SAC_LQ_MULTIPLY(name, type, as_signed, add_panels)                                                   \
    static void name(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,                  \
                     int64_t last_panel, void *scratch) {                                                    \
        multiply_as(type, j, first, last, first_panel, last_panel, scratch, as_signed, add_panels);          \
    }

#endif
