/* Every variant of linear_quant gives the bits of sac_quant_dot: any shape, any alignment, any number of rows
 * or threads. Weights end at the end of a page that nothing follows. */
#define _GNU_SOURCE
#include "block_numbers.h"
#include "cpu/weights/linear_quant.h"
#include "cpu_flags.h"
#include "quants.h"
#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MAX_THREADS = 3, LARGE_EXPONENT = 225 /* of mxfp4: sums stay below 2^128 */ };

static const struct {
    const char *name;
    unsigned needs;
} variants[] = {
    {"plain", 0},
    {"avx2", SAC_CPU_AVX2},
    {"vnni", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI},
    {"amx", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AMX_INT8},
};

typedef struct fixture {
    uint64_t seed;
    sac_arena arena;
    sac_pool *pool[MAX_THREADS + 1];
    sac_stream stream[MAX_THREADS + 1];
} fixture;

static fixture *open_fixture(size_t scratch_bytes) {
    fixture *f = calloc(1, sizeof *f);
    sac_error err;
    f->seed = 1;
    assert_ok(sac_arena_open(&f->arena, 2 * sac_stream_bytes(MAX_THREADS, scratch_bytes), &err), err);
    for (int n = 1; n <= MAX_THREADS; n += 2) {
        assert_ok(sac_pool_create(&f->pool[n], n, &err), err);
        assert_ok(sac_stream_init(&f->stream[n], f->pool[n], &f->arena, scratch_bytes, &err), err);
    }
    return f;
}

static void close_fixture(fixture *f) {
    for (int n = 1; n <= MAX_THREADS; n += 2) sac_pool_free(f->pool[n]);
    sac_arena_free(&f->arena);
    free(f);
}

/* ---- weights at the edge ---- */

typedef struct edge {
    uint8_t *map, *data;
    size_t map_bytes;
} edge;

static edge open_edge(size_t n_bytes) {
    edge e = {.map_bytes = (n_bytes + 2 * PAGE - 1) / PAGE * PAGE};
    e.map = mmap(NULL, e.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(e.map != MAP_FAILED);
    assert_int_equal(mprotect(e.map + e.map_bytes - PAGE, PAGE, PROT_NONE), 0);
    e.data = e.map + e.map_bytes - PAGE - n_bytes;
    return e;
}

static void fill_weights(sac_dtype t, uint8_t *w, size_t n_bytes, uint64_t *seed) {
    size_t size = (size_t)sac_dtype_block_bytes(t);
    for (uint8_t *b = w; b < w + n_bytes; b += size) {
        for (size_t i = 0; i < size; i++) b[i] = (uint8_t)test_rand(seed);
        float d = 0.1f * test_rand_float(seed);
        block_put_numbers(t, b, d, test_rand_float(seed));
        if (t == SAC_DTYPE_MXFP4 && test_rand(seed) % 8 == 0)
            b[0] = (uint8_t)test_rand_int(seed, 0, LARGE_EXPONENT);
    }
}

/* ---- a product ---- */

typedef struct product {
    sac_dtype t;
    int64_t m, n, k, gap; /* x and y rows lie `gap` elements further apart than they are long */
    edge w;
    float *x, *y, *want, *bias;
} product;

static void want_rows(product *p) {
    size_t row_bytes = sac_dtype_row_bytes(p->t, p->k);
    void *xq = malloc(sac_activation_row_bytes(p->t, p->k));
    for (int64_t r = 0; r < p->m; r++) {
        sac_quantize_activations(p->t, p->x + r * (p->k + p->gap), xq, p->k);
        for (int64_t c = 0; c < p->n; c++) {
            float *y = &p->want[r * (p->n + p->gap) + c];
            float sum = sac_quant_dot(p->t, p->w.data + (size_t)c * row_bytes, xq, p->k);
            *y = p->bias ? *y + (sum + p->bias[c]) : sum;
        }
    }
    free(xq);
}

static product open_product(fixture *f, sac_dtype t, int64_t m, int64_t n, int64_t k, bool with_bias) {
    product p = {.t = t, .m = m, .n = n, .k = k, .gap = test_rand_int(&f->seed, 0, 3)};
    size_t w_bytes = sac_dtype_row_bytes(t, k) * (size_t)n,
           x_bytes = (size_t)(m * (k + p.gap)) * sizeof(float);
    size_t y_bytes = (size_t)(m * (n + p.gap)) * sizeof(float);
    p.w = open_edge(w_bytes);
    fill_weights(t, p.w.data, w_bytes, &f->seed);
    p.x = malloc(x_bytes);
    p.y = malloc(y_bytes);
    p.want = malloc(y_bytes);
    for (size_t i = 0; i < x_bytes / sizeof(float); i++)
        p.x[i] = test_rand_float(&f->seed) * (test_rand(&f->seed) % 50 == 0 ? 100.0f : 1.0f);
    if (m > 1) memset(p.x + (m / 2) * (k + p.gap), 0, (size_t)k * sizeof(float));
    if (with_bias) p.bias = malloc((size_t)n * sizeof(float));
    for (int64_t i = 0; p.bias && i < n; i++) p.bias[i] = test_rand_float(&f->seed);
    for (size_t i = 0; i < y_bytes / sizeof(float); i++) p.want[i] = test_rand_float(&f->seed);
    memcpy(p.y, p.want, y_bytes);
    return p;
}

static void close_product(product *p) {
    munmap(p->w.map, p->w.map_bytes);
    free(p->x);
    free(p->y);
    free(p->want);
    free(p->bias);
}

static void run_product(fixture *f, const product *p, unsigned flags, int n_threads, float *y) {
    sac_linear_args a = {.y = sac_mat_f32(y, p->m, p->n),
                         .x = sac_mat_f32(p->x, p->m, p->k),
                         .w = sac_weight_of((sac_tensor){p->w.data, p->t, 2, {p->n, p->k}}),
                         .bias = p->bias,
                         .accumulate = p->bias != NULL};
    a.x.stride = p->k + p->gap;
    a.y.stride = p->n + p->gap;
    assert_true(sac_linear_quant_scratch_bytes(p->m, p->k) <= f->stream[n_threads].shared_scratch_bytes);
    assert_int_equal(sac_linear_quant_find(flags)(&f->stream[n_threads], &a), SAC_OK);
}

static void check_product(fixture *f, sac_dtype t, int64_t m, int64_t n, int64_t k, bool with_bias) {
    product p = open_product(f, t, m, n, k, with_bias);
    size_t n_y = (size_t)(m * (n + p.gap));
    float *start = malloc(n_y * sizeof *start);
    memcpy(start, p.y, n_y * sizeof *start);
    want_rows(&p); /* gaps keep their first values in want and in y */
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        if ((sac_cpu_flags() & variants[v].needs) != variants[v].needs) continue;
        for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads += 2) {
            memcpy(p.y, start, n_y * sizeof *start);
            run_product(f, &p, variants[v].needs, n_threads, p.y);
            for (size_t i = 0; i < n_y; i++)
                if (memcmp(&p.y[i], &p.want[i], sizeof *p.y) != 0)
                    fail_msg("%s %s m %d n %d k %d, %d threads: y[%zu] = %a, want %a", sac_dtype_name(t),
                             variants[v].name, (int)m, (int)n, (int)k, n_threads, i, (double)p.y[i],
                             (double)p.want[i]);
        }
    }
    free(start);
    close_product(&p);
}

static const int64_t rows[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 33};

static void all_variants_give_the_same_bits(void **state) {
    (void)state;
    static const int64_t columns[] = {1, 7, 8, 16, 19, 80};
    fixture *f = open_fixture(sac_linear_quant_scratch_bytes(33, 1280));
    for (sac_dtype t = SAC_DTYPE_Q8_0; t < SAC_DTYPE_I8; t++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
                for (int64_t blocks = 1; blocks <= 5; blocks += 2)
                    check_product(f, t, rows[r], columns[c], blocks * sac_dtype_block(t), (r + c) % 2 == 0);
    close_fixture(f);
}

/* More than one stretch of k, whose sums are carried over; the 19 blocks fall unevenly on quads. */
static void long_rows_and_many_rows(void **state) {
    (void)state;
    fixture *f =
        open_fixture(sac_linear_quant_scratch_bytes(1100, 2304) + sac_linear_quant_scratch_bytes(17, 33536));
    for (sac_dtype t = SAC_DTYPE_Q8_0; t < SAC_DTYPE_I8; t++) {
        check_product(f, t, 17, 17, 33536, true);
        check_product(f, t, 1, 33, 33536, false);
        check_product(f, t, 1100, 18, sac_dtype_block(t) == 32 ? 608 : 768, true);
    }
    close_fixture(f);
}

/* A NaN in one row of x reaches that row's sums and no other. */
static void nan_stays_in_its_row(void **state) {
    (void)state;
    fixture *f = open_fixture(sac_linear_quant_scratch_bytes(20, 512));
    for (sac_dtype t = SAC_DTYPE_Q8_0; t < SAC_DTYPE_I8; t++)
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
            if ((sac_cpu_flags() & variants[v].needs) != variants[v].needs) continue;
            product p = open_product(f, t, 20, 33, 512, false);
            p.x[3 * (p.k + p.gap) + 100] = __builtin_nanf("");
            run_product(f, &p, variants[v].needs, 1, p.y);
            for (int64_t r = 0; r < p.m; r++)
                for (int64_t c = 0; c < p.n; c++)
                    assert_int_equal(__builtin_isnan(p.y[r * (p.n + p.gap) + c]), r == 3);
            close_product(&p);
        }
    close_fixture(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_variants_give_the_same_bits),
        cmocka_unit_test(long_rows_and_many_rows),
        cmocka_unit_test(nan_stays_in_its_row),
    };
    return cmocka_run_group_tests_name("linear_quant", tests, NULL, NULL);
}
