/* page_pool.h - a share of a device's memory, in pages, and ranges of addresses that take as many of them as they need.
 *
 * A range is as long as what may ever stand in it, and has memory from its beginning to where somebody has asked for it
 * (vAttention, arXiv:2405.04437, section 5). So ops read and write it as one block, whatever memory it has.
 *
 * A page may stand in several ranges. Whoever writes makes sure before that nobody else has the page (sac_page_planes_own). Ranges
 * have pages of others from their beginnings on: of two that follow one another, others have the second only if they have the first. */
#ifndef SAC_PAGE_POOL_H
#define SAC_PAGE_POOL_H

#include "device_pages.h"

typedef struct sac_page_pool sac_page_pool;

/* As many pages as n_bytes hold, taken from the device now. `d` outlives the pool. UNSUPPORTED where it has no pages. */
sac_status sac_page_pool_open(sac_page_pool **out, const sac_device *d, size_t n_bytes, sac_error *err);
/* The same with pages of another table than that of the device's kind. */
sac_status sac_page_pool_open_by(sac_page_pool **out, const sac_device *d, const sac_page_ops *ops, size_t n_bytes, sac_error *err);
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
    uint32_t *pages;              /* [n_planes][plane_bytes / page] numbers of the pool's */
    size_t *n_mapped;             /* [n_planes] of these, so many are where they belong */
    bool is_broken;               /* a page could not be put back or taken away: what asks for more gets DEVICE until all have gone */
} sac_page_planes;

/* Addresses alone. */
sac_status sac_page_planes_reserve(sac_page_planes *p, sac_page_pool *pool, size_t n_planes, size_t plane_bytes, sac_error *err);
void sac_page_planes_free(sac_page_planes *p); /* nothing that touches it is in flight; a zeroed one is fine */

/* Pages that all planes together lack so that the first n_bytes of each have memory. */
size_t sac_page_planes_lack(const sac_page_planes *p, size_t n_bytes);

/* The first n_bytes of every plane have memory, zeroed in the stream's order where it is new (on the CPU a stream may be NULL).
 * NO_MEMORY: the pool has not as many pages, and nothing has changed. What else is lacking is DEVICE: waiting for pages is no use. */
sac_status sac_page_planes_grow(sac_page_planes *p, const sac_stream *stream, size_t n_bytes, sac_error *err);

/* The same in two parts, as a card takes longer to map a page than to find one: every plane has its pages; and a plane that has not
 * all of its first n_bytes in place gets all that it has there. */
sac_status sac_page_planes_take(sac_page_planes *p, size_t n_bytes, sac_error *err);
sac_status sac_page_planes_map(sac_page_planes *p, const sac_stream *stream, size_t plane, size_t n_bytes, sac_error *err);
/* As grow, of whole planes as many as *budget bytes allow; what was mapped is taken off. No pages, no change. */
void sac_page_planes_grow_some(sac_page_planes *p, const sac_stream *stream, size_t n_bytes, size_t *budget);

/* Pages behind the first n_bytes go back to the pool, but for those that others have too. Nothing that touches them is in flight. Those
 * that the system leaves readable stay, and the range is broken. */
void sac_page_planes_shrink(sac_page_planes *p, size_t n_bytes);

/* The first n_bytes of every plane, whole pages, are from now on those of `from`, of as many planes of the same pool, in place of all
 * that `to` had. Meanwhile `from` keeps them, and writes none of them. NO_MEMORY: the system maps no more; on failure `to` has nothing. */
sac_status sac_page_planes_share(sac_page_planes *to, const sac_page_planes *from, size_t n_bytes, sac_error *err);

/* Whether the system may map so many more; false: nothing is to be shared. */
bool sac_page_planes_may_share(const sac_page_planes *from, size_t n_bytes);

/* Before bytes from `from` on are written: where others have them too, the pages behind go, and the one in which `from` lies becomes a
 * copy, zeroed behind it. Waits for what it copies; nothing else that touches these pages is in flight. NO_MEMORY: the pool has no page
 * for the copy; what is before `from` is as it was, and what was behind it has gone. DEVICE: not a copy; where what was there could not be put
 * back the range is broken. */
sac_status sac_page_planes_own(sac_page_planes *p, const sac_stream *stream, size_t from, sac_error *err);
bool sac_page_planes_is_shared(const sac_page_planes *p, size_t from); /* whether others have the page in which it lies */
size_t sac_page_planes_shared(const sac_page_planes *p);               /* leading bytes of each plane that others have too */

/* Names the page in which a byte of the first plane lies; no other has had or will have it (but after 4 billion). From where something else
 * is to be written the page has another name, for all that have it; where there is none that is nothing. */
uint64_t sac_page_planes_page(const sac_page_planes *p, size_t at);
void sac_page_planes_rename(sac_page_planes *p, size_t at);

/* As sac_page_planes_lack, where what is behind `from` is to be written. */
size_t sac_page_planes_lack_behind(const sac_page_planes *p, size_t from, size_t n_bytes);

/* Pages that nobody has but these n ranges of one pool, each counted once. */
size_t sac_page_planes_only(const sac_page_planes *const *all, size_t n);

#endif
