/* parts.h - what formats with scales apart share. */
#ifndef SAC_REF_PARTS_H
#define SAC_REF_PARTS_H

#include "weight.h"

#include <stdbool.h>

static inline bool sac_ref_is_float(sac_dtype t) {
    return t == SAC_DTYPE_F32 || t == SAC_DTYPE_F16 || t == SAC_DTYPE_BF16;
}

/* Element i of a tensor of floats. */
static inline float sac_ref_scale(const sac_tensor *s, int64_t i) {
    if (s->dtype == SAC_DTYPE_F32) return ((const float *)s->data)[i];
    uint16_t h = ((const uint16_t *)s->data)[i];
    return s->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

/* Whether scales are [rows][groups], or, where `rows` is not 1, one row for all. */
static inline bool sac_ref_holds_scales(const sac_weight *w, int64_t rows, int64_t k) {
    const sac_tensor *s = &w->scales;
    if (w->group < 1 || !s->data || !sac_ref_is_float(s->dtype)) return false;
    return s->dim[1] == (k + w->group - 1) / w->group && (s->dim[0] == rows || s->dim[0] == 1);
}

/* Number i of `bits` bits, 4 or 8, in words of 32, little endian, the first in the lowest bits. */
static inline int sac_ref_packed(const void *words, int64_t i, int bits) {
    const uint8_t *bytes = words;
    return bits == 8 ? bytes[i] : bytes[i / 2] >> (i % 2 * 4) & 15;
}

#endif
