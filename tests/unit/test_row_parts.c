/* Packed rows in pages (row_parts.h): the bits of rows in memory of their own, at the edges of parts and pages, while they grow, are put
 * away and come back; and as much memory as there are rows. */
#include "format_test.h"

enum { N_CTX = 700, PAST_ALL = 9000 };

static sac_device cpu;

typedef struct setting {
    const char *kv;
    case_shape shape;
    int64_t part; /* rows of one, as row_parts.h says */
    int64_t due;  /* rows are packed so many at a time */
} setting;

static const setting settings[] = {
    {"int4", {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ctx = N_CTX, .use_cpu = true}, 256, 1},
    {"int4:bits=2", {.n_heads = 7, .n_kv_heads = 1, .head_dim = 24, .n_ctx = N_CTX, .use_cpu = true}, 256, 1},
    {"int4:bits=8", {.n_heads = 2, .n_kv_heads = 2, .head_dim = 40, .n_ctx = N_CTX, .n_layers = 3, .layer = 2}, 256, 1},
    {"int4", {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .n_ctx = PAST_ALL, .chunk = N_CTX, .as_device = true}, 512, 1},
    {"int4", {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .n_ctx = 32 * 256 + 16, .chunk = N_CTX, .as_device = true}, 512, 1},
    {"kivi:residual=64", {.n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .n_ctx = N_CTX, .use_cpu = true}, 256, 64},
    {"kivi:bits=4,group=48,residual=96", {.n_heads = 4, .n_kv_heads = 1, .head_dim = 80, .n_ctx = N_CTX, .use_cpu = true}, 288, 96},
    {"kivi:group=32,residual=160", {.n_heads = 2, .n_kv_heads = 1, .head_dim = 32, .n_ctx = N_CTX, .use_cpu = true}, 256, 160}, /* keys a part ahead */
    {"kivi:bits=8,group=256,residual=256", {.n_heads = 4, .n_kv_heads = 2, .head_dim = 24, .n_ctx = N_CTX, .use_cpu = true}, 256, 256},
    {"kivi:group=16,residual=16", {.n_heads = 2, .n_kv_heads = 2, .head_dim = 24, .n_ctx = N_CTX - 191, .n_layers = 2, .layer = 1}, 256, 16},
    {"kivi:group=32,residual=32", {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .n_ctx = PAST_ALL, .chunk = N_CTX, .as_device = true}, 288, 32},
};

/* Of the prompt that begins, and of one that goes on behind steps. */
static const int64_t prompts[][3] = {{1, 3, 2}, {255, 4, 9}, {256, 2, 270}, {257, 40, 1}, {290, 70, 150}, {511, 1, 1}, {31, 290, 30}};

static sac_page_pool *open_pool(void) {
    sac_page_pool *pool;
    sac_error err;
    assert_ok(sac_page_pool_open(&pool, &cpu, (size_t)16 << 20, &err), err);
    return pool;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void open_one(format_case *f, const setting *s, uint64_t seed, sac_page_pool *pages) {
    format_open_in(f, &s->shape, seed, "dense", s->kv, pages);
    f->c.device.copy = case_move;
}

static void make_room(format_case *f, int64_t n) {
    sac_error err;
    assert_ok(sac_kv_cache_make_room(&f->cache, NULL, n, &err), err);
    assert_int_equal(sac_kv_cache_lack(&f->cache, n), 0);
}

static size_t out_bytes(const format_case *f, int64_t n) {
    return (size_t)(n * f->c.shape.n_heads * f->c.shape.head_dim) * sizeof(float);
}

/* All rows to the host; their pages to nobody; and back. */
static void put_away(format_case *f) {
    const size_t n_bytes = sac_kv_cache_block_bytes(&f->cache, f->cache.n_rows);
    uint8_t *block = malloc(n_bytes + 1);
    assert_non_null(block);
    assert_int_equal(sac_kv_cache_to_block(&f->cache, NULL, 0, f->cache.n_rows, block, 0, f->cache.n_rows), SAC_OK);
    sac_kv_cache_keep(&f->cache, 0);
    assert_int_equal(sac_page_pool_n_free(f->cache.pool), sac_page_pool_n_pages(f->cache.pool));
    assert_int_equal(sac_kv_cache_from_block(&f->cache, NULL, 0, f->cache.n_rows, block, 0, f->cache.n_rows), SAC_OK);
    free(block);
}

static void same_rows(format_case *whole, format_case *paged) {
    const size_t n = (size_t)(whole->c.shape.n_ctx * whole->c.shape.n_kv_heads * whole->c.shape.head_dim);
    float *rows[4];
    for (int i = 0; i < 4; i++) assert_non_null(rows[i] = calloc(n, sizeof *rows[i]));
    assert_int_equal(format_rows(whole, rows[0], rows[1]), format_rows(paged, rows[2], rows[3]));
    assert_memory_equal(rows[0], rows[2], n * sizeof **rows);
    assert_memory_equal(rows[1], rows[3], n * sizeof **rows);
    for (int i = 0; i < 4; i++) free(rows[i]);
}

static void prompt_both(format_case *whole, format_case *paged, int64_t n) {
    make_room(paged, paged->cache.n_rows + n);
    format_prompt(whole, n);
    format_prompt(paged, n);
    assert_memory_equal(whole->c.out, paged->c.out, out_bytes(whole, n));
    same_rows(whole, paged);
}

/* Memory grows where a part begins that something is packed in, and nowhere else. */
static void step_both(const setting *s, format_case *whole, format_case *paged, bool away) {
    const int64_t n = paged->cache.n_rows + 1;
    if (away) put_away(paged);
    sac_kv_cache_trim(&paged->cache, n - 1);
    const size_t had = paged->cache.planes.n_taken;
    make_room(paged, n);
    const int64_t before = (n - 1) / s->due * s->due, behind = n / s->due * s->due;
    const bool grows = (behind + s->part - 1) / s->part > (before + s->part - 1) / s->part;
    assert_int_equal(paged->cache.planes.n_taken > had, grows);
    format_step(whole);
    format_step(paged);
    assert_memory_equal(whole->c.out, paged->c.out, out_bytes(whole, 1));
}

static void rows_are_those_of_memory_of_their_own(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(settings); i++)
        for (size_t j = i % 3; j < SAC_COUNT(prompts); j += 3) {
            const setting *s = &settings[i];
            const int64_t n_ctx = s->shape.n_ctx, begins = least(prompts[j][0], n_ctx - prompts[j][1] - 3);
            format_case whole, paged;
            sac_page_pool *pool = open_pool();
            open_one(&whole, s, i + 10 * j, NULL);
            open_one(&paged, s, i + 10 * j, pool);
            assert_true(paged.arena.used_bytes < whole.arena.used_bytes);
            paged.cache.anew = true;
            make_room(&paged, begins);
            const size_t asked = paged.cache.planes.n_taken;
            paged.cache.anew = false;
            assert_int_equal(sac_kv_cache_lack(&paged.cache, begins), 0);
            prompt_both(&whole, &paged, begins);
            assert_int_equal(paged.cache.planes.n_taken, asked);
            for (int64_t k = 0; k < prompts[j][1]; k++) step_both(s, &whole, &paged, k % 11 == 1);
            prompt_both(&whole, &paged, least(prompts[j][2], n_ctx - 1 - paged.cache.n_rows));
            step_both(s, &whole, &paged, true);
            same_rows(&whole, &paged);
            sac_kv_cache_clear(&paged.cache);
            sac_kv_cache_trim(&paged.cache, 0);
            assert_int_equal(sac_page_pool_n_free(pool), sac_page_pool_n_pages(pool));
            format_close(&whole);
            format_close(&paged);
            sac_page_pool_close(pool);
        }
}

/* Nobody asked for it: no row is packed outside. */
static void rows_without_memory_are_an_error(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(settings); i++) {
        const setting *s = &settings[i];
        const sac_kv_packing *packing;
        sac_page_pool *pool = open_pool();
        format_case f;
        open_one(&f, s, i, pool);
        packing = f.choice.format->packing;
        sac_layer_attention a = format_tokens(&f, s->due, false);
        int64_t left;
        assert_int_equal(packing->seal(f.cache.packing, &a, 0, 0, s->due, NULL, &left), SAC_INTERNAL);
        make_room(&f, s->due);
        assert_int_equal(packing->seal(f.cache.packing, &a, 0, 0, s->due, NULL, &left), SAC_OK);
        format_close(&f);
        sac_page_pool_close(pool);
    }
}

/* Several share a pool: of those that lack pages none loses or overwrites anything. */
static void many_in_one_pool(void **state) {
    (void)state;
    enum { N = 5 };
    for (size_t i = 0; i < 5; i += 4) { /* one of each format, for whose first rows there is memory */
        const setting *s = &settings[i];
        format_case whole[N], paged[N];
        sac_page_pool *pool;
        sac_error err;
        assert_ok(sac_page_pool_open(&pool, &cpu, (size_t)200 << 10, &err), err);
        int n_refused = 0;
        for (size_t k = 0; k < N; k++) {
            open_one(&whole[k], s, k, NULL);
            open_one(&paged[k], s, k, pool);
        }
        for (int round = 0; round < 40; round++)
            for (size_t k = 0; k < N; k++) {
                format_case *f = &paged[k];
                const int64_t n = round % 5 == 0 ? 37 : 1;
                if (f->cache.n_rows + n > s->shape.n_ctx - 64) continue;
                const size_t had = f->cache.planes.n_taken;
                const sac_status st = sac_kv_cache_make_room(&f->cache, NULL, f->cache.n_rows + n, &err);
                if (st != SAC_OK) {
                    assert_int_equal(st, SAC_NO_MEMORY);
                    assert_int_equal(f->cache.planes.n_taken, had);
                    assert_true(sac_kv_cache_lack(&f->cache, f->cache.n_rows + n) > 0);
                    same_rows(&whole[k], f);
                    n_refused++;
                    continue;
                }
                if (n > 1)
                    prompt_both(&whole[k], f, n);
                else
                    step_both(s, &whole[k], f, false);
            }
        assert_true(n_refused > 0);
        for (size_t k = 0; k < N; k++) format_close(&whole[k]), format_close(&paged[k]);
        assert_int_equal(sac_page_pool_n_free(pool), sac_page_pool_n_pages(pool));
        sac_page_pool_close(pool);
    }
}

static int open_cpu(void **state) {
    sac_error err;
    (void)state;
    return sac_device_open(&cpu, SAC_DEVICE_CPU, 0, &err) == SAC_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_memory_of_their_own),
        cmocka_unit_test(rows_without_memory_are_an_error),
        cmocka_unit_test(many_in_one_pool),
    };
    return cmocka_run_group_tests(tests, open_cpu, NULL);
}
