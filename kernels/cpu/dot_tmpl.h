/* dot_tmpl.h - products of a few rows with keys as they lie, bound by reading the keys: each is converted in
 * registers, once for all rows. Attention of a decode step, key_scores and attention_sums share it. */
#ifndef SAC_DOT_TMPL_H
#define SAC_DOT_TMPL_H

#include "simd.h"

#define DOT_ROWS_MAX   8

/* Keys whose products, one for each row, fill a vector. */
#define DOT_KEYS(rows) (VF / (rows))

/* Keys between a load and the prefetch of what it will need: several pages' worth of streams in flight, where
 * the processor's own prefetcher stops at each page. */
#define DOT_AHEAD      32

/* each[r * DOT_KEYS(rows) + i] = q_r . k_i over d channels: VF sums over channels, added across lanes
 * together. Rows of q are padded with zeros to whole vectors. */
SAC_INLINE void dot_keys(sac_dtype t, const int rows, const float *q, int64_t q_stride, int64_t d,
                         const void *const k[VF], float each[VF]) {
    const int keys = DOT_KEYS(rows);
    vf acc[VF];
#pragma GCC unroll 16
    for (int i = 0; i < VF; i++) acc[i] = vf_zero();
    for (int64_t c = 0; c < d; c += VF) {
        vf qv[DOT_ROWS_MAX];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) qv[r] = vf_load(q + r * q_stride + c);
#pragma GCC unroll 16
        for (int i = 0; i < keys; i++) {
            vf kv = vf_load_as_part(t, k[i], c, d - c);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) acc[r * keys + i] = vf_fma(qv[r], kv, acc[r * keys + i]);
        }
    }
    vf_store(each, vf_sum_each(acc));
}

/* Calls fn(type, rows, ...) with both as constants, one copy for each. */
#define DOT_ROWS_CASES(t, rows, fn, ...)                                                                     \
    switch (rows) {                                                                                          \
    case 1: fn(t, 1, __VA_ARGS__); break;                                                                    \
    case 2: fn(t, 2, __VA_ARGS__); break;                                                                    \
    case 3: fn(t, 3, __VA_ARGS__); break;                                                                    \
    case 4: fn(t, 4, __VA_ARGS__); break;                                                                    \
    case 5: fn(t, 5, __VA_ARGS__); break;                                                                    \
    case 6: fn(t, 6, __VA_ARGS__); break;                                                                    \
    case 7: fn(t, 7, __VA_ARGS__); break;                                                                    \
    default: fn(t, 8, __VA_ARGS__); break;                                                                   \
    }
#define DOT_CASES(dtype, rows, fn, ...)                                                                      \
    switch ((int)(dtype)) {                                                                                  \
    case SAC_DTYPE_F32: DOT_ROWS_CASES(SAC_DTYPE_F32, rows, fn, __VA_ARGS__) break;                          \
    case SAC_DTYPE_F16: DOT_ROWS_CASES(SAC_DTYPE_F16, rows, fn, __VA_ARGS__) break;                          \
    default: DOT_ROWS_CASES(SAC_DTYPE_BF16, rows, fn, __VA_ARGS__) break;                                    \
    }

#endif
