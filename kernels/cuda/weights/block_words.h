/* block_words.h - what packing in block_layout.h's order shares: words of four elements, and where a row has its own. */
#ifndef SAC_CUDA_BLOCK_WORDS_H
#define SAC_CUDA_BLOCK_WORDS_H

#include "block_layout.h"

#define LOW_HALVES  0x0f0f0f0fu
#define HIGH_HALVES 0xf0f0f0f0u

static inline uint32_t word_at(const uint8_t *p, int i) {
    uint32_t w;
    memcpy(&w, p + 4 * i, 4);
    return w;
}
/* Of bytes 0 to 3, the second and third change places: neighbours lie a half apart. */
static inline void put_word(uint8_t *p, int i, uint32_t w) {
    w = (w & 0xff0000ffu) | (w & 0x0000ff00u) << 8 | (w & 0x00ff0000u) >> 8;
    memcpy(p + 4 * i, &w, 4);
}

/* What four lanes have of a row's chunk lies 16 bytes apart: lane t's words at 4t and on.
 *
 * Two blocks of 32 bytes. */
static inline void put_bytes(uint8_t *to, const uint8_t *a, const uint8_t *b) {
    for (int t = 0; t < 4; t++) {
        put_word(to, 4 * t, word_at(a, t));
        put_word(to, 4 * t + 1, word_at(a, 4 + t));
        put_word(to, 4 * t + 2, word_at(b, t));
        put_word(to, 4 * t + 3, word_at(b, 4 + t));
    }
}
/* Two blocks of 16 bytes, whose byte j has elements j and j + 16. */
static inline void put_halves(uint8_t *to, const uint8_t *a, const uint8_t *b) {
    for (int t = 0; t < 4; t++) {
        put_word(to, 4 * t, word_at(a, t));
        put_word(to, 4 * t + 1, word_at(b, t));
    }
}
/* 32 bytes, A in the low halves, B in the high. */
static inline void put_turned(uint8_t *to, const uint8_t *q) {
    for (int t = 0; t < 4; t++) {
        const uint32_t first = word_at(q, t), second = word_at(q, 4 + t);
        put_word(to, 4 * t, (first & LOW_HALVES) | (second & LOW_HALVES) << 4);
        put_word(to, 4 * t + 1, (first & HIGH_HALVES) >> 4 | (second & HIGH_HALVES));
    }
}

/* The parts of a tile's stretch, and which row of it. */
typedef struct place {
    uint8_t *part[SAC_N_BLOCK_PARTS];
    int row;
} place;

/* 16 bytes of the first of four lanes, line `of` of so many for rows g, and as many for rows g + 8. */
static inline uint8_t *lanes_at(const place *p, sac_layout_part part, int line, int n_lines) {
    return p->part[part] + ((p->row / 8 * n_lines + line) * 32 + p->row % 8 * 4) * 16;
}
static inline uint8_t *four_bits_at(const place *p, int chunk) {
    return lanes_at(p, SAC_BLOCK_CODES, chunk / 2, 2) + chunk % 2 * 8;
}
#endif
