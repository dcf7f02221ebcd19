#include "page_planes.h"

#include <assert.h>
#include <stdlib.h>

/* Of all pools whose devices count them. */
static _Atomic size_t n_runs;

size_t sac_page_planes_runs(const sac_page_planes *p, size_t plane, size_t first, size_t n) {
    const uint64_t *names = p->pool->names;
    const uint32_t *pages = pages_from(p, plane, 0);
    size_t sum = 0;
    for (size_t i = first; i < first + n; i++) sum += !i || names[pages[i]] != names[pages[i - 1]] + 1;
    return sum;
}

void sac_page_planes_count_runs(const sac_page_planes *p, size_t plane, size_t first, size_t n, bool come) {
    if (!p->pool->ops->most_runs) return;
    const size_t sum = sac_page_planes_runs(p, plane, first, n);
    if (come)
        atomic_fetch_add(&n_runs, sum);
    else
        atomic_fetch_sub(&n_runs, sum);
}

size_t sac_page_planes_all_runs(void) {
    return atomic_load(&n_runs);
}

sac_status sac_page_planes_check(const sac_page_planes *p, sac_error *err) {
    return p->is_broken ? sac_fail(err, SAC_DEVICE, "%s: pages of a session were lost: reset it", p->pool->device->name) : SAC_OK;
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
        for (size_t i = 0; p->n_taken && i < p->n_planes; i++) { /* it could not: now nobody has the addresses */
            sac_page_planes_count_runs(p, i, 0, p->n_mapped[i], false);
            sac_page_pool_let_go(p->pool, pages_from(p, i, 0), p->n_taken);
        }
    }
    free(p->pages);
    free(p->n_mapped);
    *p = (sac_page_planes){0};
}

size_t sac_page_planes_lack(const sac_page_planes *p, size_t n_bytes) {
    const size_t want = pages_for(p, n_bytes);
    if (p->is_broken) return 1; /* so that it is asked for */
    return want > p->n_taken ? (want - p->n_taken) * p->n_planes : 0;
}

sac_status sac_page_planes_no_pages(const sac_page_planes *p, size_t n, sac_error *err) {
    const double page_mib = (double)p->pool->page_bytes / (1 << 20);
    return sac_fail(err, SAC_NO_MEMORY, "%.1f MiB are needed for keys and values, and of %.1f MiB in pages %.1f are left: end or reset other sessions, or give more", page_mib * (double)n,
                    page_mib * (double)p->pool->n_pages, page_mib * (double)sac_page_pool_n_free(p->pool));
}

sac_status sac_page_planes_take(sac_page_planes *p, size_t n_bytes, sac_error *err) {
    const size_t want = pages_for(p, n_bytes);
    SAC_TRY(sac_page_planes_check(p, err));
    if (want <= p->n_taken) return SAC_OK;
    if (n_bytes > p->plane_bytes) return sac_fail(err, SAC_INTERNAL, "%zu bytes in planes of %zu", n_bytes, p->plane_bytes);
    if (!sac_page_pool_draw(p->pool, p->n_planes, want - p->n_taken, pages_from(p, 0, p->n_taken), pages_of_plane(p)))
        return sac_page_planes_no_pages(p, sac_page_planes_lack(p, n_bytes), err);
    p->n_taken = want;
    return SAC_OK;
}

sac_status sac_page_planes_put(const sac_page_planes *p, size_t plane, size_t first, size_t n, sac_error *err) {
    enum { AT_ONCE = 256 };
    const sac_page_pool *pool = p->pool;
    uint64_t names[AT_ONCE];
    for (size_t i = 0, m; i < n; i += m) {
        for (m = 0; m < AT_ONCE && i + m < n; m++) names[m] = pool->names[pages_from(p, plane, first + i)[m]];
        const sac_status st = pool->ops->map(pool->device, address_of(p, plane, first + i), names, m, pool->page_bytes, err);
        if (st == SAC_OK) continue;
        if (i) pool->ops->unmap(pool->device, address_of(p, plane, first), i, pool->page_bytes);
        return st;
    }
    sac_page_planes_count_runs(p, plane, first, n, true);
    return SAC_OK;
}

sac_status sac_page_planes_not_pages(sac_status st, sac_error *err) {
    if (st == SAC_NO_MEMORY && err) err->status = SAC_DEVICE;
    return st == SAC_NO_MEMORY ? SAC_DEVICE : st;
}

sac_status sac_page_planes_map(sac_page_planes *p, const sac_stream *stream, size_t plane, size_t n_bytes, sac_error *err) {
    const sac_device *d = p->pool->device;
    const size_t first = p->n_mapped[plane], n = p->n_taken - first;
    SAC_TRY(sac_page_planes_check(p, err));
    if (first >= pages_for(p, n_bytes)) return SAC_OK;
    assert(pages_for(p, n_bytes) <= p->n_taken);
    SAC_TRY(sac_page_planes_not_pages(sac_page_planes_put(p, plane, first, n, err), err));
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
    bool stays = false;
    for (size_t i = 0; i < p->n_planes; i++) {
        const size_t n_there = p->n_mapped[i] > keep ? p->n_mapped[i] - keep : 0;
        if (!n_there) continue;
        if (!pool->ops->unmap(pool->device, address_of(p, i, keep), n_there, pool->page_bytes)) {
            stays = true;
            continue;
        }
        sac_page_planes_count_runs(p, i, keep, n_there, false);
        p->n_mapped[i] = keep;
    }
    p->is_broken = stays || (p->is_broken && keep);
    if (stays) return; /* what can be read here goes to nobody */
    for (size_t i = 0; i < p->n_planes; i++) sac_page_pool_let_go(pool, pages_from(p, i, keep), n);
    p->n_taken = keep;
}
