#define _DEFAULT_SOURCE
#include "group.h"

#include "closed_device.h"
#include "test.h"

enum { MAX_RANKS = 3, MAX_N = 1000, PIECE_BYTES = 256 }; /* sizes below, at and over a piece */

static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};

static void put(void *to, int64_t i, sac_dtype t, float x) {
    if (t == SAC_DTYPE_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = t == SAC_DTYPE_F16 ? sac_f32_to_f16(x) : sac_f32_to_bf16(x);
}
static float get(const void *from, int64_t i, sac_dtype t) {
    uint16_t h = t == SAC_DTYPE_F32 ? 0 : ((const uint16_t *)from)[i];
    return t == SAC_DTYPE_F32   ? ((const float *)from)[i]
           : t == SAC_DTYPE_F16 ? sac_f16_to_f32(h)
                                : sac_bf16_to_f32(h);
}

typedef struct ranks {
    sac_stream stream[MAX_RANKS];
    const sac_stream *list[MAX_RANKS];
    sac_group group;
    uint8_t *memory[MAX_RANKS]; /* the rank's own, of MAX_RANKS * MAX_N * 4 bytes */
    int n;
} ranks;

static void ranks_open(ranks *r, const sac_device *d, uint8_t *memory, int n) {
    sac_error err;
    r->n = n;
    for (int i = 0; i < n; i++) {
        r->stream[i] = (sac_stream){.device = d};
        r->list[i] = &r->stream[i];
        r->memory[i] = memory + (size_t)i * MAX_RANKS * MAX_N * 4;
    }
    assert_ok(sac_group_open(&r->group, r->list, n, PIECE_BYTES, &err), err);
}

/* Fills every rank with numbers of its own; the expected sum of element i, in the order of ranks. */
static void fill(const ranks *r, float *sum, int64_t n, sac_dtype t, uint64_t *seed) {
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int rank = 0; rank < r->n; rank++) {
        uint8_t host[MAX_N * 4];
        for (int64_t i = 0; i < n; i++) {
            put(host, i, t, 100 * test_rand_float(seed));
            sum[i] += get(host, i, t);
        }
        const sac_stream *s = r->list[rank];
        assert_int_equal(s->device->upload(s, r->memory[rank], host, sac_dtype_row_bytes(t, n)), SAC_OK);
    }
}

static void check_reduce(const ranks *r, int64_t n, sac_dtype t, uint64_t *seed) {
    float sum[MAX_N];
    sac_error err;
    void *data[MAX_RANKS];
    for (int i = 0; i < r->n; i++) data[i] = r->memory[i];
    fill(r, sum, n, t, seed);
    assert_ok(sac_group_all_reduce(&r->group, data, n, t, &err), err);
    for (int rank = 0; rank < r->n; rank++) {
        uint8_t host[MAX_N * 4], want[MAX_N * 4];
        const sac_stream *s = r->list[rank];
        assert_int_equal(s->device->download(s, host, data[rank], sac_dtype_row_bytes(t, n)), SAC_OK);
        for (int64_t i = 0; i < n; i++) put(want, i, t, sum[i]);
        assert_memory_equal(host, want, sac_dtype_row_bytes(t, n));
    }
}

static void check_gather(const ranks *r, size_t n_bytes) {
    sac_error err;
    void *to[MAX_RANKS];
    const void *part[MAX_RANKS];
    for (int i = 0; i < r->n; i++) {
        uint8_t host[MAX_N];
        const sac_stream *s = r->list[i];
        memset(host, 17 * (i + 1), n_bytes);
        to[i] = r->memory[i];
        part[i] = r->memory[i] + (size_t)i * n_bytes; /* its own place within what it receives */
        assert_int_equal(s->device->upload(s, r->memory[i] + (size_t)i * n_bytes, host, n_bytes), SAC_OK);
    }
    assert_ok(sac_group_all_gather(&r->group, to, part, n_bytes, &err), err);
    for (int i = 0; i < r->n; i++) {
        uint8_t host[MAX_RANKS * MAX_N];
        const sac_stream *s = r->list[i];
        assert_int_equal(s->device->download(s, host, to[i], (size_t)r->n * n_bytes), SAC_OK);
        for (size_t k = 0; k < (size_t)r->n * n_bytes; k++)
            assert_int_equal(host[k], 17 * (int)(k / n_bytes + 1));
    }
}

static void check_ranks(const sac_device *d, uint8_t *memory, int n) {
    static const int64_t sizes[] = {1, 63, 64, 65, 128, 129, MAX_N};
    ranks r;
    uint64_t seed = 5;
    ranks_open(&r, d, memory, n);
    for (size_t t = 0; t < SAC_COUNT(types); t++)
        for (size_t i = 0; i < SAC_COUNT(sizes); i++) check_reduce(&r, sizes[i], types[t], &seed);
    for (size_t i = 0; i < SAC_COUNT(sizes); i++) check_gather(&r, (size_t)sizes[i]);
    sac_group_close(&r.group);
}

static void test_processor(void **state) {
    (void)state;
    sac_device d;
    uint8_t *memory = calloc(MAX_RANKS, MAX_RANKS * MAX_N * 4);
    assert_non_null(memory);
    sac_cpu_device_open(&d);
    for (int n = 1; n <= MAX_RANKS; n++) check_ranks(&d, memory, n);
    free(memory);
}

/* Memory of a device is followed by its own copies only. */
static void test_closed_memory(void **state) {
    (void)state;
    assert_true(closed_open());
    check_ranks(&closed_device, closed_region, 2);
}

static sac_status no_download(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    (void)s, (void)to, (void)from, (void)n_bytes;
    return SAC_DEVICE;
}

static void test_a_rank_fails(void **state) {
    (void)state;
    sac_device good, bad;
    ranks r;
    static uint8_t memory[2][MAX_RANKS * MAX_N * 4];
    void *data[] = {memory[0], memory[1]};
    sac_error err;
    sac_cpu_device_open(&good);
    bad = good;
    bad.download = no_download;
    ranks_open(&r, &good, memory[0], 2);
    r.stream[1].device = &bad;
    assert_int_equal(sac_group_all_reduce(&r.group, data, 4, SAC_DTYPE_F32, &err), SAC_DEVICE);
    r.stream[1].device = &good;
    sac_group_close(&r.group);
    sac_group_close(&r.group);
}

static void test_too_many(void **state) {
    (void)state;
    sac_device d;
    sac_stream s = {.device = &d};
    const sac_stream *list[SAC_GROUP_MAX_RANKS + 1];
    sac_group g;
    sac_error err;
    sac_cpu_device_open(&d);
    for (size_t i = 0; i < SAC_COUNT(list); i++) list[i] = &s;
    assert_int_equal(sac_group_open(&g, list, SAC_GROUP_MAX_RANKS + 1, 64, &err), SAC_UNSUPPORTED);
    assert_int_equal(g.n_ranks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processor),
        cmocka_unit_test(test_closed_memory),
        cmocka_unit_test(test_a_rank_fails),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
