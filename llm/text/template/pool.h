/* pool.h - memory of one template or one rendering: handed out in order, bounded, given back as a whole. */
#ifndef SAC_LLM_TEMPLATE_POOL_H
#define SAC_LLM_TEMPLATE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sac_tmpl_pool {
    struct sac_tmpl_block *blocks; /* the newest first */
    size_t used_bytes;             /* of the newest block */
    size_t total_bytes, limit_bytes;
    bool is_full; /* something was refused: the limit, or no memory */
    int64_t work; /* values compared since a run last looked; it charges them as steps */
} sac_tmpl_pool;

void sac_tmpl_pool_free(sac_tmpl_pool *p); /* a zeroed pool is fine */

/* 16-byte aligned, not zeroed. NULL beyond the limit, or when there is no memory. */
void *sac_tmpl_take(sac_tmpl_pool *p, size_t n_bytes);
void *sac_tmpl_take_zeroed(sac_tmpl_pool *p, size_t n_bytes);

/* A larger copy of a block of `n_bytes`; the old one stays where it is. */
void *sac_tmpl_grow(sac_tmpl_pool *p, const void *old, size_t n_bytes, size_t n_new);

#endif
