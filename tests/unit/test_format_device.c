/* Packed caches on a device, without one (closed_device.h): what is stored must have the bits of the same
 * cache on the CPU, and steps its outputs. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "blocks.h"
#include "closed_device.h"
#include "format_test.h"

enum { MAX_ELEMENTS = 1 << 16 };

static sac_ops guarded;

/* The twin of a case in the region, opened for the test. */
static void to_device(format_case *f, const case_shape *s, uint64_t seed, const char *prefill,
                      const char *kv) {
    sac_error err = {0};
    memset(f, 0, sizeof *f);
    case_open(&f->c, s, seed);
    sac_attention_shape *shape = &f->c.shape;
    closed_let_in(true);
    closed_clear();
    sac_arena there = sac_arena_over(closed_region, CLOSED_BYTES);
    shape->device = &closed_device;
    shape->dtype = SAC_DTYPE_F32;
    f->c.q = sac_arena_take(&there, (size_t)(s->n_ctx * shape->hidden) * sizeof(float));
    f->c.kv = sac_arena_take(&there, 2 * (size_t)(s->n_ctx * s->n_kv_heads * s->head_dim) * sizeof(float));
    assert_ok(sac_prefill_open(&f->c.prefill, prefill, shape, &err), err);
    assert_ok(sac_decode_open(&f->c.decode, "dense", shape, &err), err);
    assert_ok(sac_kv_choice_parse(&f->choice, kv, shape, &err), err);
    assert_ok(sac_kv_cache_open(&f->cache, &f->choice, shape, 0, &err), err);
    assert_ok(sac_arena_open(&f->c.method_arena, (size_t)1 << 26, &err), err);
    assert_ok(sac_arena_open(&f->arena, (size_t)1 << 26, &err), err);
    sac_prefill_take(&f->c.prefill, shape, &(sac_memory){&f->c.method_arena, &there});
    sac_arena plan = sac_arena_measure(), plan_there = sac_arena_measure();
    sac_kv_cache_take(&f->cache, &plan_there, &plan);
    sac_kv_cache_lend(&f->cache, &plan_there);
    size_t before = there.used_bytes;
    sac_kv_cache_take(&f->cache, &there, &f->arena);
    sac_kv_cache_lend(&f->cache, &there);
    assert_int_equal(f->arena.used_bytes, plan.used_bytes);
    assert_int_equal(there.used_bytes - before, plan_there.used_bytes);
    assert_true(there.used_bytes < CLOSED_BYTES);
    sac_kv_cache_clear(&f->cache);
    guarded = closed_ops(&f->c.ops);
    f->ops = &guarded;
    f->let_in = closed_let_in;
    f->important = malloc((size_t)(s->n_ctx * s->n_kv_heads) * sizeof *f->important);
}

/* As format_prompt and format_step; the region is closed to everything but ops and copies. */
static void run_there(format_case *f, int64_t n, bool step) {
    closed_let_in(true);
    sac_layer_attention a = format_tokens(f, n, step);
    int64_t left = a.past + 1;
    a.ops = f->ops;
    closed_let_in(false);
    if (step) {
        assert_int_equal(f->choice.format->packing->attend(f->cache.packing, &a, &left), SAC_OK);
        f->cache.layer_rows[f->c.layer] = left;
    } else {
        assert_int_equal(sac_prefill_attend(&f->c.prefill, &a), SAC_OK);
        sac_important important = sac_prefill_important(&f->c.prefill);
        assert_int_equal(sac_kv_cache_end_layer(&f->cache, &a, a.past + n, &important), SAC_OK);
    }
    closed_let_in(true);
    format_finish(f, n);
}

/* All that is stored, as it comes back. */
static void expect_same_rows(format_case *here, format_case *there) {
    static float x[2][MAX_ELEMENTS], y[2][MAX_ELEMENTS];
    const sac_attention_shape *s = &here->c.shape;
    assert_true(s->n_kv_heads * s->n_ctx * s->head_dim <= MAX_ELEMENTS);
    assert_int_equal(sac_kv_cache_bytes_used(&here->cache), sac_kv_cache_bytes_used(&there->cache));
    int64_t n = format_rows(here, x[0], x[1]);
    assert_int_equal(format_rows(there, y[0], y[1]), n);
    for (int head = 0; head < s->n_kv_heads; head++)
        for (int i = 0; i < 2; i++) {
            int64_t at = head * s->n_ctx * s->head_dim;
            assert_memory_equal(x[i] + at, y[i] + at, (size_t)(n * s->head_dim) * sizeof(float));
        }
}

/* Codes, ranges, factors and bits of all blocks; where they lie. */
static void expect_same_blocks(const format_case *here, const format_case *there) {
    const sac_kv_blocks *x = here->cache.packing, *y = there->cache.packing; /* a state begins with them */
    const sac_kv_block_layer *p = &x->layer[here->c.layer], *q = &y->layer[there->c.layer];
    assert_int_equal(sac_kv_cache_bytes_used(&here->cache), sac_kv_cache_bytes_used(&there->cache));
    assert_int_equal(p->n_parts, q->n_parts);
    assert_int_equal(p->n_blocks, q->n_blocks);
    assert_int_equal(p->used_bytes, q->used_bytes);
    for (int i = 0; i < p->n_parts; i++) assert_int_equal(p->part[i].n, q->part[i].n);
    assert_memory_equal(p->memory, q->memory, p->used_bytes);
    assert_int_equal(p->n_bits_bytes, q->n_bits_bytes);
    assert_memory_equal(p->bits, q->bits, p->n_bits_bytes);
}

static void compare_prompts(format_case *here, format_case *there, int64_t n) {
    format_prompt(here, n);
    run_there(there, n, false);
    assert_memory_equal(here->c.out, there->c.out, (size_t)(n * here->c.shape.hidden) * sizeof(float));
    expect_same_rows(here, there);
}

/* A prompt, steps, and where there is room another prompt. */
static void compare_each(const case_shape *shape, const char *prefill, const char *kv, int64_t prompt,
                         int n_steps, void (*expect)(const format_case *here, const format_case *there)) {
    format_case here, there;
    format_open(&here, shape, 5, prefill, kv);
    to_device(&there, shape, 5, prefill, kv);
    compare_prompts(&here, &there, prompt);
    if (expect) expect(&here, &there);
    for (int i = 0; i < n_steps; i++) {
        format_step(&here);
        run_there(&there, 1, true);
        for (int c = 0; c < here.c.shape.hidden; c++) {
            double diff = fabs((double)here.c.out[c] - (double)there.c.out[c]);
            assert_true(diff <= 1e-5 * (1 + fabs((double)here.c.out[c])));
        }
        if (expect) expect(&here, &there);
    }
    expect_same_rows(&here, &there);
    if (here.c.n + 25 <= shape->n_ctx) compare_prompts(&here, &there, 25);
    assert_true(here.c.stats.decode_rows == there.c.stats.decode_rows);
    assert_true(here.c.stats.decode_budget == there.c.stats.decode_budget);
    assert_true(here.c.stats.n_decode_mass == there.c.stats.n_decode_mass);
    assert_true(fabs(here.c.stats.decode_mass - there.c.stats.decode_mass) < 1e-5);
    format_close(&here);
    format_close(&there);
}

static void compare(const case_shape *shape, const char *prefill, const char *kv, int64_t prompt,
                    int n_steps) {
    compare_each(shape, prefill, kv, prompt, n_steps, expect_same_blocks);
}

/* Prompts that leave a tail and prompts that do not, steps past several packings. */
static void mixed_on_a_device(void **state) {
    static const case_shape shapes[] = {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 400},
                                        {.n_heads = 7, .n_kv_heads = 1, .head_dim = 80, .n_ctx = 300},
                                        {.n_heads = 3, .n_kv_heads = 3, .head_dim = 24, .n_ctx = 300}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(shapes); i++) {
        compare(&shapes[i], "zipvl:min=0,recent=8,random=8,tau=0.8", "mixed:gap=40,tau=0.7", 150, 100);
        compare(&shapes[i], "zipvl:min=0,recent=8,random=8,ratio=0.421", "mixed:gap=33", 97, 40);
        compare(&shapes[i], "zipvl:min=0,recent=8,random=8,ratio=0.421", "mixed:gap=33,k_group=16,plain=20",
                97, 40);
        compare(&shapes[i], "dense", "mixed:gap=50,high=8,low=4", 64, 60);
        compare(&shapes[i], "dense", "mixed:gap=50,tau=1", 20, 60);
        compare(&shapes[i], "zipvl:min=0,recent=8,random=8,tau=0.8", "mixed:gap=33,rope=before", 97, 80);
        compare(&shapes[i], "zipcache", "mixed:gap=33,rope=before,k_group=16,plain=20", 97, 80);
        compare(&shapes[i], "zipvl:min=0,tau=0.5,recent=4,random=4", "mixed:gap=40,low=0,tau=0.6", 120, 90);
    }
}

/* A step that packs a tail stops for the device once: what is chosen by is fetched in one piece. */
static void packing_waits_once(void **state) {
    const case_shape shape = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 300};
    format_case f;
    int n_packings = 0;
    (void)state;
    to_device(&f, &shape, 5, "dense", "mixed:gap=40,tau=0.7");
    run_there(&f, 64, false);
    for (int i = 0; i < 130; i++) {
        int64_t n = closed_n_downloads;
        run_there(&f, 1, true);
        bool packs = f.cache.layer_rows[f.c.layer] == 0;
        assert_int_equal(closed_n_downloads - n, packs);
        n_packings += packs;
    }
    assert_int_equal(n_packings, 3);
    format_close(&f);
}

/* A step that mixes only the heaviest packed rows. */
static void mixed_with_top_p(void **state) {
    const case_shape shape = {
        .n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 400, .measure_mass = true};
    (void)state;
    compare(&shape, "zipvl:min=0,recent=8,random=8,tau=0.8", "mixed:gap=40,tau=0.7,top_p=0.6", 150, 100);
    compare(&shape, "dense", "mixed:gap=50,high=8,low=4,top_p=0.9", 64, 60);
    compare(&shape, "dense", "mixed:gap=50,top_p=0.3", 20, 60);
    compare(&shape, "zipcache", "mixed:gap=33,rope=before,top_p=0.7", 97, 80);
}

/* Salient tokens of every head its own, the whole cache packed anew and not. */
static void zipcache_on_a_device(void **state) {
    static const case_shape shapes[] = {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 400},
                                        {.n_heads = 7, .n_kv_heads = 1, .head_dim = 80, .n_ctx = 300}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(shapes); i++) {
        compare(&shapes[i], "zipcache:salient=0.4", "zipcache:gap=40", 150, 100);
        compare(&shapes[i], "zipcache:salient=0.4", "zipcache:gap=40,requantise=0,salient=0.3", 97, 90);
        compare(&shapes[i], "zipcache:salient=0.4", "zipcache:gap=40,k_group=32", 150, 100);
        compare(&shapes[i], "dense", "zipcache:gap=50,high=8,low=4,salient=1", 20, 60);
    }
}

static void kivi_on_a_device(void **state) {
    static const case_shape shapes[] = {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .n_ctx = 400},
                                        {.n_heads = 7, .n_kv_heads = 1, .head_dim = 80, .n_ctx = 300}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(shapes); i++) {
        compare_each(&shapes[i], "dense", "kivi:group=16,residual=32", 150, 110, NULL);
        compare_each(&shapes[i], "dense", "kivi:group=32,residual=64,bits=4", 20, 150, NULL);
        compare_each(&shapes[i], "dense", "kivi:group=32,residual=32,bits=8", 128, 70, NULL);
    }
}

static void int4_on_a_device(void **state) {
    static const case_shape shapes[] = {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 250},
                                        {.n_heads = 3, .n_kv_heads = 3, .head_dim = 24, .n_ctx = 250}};
    static const char *const lines[] = {"int4", "int4:bits=2", "int4:bits=8"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(shapes); i++)
        for (size_t j = 0; j < SAC_COUNT(lines); j++)
            compare_each(&shapes[i], "dense", lines[j], 133, 40, NULL);
}

/* A prompt of several tiles, tiles of steps, and steps before the first tile. */
static void kvarn_on_a_device(void **state) {
    static const case_shape shapes[] = {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 600},
                                        {.n_heads = 7, .n_kv_heads = 1, .head_dim = 64, .n_ctx = 600}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(shapes); i++) {
        compare_each(&shapes[i], "dense", "kvarn", 300, 140, NULL);
        compare_each(&shapes[i], "dense", "kvarn:k=2,v=4,first=4", 120, 150, NULL);
        compare_each(&shapes[i], "zipvl:min=0,recent=8,random=8,tau=0.8", "kvarn:k=8,v=8,first=2", 256, 10, NULL);
    }
}

int main(void) {
    if (!closed_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_on_a_device),  cmocka_unit_test(mixed_with_top_p),
        cmocka_unit_test(packing_waits_once), cmocka_unit_test(zipcache_on_a_device),
        cmocka_unit_test(kivi_on_a_device),   cmocka_unit_test(int4_on_a_device),
        cmocka_unit_test(kvarn_on_a_device),
    };
    return cmocka_run_group_tests_name("packed caches on a device", tests, NULL, NULL);
}
