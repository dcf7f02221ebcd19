#include "page_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

/* Of all pools whose devices count them. */
static _Atomic size_t n_runs;

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

/* ---------------------------------------------------------------- planes */

static size_t pages_for(const sac_page_planes *p, size_t n_bytes) {
    const size_t page = p->pool->page_bytes;
    return n_bytes / page + (n_bytes % page > 0);
}

static size_t pages_of_plane(const sac_page_planes *p) {
    return p->plane_bytes / p->pool->page_bytes;
}

/* Those of a plane from its page `first` on. */
static uint32_t *pages_from(const sac_page_planes *p, size_t plane, size_t first) {
    return p->pages + plane * pages_of_plane(p) + first;
}

static uint8_t *address_of(const sac_page_planes *p, size_t plane, size_t page) {
    return p->at + plane * p->plane_bytes + page * p->pool->page_bytes;
}

/* Runs of pages among n of a plane from its page `first` on, of which one may go on with what is before. */
static size_t runs_of(const sac_page_planes *p, size_t plane, size_t first, size_t n) {
    const uint64_t *names = p->pool->names;
    const uint32_t *pages = pages_from(p, plane, 0);
    size_t sum = 0;
    for (size_t i = first; i < first + n; i++) sum += !i || names[pages[i]] != names[pages[i - 1]] + 1;
    return sum;
}

static void count_runs(const sac_page_planes *p, size_t plane, size_t first, size_t n, bool come) {
    if (!p->pool->ops->most_runs) return;
    const size_t sum = runs_of(p, plane, first, n);
    if (come)
        atomic_fetch_add(&n_runs, sum);
    else
        atomic_fetch_sub(&n_runs, sum);
}

static sac_status check(const sac_page_planes *p, sac_error *err) {
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

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Lets go of n pages, whose numbers are no use behind it: those that nobody else has are free. Free ones stay in
 * order, so that who takes several gets runs. */
static void let_go(sac_page_pool *pool, uint32_t *pages, size_t n) {
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

void sac_page_planes_free(sac_page_planes *p) {
    if (p->at) {
        sac_page_planes_shrink(p, 0);
        p->pool->ops->unreserve(p->pool->device, p->at, p->n_planes * p->plane_bytes);
        for (size_t i = 0; p->n_taken && i < p->n_planes; i++) { /* it could not: now nobody has the addresses */
            count_runs(p, i, 0, p->n_mapped[i], false);
            let_go(p->pool, pages_from(p, i, 0), p->n_taken);
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

/* n pages for each of so many planes, whose lists are `stride` numbers apart; false: there are not so many. */
static bool draw(sac_page_pool *pool, size_t n_planes, size_t n, uint32_t *to, size_t stride) {
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

static sac_status no_pages(const sac_page_planes *p, size_t n, sac_error *err) {
    const double page_mib = (double)p->pool->page_bytes / (1 << 20);
    return sac_fail(err, SAC_NO_MEMORY, "%.1f MiB are needed for keys and values, and of %.1f MiB in pages %.1f are left: end or reset other sessions, or give more", page_mib * (double)n,
                    page_mib * (double)p->pool->n_pages, page_mib * (double)sac_page_pool_n_free(p->pool));
}

sac_status sac_page_planes_take(sac_page_planes *p, size_t n_bytes, sac_error *err) {
    const size_t want = pages_for(p, n_bytes);
    SAC_TRY(check(p, err));
    if (want <= p->n_taken) return SAC_OK;
    if (n_bytes > p->plane_bytes) return sac_fail(err, SAC_INTERNAL, "%zu bytes in planes of %zu", n_bytes, p->plane_bytes);
    if (!draw(p->pool, p->n_planes, want - p->n_taken, pages_from(p, 0, p->n_taken), pages_of_plane(p)))
        return no_pages(p, sac_page_planes_lack(p, n_bytes), err);
    p->n_taken = want;
    return SAC_OK;
}

/* n pages of a plane from its page `first` on, where they belong. All of them or none. */
static sac_status put(const sac_page_planes *p, size_t plane, size_t first, size_t n, sac_error *err) {
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
    count_runs(p, plane, first, n, true);
    return SAC_OK;
}

/* What the system lacks is no lack of pages, for which one could wait. */
static sac_status not_pages(sac_status st, sac_error *err) {
    if (st == SAC_NO_MEMORY && err) err->status = SAC_DEVICE;
    return st == SAC_NO_MEMORY ? SAC_DEVICE : st;
}

sac_status sac_page_planes_map(sac_page_planes *p, const sac_stream *stream, size_t plane, size_t n_bytes, sac_error *err) {
    const sac_device *d = p->pool->device;
    const size_t first = p->n_mapped[plane], n = p->n_taken - first;
    SAC_TRY(check(p, err));
    if (first >= pages_for(p, n_bytes)) return SAC_OK;
    assert(pages_for(p, n_bytes) <= p->n_taken);
    SAC_TRY(not_pages(put(p, plane, first, n, err), err));
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
        count_runs(p, i, keep, n_there, false);
        p->n_mapped[i] = keep;
    }
    p->is_broken = stays || (p->is_broken && keep);
    if (stays) return; /* what can be read here goes to nobody */
    for (size_t i = 0; i < p->n_planes; i++) let_go(pool, pages_from(p, i, keep), n);
    p->n_taken = keep;
}

/* ---------------------------------------------------------------- pages that several have */

bool sac_page_planes_may_share(const sac_page_planes *from, size_t n_bytes) {
    const size_t most = from->pool->ops->most_runs;
    size_t n = 0;
    for (size_t i = 0; most && i < from->n_planes; i++) n += runs_of(from, i, 0, n_bytes / from->pool->page_bytes);
    return !most || n + atomic_load(&n_runs) <= most;
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
        return check(to, err);
    }
    for (size_t i = 0; i < to->n_planes; i++) memcpy(pages_from(to, i, 0), pages_from(from, i, 0), n * sizeof *to->pages);
    to->n_taken = n;
    sac_status st = SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < to->n_planes; i++) {
        st = put(to, i, 0, n, err);
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
        let_go(p->pool, &with, 1);
        return sac_fail(err, SAC_DEVICE, "%s: copying a page failed", d->name);
    }
    count_runs(p, plane, page, 1, false);
    *number = with;
    st = put(p, plane, page, 1, err);
    if (st != SAC_OK) {
        *number = had;
        if (ops->maps_over) /* as it was */
            count_runs(p, plane, page, 1, true);
        else if (put(p, plane, page, 1, NULL) != SAC_OK)
            p->n_mapped[plane] = page, p->is_broken = true;
        let_go(p->pool, &with, 1);
        return not_pages(st, err);
    }
    let_go(p->pool, &had, 1);
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
    for (size_t i = 0; !bytes && i < p->n_planes; i++) let_go(p->pool, &(uint32_t){with[i]}, 1);
    if (!bytes) return sac_fail(err, SAC_DEVICE, "no memory of the host to copy a page");
    sac_status st = SAC_OK;
    for (size_t i = p->n_planes; i-- > 0;)
        if (st == SAC_OK)
            st = replace(p, stream, i, page, with[i], n_bytes, bytes, err);
        else
            let_go(p->pool, &(uint32_t){with[i]}, 1);
    free(bytes);
    return st;
}

sac_status sac_page_planes_own(sac_page_planes *p, const sac_stream *stream, size_t from, sac_error *err) {
    const size_t page = from / p->pool->page_bytes, n_bytes = from % p->pool->page_bytes;
    SAC_TRY(check(p, err));
    if (!others_have(p, page)) return SAC_OK;
    sac_page_planes_shrink(p, from);
    SAC_TRY(check(p, err));
    if (!n_bytes) return SAC_OK;
    uint32_t *with = malloc(p->n_planes * sizeof *with);
    if (!with) return sac_fail(err, SAC_DEVICE, "no memory of the host for a list of pages");
    const sac_status st = draw(p->pool, p->n_planes, 1, with, 1) ? replace_all(p, stream, page, with, n_bytes, err) : no_pages(p, p->n_planes, err);
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
