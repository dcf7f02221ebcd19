/* The cache of visual rows on the host and on a device (of which only addresses are used), and its references. */
#include "test.h"
#include "vision_cache.h"

#include <stdlib.h>

enum { ROW_BYTES = 1024, CAPACITY = 8 * ROW_BYTES };

static int n_blocks; /* of the device's memory that are taken */

static sac_status block_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d;
    *out = n_bytes > CAPACITY ? NULL : aligned_alloc(256, n_bytes);
    n_blocks += *out != NULL;
    return *out ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "full");
}
static void block_free(const sac_device *d, void *p) {
    (void)d;
    n_blocks -= p != NULL;
    free(p);
}
static const sac_device device = {.name = "a card", .alloc = block_alloc, .free = block_free};
static const sac_device *const places[] = {NULL, &device};

static void open_cache(sac_vision_cache *c, size_t n_rows, const sac_device *on) {
    sac_error err;
    assert_ok(sac_vision_cache_init(c, n_rows * ROW_BYTES, on, &err), err);
}

static sac_vision_key key_of(int n) {
    sac_vision_key k = {{0}};
    k.hash[0] = (uint8_t)n;
    return k;
}

static sac_vision_entry *reserve(sac_vision_cache *c, int n, size_t n_rows) {
    sac_vision_key key = key_of(n);
    sac_vision_entry *e = sac_vision_cache_reserve(c, &key, n_rows * ROW_BYTES);
    if (e) memset(e->rows, n, e->n_bytes);
    return e;
}

static bool put(sac_vision_cache *c, int n, size_t n_rows) {
    sac_vision_entry *e = reserve(c, n, n_rows);
    if (!e) return false;
    sac_vision_cache_publish(c, e);
    sac_vision_cache_release(c, e);
    return true;
}

static sac_vision_entry *find(sac_vision_cache *c, int n, size_t n_rows) {
    sac_vision_key key = key_of(n);
    return sac_vision_cache_find(c, &key, n_rows * ROW_BYTES);
}

static void expect_rows(const sac_vision_entry *e, int n) {
    const uint8_t *rows = e->rows;
    for (size_t i = 0; i < e->n_bytes; i++) assert_int_equal(rows[i], n);
}

/* Found, with the rows that were put; given back at once. */
static bool holds(sac_vision_cache *c, int n, size_t n_rows) {
    sac_vision_entry *e = find(c, n, n_rows);
    if (!e) return false;
    expect_rows(e, n);
    sac_vision_cache_release(c, e);
    return true;
}

static void close_cache(sac_vision_cache *c) {
    sac_vision_cache_free(c);
    assert_int_equal(n_blocks, 0);
}

#define EACH_PLACE(c, n_rows)                                                                                \
    for (size_t place_ = 0; place_ < SAC_COUNT(places) && (open_cache(&(c), n_rows, places[place_]), true);  \
         close_cache(&(c)), place_++)

static void gives_back_what_was_put(void **state) {
    (void)state;
    sac_vision_cache c;
    EACH_PLACE(c, 8) {
        assert_true(put(&c, 1, 2));
        assert_true(holds(&c, 1, 2));
        assert_false(holds(&c, 2, 2));
        assert_false(holds(&c, 1, 1)); /* the same key, another size */
        assert_int_equal(c.n_hits, 1);
        assert_int_equal(c.n_misses, 2);
        assert_int_equal(c.used_bytes, 2 * ROW_BYTES);
    }
}

static void drops_the_least_recently_used(void **state) {
    (void)state;
    sac_vision_cache c;
    EACH_PLACE(c, 4) {
        put(&c, 1, 2);
        put(&c, 2, 2);
        assert_true(holds(&c, 1, 2));
        put(&c, 3, 2); /* 2 is the oldest use now */
        assert_true(holds(&c, 1, 2));
        assert_false(holds(&c, 2, 2));
        assert_true(holds(&c, 3, 2));
        put(&c, 3, 2); /* again: replaces, does not grow */
        assert_true(c.used_bytes <= 4 * ROW_BYTES);
        assert_true(holds(&c, 3, 2));
    }
}

static void keeps_nothing_when_off_or_too_large(void **state) {
    (void)state;
    sac_vision_cache c;
    EACH_PLACE(c, 0) {
        assert_int_equal(n_blocks, 0);
        assert_false(put(&c, 1, 1));
    }
    EACH_PLACE(c, 2) {
        assert_true(put(&c, 1, 2));
        assert_false(put(&c, 2, 3));
        assert_true(holds(&c, 1, 2)); /* nothing had to go for it */
    }
}

/* Who holds a reference reads the same rows, whatever else is put; its memory comes back with the last one. */
static void what_is_in_use_stays(void **state) {
    (void)state;
    sac_vision_cache c;
    EACH_PLACE(c, 4) {
        put(&c, 1, 2);
        put(&c, 2, 2);
        sac_vision_entry *one = find(&c, 1, 2), *again = find(&c, 1, 2);
        assert_true(holds(&c, 2, 2)); /* 1 is the oldest use */
        assert_true(put(&c, 3, 2));   /* and yet 2 goes */
        assert_false(holds(&c, 2, 2));
        assert_false(put(&c, 4, 3)); /* so much can only be had from 1 */
        expect_rows(one, 1);
        assert_true(holds(&c, 1, 2));
        sac_vision_cache_release(&c, again);
        assert_false(put(&c, 4, 3));
        expect_rows(one, 1);
        sac_vision_cache_release(&c, one);
        assert_true(put(&c, 4, 3));
        assert_false(holds(&c, 1, 2));
    }
}

/* An entry that another takes the place of is freed by its last user. */
static void what_is_replaced_is_freed_by_its_last_user(void **state) {
    (void)state;
    sac_vision_cache c;
    EACH_PLACE(c, 6) {
        put(&c, 1, 2);
        sac_vision_entry *old = find(&c, 1, 2);
        assert_true(put(&c, 1, 1));
        expect_rows(old, 1);
        assert_true(holds(&c, 1, 1));
        assert_false(holds(&c, 1, 2));
        assert_int_equal(c.used_bytes, 3 * ROW_BYTES);
        sac_vision_cache_release(&c, old);
        assert_int_equal(c.used_bytes, ROW_BYTES);
    }
}

/* Room that was reserved and never filled is found by nobody, and comes back. */
static void what_is_not_published_is_not_found(void **state) {
    (void)state;
    sac_vision_cache c;
    EACH_PLACE(c, 4) {
        sac_vision_entry *e = reserve(&c, 1, 4);
        assert_false(holds(&c, 1, 4));
        assert_false(put(&c, 2, 1));
        sac_vision_cache_release(&c, e);
        assert_int_equal(c.used_bytes, 0);
        assert_true(put(&c, 2, 4));
    }
}

/* On a device entries lie side by side in one block, and a gap between two is used again. */
static void gaps_of_a_device_are_used_again(void **state) {
    (void)state;
    sac_vision_cache c;
    uint8_t *at[4];
    open_cache(&c, 8, &device);
    for (int i = 0; i < 4; i++) {
        put(&c, i, 2);
        sac_vision_entry *e = find(&c, i, 2);
        at[i] = e->rows;
        sac_vision_cache_release(&c, e);
        assert_true(at[i] >= c.block && at[i] + 2 * ROW_BYTES <= c.block + CAPACITY);
    }
    sac_vision_entry *first = find(&c, 0, 2), *third = find(&c, 2, 2);
    assert_true(put(&c, 5, 2)); /* in the place of 1, the oldest that nobody uses */
    assert_false(holds(&c, 1, 2));
    sac_vision_entry *e = find(&c, 5, 2);
    assert_ptr_equal(e->rows, at[1]);
    sac_vision_cache_release(&c, e);
    assert_false(put(&c, 6, 4)); /* room for it there is, but not in one piece */
    expect_rows(first, 0);
    expect_rows(third, 2);
    sac_vision_cache_release(&c, first);
    sac_vision_cache_release(&c, third);
    assert_true(put(&c, 6, 8));
    assert_true(holds(&c, 6, 8));
    close_cache(&c);
}

static void a_full_device_is_said(void **state) {
    (void)state;
    sac_vision_cache c;
    sac_error err;
    assert_int_equal(sac_vision_cache_init(&c, (size_t)64 << 20, &device, &err), SAC_NO_MEMORY);
    assert_string_equal(err.text, "a card has no 64 MiB left for the cache of visual rows: give it fewer");
    close_cache(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_was_put),
        cmocka_unit_test(drops_the_least_recently_used),
        cmocka_unit_test(keeps_nothing_when_off_or_too_large),
        cmocka_unit_test(what_is_in_use_stays),
        cmocka_unit_test(what_is_replaced_is_freed_by_its_last_user),
        cmocka_unit_test(what_is_not_published_is_not_found),
        cmocka_unit_test(gaps_of_a_device_are_used_again),
        cmocka_unit_test(a_full_device_is_said),
    };
    return cmocka_run_group_tests_name("vision cache", tests, NULL, NULL);
}
