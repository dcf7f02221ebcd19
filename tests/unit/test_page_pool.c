#define _GNU_SOURCE
/* Pages of memory: addresses that get them, and ranges that share them. */
#include "page_pool.h"

#include "test.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_page(const sac_device *d, const sac_stream *s, uint8_t *at, int value, size_t n) {
    uint8_t *bytes = malloc(n);
    memset(bytes, value, n);
    assert_int_equal(d->upload(s, at, bytes, n), SAC_OK);
    assert_int_equal(d->stream_sync(s, NULL), SAC_OK);
    free(bytes);
}

/* n bytes that are all the same; -1: they are not. */
static int read_page(const sac_device *d, const sac_stream *s, const uint8_t *at, size_t n) {
    uint8_t *bytes = malloc(n);
    assert_int_equal(d->download(s, bytes, at, n), SAC_OK);
    assert_int_equal(d->stream_sync(s, NULL), SAC_OK);
    int value = bytes[0];
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value) value = -1;
    free(bytes);
    return value;
}

enum { SHARED_PLANES = 3, SHARED_PAGES = 4 };

typedef struct sharing {
    const sac_device *d;
    sac_stream s;
    sac_page_pool *pool;
    size_t page;
    sac_page_planes a, b, c;
} sharing;

static size_t n_free(const sharing *x) {
    return sac_page_pool_n_free(x->pool);
}

static uint8_t *at_page(const sharing *x, const sac_page_planes *p, size_t plane, size_t page) {
    return p->at + plane * p->plane_bytes + page * x->page;
}

/* The page of every plane has the value that page k of plane i was given, or none. */
static void expect_pages(const sharing *x, const sac_page_planes *p, size_t n) {
    for (size_t i = 0; i < SHARED_PLANES; i++)
        for (size_t k = 0; k < n; k++)
            assert_int_equal(read_page(x->d, &x->s, at_page(x, p, i, k), x->page), 1 + 10 * (int)i + (int)k);
}

/* A range with all its pages written, and room for as many again. */
static void open_sharing_by(sharing *x, const sac_device *d, const sac_page_ops *ops) {
    sac_error err;
    *x = (sharing){.d = d};
    assert_int_equal(d->stream_open(d, &x->s, 0, NULL), SAC_OK);
    x->page = sac_page_ops_of(d)->page_bytes(d, 1);
    const size_t n_bytes = SHARED_PAGES * x->page;
    assert_int_equal(sac_page_pool_open_by(&x->pool, d, ops, 2 * SHARED_PLANES * n_bytes, &err), SAC_OK);
    assert_int_equal(sac_page_planes_reserve(&x->a, x->pool, SHARED_PLANES, n_bytes, &err), SAC_OK);
    assert_int_equal(sac_page_planes_reserve(&x->b, x->pool, SHARED_PLANES, n_bytes, &err), SAC_OK);
    assert_int_equal(sac_page_planes_reserve(&x->c, x->pool, SHARED_PLANES, n_bytes, &err), SAC_OK);
    assert_int_equal(sac_page_planes_grow(&x->a, &x->s, n_bytes, &err), SAC_OK);
    for (size_t i = 0; i < SHARED_PLANES; i++)
        for (size_t k = 0; k < SHARED_PAGES; k++) write_page(d, &x->s, at_page(x, &x->a, i, k), 1 + 10 * (int)i + (int)k, x->page);
}

static void open_sharing(sharing *x, const sac_device *d) {
    open_sharing_by(x, d, sac_page_ops_of(d));
}

static void open_on_cpu(sharing *x, const sac_page_ops *ops) {
    static sac_device cpu;
    assert_int_equal(sac_device_open(&cpu, SAC_DEVICE_CPU, 0, NULL), SAC_OK);
    open_sharing_by(x, &cpu, ops);
}

static void close_sharing(sharing *x) {
    sac_page_planes_free(&x->a);
    sac_page_planes_free(&x->b);
    sac_page_planes_free(&x->c);
    assert_int_equal(n_free(x), 2 * SHARED_PLANES * SHARED_PAGES);
    sac_page_pool_close(x->pool);
    x->d->stream_close(&x->s);
}

/* Pages that several ranges have are free when the last one has let go of them, whoever it is, and show the same memory until
 * somebody is to write. */
static void check_shared_pages(const sac_device *d) {
    sharing x;
    sac_error err;
    open_sharing(&x, d);
    const size_t page = x.page, all = 2 * SHARED_PLANES * SHARED_PAGES;
    assert_int_equal(sac_page_planes_grow(&x.b, &x.s, page, &err), SAC_OK);
    assert_int_equal(sac_page_planes_share(&x.b, &x.a, 3 * page, &err), SAC_OK);
    assert_int_equal(sac_page_planes_share(&x.c, &x.b, 2 * page, &err), SAC_OK);
    expect_pages(&x, &x.b, 3);
    expect_pages(&x, &x.c, 2);
    assert_int_equal(n_free(&x), all - SHARED_PLANES * SHARED_PAGES);
    assert_int_equal(sac_page_planes_shared(&x.a), 3 * page);
    assert_int_equal(sac_page_planes_shared(&x.c), 2 * page);
    assert_true(sac_page_planes_is_shared(&x.a, 3 * page - 1) && !sac_page_planes_is_shared(&x.a, 3 * page));
    const sac_page_planes *of[] = {&x.a, &x.b, &x.c};
    assert_int_equal(sac_page_planes_only(of, 1), SHARED_PLANES);
    assert_int_equal(sac_page_planes_only(of + 1, 2), 0);
    assert_int_equal(sac_page_planes_only(of, 3), SHARED_PLANES * SHARED_PAGES);
    assert_int_equal(sac_page_planes_only(of, 2), 2 * SHARED_PLANES); /* the last, and that which c has not */
    /* b writes from the middle of its second page on */
    assert_int_equal(sac_page_planes_lack_behind(&x.b, page + page / 2, 3 * page), 2 * SHARED_PLANES);
    assert_int_equal(sac_page_planes_own(&x.b, &x.s, page + page / 2, &err), SAC_OK);
    assert_int_equal(x.b.n_taken, 2);
    for (size_t i = 0; i < SHARED_PLANES; i++) {
        assert_int_equal(read_page(d, &x.s, at_page(&x, &x.b, i, 1), page / 2), 2 + 10 * (int)i);
        assert_int_equal(read_page(d, &x.s, at_page(&x, &x.b, i, 1) + page / 2, page / 2), 0);
        write_page(d, &x.s, at_page(&x, &x.b, i, 1), 99, page);
    }
    expect_pages(&x, &x.a, 4);
    expect_pages(&x, &x.c, 2);
    assert_int_equal(n_free(&x), all - SHARED_PLANES * (SHARED_PAGES + 1));
    assert_int_equal(sac_page_planes_lack_behind(&x.b, page + page / 2, 3 * page), SHARED_PLANES);
    /* at the border of two pages nothing is copied */
    assert_int_equal(sac_page_planes_own(&x.c, &x.s, page, &err), SAC_OK);
    assert_int_equal(x.c.n_taken, 1);
    assert_int_equal(n_free(&x), all - SHARED_PLANES * (SHARED_PAGES + 1));
    /* who had them first leaves */
    sac_page_planes_shrink(&x.a, 0);
    assert_int_equal(n_free(&x), all - 2 * SHARED_PLANES);
    expect_pages(&x, &x.b, 1);
    expect_pages(&x, &x.c, 1);
    assert_int_equal(sac_page_planes_grow(&x.a, &x.s, SHARED_PAGES * page, &err), SAC_OK); /* and gets others */
    expect_pages(&x, &x.b, 1);
    for (size_t i = 0; i < SHARED_PLANES; i++) assert_int_equal(read_page(d, &x.s, at_page(&x, &x.a, i, 0), SHARED_PAGES * page), 0);
    close_sharing(&x);
}

/* A copy for which there is no page changes nothing that counts. */
static void check_no_page_for_a_copy(const sac_device *d) {
    sharing x;
    sac_error err;
    open_sharing(&x, d);
    const size_t page = x.page;
    assert_int_equal(sac_page_planes_share(&x.b, &x.a, 2 * page, &err), SAC_OK);
    assert_int_equal(sac_page_planes_grow(&x.c, &x.s, SHARED_PAGES * page, &err), SAC_OK); /* all that is left */
    assert_int_equal(n_free(&x), 0);
    assert_int_equal(sac_page_planes_own(&x.b, &x.s, page + 1, &err), SAC_NO_MEMORY);
    assert_non_null(strstr(err.text, "are needed for keys and values"));
    expect_pages(&x, &x.b, 2);
    expect_pages(&x, &x.a, 4);
    sac_page_planes_shrink(&x.c, 0);
    assert_int_equal(sac_page_planes_own(&x.b, &x.s, page + 1, &err), SAC_OK);
    expect_pages(&x, &x.b, 1);
    expect_pages(&x, &x.a, 4);
    close_sharing(&x);
}

/* Addresses have memory as far as it was asked for, which is zeroed where it is new, and goes where it is wanted. */
static void check_pages(const sac_device *d) {
    enum { PLANES = 3 };
    sac_page_pool *pool;
    sac_page_planes a, b, nothing = {0};
    sac_stream s;
    sac_error err;
    assert_int_equal(d->stream_open(d, &s, 0, NULL), SAC_OK);
    const size_t page = sac_page_ops_of(d)->page_bytes(d, 1);
    uint8_t *out = malloc(page), *in = malloc(page);
    assert_true(page > 0);
    assert_int_equal(sac_page_pool_open(&pool, d, page - 1, &err), SAC_BAD_ARGUMENT);
    assert_null(pool);
    assert_int_equal(sac_page_pool_open(&pool, d, 7 * page + page / 2, &err), SAC_OK);
    assert_int_equal(sac_page_pool_n_pages(pool), 7);
    assert_int_equal(sac_page_planes_reserve(&a, pool, PLANES, 3 * page - 5, &err), SAC_OK);
    assert_int_equal(sac_page_planes_reserve(&b, pool, PLANES, 100 * page, &err), SAC_OK);
    assert_int_equal(a.plane_bytes, 3 * page);
    assert_int_equal(sac_page_planes_lack(&a, page + 1), 2 * PLANES);
    assert_int_equal(sac_page_planes_grow(&a, &s, page + 1, &err), SAC_OK);
    assert_int_equal(sac_page_planes_lack(&a, 2 * page), 0);
    assert_int_equal(sac_page_pool_n_free(pool), 1);
    memset(in, 0xff, page);
    for (size_t i = 0; i < PLANES; i++) { /* over the border of two pages */
        uint8_t *at = a.at + i * a.plane_bytes + page / 2;
        assert_int_equal(d->download(&s, out, at, page), SAC_OK);
        assert_int_equal(d->stream_sync(&s, NULL), SAC_OK);
        for (size_t k = 0; k < page; k++) assert_int_equal(out[k], 0);
        assert_int_equal(d->upload(&s, at, in, page), SAC_OK);
    }
    assert_int_equal(d->stream_sync(&s, NULL), SAC_OK);
    assert_int_equal(sac_page_planes_grow(&b, &s, 1, &err), SAC_NO_MEMORY);
    assert_non_null(strstr(err.text, "are left"));
    assert_int_equal(b.n_taken, 0);
    assert_int_equal(sac_page_pool_n_free(pool), 1);
    assert_int_equal(sac_page_planes_grow(&a, &s, 3 * page + 1, &err), SAC_INTERNAL);
    sac_page_planes_shrink(&a, page);
    assert_int_equal(sac_page_pool_n_free(pool), 4);
    assert_int_equal(sac_page_planes_grow(&b, &s, page, &err), SAC_OK); /* pages that had something in them */
    for (size_t i = 0; i < PLANES; i++) {
        assert_int_equal(d->download(&s, out, b.at + i * b.plane_bytes, page), SAC_OK);
        assert_int_equal(d->stream_sync(&s, NULL), SAC_OK);
        for (size_t k = 0; k < page; k++) assert_int_equal(out[k], 0);
        assert_int_equal(d->download(&s, out, a.at + i * a.plane_bytes, page), SAC_OK);
        assert_int_equal(d->stream_sync(&s, NULL), SAC_OK);
        for (size_t k = 0; k < page; k++) assert_int_equal(out[k], k < page / 2 ? 0 : 0xff);
    }
    sac_page_planes_shrink(&a, 0); /* in parts */
    sac_page_planes_shrink(&b, 0);
    size_t budget = page + 1;
    sac_page_planes_grow_some(&b, &s, page, &budget);
    assert_true(budget == 0 && b.n_taken == 1 && b.n_mapped[0] == 1 && b.n_mapped[1] == 1 && b.n_mapped[2] == 0);
    assert_int_equal(sac_page_planes_take(&a, 2 * page, &err), SAC_NO_MEMORY);
    assert_int_equal(sac_page_planes_take(&a, page, &err), SAC_OK);
    assert_int_equal(sac_page_planes_map(&a, &s, 1, page, &err), SAC_OK);
    assert_int_equal(d->upload(&s, a.at + a.plane_bytes, in, page), SAC_OK);
    assert_int_equal(sac_page_planes_grow(&b, &s, page, &err), SAC_OK);
    assert_int_equal(d->upload(&s, b.at + 2 * b.plane_bytes, in, page), SAC_OK);
    assert_int_equal(d->stream_sync(&s, NULL), SAC_OK);
    budget = page;
    sac_page_planes_grow_some(&b, &s, 2 * page, &budget); /* there are none */
    assert_true(budget == page && b.n_taken == 1);
    sac_page_planes_free(&a);
    sac_page_planes_free(&b);
    sac_page_planes_free(&nothing);
    assert_int_equal(sac_page_pool_n_free(pool), 7);
    sac_page_pool_close(pool);
    sac_page_pool_close(NULL);
    d->stream_close(&s);
    free(out);
    free(in);
}

/* Bytes of the pool's file that have memory; -1: there is no such file. */
static long long bytes_in_file(void) {
    for (int fd = 3; fd < 256; fd++) {
        char name[64], path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(path, name, sizeof name - 1);
        struct stat info;
        if (n > 0 && (name[n] = 0, strstr(name, "keys and values")) && fstat(fd, &info) == 0) return (long long)info.st_blocks * 512;
    }
    return -1;
}

/* On the CPU what the last one has let go of is the system's again. */
static void memory_goes_back(void **state) {
    (void)state;
    sharing x;
    sac_error err;
    open_on_cpu(&x, &sac_cpu_pages);
    const long long all = (long long)(SHARED_PLANES * SHARED_PAGES * x.page);
    assert_int_equal(bytes_in_file(), all);
    assert_int_equal(sac_page_planes_share(&x.b, &x.a, 2 * x.page, &err), SAC_OK);
    sac_page_planes_shrink(&x.a, 0);
    assert_int_equal(bytes_in_file(), all / 2);
    sac_page_planes_shrink(&x.b, x.page);
    assert_int_equal(bytes_in_file(), all / 4);
    close_sharing(&x);
    assert_int_equal(bytes_in_file(), -1);
}

/* A system that has no place for so many maps to come. */
static int n_maps_fail;

static sac_status map_some(const sac_device *d, void *at, const uint64_t *names, size_t n, size_t page, sac_error *err) {
    const uint64_t nobody = UINT64_MAX; /* of no file */
    if (n_maps_fail && n_maps_fail--) return sac_cpu_pages.map(d, at, &nobody, 1, page, err);
    return sac_cpu_pages.map(d, at, names, n, page, err);
}

/* Where the copy of a page cannot be mapped what was there stays, or is put back; where that cannot be either nothing more is done with
 * the range until it has no pages. Others keep theirs. */
static void no_place_for_a_copy(void **state) {
    (void)state;
    for (int over = 0; over < 2; over++)
        for (int fails = 1; fails <= 2; fails++) {
            const bool breaks = !over && fails == 2;
            sac_page_ops ops = sac_cpu_pages;
            sharing x;
            sac_error err;
            ops.map = map_some, ops.maps_over = over;
            open_on_cpu(&x, &ops);
            assert_int_equal(sac_page_planes_share(&x.b, &x.a, 2 * x.page, &err), SAC_OK);
            const size_t had = n_free(&x);
            n_maps_fail = fails;
            assert_int_equal(sac_page_planes_own(&x.b, &x.s, x.page + 5, &err), SAC_DEVICE); /* no page is lacking */
            assert_int_equal(err.status, SAC_DEVICE);
            n_maps_fail = 0;
            assert_true(n_free(&x) == had && x.b.is_broken == breaks);
            expect_pages(&x, &x.a, 4);
            if (breaks) {
                assert_true(sac_page_planes_lack_behind(&x.b, x.page + 5, 2 * x.page) > 0 && sac_page_planes_lack(&x.b, 1) > 0);
                assert_int_equal(sac_page_planes_own(&x.b, &x.s, x.page + 5, &err), SAC_DEVICE);
                assert_int_equal(sac_page_planes_grow(&x.b, &x.s, x.page, &err), SAC_DEVICE);
                assert_int_equal(sac_page_planes_map(&x.b, &x.s, SHARED_PLANES - 1, 2 * x.page, &err), SAC_DEVICE);
                sac_page_planes_shrink(&x.b, 0);
                assert_int_equal(sac_page_planes_share(&x.b, &x.a, 2 * x.page, &err), SAC_OK);
            }
            expect_pages(&x, &x.b, 2);
            assert_int_equal(sac_page_planes_own(&x.b, &x.s, x.page + 5, &err), SAC_OK);
            write_page(x.d, &x.s, at_page(&x, &x.b, 0, 1), 99, x.page);
            expect_pages(&x, &x.a, 4);
            expect_pages(&x, &x.b, 1);
            n_maps_fail = 1;
            assert_int_equal(sac_page_planes_grow(&x.b, &x.s, 3 * x.page, &err), SAC_DEVICE);
            assert_int_equal(sac_page_planes_grow(&x.b, &x.s, 3 * x.page, &err), SAC_OK);
            close_sharing(&x);
        }
}

/* Pages that would take more runs than the system maps are not shared. Those of a range that has gone count no more. */
static void so_many_runs(void **state) {
    (void)state;
    sac_error err;
    for (int times = 0; times < 2; times++) {
        sac_page_ops ops = sac_cpu_pages;
        sharing x;
        ops.most_runs = 3 * SHARED_PLANES;
        open_on_cpu(&x, &ops); /* a plane is a run */
        assert_int_equal(sac_page_planes_share(&x.b, &x.a, 2 * x.page, &err), SAC_OK);
        assert_int_equal(sac_page_planes_own(&x.b, &x.s, x.page + 5, &err), SAC_OK); /* of two runs now */
        assert_false(sac_page_planes_may_share(&x.a, x.page));
        assert_int_equal(sac_page_planes_share(&x.c, &x.a, 2 * x.page, &err), SAC_NO_MEMORY);
        assert_int_equal(x.c.n_taken, 0);
        sac_page_planes_shrink(&x.b, x.page);
        assert_int_equal(sac_page_planes_share(&x.c, &x.a, 2 * x.page, &err), SAC_OK);
        expect_pages(&x, &x.c, 2);
        assert_false(sac_page_planes_may_share(&x.a, x.page));
        close_sharing(&x);
    }
}

/* A page has another name each time it is taken, and from where it is written anew: for all that have it. */
static void names_of_pages(void **state) {
    (void)state;
    sharing x;
    sac_error err;
    open_on_cpu(&x, &sac_cpu_pages);
    assert_int_equal(sac_page_planes_share(&x.b, &x.a, 2 * x.page, &err), SAC_OK);
    const uint64_t first = sac_page_planes_page(&x.a, x.page - 1), second = sac_page_planes_page(&x.a, x.page);
    assert_true(first != second && sac_page_planes_page(&x.b, x.page + 7) == second);
    sac_page_planes_rename(&x.b, x.page + 5);
    assert_true(sac_page_planes_page(&x.a, x.page) != second && sac_page_planes_page(&x.a, x.page) == sac_page_planes_page(&x.b, x.page));
    assert_true(sac_page_planes_page(&x.b, 0) == first);
    sac_page_planes_rename(&x.b, 2 * x.page); /* it has none there */
    sac_page_planes_rename(&x.b, 99 * x.page);
    sac_page_planes_shrink(&x.b, 0);
    sac_page_planes_shrink(&x.a, 0);
    assert_int_equal(sac_page_planes_grow(&x.a, &x.s, SHARED_PAGES * x.page, &err), SAC_OK); /* the same pages */
    for (size_t k = 0; k < SHARED_PAGES; k++) assert_true(sac_page_planes_page(&x.a, k * x.page) != first);
    close_sharing(&x);
}

/* Pages that come back in any order are runs again. */
static void free_pages_are_runs(void **state) {
    (void)state;
    sharing x;
    sac_error err;
    open_on_cpu(&x, &sac_cpu_pages);
    sac_page_planes_shrink(&x.a, 0);
    for (size_t k = 1; k <= SHARED_PAGES; k++) { /* a page at a time */
        assert_int_equal(sac_page_planes_grow(&x.a, &x.s, k * x.page, &err), SAC_OK);
        assert_int_equal(sac_page_planes_grow(&x.b, &x.s, k * x.page, &err), SAC_OK);
    }
    sac_page_planes_shrink(&x.b, 0);
    sac_page_planes_shrink(&x.a, 0);
    assert_int_equal(sac_page_planes_grow(&x.c, &x.s, SHARED_PAGES * x.page, &err), SAC_OK);
    for (size_t i = 0; i < SHARED_PLANES * SHARED_PAGES; i++)
        assert_true(i % SHARED_PAGES == 0 || x.c.pages[i] == x.c.pages[i - 1] + 1);
    close_sharing(&x);
}

/* A limit of file sizes is one of pages, too: said in one line, with no signal. */
static void a_limit_of_files(void **state) {
    (void)state;
    sac_device d;
    sac_error err;
    sac_page_pool *pool;
    struct rlimit before;
    assert_int_equal(sac_device_open(&d, SAC_DEVICE_CPU, 0, NULL), SAC_OK);
    const size_t page = sac_page_ops_of(&d)->page_bytes(&d, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit less = {2 * page, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    assert_int_equal(sac_page_pool_open(&pool, &d, 3 * page, &err), SAC_NO_MEMORY);
    assert_true(strstr(err.text, "ulimit -f") && !strchr(err.text, '\n'));
    assert_int_equal(sac_page_pool_open(&pool, &d, 2 * page, &err), SAC_OK);
    sac_page_pool_close(pool);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void check_all(const sac_device *d) {
    check_pages(d);
    check_shared_pages(d);
    check_no_page_for_a_copy(d);
}

static void pages_of_the_cpu(void **state) {
    (void)state;
    sac_device d;
    assert_int_equal(sac_device_open(&d, SAC_DEVICE_CPU, 0, NULL), SAC_OK);
    check_all(&d);
}

static void pages_of_a_card(void **state) {
    (void)state;
    sac_device d;
    sac_error err;
    if (sac_device_open(&d, SAC_DEVICE_CUDA, 0, &err) != SAC_OK) skip();
    check_all(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_the_cpu),
        cmocka_unit_test(pages_of_a_card),
        cmocka_unit_test(memory_goes_back),
        cmocka_unit_test(no_place_for_a_copy),
        cmocka_unit_test(so_many_runs),
        cmocka_unit_test(free_pages_are_runs),
        cmocka_unit_test(names_of_pages),
        cmocka_unit_test(a_limit_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
