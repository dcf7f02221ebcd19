#include "bind_values.h"

sac_status sac_bind_take(sac_value_binder *b, const char *name, size_t n_bytes, void **out) {
    if (!b->arena) {
        b->n_bytes += sac_arena_block_bytes(n_bytes);
        return SAC_OK;
    }
    *out = sac_arena_take(b->arena, n_bytes);
    if (*out) return SAC_OK;
    return sac_fail(b->err, SAC_INTERNAL, "the model's arena is too small for %.100s", name);
}
