/* nibbles.h - what q4_0 and q4_1 share: 32 elements in 16 bytes, j in the low bits of byte j, j + 16 in the high. */
#ifndef SAC_NIBBLES_H
#define SAC_NIBBLES_H

#include <stdint.h>

/* Sum of x q, q from 0 to 15. */
static inline int sac_dot_nibbles(const uint8_t *w, const int8_t *x) {
    int isum = 0;
    for (int j = 0; j < 16; j++) isum += (w[j] & 15) * x[j] + (w[j] >> 4) * x[j + 16];
    return isum;
}

#endif
