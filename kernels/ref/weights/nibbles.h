/* nibbles.h - codes of four and of two bits as GGUF's formats pack them, to a byte each. */
#ifndef SAC_NIBBLES_H
#define SAC_NIBBLES_H

#include <stdint.h>

/* 2 n codes in n bytes: j in the low bits of byte j, j + n in the high. */
static inline void sac_unpack_nibbles(const uint8_t *from, int n, int8_t *to) {
    for (int j = 0; j < n; j++) {
        to[j] = (int8_t)(from[j] & 15);
        to[j + n] = (int8_t)(from[j] >> 4);
    }
}

/* 256 codes in 64 bytes: of each half of 128, j, j + 32, j + 64 and j + 96 share a byte. */
static inline void sac_unpack_two_bits(const uint8_t *from, int8_t *to) {
    for (int half = 0; half < 2; half++, from += 32, to += 128)
        for (int part = 0; part < 4; part++)
            for (int j = 0; j < 32; j++) to[32 * part + j] = (int8_t)(from[j] >> (2 * part) & 3);
}

/* Adds `value` to n elements, to j where bit j of the bytes is set. */
static inline void sac_add_bits(const uint8_t *bits, int n, int value, int8_t *to) {
    for (int j = 0; j < n; j++) to[j] = (int8_t)(to[j] + (bits[j / 8] >> (j % 8) & 1) * value);
}
/* The same of 256 elements, where j, j + 32 and so on share a byte. */
static inline void sac_add_bit_rows(const uint8_t *bits, int value, int8_t *to) {
    for (int row = 0; row < 8; row++)
        for (int j = 0; j < 32; j++)
            to[32 * row + j] = (int8_t)(to[32 * row + j] + (bits[j] >> row & 1) * value);
}

static inline void sac_add_to_all(int n, int value, int8_t *to) {
    for (int j = 0; j < n; j++) to[j] = (int8_t)(to[j] + value);
}

#endif
