#include "store_index.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(sac_store_row) == 32, "rows are hashed and written as they are");

bool sac_store_index_init(sac_store_index *x, size_t capacity_bytes) {
    *x = (sac_store_index){.capacity_bytes = capacity_bytes, .n_buckets = 1024};
    while (x->n_buckets < capacity_bytes >> 16 && x->n_buckets < (size_t)1 << 20) x->n_buckets *= 2;
    x->buckets = calloc(x->n_buckets, sizeof *x->buckets);
    return x->buckets != NULL;
}

void sac_store_index_free(sac_store_index *x) {
    for (sac_store_block *b = x->newest, *older; b; b = older) {
        older = b->older;
        free(b);
    }
    free(x->buckets);
    *x = (sac_store_index){0};
}

sac_store_block *sac_store_block_new(size_t n_bytes) {
    const size_t align = _Alignof(sac_store_block);
    size_t all = (sizeof(sac_store_block) + n_bytes + align - 1) / align * align;
    if (all < n_bytes) return NULL;
    sac_store_block *b = aligned_alloc(align, all);
    if (!b) return NULL;
    memset(b, 0, sizeof *b);
    b->n_bytes = n_bytes;
    return b;
}

static sac_store_block **bucket_of(const sac_store_index *x, const sac_store_key *key) {
    uint64_t h;
    memcpy(&h, key->hash, sizeof h);
    return &x->buckets[h & (x->n_buckets - 1)];
}

sac_store_block *sac_store_index_find(const sac_store_index *x, const sac_store_key *key, const sac_store_key *before,
                                      const sac_store_row rows[SAC_STORE_ROWS], size_t n_bytes) {
    for (sac_store_block *b = *bucket_of(x, key); b; b = b->next_in_bucket)
        if (!memcmp(&b->key, key, sizeof *key) && !memcmp(&b->before, before, sizeof *before) && b->n_bytes == n_bytes &&
            !memcmp(b->rows, rows, sizeof b->rows))
            return b;
    return NULL;
}

sac_store_block *sac_store_index_find_key(const sac_store_index *x, const sac_store_key *key) {
    sac_store_block *b = *bucket_of(x, key);
    while (b && memcmp(&b->key, key, sizeof *key)) b = b->next_in_bucket;
    return b;
}

/* ---------------------------------------------------------------- in the order of use */

static void unlink_block(sac_store_index *x, sac_store_block *b) {
    *(b->newer ? &b->newer->older : &x->newest) = b->older;
    *(b->older ? &b->older->newer : &x->oldest) = b->newer;
}

/* Right behind its parent, or before all. */
static void link_block(sac_store_index *x, sac_store_block *b) {
    b->newer = b->parent;
    b->older = b->parent ? b->parent->older : x->newest;
    *(b->newer ? &b->newer->older : &x->newest) = b;
    *(b->older ? &b->older->newer : &x->oldest) = b;
}

void sac_store_index_use(sac_store_index *x, sac_store_block *b) {
    unlink_block(x, b);
    link_block(x, b);
}

/* ---------------------------------------------------------------- room */

static void drop(sac_store_index *x, sac_store_block *b) {
    if (x->dropping) x->dropping(x->ctx, b);
    sac_store_block **at = bucket_of(x, &b->key);
    while (*at != b) at = &(*at)->next_in_bucket;
    *at = b->next_in_bucket;
    unlink_block(x, b);
    if (b->parent) b->parent->n_children--;
    x->used_bytes -= sac_store_block_bytes(b);
    x->n_blocks--;
    x->n_dropped++;
    free(b);
}

/* What is in use may be older than what is not. */
static sac_store_block *find_victim(const sac_store_index *x, const sac_store_block *keep) {
    sac_store_block *b = x->oldest;
    while (b && (b == keep || b->n_users || b->n_children)) b = b->newer;
    return b;
}

static bool make_room(sac_store_index *x, size_t n_bytes, const sac_store_block *keep) {
    while (n_bytes > x->capacity_bytes - x->used_bytes) {
        sac_store_block *b = find_victim(x, keep);
        if (!b) return false;
        drop(x, b);
    }
    return true;
}

bool sac_store_index_add(sac_store_index *x, sac_store_block *b, sac_store_block *parent) {
    size_t n_bytes = sac_store_block_bytes(b);
    if (n_bytes > x->capacity_bytes || !make_room(x, n_bytes, parent)) return false;
    sac_store_block **bucket = bucket_of(x, &b->key);
    b->next_in_bucket = *bucket;
    *bucket = b;
    b->parent = parent;
    if (parent) parent->n_children++;
    b->n_children = 0;
    link_block(x, b);
    x->used_bytes += n_bytes;
    x->n_blocks++;
    return true;
}
