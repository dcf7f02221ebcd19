#include "picture_data.h"

#include "cpu_flags.h"
#include "resize.h"
#include "resize_kernels.h"

static const struct {
    sac_filter filter;
    sac_resize_arithmetic arithmetic;
} columns[] = {{SAC_FILTER_LANCZOS, SAC_RESIZE_PILLOW},       {SAC_FILTER_BILINEAR, SAC_RESIZE_PILLOW},
               {SAC_FILTER_BICUBIC, SAC_RESIZE_PILLOW},       {SAC_FILTER_BICUBIC, SAC_RESIZE_PILLOW12},
               {SAC_FILTER_BILINEAR, SAC_RESIZE_TORCHVISION}, {SAC_FILTER_BICUBIC, SAC_RESIZE_TORCHVISION}};

static sac_resize_args whole(uint8_t *dst, int dst_w, int dst_h, const uint8_t *src, int src_w, int src_h) {
    return (sac_resize_args){.dst = dst,
                             .dst_row_bytes = (size_t)dst_w * 3,
                             .src = src,
                             .src_w = src_w,
                             .src_h = src_h,
                             .dst_w = dst_w,
                             .dst_h = dst_h,
                             .w = dst_w,
                             .h = dst_h,
                             .filter = SAC_FILTER_BICUBIC};
}

/* Every resize of resize.txt; returns how many were compared. */
static int compare_goldens(const sac_resize_kernels *kernels, int *n_wrong) {
    FILE *f = fopen("tests/golden/vision/resize.txt", "r");
    assert_non_null(f);
    char line[256], sum[6][9];
    int n = 0, kind, sw, sh, dw, dh, seed;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%d %d %d %d %d %d %8s %8s %8s %8s %8s %8s", &kind, &sw, &sh, &dw, &dh,
                                &seed, sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]),
                         12);
        uint8_t *src = picture_new(kind, sw, sh, (uint64_t)seed);
        uint8_t *dst = malloc((size_t)dw * (size_t)dh * 3);
        for (size_t c = 0; c < SAC_COUNT(columns); c++) {
            if (sum[c][0] == '-') continue;
            sac_error err = {0};
            sac_resize_args a = whole(dst, dw, dh, src, sw, sh);
            a.filter = columns[c].filter;
            a.arithmetic = columns[c].arithmetic;
            a.kernels = kernels;
            assert_ok(sac_resize_run(&a, &err), err);
            char mine[9];
            snprintf(mine, sizeof mine, "%08x", crc32_of(dst, (size_t)dw * (size_t)dh * 3));
            if (strcmp(mine, sum[c]) != 0) {
                print_message("%s: %d x %d to %d x %d, filter %d, arithmetic %d differs\n", kernels->name, sw,
                              sh, dw, dh, (int)a.filter, (int)a.arithmetic);
                (*n_wrong)++;
            }
            n++;
        }
        free(src);
        free(dst);
    }
    fclose(f);
    return n;
}

/* Those that this machine has, the reference first; returns how many. */
static int find_variants(const sac_resize_kernels *variants[3]) {
    int n = 0;
    variants[n++] = &sac_resize_ref;
#ifdef __x86_64__
    if (sac_cpu_flags() & SAC_CPU_AVX2) variants[n++] = &sac_resize_avx2;
    if (sac_cpu_flags() & SAC_CPU_AVX512_VNNI) variants[n++] = &sac_resize_vnni;
#endif
    return n;
}

static void test_goldens(void **state) {
    (void)state;
    const sac_resize_kernels *variants[3];
    int n_variants = find_variants(variants);
    for (int v = 0; v < n_variants; v++) {
        int n_wrong = 0, n = compare_goldens(variants[v], &n_wrong);
        print_message("%s: %d of %d resizes differ from Pillow's and torch's\n", variants[v]->name, n_wrong,
                      n);
        assert_true(n >= 1000);
        assert_int_equal(n_wrong, 0);
    }
}

enum { MAX_OUT = 40, MAX_TAPS = 12, MAX_IN = 60, MAX_BYTES = 300, GUARD = 0x5a };

typedef struct drawn_axis {
    sac_resize_axis a;
    int32_t first[MAX_OUT + 4],
        taps[MAX_OUT + 4]; /* of outputs that do not exist: a place that nobody may read */
    int16_t high[MAX_OUT * MAX_TAPS], low[MAX_OUT * MAX_TAPS];
    int8_t digits[MAX_OUT * MAX_TAPS * SAC_RESIZE_DIGITS];
} drawn_axis;

/* Digits, and the weights that they stand for: up to +-2, of torch up to what an int16 holds. */
static void draw_axis(drawn_axis *d, bool torch, uint64_t *seed) {
    memset(d, 0, sizeof *d);
    d->a = (sac_resize_axis){.n_out = test_rand_int(seed, 1, MAX_OUT),
                             .n_taps_max = 4 * test_rand_int(seed, 1, MAX_TAPS / 4),
                             .first = d->first,
                             .taps = d->taps,
                             .high = d->high,
                             .low = torch ? NULL : d->low,
                             .digits = d->digits,
                             .fraction_bits = torch ? 14 : 22};
    for (int i = d->a.n_out; i < MAX_OUT + 4; i++) {
        d->first[i] = INT32_MAX / 8;
        d->taps[i] = 1;
    }
    for (int i = 0; i < d->a.n_out; i++) {
        d->taps[i] = test_rand_int(seed, 1, d->a.n_taps_max);
        d->first[i] = test_rand_int(seed, 0, MAX_IN - d->a.n_taps_max);
        const int most = 127 / d->taps[i] - (d->taps[i] > 1); /* sums stay within an int32 */
        for (int t = 0; t < d->taps[i]; t++) {
            const int k = i * d->a.n_taps_max + t;
            int8_t *four = d->digits + k / 4 * 12 + k % 4;
            four[0] = (int8_t)(torch ? 0 : test_rand_int(seed, -most, most));
            four[4] = (int8_t)test_rand_int(seed, torch ? -127 : -128, torch ? 126 : 127);
            four[8] = (int8_t)test_rand_int(seed, -128, 127);
            int32_t w = four[0] * 65536 + four[4] * 256 + four[8];
            d->high[k] = (int16_t)(torch ? w : w >> SAC_RESIZE_LOW_BITS);
            d->low[k] = (int16_t)(w & ((1 << SAC_RESIZE_LOW_BITS) - 1));
        }
    }
}

typedef uint8_t drawn_rows[MAX_TAPS][MAX_BYTES];

static void draw_rows(drawn_rows rows, const uint8_t *row[MAX_TAPS], uint64_t *seed) {
    for (int r = 0; r < MAX_TAPS; r++) {
        row[r] = rows[r];
        for (int b = 0; b < MAX_BYTES; b++) rows[r][b] = (uint8_t)test_rand_int(seed, 0, 255);
    }
}

/* n_rows rows of either pass; what is behind the slack stays. */
static void compare_horizontal(const sac_resize_kernels *k, const drawn_axis *d, const uint8_t *const *row,
                               int n_rows) {
    drawn_rows want, got;
    uint8_t *to_want[MAX_TAPS], *to_got[MAX_TAPS];
    const size_t n = (size_t)d->a.n_out * 3;
    memset(got, GUARD, sizeof got);
    for (int r = 0; r < MAX_TAPS; r++) to_want[r] = want[r], to_got[r] = got[r];
    sac_resize_ref.horizontal(&d->a, to_want, row, n_rows);
    k->horizontal(&d->a, to_got, row, n_rows);
    for (int r = 0; r < MAX_TAPS; r++) {
        if (r < n_rows) assert_memory_equal(got[r], want[r], n);
        for (size_t b = r < n_rows ? n + SAC_RESIZE_ROW_SLACK : 0; b < MAX_BYTES; b++)
            assert_int_equal(got[r][b], GUARD);
    }
}

static void compare_vertical(const sac_resize_kernels *k, const drawn_axis *d, const uint8_t *const *row,
                             int n_bytes) {
    uint8_t want[MAX_BYTES], got[MAX_BYTES];
    for (int i = 0; i < d->a.n_out; i++) {
        memset(got, GUARD, sizeof got);
        sac_resize_ref.vertical(&d->a, i, want, row, (size_t)n_bytes);
        k->vertical(&d->a, i, got, row, (size_t)n_bytes);
        assert_memory_equal(got, want, (size_t)n_bytes);
        for (int b = n_bytes; b < MAX_BYTES; b++) assert_int_equal(got[b], GUARD);
    }
}

/* Weights that no filter has: the variants are the reference for all of them. */
static void test_variants(void **state) {
    (void)state;
    const sac_resize_kernels *variants[3];
    int n_variants = find_variants(variants);
    uint64_t seed = 5;
    static drawn_axis d;
    static drawn_rows rows;
    const uint8_t *row[MAX_TAPS];
    for (int i = 0; i < 200; i++) {
        draw_axis(&d, i % 3 == 0, &seed);
        draw_rows(rows, row, &seed);
        int n_rows = test_rand_int(&seed, 1, SAC_RESIZE_MAX_ROWS),
            n_bytes = test_rand_int(&seed, 1, MAX_BYTES - 1);
        for (int v = 1; v < n_variants; v++) {
            compare_horizontal(variants[v], &d, row, n_rows);
            compare_vertical(variants[v], &d, row, n_bytes);
        }
    }
}

/* A part computed alone is that part of the whole; and nothing is written beside it. */
static void test_window(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 60; i++) {
        int sw = test_rand_int(&seed, 1, 90), sh = test_rand_int(&seed, 1, 90);
        int dw = test_rand_int(&seed, 1, 90), dh = i % 5 ? test_rand_int(&seed, 1, 90) : sh;
        uint8_t *src = picture_new(0, sw, sh, seed), *dst = malloc((size_t)dw * (size_t)dh * 3);
        sac_error err = {0};
        sac_resize_args a = whole(dst, dw, dh, src, sw, sh);
        a.filter = (sac_filter)test_rand_int(&seed, SAC_FILTER_LANCZOS, SAC_FILTER_HAMMING);
        a.arithmetic = (sac_resize_arithmetic)(i % 3);
        assert_ok(sac_resize_run(&a, &err), err);
        a.x = test_rand_int(&seed, 0, dw - 1);
        a.y = test_rand_int(&seed, 0, dh - 1);
        a.w = test_rand_int(&seed, 1, dw - a.x);
        a.h = test_rand_int(&seed, 1, dh - a.y);
        size_t stride = (size_t)a.w * 3 + 7;
        uint8_t *part = malloc(stride * (size_t)a.h);
        memset(part, 0xab, stride * (size_t)a.h);
        a.dst = part;
        a.dst_row_bytes = stride;
        assert_ok(sac_resize_run(&a, &err), err);
        for (int y = 0; y < a.h; y++) {
            assert_memory_equal(part + (size_t)y * stride,
                                dst + ((size_t)(a.y + y) * (size_t)dw + (size_t)a.x) * 3, (size_t)a.w * 3);
            for (size_t b = (size_t)a.w * 3; b < stride; b++)
                assert_int_equal(part[(size_t)y * stride + b], 0xab);
        }
        free(part);
        free(dst);
        free(src);
    }
}

/* A border that is only thought gives what a border that is there gives. */
static void test_border(void **state) {
    (void)state;
    const uint8_t color[3] = {122, 116, 104};
    uint64_t seed = 4;
    for (int i = 0; i < 40; i++) {
        int sw = test_rand_int(&seed, 1, 60), sh = test_rand_int(&seed, 1, 60), b[4];
        for (int k = 0; k < 4; k++) b[k] = i % 4 == k ? 0 : test_rand_int(&seed, 0, 40);
        int bw = sw + b[0] + b[2], bh = sh + b[1] + b[3];
        int dw = i % 7 ? test_rand_int(&seed, 1, 60) : bw, dh = i % 6 ? test_rand_int(&seed, 1, 60) : bh;
        size_t n = (size_t)dw * (size_t)dh * 3;
        uint8_t *src = picture_new(0, sw, sh, seed), *built = malloc((size_t)bw * (size_t)bh * 3);
        uint8_t *want = malloc(n), *got = malloc(n);
        for (int p = 0; p < bw * bh; p++) memcpy(built + p * 3, color, 3);
        for (int y = 0; y < sh; y++)
            memcpy(built + ((size_t)(y + b[1]) * (size_t)bw + (size_t)b[0]) * 3, src + (size_t)(y * sw) * 3,
                   (size_t)sw * 3);
        sac_error err = {0};
        sac_resize_args a = whole(want, dw, dh, built, bw, bh);
        a.arithmetic = (sac_resize_arithmetic)(i % 3);
        assert_ok(sac_resize_run(&a, &err), err);
        a.dst = got;
        a.src = src;
        a.src_w = sw;
        a.src_h = sh;
        a.border_left = b[0];
        a.border_top = b[1];
        a.border_right = b[2];
        a.border_bottom = b[3];
        memcpy(a.border_rgb, color, 3);
        assert_ok(sac_resize_run(&a, &err), err);
        assert_memory_equal(got, want, n);
        free(src);
        free(built);
        free(want);
        free(got);
    }
}

static void test_one_color_stays(void **state) {
    (void)state;
    uint8_t src[50 * 40 * 3], dst[70 * 11 * 3];
    memset(src, 201, sizeof src);
    for (int filter = SAC_FILTER_LANCZOS; filter <= SAC_FILTER_HAMMING; filter++)
        for (int arithmetic = SAC_RESIZE_PILLOW; arithmetic <= SAC_RESIZE_TORCHVISION; arithmetic++) {
            sac_error err = {0};
            assert_ok(sac_resize(dst, 70, 11, src, 50, 40, (sac_filter)filter,
                                 (sac_resize_arithmetic)arithmetic, &err),
                      err);
            for (size_t i = 0; i < sizeof dst; i++) assert_int_equal(dst[i], 201);
        }
}

static void test_bad_arguments(void **state) {
    (void)state;
    uint8_t src[12] = {0}, dst[12];
    sac_error err;
    const sac_resize_args good = whole(dst, 2, 2, src, 2, 2);
    assert_ok(sac_resize_run(&good, &err), err);
    sac_resize_args a[8];
    for (int i = 0; i < 8; i++) a[i] = good;
    a[0].src_w = 0;
    a[1].dst_h = 0;
    a[2].x = 1;
    a[3].y = -1;
    a[4].border_left = -1;
    a[5].border_top = SAC_RESIZE_MAX_SIDE;
    a[6].filter = (sac_filter)0;
    a[7].w = INT32_MAX;
    for (int i = 0; i < 8; i++) assert_int_equal(sac_resize_run(&a[i], &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_resize(dst, 0, 2, src, 2, 2, SAC_FILTER_BOX, SAC_RESIZE_PILLOW, &err),
                     SAC_BAD_ARGUMENT);
}

/* Far wider than any picture: the weights must fit memory and the ends must be right. */
static void test_long_side(void **state) {
    (void)state;
    const int n = SAC_RESIZE_MAX_SIDE;
    uint8_t *src = picture_new(2, n, 1, 0), dst[3 * 3];
    sac_error err;
    assert_ok(sac_resize(dst, 3, 1, src, n, 1, SAC_FILTER_BILINEAR, SAC_RESIZE_PILLOW, &err), err);
    for (int i = 0; i < 9; i++) assert_in_range(dst[i], 126, 129); /* the mean of a slope that wraps */
    free(src);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),         cmocka_unit_test(test_variants),
        cmocka_unit_test(test_window),          cmocka_unit_test(test_border),
        cmocka_unit_test(test_one_color_stays), cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_long_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
