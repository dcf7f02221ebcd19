#include "packed_rows.h"

#include <math.h>

bool sac_packed_is_valid(const sac_packed_rows *p) {
    int d = p->head_dim;
    if (p->n < 0 || p->n > p->capacity || p->n_heads < 1 || d < 1) return false;
    if (p->bits != 2 && p->bits != 4 && p->bits != 8) return false;
    if (p->k_group % SAC_PACKED_TILE && p->k_group < p->capacity) return false;
    if (!p->v) return true;
    return p->v_group >= d ? p->v_group % d == 0 : p->v_group > 0 && p->v_group % 16 == 0;
}

/* Neighbours of a half: halves of one sign are in the order of their bits. */
static uint16_t half_down(float x) {
    uint16_t h = sac_f32_to_f16(x);
    if (sac_f16_to_f32(h) <= x) return h;
    return (h & 0x8000u) ? (uint16_t)(h + 1) : h == 0 ? (uint16_t)0x8001 : (uint16_t)(h - 1);
}
static uint16_t half_up(float x) { /* x >= 0 */
    uint16_t h = sac_f32_to_f16(x);
    return sac_f16_to_f32(h) >= x ? h : (uint16_t)(h + 1);
}

sac_packed_range sac_packed_range_of(float min, float max, int bits) {
    sac_packed_range r = {.min = half_down(min + 0.0f)}; /* no negative zero */
    float low = sac_f16_to_f32(r.min), levels = (float)((1 << bits) - 1);
    r.scale = half_up((max - low) / levels);
    if (sac_f16_to_f32(r.scale) * levels < max - low) r.scale++; /* the division was rounded down */
    return r;
}

void sac_packed_encode(const float *x, int64_t n, const float *scale, const float *min, int64_t stride,
                       int bits, uint8_t *codes) {
    float top = (float)((1 << bits) - 1);
    for (int64_t i = 0; i < n; i++) {
        float s = scale[i * stride];
        float u = s > 0 ? (x[i] - min[i * stride]) / s + 0.5f : 0.0f; /* a constant has no scale */
        codes[i] = (uint8_t)(u > 0 ? (u < top ? u : top) : 0);        /* NaN becomes 0 */
    }
}

size_t sac_packed_key_words(int n_heads, int head_dim, int bits, int64_t capacity) {
    int64_t per_word = sac_packed_per_word(bits);
    return (size_t)n_heads * (size_t)((head_dim + per_word - 1) / per_word) * (size_t)capacity;
}

size_t sac_packed_value_words(int n_heads, int head_dim, int bits, int64_t capacity) {
    int64_t per_word = sac_packed_per_word(bits);
    return (size_t)n_heads * (size_t)((capacity + per_word - 1) / per_word) * (size_t)head_dim;
}

/* Where code number i of a word lies. */
static int code_shift(int64_t i, int bits) {
    return (int)(i / 2) * bits + (i & 1 ? 16 : 0);
}

/* First word of a row's keys; the next of its words are *stride apart. */
static uint32_t *key_words(const sac_packed_rows *p, int head, int64_t row, int64_t *stride) {
    int64_t words = (p->head_dim + 32 / p->bits - 1) / (32 / p->bits);
    int64_t tile = row / SAC_PACKED_TILE * SAC_PACKED_TILE, width = p->capacity - tile;
    *stride = width < SAC_PACKED_TILE ? width : SAC_PACKED_TILE;
    return p->k + (head * p->capacity + tile) * words + (row - tile);
}

static uint32_t *value_words(const sac_packed_rows *p, int head, int64_t row) {
    int64_t per_word = sac_packed_per_word(p->bits), n = (p->capacity + per_word - 1) / per_word;
    return p->v + (head * n + row / per_word) * p->head_dim;
}

void sac_packed_put_key(const sac_packed_rows *p, int head, int64_t row, const uint8_t *codes) {
    int64_t stride, per_word = sac_packed_per_word(p->bits);
    uint32_t *words = key_words(p, head, row, &stride);
    for (int64_t c = 0; c < p->head_dim; c += per_word, words += stride) {
        uint32_t word = 0;
        for (int64_t i = 0; i < per_word && c + i < p->head_dim; i++)
            word |= (uint32_t)codes[c + i] << code_shift(i, p->bits);
        *words = word;
    }
}

void sac_packed_put_value(const sac_packed_rows *p, int head, int64_t row, const uint8_t *codes) {
    int64_t i = row % sac_packed_per_word(p->bits);
    uint32_t *words = value_words(p, head, row);
    int shift = code_shift(i, p->bits);
    for (int c = 0; c < p->head_dim; c++) words[c] = (i ? words[c] : 0) | (uint32_t)codes[c] << shift;
}

static float decode(uint32_t word, int64_t i, int bits, uint16_t scale, uint16_t min) {
    uint32_t code = word >> code_shift(i, bits) & ((1u << bits) - 1);
    return (float)code * sac_f16_to_f32(scale) + sac_f16_to_f32(min);
}

void sac_packed_get_key(const sac_packed_rows *p, int head, int64_t row, float *x) {
    int64_t stride, per_word = sac_packed_per_word(p->bits);
    const uint32_t *words = key_words(p, head, row, &stride);
    for (int c = 0; c < p->head_dim; c++) {
        int64_t at = sac_packed_key_param(p, head, row, c);
        x[c] = decode(words[c / per_word * stride], c % per_word, p->bits, p->k_scale[at], p->k_min[at]);
    }
}

void sac_packed_get_value(const sac_packed_rows *p, int head, int64_t row, float *x) {
    const uint32_t *words = value_words(p, head, row);
    for (int c = 0; c < p->head_dim; c++) {
        int64_t at = sac_packed_value_param(p, head, row, c);
        x[c] = decode(words[c], row % sac_packed_per_word(p->bits), p->bits, p->v_scale[at], p->v_min[at]);
        if (p->v_channel) x[c] *= sac_f16_to_f32(p->v_channel[head * p->head_dim + c]);
    }
}
