#include "kv_cache.h"

size_t sac_kv_cache_bytes(int n_layers, int n_heads, int head_dim, int64_t n_ctx,
                          const sac_kv_format *format) {
    return (size_t)n_layers * 2 * (size_t)n_heads * format->rows_bytes(n_ctx, head_dim);
}

sac_status sac_kv_cache_init(sac_kv_cache *c, int n_layers, int n_heads, int head_dim, int64_t n_ctx,
                             const sac_kv_format *format, sac_arena *arena, sac_error *err) {
    *c = (sac_kv_cache){
        .format = format, .n_layers = n_layers, .n_heads = n_heads, .head_dim = head_dim, .n_ctx = n_ctx};
    c->layer_bytes = sac_kv_cache_bytes(1, n_heads, head_dim, n_ctx, format);
    c->data = sac_arena_take(arena, c->layer_bytes * (size_t)n_layers);
    if (!c->data) return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the KV cache");
    return SAC_OK;
}

sac_kv_view sac_kv_cache_view(const sac_kv_cache *c, int layer, int64_t n_rows) {
    uint8_t *k = c->data + (size_t)layer * c->layer_bytes;
    return (sac_kv_view){
        .k = k,
        .v = k + c->layer_bytes / 2,
        .dtype = c->format->dtype,
        .n_heads = c->n_heads,
        .head_dim = c->head_dim,
        .n_rows = n_rows,
        .row_stride = c->head_dim,
        .head_stride = c->n_ctx * c->head_dim,
    };
}
