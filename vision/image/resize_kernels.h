/* resize_kernels.h - the two inner loops of resize.c, in plain C, for AVX2 and for AVX-512 with VNNI; results are
 * the same to the bit. */
#ifndef SAC_VISION_RESIZE_KERNELS_H
#define SAC_VISION_RESIZE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Weights of one direction. Output i is made of taps[i] inputs from first[i] on; its weights stand at
 * [i * n_taps_max], zeros behind the taps. A weight w is high * 2^11 + low with 0 <= low < 2^11, so that both
 * halves fit the 16-bit multiply-add; torch's weights fit one, then low is NULL and high is w. */
typedef struct sac_resize_axis {
    int n_out;
    int n_taps_max; /* a multiple of 4 */
    int32_t *first, *taps;
    int16_t *high, *low;
    /* The same weights for kernels that read digits, NULL for others: [n_out][n_taps_max / 4][SAC_RESIZE_DIGITS][4],
     * so that w is the sum of digit d * 2^(8 * (SAC_RESIZE_DIGITS - 1 - d)). */
    int8_t *digits;
    int fraction_bits; /* of w */
} sac_resize_axis;

#define SAC_RESIZE_LOW_BITS  11
#define SAC_RESIZE_DIGITS    3 /* to +-1.98 with 22 fraction bits; no filter has a weight above 1.3 */
#define SAC_RESIZE_MAX_ROWS  4  /* of one horizontal call */
#define SAC_RESIZE_ROW_SLACK 16 /* bytes that kernels may read or write behind a row */

typedef struct sac_resize_kernels {
    const char *name;
    /* out[r] [n_out][3] from row[r] [n_in][3], for r < n_rows <= SAC_RESIZE_MAX_ROWS. Rows on both sides have
     * SAC_RESIZE_ROW_SLACK further bytes, and room for taps up to a multiple of 4. */
    void (*horizontal)(const sac_resize_axis *a, uint8_t *const *out, const uint8_t *const *row, int n_rows);
    /* out [n_bytes] = output i of the axis from row[0..taps[i]). No slack. */
    void (*vertical)(const sac_resize_axis *a, int i, uint8_t *out, const uint8_t *const *row,
                     size_t n_bytes);
    bool reads_digits;
} sac_resize_kernels;

extern const sac_resize_kernels sac_resize_ref;
/* On x86-64, where sac_cpu_flags says so. */
extern const sac_resize_kernels sac_resize_avx2;
extern const sac_resize_kernels sac_resize_vnni;

/* (sum_high * 2^11 + sum_low + 1/2) without its fraction, clipped. Sums wrap as int32 does in Pillow; real
 * pictures stay far from that. */
static inline uint8_t sac_resize_round(int32_t sum, int fraction_bits) {
    int32_t v = sum >> fraction_bits;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

#endif
