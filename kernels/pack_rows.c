#include "pack_rows.h"

#include <assert.h>
#include <math.h>

static size_t element_at(const sac_kv_view *kv, int head, int64_t row) {
    return (size_t)(row * kv->row_stride + head * kv->head_stride);
}

void sac_kv_load(const sac_kv_view *kv, const void *k_or_v, int head, int64_t row, float *x) {
    size_t at = element_at(kv, head, row);
    const uint16_t *h = (const uint16_t *)k_or_v + at;
    if (kv->dtype == SAC_DTYPE_F32)
        memcpy(x, (const float *)k_or_v + at, (size_t)kv->head_dim * sizeof *x);
    else if (kv->dtype == SAC_DTYPE_F16)
        for (int c = 0; c < kv->head_dim; c++) x[c] = sac_f16_to_f32(h[c]);
    else
        for (int c = 0; c < kv->head_dim; c++) x[c] = sac_bf16_to_f32(h[c]);
}

void sac_kv_save(const sac_kv_view *kv, void *k_or_v, int head, int64_t row, const float *x) {
    size_t at = element_at(kv, head, row);
    uint16_t *h = (uint16_t *)k_or_v + at;
    if (kv->dtype == SAC_DTYPE_F32)
        memcpy((float *)k_or_v + at, x, (size_t)kv->head_dim * sizeof *x);
    else if (kv->dtype == SAC_DTYPE_F16)
        for (int c = 0; c < kv->head_dim; c++) h[c] = sac_f32_to_f16(x[c]);
    else
        for (int c = 0; c < kv->head_dim; c++) h[c] = sac_f32_to_bf16(x[c]);
}

/* ---------------------------------------------------------------- keys */

/* Ranges of rows [i, i + n) of the selection, for each channel; they become the group of row `to`. */
static void key_ranges(const sac_packed_rows *p, int head, int64_t to, const sac_kv_view *kv,
                       const sac_pack_rows *rows, int64_t i, int64_t n, float *scale, float *min) {
    float x[SAC_KV_MAX_D], max[SAC_KV_MAX_D];
    int d = p->head_dim;
    for (int64_t j = 0; j < n; j++) {
        sac_kv_load(kv, kv->k, head, sac_pack_row(rows, head, i + j), x);
        for (int c = 0; c < d; c++) {
            min[c] = j == 0 || x[c] < min[c] ? x[c] : min[c];
            max[c] = j == 0 || x[c] > max[c] ? x[c] : max[c];
        }
    }
    int64_t at = sac_packed_key_param(p, head, to, 0);
    for (int c = 0; c < d; c++) {
        sac_packed_range r = sac_packed_range_of(min[c], max[c], p->bits);
        p->k_scale[at + c] = r.scale;
        p->k_min[at + c] = r.min;
        scale[c] = sac_f16_to_f32(r.scale);
        min[c] = sac_f16_to_f32(r.min);
    }
}

static void range_of_row(const float *x, int64_t n, float *min, float *max) {
    for (int64_t c = 0; c < n; c++) {
        *min = x[c] < *min ? x[c] : *min;
        *max = x[c] > *max ? x[c] : *max;
    }
}

static void pack_keys_by_row(const sac_packed_rows *p, int64_t to, const sac_kv_view *kv,
                             const sac_pack_rows *rows) {
    float x[SAC_KV_MAX_D];
    uint8_t codes[SAC_KV_MAX_D];
    for (int head = 0; head < p->n_heads; head++)
        for (int64_t i = 0; i < rows->n; i++) {
            float min = INFINITY, max = -INFINITY;
            sac_kv_load(kv, kv->k, head, sac_pack_row(rows, head, i), x);
            range_of_row(x, p->head_dim, &min, &max);
            sac_packed_range r = sac_packed_range_of(min, max, p->bits);
            int64_t at = sac_packed_key_param(p, head, to + i, 0);
            float scale = sac_f16_to_f32(p->k_scale[at] = r.scale);
            min = sac_f16_to_f32(p->k_min[at] = r.min);
            sac_packed_encode(x, p->head_dim, &scale, &min, 0, p->bits, codes);
            sac_packed_put_key(p, head, to + i, codes);
        }
}

void sac_pack_keys(const sac_packed_rows *p, int64_t to, const sac_kv_view *kv, const sac_pack_rows *rows) {
    float x[SAC_KV_MAX_D], scale[SAC_KV_MAX_D], min[SAC_KV_MAX_D];
    uint8_t codes[SAC_KV_MAX_D];
    assert(p->head_dim <= SAC_KV_MAX_D);
    if (p->k_group == 0) {
        pack_keys_by_row(p, to, kv, rows);
        return;
    }
    for (int head = 0; head < p->n_heads; head++)
        for (int64_t i = 0; i < rows->n; i++) {
            int64_t n = rows->n - i < p->k_group ? rows->n - i : p->k_group;
            if (i % p->k_group == 0) key_ranges(p, head, to + i, kv, rows, i, n, scale, min);
            sac_kv_load(kv, kv->k, head, sac_pack_row(rows, head, i), x);
            sac_packed_encode(x, p->head_dim, scale, min, 1, p->bits, codes);
            sac_packed_put_key(p, head, to + i, codes);
        }
}

/* ---------------------------------------------------------------- values */

void sac_pack_channels(uint16_t *c, const sac_kv_view *kv, const sac_pack_rows *rows, bool more) {
    float x[SAC_KV_MAX_D], max[SAC_KV_MAX_D];
    int d = kv->head_dim;
    for (int head = 0; head < kv->n_heads; head++) {
        uint16_t *channel = c + head * d;
        for (int i = 0; i < d; i++) max[i] = 0;
        for (int64_t j = 0; j < rows->n; j++) {
            sac_kv_load(kv, kv->v, head, sac_pack_row(rows, head, j), x);
            for (int i = 0; i < d; i++) max[i] = fabsf(x[i]) > max[i] ? fabsf(x[i]) : max[i];
        }
        for (int i = 0; i < d; i++) {
            float old = more ? sac_f16_to_f32(channel[i]) : 0, new = sqrtf(max[i]);
            uint16_t h = sac_f32_to_f16(old > new ? old : new);
            channel[i] = h ? h : sac_f32_to_f16(1);
        }
    }
}

/* A row's values, divided by their channels' factors. */
static void load_values(const sac_packed_rows *p, const sac_kv_view *kv, int head, int64_t row, float *x) {
    sac_kv_load(kv, kv->v, head, row, x);
    if (!p->v_channel) return;
    for (int c = 0; c < p->head_dim; c++) x[c] /= sac_f16_to_f32(p->v_channel[head * p->head_dim + c]);
}

/* Packs channels [c, c + n) of row `to` of a head under one range. */
static void put_range(const sac_packed_rows *p, int head, int64_t to, int c, int n, const float *x, float min,
                      float max, uint8_t *codes) {
    sac_packed_range r = sac_packed_range_of(min, max, p->bits);
    int64_t at = sac_packed_value_param(p, head, to, c);
    float scale = sac_f16_to_f32(p->v_scale[at] = r.scale);
    min = sac_f16_to_f32(p->v_min[at] = r.min);
    sac_packed_encode(x + c, n, &scale, &min, 0, p->bits, codes + c);
}

/* Heads that share a range: it is that of all their channels. */
static void pack_heads(const sac_packed_rows *p, int first, int64_t to, const sac_kv_view *kv,
                       const sac_pack_rows *rows, int64_t i) {
    float x[SAC_KV_MAX_D], min = INFINITY, max = -INFINITY;
    uint8_t codes[SAC_KV_MAX_D];
    int end = first + p->v_group / p->head_dim;
    if (end > p->n_heads) end = p->n_heads;
    for (int head = first; head < end; head++) {
        load_values(p, kv, head, sac_pack_row(rows, head, i), x);
        range_of_row(x, p->head_dim, &min, &max);
    }
    for (int head = first; head < end; head++) {
        load_values(p, kv, head, sac_pack_row(rows, head, i), x);
        put_range(p, head, to + i, 0, p->head_dim, x, min, max, codes);
        sac_packed_put_value(p, head, to + i, codes);
    }
}

static void pack_groups(const sac_packed_rows *p, int head, int64_t to, const sac_kv_view *kv,
                        const sac_pack_rows *rows, int64_t i) {
    float x[SAC_KV_MAX_D];
    uint8_t codes[SAC_KV_MAX_D];
    load_values(p, kv, head, sac_pack_row(rows, head, i), x);
    for (int c = 0; c < p->head_dim; c += p->v_group) {
        int n = p->head_dim - c < p->v_group ? p->head_dim - c : p->v_group;
        float min = INFINITY, max = -INFINITY;
        range_of_row(x + c, n, &min, &max);
        put_range(p, head, to + i, c, n, x, min, max, codes);
    }
    sac_packed_put_value(p, head, to + i, codes);
}

void sac_pack_values(const sac_packed_rows *p, int64_t to, const sac_kv_view *kv, const sac_pack_rows *rows) {
    int heads_at_once = p->v_group > p->head_dim ? p->v_group / p->head_dim : 1;
    for (int64_t i = 0; i < rows->n; i++)
        for (int head = 0; head < p->n_heads; head += heads_at_once) {
            if (heads_at_once > 1)
                pack_heads(p, head, to, kv, rows, i);
            else
                pack_groups(p, head, to, kv, rows, i);
        }
}

/* ---------------------------------------------------------------- memory */

static size_t n_key_ranges(const sac_packed_rows *p) {
    if (p->k_group == 0) return (size_t)p->n_heads * (size_t)p->capacity;
    return (size_t)p->n_heads * (size_t)((p->capacity + p->k_group - 1) / p->k_group) * (size_t)p->head_dim;
}
static size_t n_value_ranges(const sac_packed_rows *p) {
    return (size_t)(sac_packed_value_groups(p->n_heads, p->head_dim, p->v_group) * p->capacity);
}

/* Ranges begin on lines of 16 bytes where memory does and codes fill lines: a device copies lines. */
static size_t on_lines(size_t n_ranges) {
    return (n_ranges + 7) / 8 * 8;
}

size_t sac_pack_bytes(const sac_packed_rows *p) {
    size_t words = sac_packed_key_words(p->n_heads, p->head_dim, p->bits, p->capacity) +
                   sac_packed_value_words(p->n_heads, p->head_dim, p->bits, p->capacity);
    return words * sizeof(uint32_t) +
           2 * (on_lines(n_key_ranges(p)) + on_lines(n_value_ranges(p))) * sizeof(uint16_t);
}

void sac_pack_place(sac_packed_rows *p, void *memory) {
    p->k = memory;
    p->v = p->k + sac_packed_key_words(p->n_heads, p->head_dim, p->bits, p->capacity);
    p->k_scale = (uint16_t *)(p->v + sac_packed_value_words(p->n_heads, p->head_dim, p->bits, p->capacity));
    p->k_min = p->k_scale + on_lines(n_key_ranges(p));
    p->v_scale = p->k_min + on_lines(n_key_ranges(p));
    p->v_min = p->v_scale + on_lines(n_value_ranges(p));
}
