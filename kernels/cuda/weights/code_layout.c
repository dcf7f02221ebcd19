#include "code_layout.h"

#include "block_words.h"
#include "ref/weights/packed_zero.h"
#include "ref/weights/parts.h"

#include <math.h>
#include <stdlib.h>

static int group_of(const sac_weight *w, int64_t input) {
    int32_t g;
    memcpy(&g, (const uint8_t *)w->order.data + 4 * input, 4);
    return g;
}

/* Where each input goes when they are sorted by groups, or, with `input` in its place, which one is where. */
static bool sort_inputs(const sac_weight *w, int32_t *places, int32_t *input) {
    const int64_t k = w->tensor.dim[1], n_groups = (k + w->group - 1) / w->group;
    int64_t *next = malloc((size_t)n_groups * sizeof *next);
    bool fits = next != NULL && k <= INT32_MAX;
    for (int64_t g = 0; fits && g < n_groups; g++) next[g] = g * w->group;
    for (int64_t i = 0; fits && i < k; i++) {
        const int g = group_of(w, i);
        fits = g >= 0 && g < n_groups && next[g] < (g + 1) * w->group && next[g] < k;
        if (!fits) break;
        if (places) places[i] = (int32_t)next[g];
        if (input) input[next[g]] = (int32_t)i;
        next[g]++;
    }
    free(next);
    return fits;
}

static bool is_in_f16(const sac_weight *w);

/* FP8 whose checkpoint has x rounded to FP8, with scales of rows or of blocks of 128 x 128. */
static bool is_e4m3_rows(const sac_weight *w) {
    const int64_t k = w->tensor.dim[1];
    if (w->order.data || k % 16 || k < 128) return false;
    switch (w->x_rounding) {
    case SAC_X_FP8_STATIC:
    case SAC_X_FP8_ROWS: return w->group >= k && w->group_rows <= 1 && (w->x_rounding == SAC_X_FP8_ROWS || w->x_scale != 0);
    case SAC_X_FP8_GROUPS: return w->group == 128 && w->group_rows == 128 && k > 128;
    default: return false;
    }
}

bool sac_code_layout_is_plain(const sac_device *d) {
    const bool has_room = !d->shared_bytes || d->shared_bytes >= 64 << 10; /* of few_e4m3.cu's ring */
    return d->compute == 90 && !d->no_e4m3 && has_room;
}

sac_dtype sac_code_layout_type(const sac_weight *w, bool plain) {
    const int64_t k = w->tensor.dim[1], group = w->group;
    const bool by_128 = group >= k || group % 128 == 0;
    if (k < 1 || k % 8 || group < 1 || (w->order.data && !sort_inputs(w, NULL, NULL))) return SAC_N_DTYPES;
    switch ((int)w->tensor.dtype) {
    case SAC_DTYPE_AWQ:
    case SAC_DTYPE_GPTQ_4:
    case SAC_DTYPE_PACKED_4:
        return by_128            ? SAC_DTYPE_C4_128
               : group % 64 == 0 ? SAC_DTYPE_C4_64
               : group % 32 == 0 ? SAC_DTYPE_C4_32
                                 : SAC_N_DTYPES;
    case SAC_DTYPE_GPTQ_8:
    case SAC_DTYPE_PACKED_8:
    case SAC_DTYPE_I8: return by_128 ? SAC_DTYPE_C8_128 : group % 32 == 0 ? SAC_DTYPE_C8_32 : SAC_N_DTYPES;
    case SAC_DTYPE_NF4:
        return by_128 || group % 64 == 0 ? SAC_DTYPE_NF4_64
               : group % 32 == 0         ? SAC_DTYPE_NF4_32
                                         : SAC_N_DTYPES;
    case SAC_DTYPE_FP4:
        return by_128 || group % 32 == 0 ? SAC_DTYPE_E2M1_32 : group % 16 == 0 ? SAC_DTYPE_E2M1_16 : SAC_N_DTYPES;
    case SAC_DTYPE_FP8: return plain && is_e4m3_rows(w) ? SAC_DTYPE_E4M3_ROWS : by_128 ? SAC_DTYPE_E4M3_128 : SAC_N_DTYPES;
    case SAC_DTYPE_HQQ_4: return group % 32 == 0 && k % 32 == 0 && is_in_f16(w) ? SAC_DTYPE_Q4_1 : SAC_N_DTYPES;
    default: return SAC_N_DTYPES;
    }
}

/* ---------------------------------------------------------------- a row's scales and zeros */

static const uint8_t awq_at[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* which nibble of its word an output has */

static int awq_nibble(const uint8_t *word, int64_t output) {
    const int at = awq_at[output % 8];
    return word[at / 2] >> (at % 2 * 4) & 15;
}

/* Which scale row j has in group g. */
static int64_t scale_at(const sac_weight *w, int64_t j, int64_t g) {
    const int64_t n = w->tensor.dim[0];
    if (w->format == SAC_WEIGHT_AWQ || w->format == SAC_WEIGHT_GPTQ) return g * n + j;
    if (w->scales.dim[0] == 1) return g;
    return (w->group_rows ? j / w->group_rows : j) * w->scales.dim[1] + g;
}

static float float_at(const sac_tensor *s, int64_t at) {
    float f;
    uint16_t h;
    if (s->dtype == SAC_DTYPE_F32) {
        memcpy(&f, (const uint8_t *)s->data + 4 * at, 4);
        return f;
    }
    memcpy(&h, (const uint8_t *)s->data + 2 * at, 2);
    return s->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

/* HQQ's d and m; a zero's place is its scale's. */
static float minimum_of(const sac_weight *w, int64_t at) {
    return -float_at(&w->scales, at) * float_at(&w->zeros, at);
}
static bool is_in_f16(const sac_weight *w) {
    const float most = 65504, least = 0x1p-14f; /* of those with all their bits */
    for (int64_t i = 0; i < w->scales.dim[0] * w->scales.dim[1]; i++) {
        const float d = fabsf(float_at(&w->scales, i));
        if (!(d <= most) || (d > 0 && d < least) || !(fabsf(minimum_of(w, i)) <= most)) return false;
    }
    return true;
}

/* As code_layout.h has it. */
static int zero_of(const sac_weight *w, int64_t j, int64_t g) {
    const int64_t n = w->tensor.dim[0];
    const int8_t *signed_zeros = w->zeros.data;
    switch ((int)w->tensor.dtype) {
    case SAC_DTYPE_AWQ: return awq_nibble((const uint8_t *)w->zeros.data + (g * n + j / 8 * 8) / 2, j);
    case SAC_DTYPE_GPTQ_4: return (sac_ref_packed(w->zeros.data, g * n + j, 4) + w->zero_add) & 15;
    case SAC_DTYPE_GPTQ_8: return ((sac_ref_packed(w->zeros.data, g * n + j, 8) + w->zero_add) & 255) - 128;
    case SAC_DTYPE_PACKED_4: return sac_packed_zero(w, j, g);
    case SAC_DTYPE_PACKED_8: return sac_packed_zero(w, j, g) - 128;
    default: return signed_zeros ? signed_zeros[scale_at(w, j, g)] : 0; /* i8 */
    }
}

static uint32_t word_of(const sac_weight *w, int64_t j, int64_t g) {
    const int64_t at = scale_at(w, j, g);
    const float scale = float_at(&w->scales, at);
    uint32_t u;
    if (w->format == SAC_WEIGHT_HQQ) return sac_f32_to_f16(scale) | (uint32_t)sac_f32_to_f16(minimum_of(w, at)) << 16;
    memcpy(&u, &scale, 4);
    if (w->format == SAC_WEIGHT_FP8 || w->format == SAC_WEIGHT_NF4 || w->format == SAC_WEIGHT_FP4) return u;
    u += 0x7fu + (u >> 8 & 1);
    return (u & 0xffffff00u) | (uint8_t)zero_of(w, j, g);
}

/* ---------------------------------------------------------------- codes, a byte each */

/* Codes of a tile's rows, [16][stretch], of the rows from `first` on. */
typedef struct tile {
    const sac_weight *w;
    int64_t first, n_rows, stride;
    uint8_t *codes;
    const int32_t *place; /* of each input, or NULL: their own */
} tile;

/* Outputs of a word at a time; n is a multiple of 8. */
static void take_awq(const tile *t) {
    const int64_t n = t->w->tensor.dim[0], k = t->w->tensor.dim[1];
    const uint8_t *numbers = t->w->tensor.data;
    for (int64_t c = 0; c < k; c++)
        for (int64_t r = 0; r < t->n_rows; r += 8) {
            const uint8_t *word = numbers + (c * n + t->first + r) / 2;
            for (int64_t i = 0; i < 8; i++) t->codes[(r + i) * t->stride + c] = (uint8_t)awq_nibble(word, i);
        }
}

static void take_gptq(const tile *t) {
    const int64_t n = t->w->tensor.dim[0], k = t->w->tensor.dim[1];
    const int in_word = t->w->tensor.dtype == SAC_DTYPE_GPTQ_8 ? 4 : 8;
    for (int64_t c = 0; c < k; c += in_word)
        for (int64_t r = 0; r < t->n_rows; r++) {
            const uint8_t *word = (const uint8_t *)t->w->tensor.data + (c / in_word * n + t->first + r) * 4;
            for (int i = 0; i < in_word; i++) {
                const int code = in_word == 4 ? word[i] ^ 0x80 : word[i / 2] >> (i % 2 * 4) & 15;
                t->codes[r * t->stride + (t->place ? t->place[c + i] : c + i)] = (uint8_t)code;
            }
        }
}

/* Formats whose rows follow one another. */
static void take_rows(const tile *t) {
    const int64_t k = t->w->tensor.dim[1];
    const sac_dtype type = t->w->tensor.dtype;
    for (int64_t r = 0; r < t->n_rows; r++) {
        const uint8_t *from = (const uint8_t *)t->w->tensor.data + (t->first + r) * k / sac_dtype_block(type);
        uint8_t *to = t->codes + r * t->stride;
        if (type == SAC_DTYPE_PACKED_4 || type == SAC_DTYPE_FP4 || type == SAC_DTYPE_HQQ_4)
            for (int64_t c = 0; c < k / 2; c++) to[2 * c] = from[c] & 15, to[2 * c + 1] = from[c] >> 4;
        else if (type == SAC_DTYPE_NF4)
            for (int64_t c = 0; c < k / 2; c++) to[2 * c] = from[c] >> 4, to[2 * c + 1] = from[c] & 15;
        else if (type == SAC_DTYPE_PACKED_8)
            for (int64_t c = 0; c < k; c++) to[c] = from[c] ^ 0x80;
        else
            memcpy(to, from, (size_t)k);
    }
}

static void take_codes(const tile *t) {
    if (t->w->format == SAC_WEIGHT_AWQ)
        take_awq(t);
    else if (t->w->format == SAC_WEIGHT_GPTQ)
        take_gptq(t);
    else
        take_rows(t);
}

/* ---------------------------------------------------------------- a matrix */

/* A byte an element: what put_turned has of two elements a byte. */
static void put_four(uint8_t *to, const uint8_t *codes) {
    uint8_t halves[32];
    for (int i = 0; i < 32; i++) halves[i] = (uint8_t)(codes[i] | codes[32 + i] << 4);
    put_turned(to, halves);
}

static void pack_row(const tile *t, int row, sac_dtype type, const sac_block_layout *l, int64_t stretch,
                     uint8_t *to) {
    const int64_t n_words = l->bytes[SAC_BLOCK_SCALES] / SAC_BLOCK_TILE / 4,
                  unit = SAC_BLOCK_STRETCH / n_words, k = t->w->tensor.dim[1],
                  at = (t->first / SAC_BLOCK_TILE) * l->n_stretches + stretch;
    const uint8_t *codes = t->codes + row * t->stride + stretch * SAC_BLOCK_STRETCH;
    place here = {.row = row};
    for (int p = 0; p < SAC_N_BLOCK_PARTS; p++) here.part[p] = to + l->at[p] + at * l->bytes[p];
    for (int c = 0; c < SAC_BLOCK_STRETCH / SAC_BLOCK_CHUNK; c++, codes += SAC_BLOCK_CHUNK)
        if (l->bytes[SAC_BLOCK_CODES] == SAC_BLOCK_TILE * SAC_BLOCK_STRETCH)
            put_bytes(lanes_at(&here, SAC_BLOCK_CODES, c, 4), codes, codes + 32);
        else
            put_four(four_bits_at(&here, c), codes);
    codes -= SAC_BLOCK_STRETCH;
    for (int64_t i = 0; i < n_words; i++) {
        const int64_t element = stretch * SAC_BLOCK_STRETCH + i * unit;
        uint32_t word =
            row < t->n_rows && element < k ? word_of(t->w, t->first + row, element / t->w->group) : 0;
        for (int64_t e = 0; type == SAC_DTYPE_E4M3_128 && e < unit; e++)
            if ((codes[i * unit + e] & 0x7f) == 0x7f) word = 0x7fc00000u;
        memcpy(here.part[SAC_BLOCK_SCALES] + (row * n_words + i) * 4, &word, 4);
    }
}

/* e4m3_rows: codes of a tile's rows, and scales, of a tile's rows or of the block of 128 that begins with it. */
static void pack_plain(const tile *t, const sac_block_layout *l, uint8_t *to) {
    const int64_t pitch = l->n_stretches * SAC_BLOCK_STRETCH, k = t->w->tensor.dim[1], of_row = (k + 511) / 512 * 4;
    float *scales = (float *)(void *)(to + l->at[SAC_BLOCK_SCALES]);
    for (int row = 0; row < SAC_BLOCK_TILE; row++) {
        memcpy(to + (t->first + row) * pitch, t->codes + row * t->stride, (size_t)pitch);
        if (t->w->x_rounding != SAC_X_FP8_GROUPS)
            scales[t->first + row] = row < t->n_rows ? float_at(&t->w->scales, scale_at(t->w, t->first + row, 0)) : 0;
    }
    if (t->w->x_rounding == SAC_X_FP8_GROUPS && t->first % 128 == 0)
        for (int64_t g = 0; g < of_row; g++)
            scales[t->first / 128 * of_row + g] = g * 128 < k ? float_at(&t->w->scales, scale_at(t->w, t->first, g)) : 0;
}

sac_status sac_code_layout_pack(const sac_weight *w, sac_dtype type, void *to, int32_t *input) {
    const int64_t n = w->tensor.dim[0], k = w->tensor.dim[1];
    const sac_block_layout l = sac_block_layout_of(type, n, k);
    tile t = {.w = w,
              .stride = l.n_stretches * SAC_BLOCK_STRETCH + 64 /* rows on lines of their own in the cache */};
    const size_t n_codes = (size_t)(SAC_BLOCK_TILE * t.stride);
    int32_t *place_of = w->order.data ? malloc((size_t)k * sizeof *place_of) : NULL;
    t.codes = malloc(n_codes);
    if (!t.codes || (w->order.data && (!place_of || !sort_inputs(w, place_of, input)))) {
        free(t.codes);
        free(place_of);
        return SAC_NO_MEMORY;
    }
    t.place = place_of;
    for (; t.first < n; t.first += SAC_BLOCK_TILE) {
        t.n_rows = n - t.first < SAC_BLOCK_TILE ? n - t.first : SAC_BLOCK_TILE;
        memset(t.codes, 0, n_codes);
        take_codes(&t);
        if (type == SAC_DTYPE_E4M3_ROWS) {
            pack_plain(&t, &l, to);
            continue;
        }
        for (int row = 0; row < SAC_BLOCK_TILE; row++)
            for (int64_t s = 0; s < l.n_stretches; s++) pack_row(&t, row, type, &l, s, to);
    }
    free(t.codes);
    free(place_of);
    return SAC_OK;
}
