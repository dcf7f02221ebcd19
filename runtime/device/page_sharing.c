/* page_sharing.c - pages that several ranges have. */
#include "page_planes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool sac_page_planes_may_share(const sac_page_planes *from, size_t n_bytes) {
    const size_t most = from->pool->ops->most_runs;
    size_t n = 0;
    for (size_t i = 0; most && i < from->n_planes; i++) n += sac_page_planes_runs(from, i, 0, n_bytes / from->pool->page_bytes);
    return !most || n + sac_page_planes_all_runs() <= most;
}

static bool others_have(const sac_page_planes *p, size_t page) {
    return page < p->n_taken && atomic_load(&p->pool->n_havers[*pages_from(p, 0, page)]) > 1;
}

size_t sac_page_planes_shared(const sac_page_planes *p) {
    size_t n = 0;
    while (others_have(p, n)) n++;
    return p->pool ? n * p->pool->page_bytes : 0;
}

uint64_t sac_page_planes_page(const sac_page_planes *p, size_t at) {
    const uint32_t page = *pages_from(p, 0, at / p->pool->page_bytes);
    return (uint64_t)atomic_load(&p->pool->births[page]) << 32 | page;
}

void sac_page_planes_rename(sac_page_planes *p, size_t at) {
    if (pages_for(p, at + 1) <= p->n_taken) atomic_fetch_add(&p->pool->births[*pages_from(p, 0, at / p->pool->page_bytes)], 1);
}

bool sac_page_planes_is_shared(const sac_page_planes *p, size_t from) {
    return others_have(p, from / p->pool->page_bytes);
}

sac_status sac_page_planes_share(sac_page_planes *to, const sac_page_planes *from, size_t n_bytes, sac_error *err) {
    sac_page_pool *pool = to->pool;
    const size_t n = n_bytes / pool->page_bytes;
    if (!sac_page_planes_may_share(from, n_bytes)) { /* as of any other failure */
        sac_page_planes_shrink(to, 0);
        return sac_fail(err, SAC_NO_MEMORY, "%zu pages would be mapped once more, and the system maps no more: copy them", n * from->n_planes);
    }
    assert(from->pool == pool && from->n_planes == to->n_planes && n_bytes <= to->plane_bytes && n_bytes % pool->page_bytes == 0);
    for (size_t i = 0; i < from->n_planes; i++)
        for (size_t k = 0; k < n; k++) atomic_fetch_add(&pool->n_havers[pages_from(from, i, 0)[k]], 1);
    sac_page_planes_shrink(to, 0);
    if (to->n_taken) { /* `from` has them still */
        for (size_t i = 0; i < from->n_planes; i++)
            for (size_t k = 0; k < n; k++) atomic_fetch_sub(&pool->n_havers[pages_from(from, i, 0)[k]], 1);
        return sac_page_planes_check(to, err);
    }
    for (size_t i = 0; i < to->n_planes; i++) memcpy(pages_from(to, i, 0), pages_from(from, i, 0), n * sizeof *to->pages);
    to->n_taken = n;
    sac_status st = SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < to->n_planes; i++) {
        st = sac_page_planes_put(to, i, 0, n, err);
        if (st == SAC_OK) to->n_mapped[i] = n;
    }
    if (st != SAC_OK) sac_page_planes_shrink(to, 0);
    return st;
}

/* The plane's page in place of the one that was there, with the first n_bytes of it. */
static sac_status replace(sac_page_planes *p, const sac_stream *stream, size_t plane, size_t page, uint32_t with, size_t n_bytes,
                          uint8_t *bytes, sac_error *err) {
    const sac_device *d = p->pool->device;
    const sac_page_ops *ops = p->pool->ops;
    uint8_t *at = address_of(p, plane, page);
    uint32_t *number = pages_from(p, plane, page), had = *number;
    const bool is_there = p->n_mapped[plane] > page;
    sac_status st = is_there ? d->download(stream, bytes, at, n_bytes) : SAC_DEVICE;
    if (st == SAC_OK && stream) st = d->stream_sync(stream, NULL);
    if (st == SAC_OK && !ops->maps_over && !ops->unmap(d, at, 1, p->pool->page_bytes)) st = SAC_DEVICE;
    if (st != SAC_OK) {
        sac_page_pool_let_go(p->pool, &with, 1);
        return sac_fail(err, SAC_DEVICE, "%s: copying a page failed", d->name);
    }
    sac_page_planes_count_runs(p, plane, page, 1, false);
    *number = with;
    st = sac_page_planes_put(p, plane, page, 1, err);
    if (st != SAC_OK) {
        *number = had;
        if (ops->maps_over) /* as it was */
            sac_page_planes_count_runs(p, plane, page, 1, true);
        else if (sac_page_planes_put(p, plane, page, 1, NULL) != SAC_OK)
            p->n_mapped[plane] = page, p->is_broken = true;
        sac_page_pool_let_go(p->pool, &with, 1);
        return sac_page_planes_not_pages(st, err);
    }
    sac_page_pool_let_go(p->pool, &had, 1);
    st = d->zero(stream, at + n_bytes, p->pool->page_bytes - n_bytes);
    if (st == SAC_OK) st = d->upload(stream, at, bytes, n_bytes);
    if (st == SAC_OK && stream) st = d->stream_sync(stream, NULL);
    if (st == SAC_OK) return SAC_OK;
    p->is_broken = true; /* what was in it is lost */
    return sac_fail(err, SAC_DEVICE, "%s: copying a page failed", d->name);
}

/* Plane 0 is the one that is asked whether others have pages: it comes last. */
static sac_status replace_all(sac_page_planes *p, const sac_stream *stream, size_t page, const uint32_t *with, size_t n_bytes, sac_error *err) {
    uint8_t *bytes = malloc(n_bytes);
    for (size_t i = 0; !bytes && i < p->n_planes; i++) sac_page_pool_let_go(p->pool, &(uint32_t){with[i]}, 1);
    if (!bytes) return sac_fail(err, SAC_DEVICE, "no memory of the host to copy a page");
    sac_status st = SAC_OK;
    for (size_t i = p->n_planes; i-- > 0;)
        if (st == SAC_OK)
            st = replace(p, stream, i, page, with[i], n_bytes, bytes, err);
        else
            sac_page_pool_let_go(p->pool, &(uint32_t){with[i]}, 1);
    free(bytes);
    return st;
}

sac_status sac_page_planes_own(sac_page_planes *p, const sac_stream *stream, size_t from, sac_error *err) {
    const size_t page = from / p->pool->page_bytes, n_bytes = from % p->pool->page_bytes;
    SAC_TRY(sac_page_planes_check(p, err));
    if (!others_have(p, page)) return SAC_OK;
    sac_page_planes_shrink(p, from);
    SAC_TRY(sac_page_planes_check(p, err));
    if (!n_bytes) return SAC_OK;
    uint32_t *with = malloc(p->n_planes * sizeof *with);
    if (!with) return sac_fail(err, SAC_DEVICE, "no memory of the host for a list of pages");
    const sac_status st = sac_page_pool_draw(p->pool, p->n_planes, 1, with, 1) ? replace_all(p, stream, page, with, n_bytes, err) : sac_page_planes_no_pages(p, p->n_planes, err);
    free(with);
    return st;
}

size_t sac_page_planes_lack_behind(const sac_page_planes *p, size_t from, size_t n_bytes) {
    const size_t want = pages_for(p, n_bytes), keep = from / p->pool->page_bytes;
    if (p->is_broken || !others_have(p, keep)) return sac_page_planes_lack(p, n_bytes);
    return want > keep ? (want - keep) * p->n_planes : 0;
}

/* Of one range that others have pages of from its beginning on. */
static size_t only_of(const sac_page_planes *p) {
    size_t first = 0, end = p->n_taken;
    while (first < end) {
        const size_t middle = (first + end) / 2;
        if (others_have(p, middle))
            first = middle + 1;
        else
            end = middle;
    }
    return (p->n_taken - first) * p->n_planes;
}

/* Each page of them all is visited once by a range that has it. */
size_t sac_page_planes_only(const sac_page_planes *const *all, size_t n) {
    size_t sum = 0;
    if (n <= 1) return n ? only_of(all[0]) : 0;
    sac_page_pool *pool = all[0]->pool;
    pthread_mutex_lock(&pool->lock);
    for (int clears = 0; clears < 2; clears++)
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < all[j]->n_planes; i++)
                for (size_t k = 0; k < all[j]->n_taken; k++) {
                    const uint32_t page = *pages_from(all[j], i, k);
                    if (clears)
                        pool->marks[page] = 0;
                    else
                        sum += ++pool->marks[page] == atomic_load(&pool->n_havers[page]);
                }
    pthread_mutex_unlock(&pool->lock);
    return sum;
}
