/* attention_dot_tmpl.h - the two products of attention for a few rows, bound by reading K and V: both are
 * converted in registers, once for all rows of a tile (eight at most). Part of attention_tmpl.h. */
#include "dot_tmpl.h"

/* Vectors of channels mixed at a time: as many sums as registers hold. */
#ifdef __AVX512F__
#define MIX_VECTORS(rows) ((rows) > 4 ? 2 : 4)
#else
#define MIX_VECTORS(rows) ((rows) > 3 ? 2 : 4)
#endif

/* Asks for K of the key DOT_AHEAD further and for V of this one, which the mix reads next; `bytes` of each. */
SAC_INLINE void prefetch_key(const attention_state *st, int64_t key, size_t bytes) {
    const char *v = key_address(st, st->t.v, key);
    const char *k = key_address(st, st->t.k, sac_min_i64(key + DOT_AHEAD, st->t.key_end - 1));
    for (size_t i = 0; i < bytes; i += 64) {
        _mm_prefetch(k + i, _MM_HINT_T0);
        _mm_prefetch(v + i, _MM_HINT_T0);
    }
}

/* rows x DOT_KEYS(rows) scores, one vector of them at a time: VF sums over channels, added across lanes
 * together. Keys past the end repeat the last; nobody looks at their scores. */
SAC_INLINE void dot_scores(const attention_state *st, sac_dtype t, const int rows, const float *q,
                           int64_t key0, int64_t first, int64_t end, float *scores) {
    const int keys = DOT_KEYS(rows);
    const size_t key_bytes = sac_dtype_row_bytes(t, st->d);
    for (int64_t j = first; j < end; j += keys) {
        const void *k[VF];
        float each[VF];
        for (int i = 0; i < keys; i++) k[i] = key_address(st, st->t.k, key0 + sac_min_i64(j + i, end - 1));
        for (int i = 0; i < keys; i++)
            prefetch_key(st, key0 + sac_min_i64(j + i, end - 1), key_bytes);
        dot_keys(t, rows, q, st->d_pad, st->d, k, each);
        for (int r = 0; r < rows; r++)
            memcpy(scores + r * SCORE_STRIDE + j, each + r * keys, (size_t)keys * sizeof(float));
    }
}

/* o[row][c ..] = o * rescale + weights v, n_vectors of channels (the last of them may be a part). */
SAC_INLINE void direct_mix(const attention_state *st, sac_dtype t, const int rows, const int n_vectors,
                           int64_t c, const attention_tile *tile, const float *rescale) {
    vf acc[DOT_ROWS_MAX][4];
    float *o = st->o + tile->row * st->d_pad + c;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            acc[r][v] = vf_mul(vf_load(o + r * st->d_pad + v * VF), vf_set1(rescale[r]));
    for (int64_t j = tile->first; j < tile->end; j++) {
        const char *value = key_address(st, st->t.v, tile->key0 + j);
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            vf vv =
                n_vectors > 1 ? vf_load_as(t, value, c + v * VF) : vf_load_as_part(t, value, c, st->d - c);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                acc[r][v] = vf_fma(vf_set1(st->scores[r * SCORE_STRIDE + j]), vv, acc[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) vf_store(o + r * st->d_pad + v * VF, acc[r][v]);
}

SAC_INLINE void dot_scores_rows(sac_dtype t, const int rows, const attention_state *st,
                                const attention_tile *tile) {
    dot_scores(st, t, rows, st->q + tile->row * st->d_pad, tile->key0, tile->first / VF * VF, tile->end,
               st->scores);
}

SAC_INLINE void direct_mix_rows(sac_dtype t, const int rows, const attention_state *st,
                                const attention_tile *tile, const float *rescale) {
    const int n = MIX_VECTORS(rows);
    int64_t c = 0;
    for (; c + n * VF <= st->d; c += n * VF) direct_mix(st, t, rows, n, c, tile, rescale);
    for (; c < st->d; c += VF) direct_mix(st, t, rows, 1, c, tile, rescale);
}

static void scores_dot(const attention_state *st, const attention_tile *tile) {
    DOT_CASES(st->dtype, tile->n, dot_scores_rows, st, tile)
}

static void mix_direct(const attention_state *st, const attention_tile *tile, const float *rescale) {
    DOT_CASES(st->dtype, tile->n, direct_mix_rows, st, tile, rescale)
}
