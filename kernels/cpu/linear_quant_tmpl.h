/* linear_quant_tmpl.h - linear with quantised weights on vectors; see linear_quant.h for what is computed and
 * linear_quant_job.h for how x lies.
 *
 * A group of VF weight rows is unpacked a block at a time into vectors of four elements a row. Up to
 * SAC_LQ_DIRECT_ROWS rows of x meet a block right there, and a product runs at the speed of memory; for more
 * rows a group's blocks go to thread scratch first (in stretches of K_STRETCH, whose sums wait in scratch too)
 * and every panel of x passes over them. */
#ifndef SAC_LINEAR_QUANT_TMPL_H
#define SAC_LINEAR_QUANT_TMPL_H

#include "linear_epilogue.h"
#include "linear_quant_job.h"
#include "linear_quant_simd.h"

#define SAC_LQ_ONE_COPY static __attribute__((noinline)) /* large, and called for hundreds of products or more */

enum { K_STRETCH = 16384, MAX_TASK_PANELS = 32, PANEL_ROWS = SAC_LQ_MAX_PANEL_ROWS };

typedef struct weights32 {
    vi q[8];
    vf d, m;
} weights32;

typedef struct weights256 {
    vi q[64];
    vf scale[16]; /* q4_k: 8 of 32 elements, q6_k: 16 of 16 */
    vf d, dmin;
    vi min[4]; /* q4_k: pairs of int16 */
} weights256;

SAC_INLINE bool is_k_quant(sac_dtype t) { return t == SAC_DTYPE_Q4_K || t == SAC_DTYPE_Q6_K; }
SAC_INLINE size_t weights_bytes(sac_dtype t) { return is_k_quant(t) ? sizeof(weights256) : sizeof(weights32); }

SAC_INLINE size_t block_bytes_of(sac_dtype t) { /* a constant where t is one */
    switch (t) {
    case SAC_DTYPE_Q8_0: return 34;
    case SAC_DTYPE_Q4_0: return 18;
    case SAC_DTYPE_Q4_1: return 20;
    case SAC_DTYPE_Q4_K: return 144;
    default: return 210;
    }
}

/* ---- weights ---- */

SAC_INLINE void unpack_nibbles(const uint8_t *p, size_t stride, vi low[4], vi high[4]) {
    vi rows[4], nibble = vi_set1(0x0f0f0f0f);
    vi_load_rows(p, stride, rows);
    for (int i = 0; i < 4; i++) {
        low[i] = vi_and(rows[i], nibble);
        high[i] = vi_and(vi_shift_right(rows[i], 4), nibble);
    }
}

SAC_INLINE void unpack32(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    vi head = vi_load_words(p, stride);
    w->d = vf_f16_low(head);
    if (t == SAC_DTYPE_Q4_1) w->m = vf_f16_high(head);
    if (t == SAC_DTYPE_Q8_0) {
        vi_load_rows(p + 2, stride, w->q);
        vi_load_rows(p + 18, stride, w->q + 4);
        for (int i = 0; i < 8 && !as_signed; i++) w->q[i] = vi_from_q8(w->q[i]);
        return;
    }
    unpack_nibbles(p + (t == SAC_DTYPE_Q4_1 ? 4 : 2), stride, w->q, w->q + 4);
    for (int i = 0; i < 8 && as_signed && t == SAC_DTYPE_Q4_0; i++)
        w->q[i] = vi_add8(w->q[i], vi_set1((int32_t)0xf8f8f8f8));
}

/* sac_q4_k_scales, four of them a lane */
SAC_INLINE void unpack_q4_k_scales(const vi bytes[4], weights256 *w) {
    vi low6 = vi_set1(0x3f3f3f3f), low4 = vi_set1(0x0f0f0f0f), high2 = vi_set1(0x30303030);
    vi scale[2] = {vi_and(bytes[1], low6),
                   vi_or(vi_and(bytes[3], low4), vi_and(vi_shift_right(bytes[1], 2), high2))};
    vi min[2] = {vi_and(bytes[2], low6), vi_or(vi_and(vi_shift_right(bytes[3], 4), low4),
                                               vi_and(vi_shift_right(bytes[2], 2), high2))};
    vi byte0 = vi_set1(0xff), byte2 = vi_set1(0xff0000);
    for (int i = 0; i < 2; i++) {
        w->scale[4 * i] = vi_to_float(vi_and(scale[i], byte0));
        w->scale[4 * i + 1] = vi_to_float(vi_and(vi_shift_right(scale[i], 8), byte0));
        w->scale[4 * i + 2] = vi_to_float(vi_and(vi_shift_right(scale[i], 16), byte0));
        w->scale[4 * i + 3] = vi_to_float(vi_shift_right(scale[i], 24));
        /* pairs (0, 1) and (2, 3): bytes b0 b1 b2 b3 to b0 0 b1 0 and b2 0 b3 0 */
        w->min[2 * i] = vi_or(vi_and(min[i], byte0), vi_and(vi_shift_left(min[i], 8), byte2));
        w->min[2 * i + 1] =
            vi_or(vi_and(vi_shift_right(min[i], 16), byte0), vi_and(vi_shift_right(min[i], 8), byte2));
    }
}

SAC_LQ_ONE_COPY void unpack_q4_k(const uint8_t *p, size_t stride, weights256 *w) {
    vi head[4];
    vi_load_rows(p, stride, head);
    w->d = vf_f16_low(head[0]);
    w->dmin = vf_f16_high(head[0]);
    unpack_q4_k_scales(head, w);
    for (int i = 0; i < 4; i++) {
        vi *low = w->q + 16 * i, *high = low + 8;
        unpack_nibbles(p + 16 + 32 * i, stride, low, high);
        unpack_nibbles(p + 32 + 32 * i, stride, low + 4, high + 4);
    }
}

/* Sixteen bytes of `low` and of `high` make elements e of all four 32-groups of a half, or of two. */
SAC_INLINE void unpack_q6_k_half(const uint8_t *p, const uint8_t *high, size_t stride, int32_t offset, vi *q) {
    vi high2 = vi_set1(0x30303030), add = vi_set1(offset);
    for (int part = 0; part < 2; part++) { /* elements [16 part, 16 part + 16) of each 32 */
        vi h[4], a[4], b[4], c[4], d[4];
        vi_load_rows(high + 16 * part, stride, h);
        unpack_nibbles(p + 16 * part, stride, a, c);
        unpack_nibbles(p + 32 + 16 * part, stride, b, d);
        for (int i = 0; i < 4; i++) {
            vi *out = q + 4 * part + i;
            out[0] = vi_add8(vi_or(a[i], vi_and(vi_shift_left(h[i], 4), high2)), add);
            out[8] = vi_add8(vi_or(b[i], vi_and(vi_shift_left(h[i], 2), high2)), add);
            out[16] = vi_add8(vi_or(c[i], vi_and(h[i], high2)), add);
            out[24] = vi_add8(vi_or(d[i], vi_and(vi_shift_right(h[i], 2), high2)), add);
        }
    }
}

SAC_LQ_ONE_COPY void unpack_q6_k(const uint8_t *p, size_t stride, bool as_signed, weights256 *w) {
    vi scale[4];
    int32_t offset = as_signed ? (int32_t)0xe0e0e0e0 : 0; /* -32 */
    unpack_q6_k_half(p, p + 128, stride, offset, w->q);
    unpack_q6_k_half(p + 64, p + 160, stride, offset, w->q + 32);
    vi_load_rows(p + 192, stride, scale);
    for (int i = 0; i < 4; i++) {
        w->scale[4 * i] = vi_to_float(vi_shift_right_signed(vi_shift_left(scale[i], 24), 24));
        w->scale[4 * i + 1] = vi_to_float(vi_shift_right_signed(vi_shift_left(scale[i], 16), 24));
        w->scale[4 * i + 2] = vi_to_float(vi_shift_right_signed(vi_shift_left(scale[i], 8), 24));
        w->scale[4 * i + 3] = vi_to_float(vi_shift_right_signed(scale[i], 24));
    }
    w->d = vf_f16_high(vi_load_words(p + 206, stride)); /* not at 208: the last row may end the file */
}

SAC_INLINE void unpack(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, void *w) {
    if (t == SAC_DTYPE_Q4_K)
        unpack_q4_k(p, stride, w);
    else if (t == SAC_DTYPE_Q6_K)
        unpack_q6_k(p, stride, as_signed, w);
    else
        unpack32(t, p, stride, as_signed, w);
}

/* ---- products: rows [r0, r0 + n) of a record with a block of unsigned weights ---- */

/* Where a sum over [8 q] of four elements begins; two chains, since each vi_dot waits for the one before. */
SAC_INLINE vi dot32(sac_dtype t, vi start, const vi *q, const uint8_t *x, int n_quads) {
    vi odd = vi_zero();
    for (int i = 0; i < n_quads; i += 2) {
        vi even_x = vi_set1(load_i32(x + 4 * i)), odd_x = vi_set1(load_i32(x + 4 * i + 4));
        start = t == SAC_DTYPE_Q8_0 ? vi_dot_q8(start, q[i], even_x) : vi_dot(start, q[i], even_x);
        odd = t == SAC_DTYPE_Q8_0 ? vi_dot_q8(odd, q[i + 1], odd_x) : vi_dot(odd, q[i + 1], odd_x);
    }
    return vi_add(start, odd);
}

/* An integer sum that began at MAGIC, read as a float, is 1.5 * 2^23 + sum, exactly, for |sum| < 2^22. So
 * d * sum, rounded, is one fused multiply-add: d * that - d * 1.5 * 2^23, where the last product is exact. */
enum { MAGIC = 0x4b400000 };
SAC_INLINE vf minus_magic(vf d) { return vf_mul(d, vf_set1(-0x1.8p23f)); }

SAC_INLINE void product32(sac_dtype t, const weights32 *w, const uint8_t *x, int n_panel_rows, int r0, int n,
                          vf *acc) {
    const uint8_t *d = x + 32 * n_panel_rows, *s = d + 4 * n_panel_rows;
    vf offset = minus_magic(w->d);
    for (int r = r0; r < r0 + n; r++) {
        vi start = vi_set1(t == SAC_DTYPE_Q4_1 ? MAGIC : load_i32(s + 4 * r));
        vf sum = vf_from_bits(dot32(t, start, w->q, x + 32 * r, 8));
        acc[r - r0] = vf_fma(vf_fma(w->d, sum, offset), vf_set1(load_f32(d + 4 * r)), acc[r - r0]);
    }
}

/* q4_1's other sum, of m times the sum of x. */
SAC_INLINE void product_minima(const weights32 *w, const uint8_t *x, int n_panel_rows, int r0, int n, vf *acc) {
    const uint8_t *s = x + 36 * n_panel_rows;
    for (int r = r0; r < r0 + n; r++) acc[r - r0] = vf_fma(w->m, vf_set1(load_f32(s + 4 * r)), acc[r - r0]);
}

/* dmin (sum of min x), x summed in 32s: sums of row r, int16 [8] */
SAC_INLINE vf minima(const weights256 *w, const uint8_t *sums) {
    vi sum = vi_zero();
    for (int i = 0; i < 4; i++) sum = vi_dot16(sum, w->min[i], vi_set1(load_i32(sums + 4 * i)));
    return vf_mul(w->dmin, vi_to_float(sum));
}

/* The block's share of a row's sum, from its scaled integer sums. */
SAC_INLINE vf join256(sac_dtype t, const weights256 *w, vf scaled, const uint8_t *x, int n_panel_rows, int r,
                      vf acc) {
    const uint8_t *d = x + 256 * n_panel_rows, *extra = d + 4 * n_panel_rows;
    vf v = t == SAC_DTYPE_Q4_K ? vf_msub(w->d, scaled, minima(w, extra + 16 * r)) : vf_mul(w->d, scaled);
    return vf_fma(v, vf_set1(load_f32(d + 4 * r)), acc);
}

SAC_INLINE void product256(sac_dtype t, const weights256 *w, const uint8_t *x, int n_panel_rows, int r0, int n,
                           vf *acc) {
    const uint8_t *start = x + 260 * n_panel_rows;
    for (int r = r0; r < r0 + n; r++) {
        vf scaled = vf_zero();
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = x + 32 * (g * n_panel_rows + r);
            if (t == SAC_DTYPE_Q4_K) {
                scaled = vf_fma(vi_to_float(dot32(t, vi_zero(), w->q + 8 * g, q, 8)), w->scale[g], scaled);
            } else {
                for (int h = 0; h < 2; h++) {
                    vi s = vi_set1(load_i32(start + 64 * r + 8 * g + 4 * h));
                    s = dot32(t, s, w->q + 8 * g + 4 * h, q + 16 * h, 4);
                    scaled = vf_fma(vi_to_float(s), w->scale[2 * g + h], scaled);
                }
            }
        }
        acc[r - r0] = join256(t, w, scaled, x, n_panel_rows, r, acc[r - r0]);
    }
}

SAC_INLINE void product(sac_dtype t, const void *w, const uint8_t *x, int n_panel_rows, int r0, int n, vf *acc) {
    if (is_k_quant(t))
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
SAC_LQ_ONE_COPY void finish_rows(const sac_lq_job *j, const sac_lq_columns *c, int64_t row, int n, const float *sums) {
    switch (j->a->act) { /* act a constant in each copy */
    case SAC_ACT_NONE: finish_rows_as(SAC_ACT_NONE, j, c, row, n, sums); break;
    case SAC_ACT_GELU: finish_rows_as(SAC_ACT_GELU, j, c, row, n, sums); break;
    case SAC_ACT_GELU_TANH: finish_rows_as(SAC_ACT_GELU_TANH, j, c, row, n, sums); break;
    case SAC_ACT_QUICK_GELU: finish_rows_as(SAC_ACT_QUICK_GELU, j, c, row, n, sums); break;
    case SAC_ACT_SILU: finish_rows_as(SAC_ACT_SILU, j, c, row, n, sums); break;
    }
}

/* ---- few rows ---- */

/* Bytes [at, at + n) of what comes after this group; past the end of the file a prefetch does nothing. */
SAC_INLINE void prefetch(const uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i += 64) _mm_prefetch((const char *)(at + i), _MM_HINT_T0);
}

SAC_INLINE void multiply_direct(sac_dtype t, int n_rows, const sac_lq_job *j, int64_t first, int64_t last) {
    size_t block_bytes = (size_t)block_bytes_of(t);
    int64_t n_blocks = j->k / j->block;
    for (int64_t g = first; g < last; g++) {
        sac_lq_columns c = sac_lq_column_group(j, VF, g);
        vf acc[SAC_LQ_DIRECT_ROWS], low[SAC_LQ_DIRECT_ROWS];
        for (int r = 0; r < n_rows; r++) acc[r] = low[r] = vf_zero();
        const uint8_t *next = c.w + VF * c.stride;
        for (int64_t b = 0; b < n_blocks; b++) {
            union {
                weights32 small;
                weights256 large;
            } w;
            prefetch(next + (size_t)b * VF * block_bytes, VF * block_bytes);
            unpack(t, c.w + (size_t)b * block_bytes, c.stride, false, &w);
            product(t, &w, j->x + (size_t)b * j->record_bytes, n_rows, 0, n_rows, acc);
            if (t == SAC_DTYPE_Q4_1)
                product_minima(&w.small, j->x + (size_t)b * j->record_bytes, n_rows, 0, n_rows, low);
        }
        float sums[(SAC_LQ_DIRECT_ROWS + 1) * VF];
        for (int r = 0; r < n_rows; r++) vf_store(sums + r * VF, t == SAC_DTYPE_Q4_1 ? vf_add(acc[r], low[r]) : acc[r]);
        vf_store(sums + n_rows * VF, vf_zero());
        finish_rows(j, &c, 0, n_rows, sums);
    }
}

/* ---- many rows ---- */

/* sum[panels][rows][VF] += n_blocks records of n_panels from x with as many blocks of weights */
typedef void (*panels_fn)(sac_dtype t, const sac_lq_job *j, const uint8_t *w, const uint8_t *x, int64_t n_panels,
                          int64_t n_blocks, float *sum);

/* The same for q4_1's minima. */
SAC_LQ_ONE_COPY void add_minima(const sac_lq_job *j, const weights32 *w, const uint8_t *x, int64_t n_panels,
                                int64_t n_blocks, float *low) {
    for (int64_t eight = 0; eight < n_panels * j->n_panel_rows; eight += 8, low += 8 * VF) {
        const uint8_t *panel = x + (size_t)(eight / j->n_panel_rows) * j->panel_bytes;
        vf acc[8];
        for (int r = 0; r < 8; r++) acc[r] = vf_load(low + r * VF);
        for (int64_t b = 0; b < n_blocks; b++)
            product_minima(&w[b], panel + (size_t)b * j->record_bytes, j->n_panel_rows,
                           (int)(eight % j->n_panel_rows), 8, acc);
        for (int r = 0; r < 8; r++) vf_store(low + r * VF, acc[r]);
    }
}

SAC_INLINE void multiply_panels(sac_dtype t, const sac_lq_job *j, int64_t first, int64_t last,
                                int64_t first_panel, int64_t last_panel, void *scratch, bool as_signed,
                                panels_fn add_panels) {
    enum { SUMS = (MAX_TASK_PANELS * PANEL_ROWS + 1) * VF }; /* and a vector that finish_rows may read */
    int64_t n_blocks = j->k / j->block, stretch = K_STRETCH / j->block, n_panels = last_panel - first_panel;
    int64_t first_row = first_panel * j->n_panel_rows, n_sums = n_panels * j->n_panel_rows * VF;
    int n_rows = (int)(sac_min_i64(last_panel * j->n_panel_rows, j->m) - first_row);
    const uint8_t *x = j->x + (size_t)first_panel * j->panel_bytes;
    float *sum = scratch, *low = sum + SUMS; /* [panels][rows][VF] */
    uint8_t *weights = (uint8_t *)(low + SUMS);
    for (int64_t g = first; g < last; g++) {
        sac_lq_columns c = sac_lq_column_group(j, VF, g);
        memset(sum, 0, (size_t)n_sums * sizeof *sum);
        if (t == SAC_DTYPE_Q4_1) memset(low, 0, (size_t)n_sums * sizeof *low);
        for (int64_t b0 = 0; b0 < n_blocks; b0 += stretch) {
            int64_t n = sac_min_i64(stretch, n_blocks - b0);
            for (int64_t b = 0; b < n; b++)
                unpack(t, c.w + (size_t)(b0 + b) * j->w_block_bytes, c.stride, as_signed,
                       weights + (size_t)b * weights_bytes(t));
            const uint8_t *at = x + (size_t)b0 * j->record_bytes;
            add_panels(t, j, weights, at, n_panels, n, sum);
            if (t == SAC_DTYPE_Q4_1) add_minima(j, (const void *)weights, at, n_panels, n, low);
        }
        if (t == SAC_DTYPE_Q4_1)
            for (int64_t i = 0; i < n_sums; i += VF) vf_store(sum + i, vf_add(vf_load(sum + i), vf_load(low + i)));
        finish_rows(j, &c, first_row, n_rows, sum);
    }
}

/* Eight rows of x at a time: eight sums and eight vectors of weights stay in registers. */
SAC_INLINE void vector_panels(sac_dtype t, const sac_lq_job *j, const uint8_t *w, const uint8_t *x,
                              int64_t n_panels, int64_t n_blocks, float *sum) {
    for (int64_t eight = 0; eight < n_panels * j->n_panel_rows; eight += 8, sum += 8 * VF) {
        const uint8_t *panel = x + (size_t)(eight / j->n_panel_rows) * j->panel_bytes;
        vf acc[8];
        for (int r = 0; r < 8; r++) acc[r] = vf_load(sum + r * VF);
        for (int64_t b = 0; b < n_blocks; b++)
            product(t, w + (size_t)b * weights_bytes(t), panel + (size_t)b * j->record_bytes, j->n_panel_rows,
                    (int)(eight % j->n_panel_rows), 8, acc);
        for (int r = 0; r < 8; r++) vf_store(sum + r * VF, acc[r]);
    }
}

SAC_INLINE void multiply_as(sac_dtype t, const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,
                            int64_t last_panel, void *scratch, bool as_signed, panels_fn add_panels) {
    switch (j->n_panel_rows) { /* a constant in each copy */
    case 1: multiply_direct(t, 1, j, first, last); break;
    case 2: multiply_direct(t, 2, j, first, last); break;
    case 3: multiply_direct(t, 3, j, first, last); break;
    case 4: multiply_direct(t, 4, j, first, last); break;
    default:
        multiply_panels(t, j, first, last, first_panel, last_panel, scratch, as_signed, add_panels);
    }
}

#define SAC_LQ_MULTIPLY(name, type, as_signed, add_panels)                                                   \
    static void name(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,                  \
                     int64_t last_panel, void *scratch) {                                                    \
        multiply_as(type, j, first, last, first_panel, last_panel, scratch, as_signed, add_panels);      \
    }

/* ---- activations ---- */

/* Largest |x| of n, a multiple of 16, by the bits: a NaN is above all. */
SAC_INLINE vi magnitude_lanes(const float *x, int n) {
    vi max = vi_zero();
    for (int i = 0; i < n; i += VF) max = vi_max_unsigned(max, vi_and(vi_load(x + i), vi_set1(0x7fffffff)));
    return max;
}

/* VF pieces of x of 32 elements, x_step apart, to q, q_step apart: scales and what stands beside them (q4_1's
 * sums, or where integer sums begin) in lanes. Reducing across VF vectors at once, by a transpose, costs less
 * than a reduction each. */
SAC_INLINE void quantize_pieces(sac_dtype t, const float *x, int64_t x_step, uint8_t *q, size_t q_step, vf *scale,
                                vi *beside) {
    vi rows[VF], max = vi_zero(), sum = vi_zero();
    for (int i = 0; i < VF; i++) rows[i] = magnitude_lanes(x + i * x_step, 32);
    vi_transpose(rows);
    for (int i = 0; i < VF; i++) max = vi_max_unsigned(max, rows[i]);
    float inverse[VF];
    vf d = vf_div(vf_from_bits(max), vf_set1(127));
    vf_store(inverse, vf_divide_or_zero(vf_set1(127), vf_from_bits(max)));
    for (int i = 0; i < VF; i++) {
        int8_t *to = (int8_t *)q + (size_t)i * q_step;
        rows[i] = round16_lanes(x + i * x_step, inverse[i], to);
        rows[i] = vi_add(rows[i], round16_lanes(x + i * x_step + 16, inverse[i], to + 16));
    }
    vi_transpose(rows);
    for (int i = 0; i < VF; i++) sum = vi_add(sum, rows[i]);
    *scale = vf_round_f16(d);
    if (t == SAC_DTYPE_Q4_1)
        *beside = vi_from_bits(vf_round_f16(vf_mul(d, vi_to_float(sum))));
    else
        *beside = vi_add(vi_set1(MAGIC), vi_mul(sum, vi_set1(t == SAC_DTYPE_Q8_0 ? -SAC_LQ_Q8_START : -8)));
}

/* Blocks [b, b + n) of a row, n <= VF; fewer than VF go through a copy. */
static void quantize_blocks(const sac_lq_job *j, const float *x, uint8_t *record, int r, int n) {
    float few[VF * 32], d[VF];
    int8_t q[VF * 32];
    int32_t beside[VF];
    if (n < VF) {
        memset(few, 0, sizeof few);
        memcpy(few, x, (size_t)n * 32 * sizeof *x);
        x = few;
    }
    vf scale;
    vi lanes;
    quantize_pieces(j->a->w.dtype, x, 32, (uint8_t *)q, 32, &scale, &lanes);
    vf_store(d, scale);
    vi_store(beside, lanes);
    for (int i = 0; i < n; i++, record += j->record_bytes) {
        uint8_t *at = record + 32 * j->n_panel_rows;
        memcpy(record + 32 * r, q + 32 * i, 32);
        memcpy(at + 4 * r, &d[i], 4);
        memcpy(at + 4 * (j->n_panel_rows + r), &beside[i], 4);
    }
}

SAC_INLINE void quantize256(sac_dtype t, const float *x, uint8_t *record, int n_panel_rows, int r) {
    uint32_t lanes[VF], bits = 0;
    vi_store(lanes, magnitude_lanes(x, 256));
    for (int i = 0; i < VF; i++) bits = lanes[i] > bits ? lanes[i] : bits;
    float max = load_f32(&bits), inverse = max != 0 ? 127 / max : 0, d = max != 0 ? 1 / inverse : 0;
    uint8_t *at = record + 256 * n_panel_rows, *extra = at + 4 * n_panel_rows;
    memcpy(at + 4 * r, &d, 4);
    for (int g = 0; g < 8; g++) {
        int8_t *q = (int8_t *)record + 32 * (g * n_panel_rows + r);
        int32_t sum[2];
        for (int h = 0; h < 2; h++) sum[h] = vi_sum(round16_lanes(x + 32 * g + 16 * h, inverse, q + 16 * h));
        int16_t both = (int16_t)(sum[0] + sum[1]);
        for (int h = 0; h < 2; h++) sum[h] *= -32;
        if (t == SAC_DTYPE_Q4_K)
            memcpy(extra + 16 * r + 2 * g, &both, 2);
        else
            memcpy(extra + 64 * r + 8 * g, sum, 8);
    }
}

static void quantize_row(const sac_lq_job *j, int64_t row) {
    const float *x = sac_mat_row_f32(j->a->x, row);
    uint8_t *record = j->x + (size_t)(row / j->n_panel_rows) * j->panel_bytes;
    int r = (int)(row % j->n_panel_rows);
    int64_t n_blocks = j->k / j->block;
    if (is_k_quant(j->a->w.dtype)) {
        for (int64_t b = 0; b < n_blocks; b++, record += j->record_bytes)
            quantize256(j->a->w.dtype, x + 256 * b, record, j->n_panel_rows, r);
    } else {
        for (int64_t b = 0; b < n_blocks; b += VF, record += VF * j->record_bytes)
            quantize_blocks(j, x + 32 * b, record, r, (int)sac_min_i64(VF, n_blocks - b));
    }
}

#endif
