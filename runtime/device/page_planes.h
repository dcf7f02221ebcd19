/* page_planes.h - what the files behind page_pool.h have in common: page_pool.c has the pages, page_planes.c puts them where ranges want them,
 * page_sharing.c has those that stand in several ranges. Private to runtime/device. */
#ifndef SAC_PAGE_PLANES_H
#define SAC_PAGE_PLANES_H

#include "page_pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct sac_page_pool {
    const sac_device *device;
    const sac_page_ops *ops;
    size_t page_bytes;
    pthread_mutex_t lock;
    size_t n_pages, n_free;
    uint64_t *names;              /* [n_pages], the device's */
    uint32_t *free;               /* [n_pages], of which n_free are there, in rising order */
    uint32_t *marks;              /* [n_pages], zero but while somebody counts */
    _Atomic uint32_t *births;     /* [n_pages]: how often it was no longer free, or what is in it became something else */
    _Atomic uint32_t *n_havers;   /* [n_pages]: so many ranges have it; of those that are free 0 */
};

static inline size_t pages_for(const sac_page_planes *p, size_t n_bytes) {
    const size_t page = p->pool->page_bytes;
    return n_bytes / page + (n_bytes % page > 0);
}

static inline size_t pages_of_plane(const sac_page_planes *p) {
    return p->plane_bytes / p->pool->page_bytes;
}

/* Those of a plane from its page `first` on. */
static inline uint32_t *pages_from(const sac_page_planes *p, size_t plane, size_t first) {
    return p->pages + plane * pages_of_plane(p) + first;
}

static inline uint8_t *address_of(const sac_page_planes *p, size_t plane, size_t page) {
    return p->at + plane * p->plane_bytes + page * p->pool->page_bytes;
}

/* n pages for each of so many planes, whose lists are `stride` numbers apart; false: there are not so many. */
bool sac_page_pool_draw(sac_page_pool *pool, size_t n_planes, size_t n, uint32_t *to, size_t stride);
/* Lets go of n pages, whose numbers are no use behind it: those that nobody else has are free. */
void sac_page_pool_let_go(sac_page_pool *pool, uint32_t *pages, size_t n);

/* Runs of pages among n of a plane from its page `first` on, of which one may go on with what is before. */
size_t sac_page_planes_runs(const sac_page_planes *p, size_t plane, size_t first, size_t n);
/* They come, or they go: all that there are are counted, where the device counts them. */
void sac_page_planes_count_runs(const sac_page_planes *p, size_t plane, size_t first, size_t n, bool come);
size_t sac_page_planes_all_runs(void);

/* n pages of a plane from its page `first` on, where they belong. All of them or none. */
sac_status sac_page_planes_put(const sac_page_planes *p, size_t plane, size_t first, size_t n, sac_error *err);

sac_status sac_page_planes_check(const sac_page_planes *p, sac_error *err); /* DEVICE: it is broken */
sac_status sac_page_planes_no_pages(const sac_page_planes *p, size_t n, sac_error *err); /* NO_MEMORY: n are needed */
/* What the system lacks is no lack of pages, for which one could wait. */
sac_status sac_page_planes_not_pages(sac_status st, sac_error *err);

#endif
