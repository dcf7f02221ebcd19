/* tile_tmpl.h - bodies of the tile products (see tile.h). */
#include "simd.h"
#include "tile.h"

#ifdef __AVX512F__
#define TILE_ROWS SAC_TILE_ROWS_AVX512
#else
#define TILE_ROWS SAC_TILE_ROWS_AVX2
#endif

/* rows and n_vectors are constants where this is inlined, so the loops over them vanish and acc lives in
 * registers. Rows are reached from every third one by + 0, 1, 2 strides, which x86 addresses without extra
 * instructions. */
SAC_INLINE void tile_product(const int rows, const int n_vectors, int64_t k, const float *a, int64_t a_stride,
                             const float *b, int64_t b_stride, float *c, int64_t c_stride,
                             const float *rescale) {
    vf acc[TILE_ROWS][2];
    const float *third[(TILE_ROWS + 2) / 3];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        if (i % 3 == 0) third[i / 3] = a + i * a_stride;
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            acc[i][v] = rescale ? vf_mul(vf_load(c + i * c_stride + v * VF), vf_set1(rescale[i])) : vf_zero();
    }
    for (int64_t p = 0; p < k; p++) {
        vf bv[2];
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++) bv[v] = vf_load(b + p * b_stride + v * VF);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vf av = vf_set1(third[i / 3][i % 3 * a_stride + p]);
#pragma GCC unroll 2
            for (int v = 0; v < n_vectors; v++) acc[i][v] = vf_fma(av, bv[v], acc[i][v]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++) vf_store(c + i * c_stride + v * VF, acc[i][v]);
}

#define TILE(rows, n_vectors)                                                                                \
    static void tile_##rows##x##n_vectors(int64_t k, const float *a, int64_t a_stride, const float *b,       \
                                          int64_t b_stride, float *c, int64_t c_stride,                      \
                                          const float *rescale) {                                            \
        tile_product(rows, n_vectors, k, a, a_stride, b, b_stride, c, c_stride, rescale);                    \
    }
#ifdef __AVX512F__
#define ALL_TILES(X, v)                                                                                      \
    X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v)
#else
#define ALL_TILES(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#endif
ALL_TILES(TILE, 1)
ALL_TILES(TILE, 2)

#define NAME(rows, n_vectors) tile_##rows##x##n_vectors,
const sac_tile_fn SAC_ISA(sac_tiles)[2][TILE_ROWS] = {{ALL_TILES(NAME, 1)}, {ALL_TILES(NAME, 2)}};

/* 16 bytes of VF rows. Halves are transposed as pairs, which moves two of them for the price of one, and
 * parted after. */
SAC_INLINE void pack_block(sac_dtype t, const void *const row[VF], size_t offset, float *out, int width) {
    vi v[4];
    vi_load_columns(row, offset, v);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        if (t == SAC_DTYPE_F32) {
            vf_store(out + i * width, vf_from_bits(v[i]));
        } else {
            vf_store(out + 2 * i * width, t == SAC_DTYPE_F16 ? vf_f16_low(v[i]) : vf_bf16_low(v[i]));
            vf_store(out + (2 * i + 1) * width, t == SAC_DTYPE_F16 ? vf_f16_high(v[i]) : vf_bf16_high(v[i]));
        }
    }
}

/* VF columns of a panel. The end of the rows, less than a block, is copied into zeros first. */
SAC_INLINE void pack_columns(sac_dtype t, const void *const row[VF], int64_t k, float *out, int width) {
    const size_t element = t == SAC_DTYPE_F32 ? 4 : 2;
    const int64_t step = 16 / (int64_t)element;
    int64_t p = 0;
    for (; p + step <= k; p += step) pack_block(t, row, (size_t)p * element, out + p * width, width);
    if (p == k) return;
    uint32_t rest[VF][4] = {{0}};
    const void *rest_row[VF];
    for (int i = 0; i < VF; i++) {
        memcpy(rest[i], (const char *)row[i] + (size_t)p * element, (size_t)(k - p) * element);
        rest_row[i] = rest[i];
    }
    pack_block(t, rest_row, 0, out + p * width, width);
}

void SAC_ISA(sac_pack)(sac_dtype t, const void *const *row, int64_t n, int64_t k, float *out, int width) {
    for (int j = 0; j < width; j += VF) {
        const void *column[VF];
        for (int i = 0; i < VF; i++) column[i] = row[j + i < n ? j + i : n - 1];
        switch ((int)t) { /* t a constant in each copy */
        case SAC_DTYPE_F32: pack_columns(SAC_DTYPE_F32, column, k, out + j, width); break;
        case SAC_DTYPE_F16: pack_columns(SAC_DTYPE_F16, column, k, out + j, width); break;
        default: pack_columns(SAC_DTYPE_BF16, column, k, out + j, width); break;
        }
    }
}
