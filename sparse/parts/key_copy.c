#include "key_copy.h"

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
