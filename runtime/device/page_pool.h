/* page_pool.h - a share of a device's memory, in pages, and ranges of addresses that take as many of them as they need.
 *
 * A range is as long as what may ever stand in it, and has memory from its beginning to where somebody has asked for it
 * (vAttention, arXiv:2405.04437, section 5). So ops read and write it as one block, whatever memory it has. */
#ifndef SAC_PAGE_POOL_H
#define SAC_PAGE_POOL_H

#include "device_pages.h"

typedef struct sac_page_pool sac_page_pool;

/* As many pages as n_bytes hold, taken from the device now. `d` outlives the pool. UNSUPPORTED where it has no pages. */
sac_status sac_page_pool_open(sac_page_pool **out, const sac_device *d, size_t n_bytes, sac_error *err);
void sac_page_pool_close(sac_page_pool *p); /* no range has any; NULL is fine */

size_t sac_page_pool_page_bytes(const sac_page_pool *p);
size_t sac_page_pool_n_pages(const sac_page_pool *p);
size_t sac_page_pool_n_free(sac_page_pool *p); /* from any thread */

/* Planes of equal size one behind another, which have as many pages each, from their beginnings on. */
typedef struct sac_page_planes {
    sac_page_pool *pool;
    uint8_t *at;
    size_t n_planes, plane_bytes; /* a multiple of a page's */
    size_t n_taken;               /* pages that each plane has */
    uint64_t *pages;              /* [n_planes][plane_bytes / page] */
    size_t *n_mapped;             /* [n_planes] of these, so many are where they belong */
} sac_page_planes;

/* Addresses alone. */
sac_status sac_page_planes_reserve(sac_page_planes *p, sac_page_pool *pool, size_t n_planes, size_t plane_bytes, sac_error *err);
void sac_page_planes_free(sac_page_planes *p); /* nothing that touches it is in flight; a zeroed one is fine */

/* Pages that all planes together lack so that the first n_bytes of each have memory. */
size_t sac_page_planes_lack(const sac_page_planes *p, size_t n_bytes);

/* The first n_bytes of every plane have memory, zeroed in the stream's order where it is new (on the CPU a stream may be NULL).
 * NO_MEMORY: the pool has not as many pages, and nothing has changed. */
sac_status sac_page_planes_grow(sac_page_planes *p, const sac_stream *stream, size_t n_bytes, sac_error *err);

/* The same in two parts, as a card takes longer to map a page than to find one: every plane has its pages; and a plane that has not
 * all of its first n_bytes in place gets all that it has there. */
sac_status sac_page_planes_take(sac_page_planes *p, size_t n_bytes, sac_error *err);
sac_status sac_page_planes_map(sac_page_planes *p, const sac_stream *stream, size_t plane, size_t n_bytes, sac_error *err);
/* As grow, of whole planes as many as *budget bytes allow; what was mapped is taken off. No pages, no change. */
void sac_page_planes_grow_some(sac_page_planes *p, const sac_stream *stream, size_t n_bytes, size_t *budget);

/* Pages behind the first n_bytes go back to the pool. Nothing that touches them is in flight. */
void sac_page_planes_shrink(sac_page_planes *p, size_t n_bytes);

#endif
