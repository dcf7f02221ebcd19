#include "page_planes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool take_lists(sac_page_pool *p, size_t n) {
    p->names = calloc(n, sizeof *p->names);
    p->free = calloc(n, sizeof *p->free);
    p->marks = calloc(n, sizeof *p->marks);
    p->births = calloc(n, sizeof *p->births);
    p->n_havers = calloc(n, sizeof *p->n_havers);
    return p->names && p->free && p->marks && p->births && p->n_havers;
}

static void free_lists(sac_page_pool *p) {
    free(p->names);
    free(p->free);
    free(p->marks);
    free(p->births);
    free(p->n_havers);
    free(p);
}

sac_status sac_page_pool_open(sac_page_pool **out, const sac_device *d, size_t n_bytes, sac_error *err) {
    return sac_page_pool_open_by(out, d, sac_page_ops_of(d), n_bytes, err);
}

sac_status sac_page_pool_open_by(sac_page_pool **out, const sac_device *d, const sac_page_ops *ops, size_t n_bytes, sac_error *err) {
    *out = NULL;
    const size_t page_bytes = ops ? ops->page_bytes(d, n_bytes) : 0;
    if (!page_bytes)
        return sac_fail(err, SAC_UNSUPPORTED, "%s: its driver has no memory in pages: run without", d->name);
    const size_t n = n_bytes / page_bytes;
    if (!n)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%zu bytes for keys and values in pages: one page of %s is %zu, give at least that", n_bytes, d->name,
                        page_bytes);
    sac_page_pool *p = n <= UINT32_MAX ? calloc(1, sizeof *p) : NULL;
    if (!p || !take_lists(p, n)) {
        if (p) free_lists(p);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a list of %zu pages", n);
    }
    p->device = d, p->ops = ops, p->page_bytes = page_bytes;
    const sac_status st = ops->take(d, p->names, n, page_bytes, err);
    if (st != SAC_OK) {
        free_lists(p);
        return st;
    }
    p->n_pages = p->n_free = n;
    for (size_t i = 0; i < n; i++) p->free[i] = (uint32_t)i;
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return SAC_OK;
}

void sac_page_pool_close(sac_page_pool *p) {
    if (!p) return;
    assert(p->n_free == p->n_pages);
    p->ops->give(p->device, p->names, p->n_pages);
    pthread_mutex_destroy(&p->lock);
    free_lists(p);
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

/* ---------------------------------------------------------------- who has them */

bool sac_page_pool_draw(sac_page_pool *pool, size_t n_planes, size_t n, uint32_t *to, size_t stride) {
    pthread_mutex_lock(&pool->lock);
    const bool enough = pool->n_free >= n * n_planes;
    for (size_t i = 0; enough && i < n_planes; i++, to += stride) {
        pool->n_free -= n;
        memcpy(to, pool->free + pool->n_free, n * sizeof *to);
        for (size_t k = 0; k < n; k++) {
            atomic_store(&pool->n_havers[to[k]], 1);
            atomic_fetch_add(&pool->births[to[k]], 1);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return enough;
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Free ones stay in order, so that who takes several gets runs. */
void sac_page_pool_let_go(sac_page_pool *pool, uint32_t *pages, size_t n) {
    size_t n_last = 0;
    for (size_t i = 0; i < n; i++)
        if (atomic_fetch_sub(&pool->n_havers[pages[i]], 1) == 1) pages[n_last++] = pages[i];
    for (size_t i = 0; pool->ops->rest && i < n_last; i++) pool->ops->rest(pool->device, pool->names[pages[i]], pool->page_bytes);
    qsort(pages, n_last, sizeof *pages, by_number);
    pthread_mutex_lock(&pool->lock);
    size_t a = pool->n_free, b = n_last;
    while (b) {
        const bool is_last = !a || pool->free[a - 1] < pages[b - 1];
        pool->free[a + b - 1] = is_last ? pages[b - 1] : pool->free[a - 1];
        *(is_last ? &b : &a) -= 1;
    }
    pool->n_free += n_last;
    pthread_mutex_unlock(&pool->lock);
}
