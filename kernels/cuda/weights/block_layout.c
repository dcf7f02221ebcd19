#include "block_layout.h"

#include "block_words.h"
#include "quants.h"
#include "weight.h"

/* Bytes of a row's stretch, part by part; 0: there is no such part. */
static const int sizes_of[SAC_N_DTYPES][SAC_N_BLOCK_PARTS] = {
    [SAC_DTYPE_Q8_0] = {256, 0, 16, 0},    [SAC_DTYPE_Q4_0] = {128, 0, 16, 0},
    [SAC_DTYPE_Q4_1] = {128, 0, 32, 0},    [SAC_DTYPE_Q5_0] = {128, 32, 16, 0},
    [SAC_DTYPE_Q5_1] = {128, 32, 32, 0},   [SAC_DTYPE_IQ4_NL] = {128, 0, 16, 0},
    [SAC_DTYPE_MXFP4] = {128, 0, 8, 0},    [SAC_DTYPE_Q2_K] = {64, 0, 16, 4},
    [SAC_DTYPE_Q3_K] = {64, 32, 12, 2},    [SAC_DTYPE_Q4_K] = {128, 0, 16, 0},
    [SAC_DTYPE_Q5_K] = {128, 32, 16, 0},   [SAC_DTYPE_Q6_K] = {128, 64, 16, 2},
    [SAC_DTYPE_IQ4_XS] = {128, 0, 8, 0},   [SAC_DTYPE_C4_32] = {128, 0, 32, 0},
    [SAC_DTYPE_C4_64] = {128, 0, 16, 0},   [SAC_DTYPE_C4_128] = {128, 0, 8, 0},
    [SAC_DTYPE_C8_32] = {256, 0, 32, 0},   [SAC_DTYPE_C8_128] = {256, 0, 8, 0},
    [SAC_DTYPE_E4M3_128] = {256, 0, 8, 0}, [SAC_DTYPE_NF4_64] = {128, 0, 16, 0},
    [SAC_DTYPE_NF4_32] = {128, 0, 32, 0},  [SAC_DTYPE_E2M1_16] = {128, 0, 64, 0},
    [SAC_DTYPE_E2M1_32] = {128, 0, 32, 0}, [SAC_DTYPE_E4M3_ROWS] = {256, 0, 8, 0},
};

static int64_t tiles_of(int64_t n) {
    return (n + SAC_BLOCK_TILE - 1) / SAC_BLOCK_TILE;
}
static int64_t stretches_of(int64_t k) {
    return (k + SAC_BLOCK_STRETCH - 1) / SAC_BLOCK_STRETCH;
}

bool sac_block_layout_has(sac_dtype t, int64_t k) {
    const int whole = t >= SAC_DTYPE_C4_32 ? 8 : sac_dtype_block(t);
    return sizes_of[t][SAC_BLOCK_CODES] != 0 && k > 0 && k % whole == 0;
}

sac_block_layout sac_block_layout_of(sac_dtype t, int64_t n, int64_t k) {
    sac_block_layout l = {.n_stretches = stretches_of(k)};
    int64_t at = 0;
    for (int p = 0; p < SAC_N_BLOCK_PARTS; p++) {
        l.at[p] = at;
        l.bytes[p] = SAC_BLOCK_TILE * sizes_of[t][p];
        at += tiles_of(n) * l.n_stretches * l.bytes[p];
    }
    return l;
}

size_t sac_block_layout_bytes(sac_dtype t, int64_t n, int64_t k) {
    const sac_block_layout l = sac_block_layout_of(t, n, k);
    int64_t stretch = 0;
    for (int p = 0; p < SAC_N_BLOCK_PARTS; p++) stretch += l.bytes[p];
    return (size_t)(tiles_of(n) * l.n_stretches * stretch);
}

/* ---------------------------------------------------------------- words of four elements */

#define TWO_BITS 0x03030303u
#define ONE_BIT  0x01010101u

/* Chunk c of two bits an element: of each half of 128, l, l + 32, l + 64 and l + 96 share byte l of 32. */
static uint32_t two_bits_of(const uint8_t *q, int c, int t) {
    uint32_t w[2];
    for (int i = 0; i < 2; i++) w[i] = word_at(q + 32 * (c / 2), 4 * i + t) >> (4 * (c % 2));
    return (w[0] & TWO_BITS) | (w[1] & TWO_BITS) << 2 | (w[0] >> 2 & TWO_BITS) << 4 |
           (w[1] >> 2 & TWO_BITS) << 6;
}
/* Bits of a group's two steps, each the first of its byte, to where they are in the word of two chunks. */
static uint32_t bits_of(uint32_t first, uint32_t second, int group) {
    return ((first & ONE_BIT) | (second & ONE_BIT) << 1) << (group % 4 * 2);
}
/* The lowest four bits of v to a byte each. */
static uint32_t spread(uint32_t v) {
    return (v & 15) * 0x00204081u & ONE_BIT;
}

/* ---------------------------------------------------------------- a row's stretch */

/* Lane t's bits apart, a word each for two chunks. */
static void put_bits(const place *p, int t, const uint32_t words[2]) {
    uint8_t *to = p->part[SAC_BLOCK_HIGH] + (p->row * 4 + t) * 8;
    put_word(to, 0, words[0]);
    put_word(to, 1, words[1]);
}
static void put_scales(const place *p, sac_layout_part part, int at, const void *from, int n_bytes,
                       int row_bytes) {
    memcpy(p->part[part] + p->row * row_bytes + at, from, (size_t)n_bytes);
}

/* `left` blocks of the row are left; zeros stand behind them. */
static const uint8_t zeros[32];
#define BLOCK(i) ((i) < left ? (const void *)&b[i] : zeros)
#define CODES(i) ((i) < left ? (const uint8_t *)b[i].q : zeros)
#define BITS(i)  ((i) < left ? (const uint8_t *)b[i].high : zeros)

static void pack_q8_0(const void *from, int64_t left, const place *to) {
    const sac_block_q8_0 *b = from;
    for (int c = 0; c < 4; c++)
        put_bytes(lanes_at(to, SAC_BLOCK_CODES, c, 4), CODES(2 * c), CODES(2 * c + 1));
    for (int i = 0; i < 8; i++) put_scales(to, SAC_BLOCK_SCALES, 2 * i, BLOCK(i), 2, 16);
}

/* Blocks of 32 with codes of four bits, and a head of so many bytes that goes to the scales. */
#define PACK_FOUR_BITS(name, block, head_bytes)                                                              \
    static void pack_##name(const void *from, int64_t left, const place *to) {                               \
        const block *b = from;                                                                               \
        for (int c = 0; c < 4; c++) put_halves(four_bits_at(to, c), CODES(2 * c), CODES(2 * c + 1));         \
        for (int i = 0; i < 8; i++)                                                                          \
            put_scales(to, SAC_BLOCK_SCALES, (head_bytes)*i, BLOCK(i), head_bytes, 8 * (head_bytes));        \
    }
PACK_FOUR_BITS(q4_0, sac_block_q4_0, 2)
PACK_FOUR_BITS(q4_1, sac_block_q4_1, 4)
PACK_FOUR_BITS(iq4_nl, sac_block_iq4_nl, 2)
PACK_FOUR_BITS(mxfp4, sac_block_mxfp4, 1)
PACK_FOUR_BITS(q5_0_low, sac_block_q5_0, 2)
PACK_FOUR_BITS(q5_1_low, sac_block_q5_1, 4)

/* Bit j of a block's 32 is element j's. */
#define PACK_FIVE_BITS(name, block)                                                                          \
    static void pack_##name(const void *from, int64_t left, const place *to) {                               \
        const block *b = from;                                                                               \
        pack_##name##_low(from, left, to);                                                                   \
        for (int t = 0; t < 4; t++) {                                                                        \
            uint32_t words[2] = {0};                                                                         \
            for (int g = 0; g < 8; g++) {                                                                    \
                const uint32_t bits = word_at(BITS(g), 0) >> (4 * t);                                        \
                words[g / 4] |= bits_of(spread(bits), spread(bits >> 16), g);                                \
            }                                                                                                \
            put_bits(to, t, words);                                                                          \
        }                                                                                                    \
    }
PACK_FIVE_BITS(q5_0, sac_block_q5_0)
PACK_FIVE_BITS(q5_1, sac_block_q5_1)
#undef BLOCK
#undef CODES
#undef BITS

/* Bits apart of blocks of 256: j, j + 32 and so on share byte j of 32. */
static void put_bit_rows(const place *to, const uint8_t *high) {
    for (int t = 0; t < 4; t++) {
        uint32_t words[2] = {0};
        for (int g = 0; g < 8; g++)
            words[g / 4] |= bits_of(word_at(high, t) >> g, word_at(high, 4 + t) >> g, g);
        put_bits(to, t, words);
    }
}
static void put_two_bits(const place *to, const uint8_t *q, sac_layout_part part) {
    for (int t = 0; t < 4; t++)
        for (int c = 0; c < 4; c++) put_word(lanes_at(to, part, 0, 1), 4 * t + c, two_bits_of(q, c, t));
}

static void pack_q2_k(const void *from, int64_t left, const place *to) {
    const sac_block_q2_k *b = from;
    (void)left;
    put_two_bits(to, b->q, SAC_BLOCK_CODES);
    put_scales(to, SAC_BLOCK_SCALES, 0, b->scales, 16, 16);
    put_scales(to, SAC_BLOCK_MORE, 0, &b->d, 4, 4);
}
static void pack_q3_k(const void *from, int64_t left, const place *to) {
    const sac_block_q3_k *b = from;
    (void)left;
    put_two_bits(to, b->q, SAC_BLOCK_CODES);
    put_bit_rows(to, b->high);
    put_scales(to, SAC_BLOCK_SCALES, 0, b->scales, 12, 12);
    put_scales(to, SAC_BLOCK_MORE, 0, &b->d, 2, 2);
}
static void pack_q4_k(const void *from, int64_t left, const place *to) {
    const sac_block_q4_k *b = from;
    (void)left;
    for (int c = 0; c < 4; c++) put_turned(four_bits_at(to, c), b->q + 32 * c);
    put_scales(to, SAC_BLOCK_SCALES, 0, b, 16, 16);
}
static void pack_q5_k(const void *from, int64_t left, const place *to) {
    const sac_block_q5_k *b = from;
    (void)left;
    for (int c = 0; c < 4; c++) put_turned(four_bits_at(to, c), b->q + 32 * c);
    put_bit_rows(to, b->high);
    put_scales(to, SAC_BLOCK_SCALES, 0, b, 16, 16);
}
/* Of each half of 128 elements, l and l + 64 share byte l of 64 of the low bits. */
static void pack_q6_k(const void *from, int64_t left, const place *to) {
    const sac_block_q6_k *b = from;
    (void)left;
    for (int c = 0; c < 4; c++) {
        const uint8_t *low = b->low + 64 * (c / 2);
        uint8_t *codes = four_bits_at(to, c);
        for (int t = 0; t < 4; t++) {
            uint32_t w[4];
            for (int i = 0; i < 4; i++) w[i] = word_at(low, 4 * i + t) >> (4 * (c % 2)) & LOW_HALVES;
            put_word(codes, 4 * t, w[0] | w[1] << 4);
            put_word(codes, 4 * t + 1, w[2] | w[3] << 4);
        }
    }
    put_two_bits(to, b->high, SAC_BLOCK_HIGH);
    put_scales(to, SAC_BLOCK_SCALES, 0, b->scales, 16, 16);
    put_scales(to, SAC_BLOCK_MORE, 0, &b->d, 2, 2);
}
static void pack_iq4_xs(const void *from, int64_t left, const place *to) {
    const sac_block_iq4_xs *b = from;
    (void)left;
    for (int c = 0; c < 4; c++) put_halves(four_bits_at(to, c), b->q + 32 * c, b->q + 32 * c + 16);
    put_scales(to, SAC_BLOCK_SCALES, 0, b, 8, 8);
}

void sac_block_layout_pack(sac_dtype t, int64_t n, int64_t k, const void *from, void *to) {
    static void (*const pack[SAC_N_DTYPES])(const void *, int64_t, const place *) = {
#define X(constant, name) [SAC_DTYPE_##constant] = pack_##name,
        SAC_BLOCK_FORMATS(X)
#undef X
    };
    const sac_block_layout l = sac_block_layout_of(t, n, k);
    const int64_t n_blocks = k / sac_dtype_block(t), each = SAC_BLOCK_STRETCH / sac_dtype_block(t);
    const size_t stored = sac_dtype_row_bytes(t, k), block_bytes = stored / (size_t)n_blocks;
    for (int p = 0; n % SAC_BLOCK_TILE && p < SAC_N_BLOCK_PARTS; p++) { /* rows that are not there */
        const int64_t bytes = l.n_stretches * l.bytes[p];
        memset((uint8_t *)to + l.at[p] + n / SAC_BLOCK_TILE * bytes, 0, (size_t)bytes);
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t s = 0; s < l.n_stretches; s++) {
            place here = {.row = (int)(r % SAC_BLOCK_TILE)};
            for (int p = 0; p < SAC_N_BLOCK_PARTS; p++)
                here.part[p] =
                    (uint8_t *)to + l.at[p] + (r / SAC_BLOCK_TILE * l.n_stretches + s) * l.bytes[p];
            pack[t]((const uint8_t *)from + (size_t)r * stored + (size_t)(s * each) * block_bytes,
                    n_blocks - s * each, &here);
        }
}
