#include "block_layout.h"

#include "quants.h"

/* Bytes of a stretch's parts; 0: there is no such part. */
static const int sizes_of[SAC_N_DTYPES][SAC_N_BLOCK_PARTS] = {
    [SAC_DTYPE_Q8_0] = {256, 0, 16, 0},  [SAC_DTYPE_Q4_0] = {128, 0, 16, 0},
    [SAC_DTYPE_Q4_1] = {128, 0, 32, 0},  [SAC_DTYPE_Q4_K] = {128, 0, 16, 0},
    [SAC_DTYPE_Q6_K] = {128, 64, 16, 2},
};

bool sac_block_layout_has(sac_dtype t, int64_t k) {
    return sizes_of[t][SAC_BLOCK_CODES] != 0 && k > 0 && k % sac_dtype_block(t) == 0;
}

sac_block_layout sac_block_layout_of(sac_dtype t, int64_t n, int64_t k) {
    sac_block_layout l = {{0}, {0}};
    int64_t at = 0;
    for (int p = 0; p < SAC_N_BLOCK_PARTS; p++) {
        l.at[p] = at;
        l.row_bytes[p] = (k + SAC_BLOCK_STRETCH - 1) / SAC_BLOCK_STRETCH * sizes_of[t][p];
        at += n * l.row_bytes[p];
    }
    return l;
}

size_t sac_block_layout_bytes(sac_dtype t, int64_t n, int64_t k) {
    const sac_block_layout l = sac_block_layout_of(t, 1, k);
    int64_t row = 0;
    for (int p = 0; p < SAC_N_BLOCK_PARTS; p++) row += l.row_bytes[p];
    return (size_t)(n * row);
}

/* ---------------------------------------------------------------- words of four elements */

#define LOW_HALVES  0x0f0f0f0fu
#define HIGH_HALVES 0xf0f0f0f0u
#define TWO_BITS    0x03030303u

static uint32_t word_at(const uint8_t *p, int i) {
    uint32_t w;
    memcpy(&w, p + 4 * i, 4);
    return w;
}
/* Of bytes 0 to 3, the second and third change places: neighbours lie a half apart. */
static void put_word(uint8_t *p, int i, uint32_t w) {
    w = (w & 0xff0000ffu) | (w & 0x0000ff00u) << 8 | (w & 0x00ff0000u) >> 8;
    memcpy(p + 4 * i, &w, 4);
}

/* Two blocks of 32 bytes. */
static void put_bytes(uint8_t *to, const uint8_t *a, const uint8_t *b) {
    for (int t = 0; t < 4; t++) {
        put_word(to, 4 * t, word_at(a, t));
        put_word(to, 4 * t + 1, word_at(a, 4 + t));
        put_word(to, 4 * t + 2, word_at(b, t));
        put_word(to, 4 * t + 3, word_at(b, 4 + t));
    }
}
/* Two blocks of 16 bytes, whose byte j has elements j and j + 16. */
static void put_halves(uint8_t *to, const uint8_t *a, const uint8_t *b) {
    for (int t = 0; t < 4; t++) {
        put_word(to, 2 * t, word_at(a, t));
        put_word(to, 2 * t + 1, word_at(b, t));
    }
}
/* 32 bytes, A in the low halves, B in the high. */
static void put_turned(uint8_t *to, const uint8_t *q) {
    for (int t = 0; t < 4; t++) {
        const uint32_t first = word_at(q, t), second = word_at(q, 4 + t);
        put_word(to, 2 * t, (first & LOW_HALVES) | (second & LOW_HALVES) << 4);
        put_word(to, 2 * t + 1, (first & HIGH_HALVES) >> 4 | (second & HIGH_HALVES));
    }
}

/* A half of a q6_k block, 128 elements: elements l and l + 64 share byte l of 64, and l, l + 32, l + 64 and l + 96 byte
 * l of 32. */
static void put_q6_k(uint8_t *codes, uint8_t *high, int half, const sac_block_q6_k *b) {
    const uint8_t *low = b->low + 64 * half, *top = b->high + 32 * half;
    for (int chunk = 0; chunk < 2; chunk++)
        for (int t = 0; t < 4; t++) {
            uint32_t w[4], h[2];
            for (int i = 0; i < 4; i++) w[i] = word_at(low, 4 * i + t) >> (4 * chunk) & LOW_HALVES;
            for (int i = 0; i < 2; i++) h[i] = word_at(top, 4 * i + t) >> (4 * chunk);
            uint8_t *to = codes + 32 * (2 * half + chunk);
            put_word(to, 2 * t, w[0] | w[1] << 4);
            put_word(to, 2 * t + 1, w[2] | w[3] << 4);
            put_word(high, 4 * t + 2 * half + chunk,
                     (h[0] & TWO_BITS) | (h[1] & TWO_BITS) << 2 | (h[0] >> 2 & TWO_BITS) << 4 |
                         (h[1] >> 2 & TWO_BITS) << 6);
        }
}

/* ---------------------------------------------------------------- rows */

/* A row's parts of the matrix that is written. */
typedef uint8_t *row_parts[SAC_N_BLOCK_PARTS];

/* Behind a row's last block, up to a whole stretch. */
static const uint8_t zeros[32];

static int64_t whole_stretches(int64_t k) {
    return (k + SAC_BLOCK_STRETCH - 1) / SAC_BLOCK_STRETCH * SAC_BLOCK_STRETCH;
}

static void pack_q8_0(const void *from, int64_t k, row_parts to) {
    const sac_block_q8_0 *b = from;
    const int64_t n = k / 32;
#define CODES(i) (i < n ? (const uint8_t *)b[i].q : zeros)
    for (int64_t i = 0; i < whole_stretches(k) / 32; i++) {
        if (i % 2 == 0) put_bytes(to[SAC_BLOCK_CODES] + 32 * i, CODES(i), CODES(i + 1));
        memcpy(to[SAC_BLOCK_SCALES] + 2 * i, i < n ? (const void *)&b[i].d : zeros, 2);
    }
}
static void pack_q4_0(const void *from, int64_t k, row_parts to) {
    const sac_block_q4_0 *b = from;
    const int64_t n = k / 32;
    for (int64_t i = 0; i < whole_stretches(k) / 32; i++) {
        if (i % 2 == 0) put_halves(to[SAC_BLOCK_CODES] + 16 * i, CODES(i), CODES(i + 1));
        memcpy(to[SAC_BLOCK_SCALES] + 2 * i, i < n ? (const void *)&b[i].d : zeros, 2);
    }
}
static void pack_q4_1(const void *from, int64_t k, row_parts to) {
    const sac_block_q4_1 *b = from;
    const int64_t n = k / 32;
    for (int64_t i = 0; i < whole_stretches(k) / 32; i++) {
        if (i % 2 == 0) put_halves(to[SAC_BLOCK_CODES] + 16 * i, CODES(i), CODES(i + 1));
        memcpy(to[SAC_BLOCK_SCALES] + 4 * i, i < n ? (const void *)&b[i].d : zeros, 4);
    }
}
#undef CODES
static void pack_q4_k(const void *from, int64_t k, row_parts to) {
    const sac_block_q4_k *b = from;
    for (int64_t i = 0; i < k / 256; i++) {
        for (int c = 0; c < 4; c++) put_turned(to[SAC_BLOCK_CODES] + 128 * i + 32 * c, b[i].q + 32 * c);
        memcpy(to[SAC_BLOCK_SCALES] + 16 * i, &b[i], 16);
    }
}
static void pack_q6_k(const void *from, int64_t k, row_parts to) {
    const sac_block_q6_k *b = from;
    for (int64_t i = 0; i < k / 256; i++) {
        for (int half = 0; half < 2; half++)
            put_q6_k(to[SAC_BLOCK_CODES] + 128 * i, to[SAC_BLOCK_HIGH] + 64 * i, half, &b[i]);
        memcpy(to[SAC_BLOCK_SCALES] + 16 * i, b[i].scales, 16);
        memcpy(to[SAC_BLOCK_MORE] + 2 * i, &b[i].d, 2);
    }
}

void sac_block_layout_pack(sac_dtype t, int64_t n, int64_t k, const void *from, void *to) {
    static void (*const pack[SAC_N_DTYPES])(const void *, int64_t, row_parts) = {
        [SAC_DTYPE_Q8_0] = pack_q8_0, [SAC_DTYPE_Q4_0] = pack_q4_0, [SAC_DTYPE_Q4_1] = pack_q4_1,
        [SAC_DTYPE_Q4_K] = pack_q4_k, [SAC_DTYPE_Q6_K] = pack_q6_k,
    };
    const sac_block_layout l = sac_block_layout_of(t, n, k);
    const size_t stored = sac_dtype_row_bytes(t, k);
    for (int64_t r = 0; r < n; r++) {
        row_parts parts;
        for (int p = 0; p < SAC_N_BLOCK_PARTS; p++) parts[p] = (uint8_t *)to + l.at[p] + r * l.row_bytes[p];
        pack[t]((const uint8_t *)from + (size_t)r * stored, k, parts);
    }
}
