#include "key_block.h"

#include <assert.h>

void sac_key_block_take(sac_key_block *b, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t rows = (size_t)shape->n_kv_heads * SAC_KEY_BLOCK_ROWS;
    b->head_dim = shape->head_dim;
    b->k = sac_take_device(memory, rows * (size_t)shape->head_dim * sizeof *b->k);
}

sac_status sac_key_block_load(const sac_key_block *b, const sac_layer_attention *a, int64_t first,
                              int64_t n) {
    int32_t rows[SAC_KEY_BLOCK_ROWS];
    int64_t start[2] = {0, n};
    assert(n <= SAC_KEY_BLOCK_ROWS);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)(first + i);
    sac_kv_view block = {.k = b->k,
                         .v = b->k, /* not written */
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = b->head_dim,
                         .n_rows = n,
                         .row_stride = b->head_dim,
                         .head_stride = (int64_t)SAC_KEY_BLOCK_ROWS * b->head_dim};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = block,
                                                              .src = a->kv,
                                                              .lists = &(sac_row_lists){rows, start, 1},
                                                              .keys_only = true});
}

sac_packed_rows sac_key_copy_take(const sac_attention_shape *shape, int64_t capacity, int head_dim, int bits,
                                  const sac_memory *memory) {
    size_t n_params = (size_t)shape->n_kv_heads * (size_t)capacity;
    size_t n_words = sac_packed_key_words(shape->n_kv_heads, head_dim, bits, capacity);
    sac_packed_rows copy = {
        .capacity = capacity, .n_heads = shape->n_kv_heads, .head_dim = head_dim, .bits = bits};
    copy.k = sac_take_device(memory, n_words * sizeof *copy.k);
    copy.k_scale = sac_take_device(memory, n_params * sizeof *copy.k_scale);
    copy.k_min = sac_take_device(memory, n_params * sizeof *copy.k_min);
    return copy;
}

void sac_key_copy_put(const sac_packed_rows *copy, int head, int64_t row, const float *key, uint8_t *codes) {
    float min = key[0], max = key[0];
    for (int c = 1; c < copy->head_dim; c++) {
        min = key[c] < min ? key[c] : min;
        max = key[c] > max ? key[c] : max;
    }
    sac_packed_range range = sac_packed_range_of(min, max, copy->bits);
    float scale = sac_f16_to_f32(range.scale), low = sac_f16_to_f32(range.min);
    int64_t at = sac_packed_key_param(copy, head, row, 0);
    copy->k_scale[at] = range.scale;
    copy->k_min[at] = range.min;
    sac_packed_encode(key, copy->head_dim, &scale, &low, 0, copy->bits, codes);
    sac_packed_put_key(copy, head, row, codes);
}
