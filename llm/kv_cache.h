/* kv_cache.h - keys and values of every layer of one session.
 *
 * Layout of a layer: K [kv_heads][n_ctx][head_dim], then V the same: a head's rows are contiguous, as decode
 * reads them. */
#ifndef SAC_LLM_KV_CACHE_H
#define SAC_LLM_KV_CACHE_H

#include "arena.h"
#include "kvquant.h"
#include "ops.h"

typedef struct sac_kv_cache {
    const sac_kv_format *format;
    int n_layers, n_heads, head_dim;
    int64_t n_ctx;
    int64_t n_rows; /* tokens stored, the same in every layer */
    uint8_t *data;  /* [n_layers][2][n_heads][n_ctx][head_dim] */
    size_t layer_bytes;
} sac_kv_cache;

size_t sac_kv_cache_bytes(int n_layers, int n_heads, int head_dim, int64_t n_ctx,
                          const sac_kv_format *format);
sac_status sac_kv_cache_init(sac_kv_cache *c, int n_layers, int n_heads, int head_dim, int64_t n_ctx,
                             const sac_kv_format *format, sac_arena *arena, sac_error *err);

/* The first n_rows rows of a layer. */
sac_kv_view sac_kv_cache_view(const sac_kv_cache *c, int layer, int64_t n_rows);

#endif
