/* store_index.h - blocks of rows in host memory: found by key, limited in bytes, dropped least recently used first.
 *
 * A block is SAC_STORE_ROWS rows of a prompt with its keys and values. Blocks form trees: a block's parent holds the rows
 * before it, so blocks of prompts that begin alike are there once. A key is a SHA-256 over the parent's key and what the
 * rows are; whoever finds a block has its rows and its parent compared besides.
 *
 * A parent is always more recently used than its children, so the block that is dropped next has none. No locks: callers
 * have one. */
#ifndef SAC_ENGINE_STORE_INDEX_H
#define SAC_ENGINE_STORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAC_STORE_ROWS = 64 };

typedef struct sac_store_key {
    uint8_t hash[32];
} sac_store_key;

/* What a row was made from (sac_identity), and its numbers on three axes. No padding: it is hashed and written. */
typedef struct sac_store_row {
    uint64_t a, b;
    int32_t number[3], zero;
} sac_store_row;

typedef struct sac_store_block {
    sac_store_key key;
    sac_store_row rows[SAC_STORE_ROWS];
    sac_store_key before; /* the parent's key, or what stands for the beginning */
    size_t n_bytes;       /* of data */
    int n_users;          /* while there are any (of the list below) it is not dropped; the callers' */
    /* A list of blocks that are to be written to disk, and when that was last seen to be so: the callers'. */
    struct sac_store_block *next_to_write;
    int64_t on_disk_ns;
    /* The index's own. */
    struct sac_store_block *parent; /* NULL: a beginning */
    struct sac_store_block *newer, *older, *next_in_bucket;
    int n_children;
    _Alignas(64) uint8_t data[];
} sac_store_block;

typedef struct sac_store_index {
    sac_store_block **buckets;
    size_t n_buckets; /* a power of two */
    sac_store_block *newest, *oldest;
    size_t capacity_bytes, used_bytes; /* blocks whole */
    int64_t n_blocks, n_dropped;
    void (*dropping)(void *ctx, const sac_store_block *b); /* of the caller: told of each that makes room; NULL = it is not */
    void *ctx;
} sac_store_index;

/* False: no memory. */
bool sac_store_index_init(sac_store_index *x, size_t capacity_bytes);
/* Frees all blocks, whoever uses them. */
void sac_store_index_free(sac_store_index *x);

/* A block of its own with room for n_bytes, of no index; freed with free(). NULL: no memory. */
sac_store_block *sac_store_block_new(size_t n_bytes);
static inline size_t sac_store_block_bytes(const sac_store_block *b) {
    return sizeof *b + b->n_bytes;
}

/* The block of that key, parent's key, rows and size; or NULL. */
sac_store_block *sac_store_index_find(const sac_store_index *x, const sac_store_key *key, const sac_store_key *before,
                                      const sac_store_row rows[SAC_STORE_ROWS], size_t n_bytes);

/* The block of that key alone, for one that was found or added before. */
sac_store_block *sac_store_index_find_key(const sac_store_index *x, const sac_store_key *key);

/* It is used: a beginning becomes the newest of all, another the newest behind its parent. To be called from the beginning
 * of a prompt on. */
void sac_store_index_use(sac_store_index *x, sac_store_block *b);

/* Takes a block in behind its parent, which is in the index (NULL: it is a beginning), and drops old ones to make room; false,
 * and nothing is taken: there is no room beside the parent and blocks in use. key, before and rows are filled in. */
bool sac_store_index_add(sac_store_index *x, sac_store_block *b, sac_store_block *parent);

#endif
