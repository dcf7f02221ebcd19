/* kv_batch.h - events of the store of beginnings as vLLM's KVEventBatch has them, for routers that send a request to where its
 * beginning is kept: BlockStored, BlockRemoved, AllBlocksCleared. In MessagePack, in either of the forms that vLLM's versions have:
 * arrays whose first value is the event's name (to 2025), or maps. */
#ifndef SERVE_KV_BATCH_H
#define SERVE_KV_BATCH_H

#include "byte_buffer.h"
#include "saccade/saccade.h"

enum { SERVE_KV_BLOCK = 64 };

typedef enum serve_kv_kind { SERVE_KV_STORED, SERVE_KV_REMOVED, SERVE_KV_CLEARED } serve_kv_kind;

/* One on its way. */
typedef struct serve_kv_event {
    struct serve_kv_event *next;
    serve_kv_kind kind;
    uint64_t hash, parent; /* the last eight bytes of keys, as vLLM shortens its own; parent where has_parent */
    bool has_parent;
    const char *adapter; /* NULL = none */
    int adapter_number;  /* from 1 on; 0 = none */
    int32_t ids[SERVE_KV_BLOCK];
    size_t n_media;
    uint64_t media[];
} serve_kv_event;

/* A copy of what a store tells; NULL without memory. Freed with free(). */
serve_kv_event *serve_kv_event_of(const sac_block_event *e);

/* Appends the batch of the first n of a list, at so many seconds of Unix time. */
void serve_kv_batch_write(serve_buffer *b, const serve_kv_event *first, size_t n, double time_s, bool as_maps);

#endif
