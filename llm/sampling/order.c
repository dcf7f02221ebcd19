#include "order.h"

#include <string.h>

/* Rises as x falls; the zeros are one. */
static uint32_t falling_key(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

/* One digit of the keys: ids from `from` to `to`, in the order they had where digits are equal. */
static void sort_digit(const float *scores, const int32_t *from, int32_t *to, int n, int shift) {
    enum { DIGITS = 1 << 11 };
    int at[DIGITS] = {0}, sum = 0;
    for (int i = 0; i < n; i++) at[falling_key(scores[from[i]]) >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        int count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (int i = 0; i < n; i++) to[at[falling_key(scores[from[i]]) >> shift & (DIGITS - 1)]++] = from[i];
}

void sac_order_falling(const float *keys, int32_t *from, int32_t *to, int n) {
    sort_digit(keys, from, to, n, 0);
    sort_digit(keys, to, from, n, 11);
    sort_digit(keys, from, to, n, 22);
}
