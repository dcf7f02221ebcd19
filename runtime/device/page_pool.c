#include "page_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sac_page_pool {
    const sac_device *device;
    const sac_page_ops *ops;
    size_t page_bytes;
    pthread_mutex_t lock;
    size_t n_pages, n_free;
    uint64_t *free; /* [n_pages], of which n_free are there */
};

sac_status sac_page_pool_open(sac_page_pool **out, const sac_device *d, size_t n_bytes, sac_error *err) {
    *out = NULL;
    const sac_page_ops *ops = sac_page_ops_of(d);
    const size_t page_bytes = ops ? ops->page_bytes(d) : 0;
    if (!page_bytes)
        return sac_fail(err, SAC_UNSUPPORTED, "%s: its driver has no memory in pages: run without", d->name);
    const size_t n = n_bytes / page_bytes;
    if (!n)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%zu bytes for keys and values in pages: one page of %s is %zu, give at least that", n_bytes, d->name,
                        page_bytes);
    sac_page_pool *p = calloc(1, sizeof *p);
    uint64_t *pages = calloc(n, sizeof *pages);
    if (!p || !pages) {
        free(p);
        free(pages);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a list of %zu pages", n);
    }
    *p = (sac_page_pool){.device = d, .ops = ops, .page_bytes = page_bytes, .n_pages = n, .free = pages};
    pthread_mutex_init(&p->lock, NULL);
    sac_status st = SAC_OK;
    while (st == SAC_OK && p->n_free < n) {
        st = ops->take(d, &pages[p->n_free], err);
        p->n_free += st == SAC_OK;
    }
    if (st != SAC_OK) {
        sac_page_pool_close(p);
        return st;
    }
    *out = p;
    return SAC_OK;
}

void sac_page_pool_close(sac_page_pool *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n_free; i++) p->ops->give(p->device, p->free[i]);
    pthread_mutex_destroy(&p->lock);
    free(p->free);
    free(p);
}

size_t sac_page_pool_page_bytes(const sac_page_pool *p) {
    return p->page_bytes;
}

size_t sac_page_pool_n_pages(const sac_page_pool *p) {
    return p->n_pages;
}

size_t sac_page_pool_n_free(sac_page_pool *p) {
    pthread_mutex_lock(&p->lock);
    const size_t n = p->n_free;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* ---------------------------------------------------------------- planes */

static size_t pages_for(const sac_page_planes *p, size_t n_bytes) {
    const size_t page = p->pool->page_bytes;
    return n_bytes / page + (n_bytes % page > 0);
}

static size_t pages_of_plane(const sac_page_planes *p) {
    return p->plane_bytes / p->pool->page_bytes;
}

/* Those of a plane from its page `first` on. */
static uint64_t *pages_from(const sac_page_planes *p, size_t plane, size_t first) {
    return p->pages + plane * pages_of_plane(p) + first;
}

static uint8_t *address_of(const sac_page_planes *p, size_t plane, size_t page) {
    return p->at + plane * p->plane_bytes + page * p->pool->page_bytes;
}

sac_status sac_page_planes_reserve(sac_page_planes *p, sac_page_pool *pool, size_t n_planes, size_t plane_bytes, sac_error *err) {
    const size_t page = pool->page_bytes;
    *p = (sac_page_planes){.pool = pool, .n_planes = n_planes, .plane_bytes = (plane_bytes + page - 1) / page * page};
    p->pages = calloc(n_planes * (p->plane_bytes / page), sizeof *p->pages);
    p->n_mapped = calloc(n_planes, sizeof *p->n_mapped);
    void *at = NULL;
    sac_status st = p->pages && p->n_mapped ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for a list of pages");
    if (st == SAC_OK) st = pool->ops->reserve(pool->device, n_planes * p->plane_bytes, &at, err);
    p->at = at;
    if (st != SAC_OK) sac_page_planes_free(p);
    return st;
}

void sac_page_planes_free(sac_page_planes *p) {
    if (p->at) {
        sac_page_planes_shrink(p, 0);
        p->pool->ops->unreserve(p->pool->device, p->at, p->n_planes * p->plane_bytes);
    }
    free(p->pages);
    free(p->n_mapped);
    *p = (sac_page_planes){0};
}

size_t sac_page_planes_lack(const sac_page_planes *p, size_t n_bytes) {
    const size_t want = pages_for(p, n_bytes);
    return want > p->n_taken ? (want - p->n_taken) * p->n_planes : 0;
}

/* n pages more for each plane; false: there are not so many. */
static bool take(sac_page_planes *p, size_t n) {
    sac_page_pool *pool = p->pool;
    pthread_mutex_lock(&pool->lock);
    const bool enough = pool->n_free >= n * p->n_planes;
    for (size_t i = 0; enough && i < p->n_planes; i++) {
        pool->n_free -= n;
        memcpy(pages_from(p, i, p->n_taken), pool->free + pool->n_free, n * sizeof *pool->free);
    }
    pthread_mutex_unlock(&pool->lock);
    if (enough) p->n_taken += n;
    return enough;
}

sac_status sac_page_planes_take(sac_page_planes *p, size_t n_bytes, sac_error *err) {
    const size_t want = pages_for(p, n_bytes);
    if (want <= p->n_taken) return SAC_OK;
    if (n_bytes > p->plane_bytes) return sac_fail(err, SAC_INTERNAL, "%zu bytes in planes of %zu", n_bytes, p->plane_bytes);
    const double page_mib = (double)p->pool->page_bytes / (1 << 20), lack = page_mib * (double)sac_page_planes_lack(p, n_bytes);
    if (take(p, want - p->n_taken)) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY, "%.1f MiB are needed for keys and values, and of %.1f MiB in pages %.1f are left: end or reset other sessions, or give more", lack,
                    page_mib * (double)p->pool->n_pages, page_mib * (double)sac_page_pool_n_free(p->pool));
}

sac_status sac_page_planes_map(sac_page_planes *p, const sac_stream *stream, size_t plane, size_t n_bytes, sac_error *err) {
    const sac_device *d = p->pool->device;
    const size_t first = p->n_mapped[plane], n = p->n_taken - first;
    if (first >= pages_for(p, n_bytes)) return SAC_OK;
    assert(pages_for(p, n_bytes) <= p->n_taken);
    SAC_TRY(p->pool->ops->map(d, address_of(p, plane, first), pages_from(p, plane, first), n, err));
    p->n_mapped[plane] = p->n_taken;
    /* attention may multiply what nobody has written by 0 */
    if (d->zero(stream, address_of(p, plane, first), n * p->pool->page_bytes) == SAC_OK) return SAC_OK;
    return sac_fail(err, SAC_DEVICE, "%s: clearing pages failed", d->name);
}

sac_status sac_page_planes_grow(sac_page_planes *p, const sac_stream *stream, size_t n_bytes, sac_error *err) {
    SAC_TRY(sac_page_planes_take(p, n_bytes, err));
    for (size_t i = 0; i < p->n_planes; i++) SAC_TRY(sac_page_planes_map(p, stream, i, n_bytes, err));
    return SAC_OK;
}

void sac_page_planes_grow_some(sac_page_planes *p, const sac_stream *stream, size_t n_bytes, size_t *budget) {
    if (!*budget || sac_page_planes_take(p, n_bytes, NULL) != SAC_OK) return;
    for (size_t i = 0; i < p->n_planes && *budget; i++) {
        const size_t had = p->n_mapped[i];
        if (sac_page_planes_map(p, stream, i, n_bytes, NULL) != SAC_OK) return;
        const size_t n = (p->n_mapped[i] - had) * p->pool->page_bytes;
        *budget -= n < *budget ? n : *budget;
    }
}

void sac_page_planes_shrink(sac_page_planes *p, size_t n_bytes) {
    sac_page_pool *pool = p->pool;
    const size_t keep = pages_for(p, n_bytes), n = p->n_taken - keep;
    if (keep >= p->n_taken) return;
    for (size_t i = 0; i < p->n_planes; i++) {
        if (p->n_mapped[i] <= keep) continue;
        pool->ops->unmap(pool->device, address_of(p, i, keep), p->n_mapped[i] - keep);
        p->n_mapped[i] = keep;
    }
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < p->n_planes; i++) {
        memcpy(pool->free + pool->n_free, pages_from(p, i, keep), n * sizeof *pool->free);
        pool->n_free += n;
    }
    pthread_mutex_unlock(&pool->lock);
    p->n_taken = keep;
}
