/* linear_quant_x.h - rows of x rounded to 8 bits, to their place in the panels of linear_quant_job.h; the
 * same values as sac_quantize_activations gives. */
#ifndef SAC_LINEAR_QUANT_X_H
#define SAC_LINEAR_QUANT_X_H

#include "linear_quant_job.h"
#include "linear_quant_weights.h"

/* Largest |x| of n, a multiple of 16, by the bits: a NaN is above all. */
SAC_INLINE vi magnitude_lanes(const float *x, int n) {
    vi max = vi_zero();
    for (int i = 0; i < n; i += VF) max = vi_max_unsigned(max, vi_and(vi_load(x + i), vi_set1(0x7fffffff)));
    return max;
}
SAC_INLINE float magnitude(const float *x, int n) {
    uint32_t bits = vi_max_lane(magnitude_lanes(x, n));
    return load_f32(&bits);
}

/* An integer sum that began at MAGIC, read as a float, is 1.5 * 2^23 + sum, exactly, for |sum| < 2^22. So
 * d * sum, rounded, is one fused multiply-add: d * that - d * 1.5 * 2^23, where the last product is exact. */
enum { MAGIC = 0x4b400000 };
SAC_INLINE vf minus_magic(vf d) {
    return vf_mul(d, vf_set1(-0x1.8p23f));
}

/* mxfp4's d goes up to 2^127, and no further: its sums begin without MAGIC. */
SAC_INLINE int32_t magic_of(sac_dtype t) {
    return t == SAC_DTYPE_MXFP4 ? 0 : MAGIC;
}
/* d times an integer sum that began at magic_of(t); offset: minus_magic(d). */
SAC_INLINE vf scaled_sum(sac_dtype t, vf d, vf offset, vi sum) {
    return magic_of(t) ? vf_fma(d, vf_from_bits(sum), offset) : vf_mul(d, vi_to_float(sum));
}

/* How rows of x are rounded for a type: with sums or with starts, base + factor (sum of x). */
typedef struct rounding {
    bool is_large, with_sums;
    int unit;
    int32_t base, factor;
} rounding;

SAC_INLINE float round_f16(float f) {
    return _cvtsh_ss(_cvtss_sh(f, 0));
}

SAC_INLINE void quantize32(rounding to, const float *x, uint8_t *record, int n_panel_rows, int r) {
    float max = magnitude(x, 32), d = max / 127, inverse = max != 0 ? 127 / max : 0;
    int8_t *q = (int8_t *)record + 32 * r;
    int32_t sum = vi_sum(vi_add(round16_lanes(x, inverse, q), round16_lanes(x + 16, inverse, q + 16)));
    float d16 = round_f16(d), s = round_f16(d * (float)sum);
    int32_t start = to.base + to.factor * sum;
    uint8_t *scale = record + 32 * n_panel_rows + 4 * r, *beside = scale + 4 * n_panel_rows;
    memcpy(scale, &d16, 4);
    if (to.with_sums)
        memcpy(beside, &s, 4);
    else
        memcpy(beside, &start, 4);
}

/* The same for VF pieces of 32 elements, x_step apart, to q, q_step apart, with VF scales and what stands
 * beside them in vectors. Reducing VF vectors at once, by a transpose, costs less than a reduction each. */
SAC_INLINE void quantize_pieces(rounding to, const float *x, int64_t x_step, uint8_t *q, size_t q_step,
                                float *scale, uint8_t *beside) {
    vi rows[VF];
    for (int i = 0; i < VF; i++) rows[i] = magnitude_lanes(x + i * x_step, 32);
    float inverse[VF];
    vf max = vf_from_bits(vi_max_rows(rows)), d = vf_div(max, vf_set1(127));
    vf_store(inverse, vf_divide_or_zero(vf_set1(127), max));
    for (int i = 0; i < VF; i++) {
        int8_t *at = (int8_t *)q + (size_t)i * q_step;
        rows[i] = round16_lanes(x + i * x_step, inverse[i], at);
        rows[i] = vi_add(rows[i], round16_lanes(x + i * x_step + 16, inverse[i], at + 16));
    }
    vi sum = vi_sum_rows(rows);
    vf_store(scale, vf_round_f16(d));
    if (to.with_sums)
        vf_store((float *)(void *)beside, vf_round_f16(vf_mul(d, vi_to_float(sum))));
    else
        vi_store(beside, vi_add(vi_set1(to.base), vi_mul(sum, vi_set1(to.factor))));
}

/* A row's blocks: VF together, whose scales then go to a record each, and the rest one by one. */
SAC_INLINE void quantize_row32(rounding to, const sac_lq_job *j, const float *x, uint8_t *record, int r) {
    int rows = j->n_panel_rows;
    int64_t n_blocks = j->k / 32, b = 0;
    for (; b + VF <= n_blocks; b += VF) {
        float scale[VF];
        uint8_t beside[4 * VF];
        quantize_pieces(to, x + 32 * b, 32, record + 32 * r, j->record_bytes, scale, beside);
        for (int i = 0; i < VF; i++, record += j->record_bytes) {
            memcpy(record + 32 * rows + 4 * r, &scale[i], 4);
            memcpy(record + 36 * rows + 4 * r, beside + 4 * i, 4);
        }
    }
    for (; b < n_blocks; b++, record += j->record_bytes) quantize32(to, x + 32 * b, record, rows, r);
}

/* A whole panel, block by block: VF rows together, whose scales lie side by side. */
SAC_INLINE void quantize_panel32(rounding to, const sac_lq_job *j, const float *x, uint8_t *panel) {
    int64_t x_step = j->a->x.stride;
    int rows = j->n_panel_rows;
    for (int64_t b = 0; b < j->k / 32; b++, panel += j->record_bytes)
        for (int r = 0; r < rows; r += VF)
            quantize_pieces(to, x + r * x_step + 32 * b, x_step, panel + 32 * r, 32,
                            (float *)(void *)(panel + 32 * rows) + r, panel + 36 * rows + 4 * r);
}

SAC_INLINE void quantize256(rounding to, const float *x, uint8_t *record, int n_panel_rows, int r) {
    float max = magnitude(x, 256), inverse = max != 0 ? 127 / max : 0, d = max != 0 ? 1 / inverse : 0;
    uint8_t *scale = record + 256 * n_panel_rows, *extra = scale + 4 * n_panel_rows;
    memcpy(scale + 4 * r, &d, 4);
    for (int g = 0; g < 8; g++) {
        int8_t *q = (int8_t *)record + 32 * (g * n_panel_rows + r);
        int32_t sum[2];
        for (int h = 0; h < 2; h++) sum[h] = vi_sum(round16_lanes(x + 32 * g + 16 * h, inverse, q + 16 * h));
        if (to.unit == 32) sum[0] += sum[1];
        for (int u = 0; u < 32 / to.unit; u++) {
            int unit = 32 / to.unit * g + u, at = 256 / to.unit * r + unit;
            int16_t small = (int16_t)sum[u];
            int32_t start = to.factor * sum[u];
            if (to.with_sums)
                memcpy(extra + 2 * at, &small, 2);
            else
                memcpy(extra + 4 * at, &start, 4);
        }
    }
}

SAC_INLINE void quantize_as(rounding to, const sac_lq_job *j, int64_t panel) {
    int rows = j->n_panel_rows;
    uint8_t *records = j->x + (size_t)panel * j->panel_bytes;
    int n = (int)sac_min_i64(rows, j->m - panel * rows);
    if (n < rows) memset(records, 0, j->panel_bytes);
    if (!to.is_large && n % VF == 0) {
        quantize_panel32(to, j, sac_mat_row_f32(j->a->x, panel * rows), records);
        return;
    }
    for (int r = 0; r < n; r++) {
        const float *x = sac_mat_row_f32(j->a->x, panel * rows + r);
        if (!to.is_large)
            quantize_row32(to, j, x, records, r);
        else
            for (int64_t b = 0; b < j->k / 256; b++)
                quantize256(to, x + 256 * b, records + (size_t)b * j->record_bytes, rows, r);
    }
}

/* A copy for each kind of records. */
static void quantize_panel(const sac_lq_job *j, int64_t panel) {
    sac_dtype t = j->a->w.tensor.dtype;
    sac_lq_format f = sac_lq_format_of(t);
    int32_t base = magic_of(t), factor = -(f.above == SAC_LQ_EIGHT_BITS ? SAC_LQ_Q8_START : f.above);
    if (f.block == 32 && f.has_minima)
        quantize_as((rounding){false, true, 32, 0, 0}, j, panel);
    else if (f.block == 32)
        quantize_as((rounding){false, false, 32, base, factor}, j, panel);
    else if (f.has_minima && f.unit == 32)
        quantize_as((rounding){true, true, 32, 0, 0}, j, panel);
    else if (f.has_minima)
        quantize_as((rounding){true, true, 16, 0, 0}, j, panel);
    else if (f.unit == 32)
        quantize_as((rounding){true, false, 32, 0, factor}, j, panel);
    else
        quantize_as((rounding){true, false, 16, 0, factor}, j, panel);
}

#endif
