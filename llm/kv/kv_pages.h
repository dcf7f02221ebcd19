/* kv_pages.h - what differs of a cache whose rows are in pages; private to llm/kv. */
#ifndef SAC_LLM_KV_PAGES_H
#define SAC_LLM_KV_PAGES_H

#include "kv_cache.h"

/* From a row of a layer to the next. */
size_t sac_kv_paged_row_bytes(const sac_kv_cache *c);

/* Of the layer at `data`. */
sac_kv_view sac_kv_paged_view(const sac_kv_cache *c, uint8_t *data, int64_t n_rows);

/* A layer's first n rows have memory, of which the cache has taken as much. */
sac_status sac_kv_pages_map_layer(sac_kv_cache *c, const sac_stream *stream, int layer, int64_t n);

/* As sac_kv_cache_copy, once there is room. */
sac_status sac_kv_pages_copy(sac_kv_cache *to, const sac_kv_cache *from, const sac_stream *stream, int64_t first, int64_t n);

/* Rows [first, first + n) of every layer to the block, of n_block rows a layer, or from there. */
sac_status sac_kv_pages_exchange(const sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, uint8_t *block,
                                 int64_t n_block, bool to_block);

/* Of a packed format, all that is packed: so many bytes, layer behind layer. */
size_t sac_kv_pages_packed_bytes(const sac_kv_cache *c);
sac_status sac_kv_pages_exchange_packed(const sac_kv_cache *c, const sac_stream *stream, uint8_t *block, bool to_block);

#endif
