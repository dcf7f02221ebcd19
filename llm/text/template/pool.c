#include "pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 32 << 10, ALIGN = 16 };

typedef struct sac_tmpl_block {
    struct sac_tmpl_block *older;
    size_t n_bytes;
    alignas(ALIGN) uint8_t bytes[];
} block;

void sac_tmpl_pool_free(sac_tmpl_pool *p) {
    for (block *b = p->blocks, *older; b; b = older) {
        older = b->older;
        free(b);
    }
    *p = (sac_tmpl_pool){0};
}

static bool add_block(sac_tmpl_pool *p, size_t n_bytes) {
    size_t size = n_bytes > BLOCK_BYTES / 4 ? n_bytes : BLOCK_BYTES;
    if (size > p->limit_bytes - p->total_bytes) size = n_bytes;
    if (size > p->limit_bytes - p->total_bytes) return false;
    block *b = malloc(sizeof *b + size);
    if (!b) return false;
    *b = (block){.older = p->blocks, .n_bytes = size};
    p->blocks = b;
    p->used_bytes = 0;
    p->total_bytes += size;
    return true;
}

void *sac_tmpl_take(sac_tmpl_pool *p, size_t n_bytes) {
    if (n_bytes > SIZE_MAX / 2) {
        p->is_full = true;
        return NULL;
    }
    n_bytes = (n_bytes + ALIGN - 1) / ALIGN * ALIGN;
    if ((!p->blocks || n_bytes > p->blocks->n_bytes - p->used_bytes) && !add_block(p, n_bytes)) {
        p->is_full = true;
        return NULL;
    }
    void *at = p->blocks->bytes + p->used_bytes;
    p->used_bytes += n_bytes;
    return at;
}

void *sac_tmpl_take_zeroed(sac_tmpl_pool *p, size_t n_bytes) {
    void *at = sac_tmpl_take(p, n_bytes);
    if (at) memset(at, 0, n_bytes);
    return at;
}

void *sac_tmpl_grow(sac_tmpl_pool *p, const void *old, size_t n_bytes, size_t n_new) {
    void *at = sac_tmpl_take(p, n_new);
    if (at && n_bytes) memcpy(at, old, n_bytes);
    return at;
}
