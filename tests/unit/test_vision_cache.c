#include "test.h"
#include "vision_cache.h"

enum { COLS = 4, ROWS = 3, ENTRY_BYTES = 2 * ROWS * COLS * (int)sizeof(float) };

static sac_vision_key key_of(int n) {
    sac_vision_key k = {{0}};
    k.hash[0] = (uint8_t)n;
    return k;
}

/* Two blocks of ROWS rows at rows 1 and 6 of a buffer of 10. */
static const sac_prompt_span spans[] = {{.first = 1}, {.first = 6}};
static sac_vision_blocks blocks_in(float *buffer) {
    return (sac_vision_blocks){buffer, spans, 2, ROWS, COLS};
}

static void put(sac_vision_cache *c, int n) {
    float buffer[10 * COLS];
    for (int i = 0; i < 10 * COLS; i++) buffer[i] = (float)(100 * n + i);
    sac_vision_key key = key_of(n);
    sac_vision_blocks b = blocks_in(buffer);
    sac_vision_cache_put(c, &key, &b);
}

static bool get(sac_vision_cache *c, int n, float *buffer) {
    sac_vision_key key = key_of(n);
    sac_vision_blocks b = blocks_in(buffer);
    return sac_vision_cache_get(c, &key, &b);
}

static void gives_back_blocks_and_nothing_else(void **state) {
    (void)state;
    sac_vision_cache c;
    sac_vision_cache_init(&c, 10 * ENTRY_BYTES);
    put(&c, 1);
    float buffer[10 * COLS];
    for (int i = 0; i < 10 * COLS; i++) buffer[i] = -1;
    assert_true(get(&c, 1, buffer));
    for (int row = 0; row < 10; row++)
        for (int i = 0; i < COLS; i++) {
            bool in_block = (row >= 1 && row < 4) || (row >= 6 && row < 9);
            assert_float_equal(buffer[row * COLS + i], in_block ? (float)(100 + row * COLS + i) : -1, 0);
        }
    assert_false(get(&c, 2, buffer));
    sac_vision_key key = key_of(1);
    sac_vision_blocks other = {buffer, spans, 1, ROWS, COLS}; /* same key, other shape: no hit */
    assert_false(sac_vision_cache_get(&c, &key, &other));
    assert_int_equal(c.n_hits, 1);
    assert_int_equal(c.n_misses, 2);
    sac_vision_cache_free(&c);
}

static void drops_the_least_recently_used(void **state) {
    (void)state;
    sac_vision_cache c;
    float buffer[10 * COLS];
    sac_vision_cache_init(&c, 2 * ENTRY_BYTES);
    put(&c, 1);
    put(&c, 2);
    assert_true(get(&c, 1, buffer));
    put(&c, 3); /* 2 is the oldest use now */
    assert_true(get(&c, 1, buffer));
    assert_false(get(&c, 2, buffer));
    assert_true(get(&c, 3, buffer));
    put(&c, 3); /* again: replaces, does not grow */
    assert_int_equal(c.used_bytes, 2 * ENTRY_BYTES);
    sac_vision_cache_free(&c);
}

static void keeps_nothing_when_off_or_too_large(void **state) {
    (void)state;
    sac_vision_cache c;
    float buffer[10 * COLS];
    sac_vision_cache_init(&c, 0);
    put(&c, 1);
    assert_false(get(&c, 1, buffer));
    sac_vision_cache_free(&c);
    sac_vision_cache_init(&c, ENTRY_BYTES - 1);
    put(&c, 1);
    assert_int_equal(c.used_bytes, 0);
    sac_vision_cache_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_blocks_and_nothing_else),
        cmocka_unit_test(drops_the_least_recently_used),
        cmocka_unit_test(keeps_nothing_when_off_or_too_large),
    };
    return cmocka_run_group_tests_name("vision cache", tests, NULL, NULL);
}
