/* kv_cache.h - keys and values of every layer of one session.
 *
 * A plain format: each layer holds K [kv_heads][capacity][head_dim], then V the same; a head's rows are
 * contiguous, as decode reads them. A packed format: its own memory, one such layer as staging area for the
 * layer that a prefill works on, and a short plain tail for each layer (kvquant.h).
 *
 * A plain format in pages (page_pool.h): a layer is a plane with memory for the rows that are there and some ahead. A row has the
 * keys of all heads, then the values of all, [capacity][keys, values][kv_heads][head_dim], so that few rows need few pages.
 *
 * A packed format in pages (kvquant.h): a layer's packed rows are a plane, with memory for those that are there and for the most that
 * rows to come may take; tails and staging area are as without pages. Nobody else has its pages: a prompt attends to its own rows before they
 * are packed, and to earlier ones as they come back from few bits, so that rows taken over would change its answer. */
#ifndef SAC_LLM_KV_CACHE_H
#define SAC_LLM_KV_CACHE_H

#include "arena.h"
#include "kvquant.h"
#include "page_pool.h"

typedef struct sac_kv_cache {
    sac_kv_choice choice;
    const sac_attention_shape *shape;
    sac_dtype dtype;     /* of plain rows: the format's; but on a GPU the queries' type where both are 16-bit
                            types, because attention is fastest there when all are of one type */
    int64_t n_rows;      /* tokens of the sequence */
    int64_t *layer_rows; /* [n_layers] plain rows that a layer holds: fewer when a method dropped some; of a
                            packed format those of the tail */
    int64_t capacity;    /* rows of a plain layer, or of the staging area */
    int64_t tail;        /* rows of a packed format's tails */
    uint8_t *data;       /* plain: [n_layers] layers; packed: [n_layers] tails */
    uint8_t *staging;    /* of a packed format: one layer, lent while a prompt runs; else NULL */
    size_t layer_bytes;
    void *packing; /* a packed format's state */
    sac_page_pool *pool;    /* of the pages, or NULL */
    sac_page_planes planes; /* then of the layers; data of a plain format is where they begin. The cache stays where it is */
    bool anew;              /* rows that are held may go before others are made: room is asked for all of them */
} sac_kv_cache;

/* shape must live as long as the cache. n_spare rows beyond shape->n_ctx, for tokens computed again. */
sac_status sac_kv_cache_open(sac_kv_cache *c, const sac_kv_choice *choice, const sac_attention_shape *shape,
                             int64_t n_spare, sac_error *err);
/* Right after that: its rows are in pages of the pool, which outlives it. */
void sac_kv_cache_use_pages(sac_kv_cache *c, sac_page_pool *pool);
/* Takes their addresses; nothing without pages. */
sac_status sac_kv_cache_reserve(sac_kv_cache *c, sac_error *err);
/* Of so many rows of every layer in pages; of a packed format the most that any take, once it is planned. */
size_t sac_kv_cache_paged_bytes(const sac_kv_cache *c, int64_t n_rows);

/* Memory for n_rows rows of every layer, in the stream's order (on the CPU it may be NULL); without pages it is there. Whoever
 * writes rows asks before. NO_MEMORY: the pool has too few, and the rows are as they were; pages behind them
 * that others have too may have gone. */
sac_status sac_kv_cache_make_room(sac_kv_cache *c, const sac_stream *stream, int64_t n_rows, sac_error *err);
/* The same of a prompt: a layer has it where it belongs once sac_kv_cache_begin_layer was called for it, behind the layer before. On a
 * device whoever calls it has made room for the rows that others have too (sac_kv_cache_is_shared). */
sac_status sac_kv_cache_take_room(sac_kv_cache *c, int64_t n_rows, sac_error *err);
/* While a step runs, for those that come after it, so that none of these takes time for it: of n caches, those first that need it
 * soonest, and no more than goes unseen behind the step. */
void sac_kv_caches_grow_ahead(sac_kv_cache *const *caches, int64_t n, const sac_stream *stream);
/* Bytes that the pool would have to give for n_rows rows. */
size_t sac_kv_cache_lack(const sac_kv_cache *c, int64_t n_rows);

/* Rows in pages that several caches have (page_pool.h). Room that is made is no one else's from the cache's n_rows on: others keep what
 * they have. */
/* In which steps rows and pages end together; 0: its rows are in no pages, or packed. */
int64_t sac_kv_cache_page_rows(const sac_kv_cache *c);
/* The first n rows, a multiple of that, are those of another cache with the same format, sizes and pool, and have its memory; what was
 * there goes. Nothing of `to` is in flight, and `from` writes none of them meanwhile. No counts change. On failure there are no rows; NO_MEMORY: the
 * system maps no more. */
sac_status sac_kv_cache_share(sac_kv_cache *to, const sac_kv_cache *from, int64_t n, sac_error *err);
/* Whether the system may map the pages of its first n rows once more; false: rows are to be copied. */
bool sac_kv_cache_may_share(const sac_kv_cache *from, int64_t n);
/* Names the page in which a row of the first layer begins (sac_page_planes_page). */
uint64_t sac_kv_cache_page_of(const sac_kv_cache *c, int64_t row);
void sac_kv_cache_rename_from(sac_kv_cache *c, int64_t row); /* the row and those behind it are to be written anew */
/* Leading rows whose pages others have too, a multiple of sac_kv_cache_page_rows. */
int64_t sac_kv_cache_shared_rows(const sac_kv_cache *c);
/* Whether making room has to copy or drop pages first. */
bool sac_kv_cache_is_shared(const sac_kv_cache *c);
/* Bytes of the pages of the first n rows, a multiple of that, in all layers. */
size_t sac_kv_cache_kept_bytes(const sac_kv_cache *c, int64_t n);
/* Only the pages of the first n rows stay, a multiple of sac_kv_cache_page_rows. Nothing of the cache is in flight. */
void sac_kv_cache_keep(sac_kv_cache *c, int64_t n);
/* Memory behind the first n_rows rows goes back to the pool. Nothing of the cache is in flight. */
void sac_kv_cache_trim(sac_kv_cache *c, int64_t n_rows);

void sac_kv_cache_take(sac_kv_cache *c, sac_arena *device, sac_arena *host);
/* The staging area of a packed format out of memory that others have at other times; nothing for a plain one. */
void sac_kv_cache_lend(sac_kv_cache *c, sac_arena *device);
void sac_kv_cache_free(sac_kv_cache *c);
void sac_kv_cache_clear(sac_kv_cache *c); /* holds nothing any more */

/* The rows of a layer with room for n more; *past is where these begin. For a step: of a packed format the
 * tail. */
sac_kv_view sac_kv_cache_begin_step(sac_kv_cache *c, int layer, int64_t n, int64_t *past);

/* The same for a prefill: of a packed format the staging area, with everything the layer holds unpacked into
 * it. */
sac_status sac_kv_cache_begin_layer(sac_kv_cache *c, const sac_ops *ops, const sac_stream *stream, int layer,
                                    int64_t n, sac_kv_view *rows, int64_t *past);

/* After a layer of prefill: n_rows rows are left in a->kv, the view that begin_layer gave; those from a->past
 * on are new, and a packed format packs what is not packed yet. */
sac_status sac_kv_cache_end_layer(sac_kv_cache *c, const sac_layer_attention *a, int64_t n_rows,
                                  const sac_important *important);

/* Of a plain format: where the rows of a head lie from `row` on, one behind another, keys or values. */
void *sac_kv_cache_rows_at(const sac_kv_cache *c, int layer, bool values, int head, int64_t row);

/* Rows [first, first + n) of every layer out of another cache of the same plain format and sizes, whatever the lengths
 * of the two; on a device in the stream's order. Neither's counts change. */
sac_status sac_kv_cache_copy(sac_kv_cache *to, const sac_kv_cache *from, const sac_stream *stream, int64_t first,
                             int64_t n);

/* Rows outside the cache: a block of n_block rows of every layer, [layers][keys, values][kv_heads][n_block][head_dim] in the
 * cache's type, on the host; of rows in pages [layers][n_block][keys, values][kv_heads][head_dim]. Of a packed format in pages the
 * block is what is packed of all rows, whatever the numbers, and comes back into the cache that it is of as this stands. */
size_t sac_kv_cache_block_bytes(const sac_kv_cache *c, int64_t n_block);
/* Rows [first, first + n) of the cache to rows `at` on of the block; and from there. On a device in the stream's order: the
 * block may be used again after a sync. No counts change. */
sac_status sac_kv_cache_to_block(const sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, uint8_t *block,
                                 int64_t at, int64_t n_block);
sac_status sac_kv_cache_from_block(sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, const uint8_t *block,
                                   int64_t at, int64_t n_block);

/* Bytes that the stored rows take, metadata counted; and what an f16 cache of every token would. */
size_t sac_kv_cache_bytes_used(const sac_kv_cache *c);

static inline bool sac_kv_cache_is_packed(const sac_kv_cache *c) {
    return c->choice.format->packing != NULL;
}

#endif
