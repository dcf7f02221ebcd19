/* Reducers of videos: what stays against definitions in fp64 by plain sorting. */
#include "reduce_test.h"

/* ---------------------------------------------------------------- definitions */

/* 1 - cosine with the row of the same cell a step before. */
static void evs_scores(const sac_reduce_video *v, const float *x, double *score) {
    for (int64_t i = 0; i < v->n_tiles * v->cells; i++) {
        const float *a = x + i * v->cols, *b = a - v->cells * v->cols;
        double dot = 0, aa = 0, bb = 0;
        score[i] = 255;
        if (i < v->cells) continue;
        for (int64_t c = 0; c < v->cols; c++) {
            dot += (double)a[c] * (double)b[c];
            aa += (double)a[c] * (double)a[c];
            bb += (double)b[c] * (double)b[c];
        }
        score[i] = 1 - dot / fmax(sqrt(aa * bb), 1e-8);
    }
}

static double gauss(const double *x, const double *centre, int64_t n) {
    static const double twice[] = {0.25, 0.5, 1, 2, 4};
    double d = 0, g = 0;
    for (int64_t c = 0; c < n; c++) d += pow(x[c] - centre[c], 2);
    for (int k = 0; k < 5; k++) g += exp(-d / twice[k]);
    return g;
}

/* Each cell's -(both G), and each frame's wish: rate * (1 + softmax - mean) * P. */
static void vidcom2_scores(const sac_reduce_video *v, const float *x, double rate, double temperature,
                           double *score, double *wish) {
    const int64_t n = v->n_tiles * v->cells, half = v->cols / 2;
    double *y = calloc((size_t)(n * half), sizeof *y), *variance = calloc((size_t)v->cols, sizeof *variance);
    double *video = calloc((size_t)half, sizeof *video), *frame = calloc((size_t)half, sizeof *frame),
           most = -1e9, sum = 0;
    for (int64_t c = 0; c < v->cols; c++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++) mean += (double)x[i * v->cols + c] / (double)n;
        for (int64_t i = 0; i < n; i++) variance[c] += pow((double)x[i * v->cols + c] - mean, 2);
    }
    for (int64_t c = 0, to = 0; c < v->cols; c++) {
        int64_t before = 0;
        for (int64_t d = 0; d < v->cols; d++)
            before += variance[d] < variance[c] || (variance[d] == variance[c] && d < c);
        if (before >= half) continue;
        for (int64_t i = 0; i < n; i++) y[i * half + to] = (double)x[i * v->cols + c];
        to++;
    }
    for (int64_t i = 0; i < n; i++) {
        double length = 0;
        for (int64_t c = 0; c < half; c++) length += pow(y[i * half + c], 2);
        for (int64_t c = 0; c < half; c++) video[c] += (y[i * half + c] /= sqrt(length)) / (double)n;
    }
    for (int64_t f = 0; f < v->n_tiles; f++) {
        const double *z = y + f * v->cells * half;
        memset(frame, 0, (size_t)half * sizeof *frame);
        for (int64_t i = 0; i < v->cells * half; i++) frame[i % half] += z[i] / (double)v->cells;
        wish[f] = 0;
        for (int64_t i = 0; i < v->cells; i++) {
            const double g = gauss(z + i * half, video, half);
            score[f * v->cells + i] = -g - gauss(z + i * half, frame, half);
            wish[f] -= g / (double)v->cells;
        }
        most = fmax(most, wish[f]);
    }
    for (int64_t f = 0; f < v->n_tiles; f++) sum += wish[f] = exp((wish[f] - most) / temperature);
    for (int64_t f = 0; f < v->n_tiles; f++)
        wish[f] = fmin(1, rate * (1 + wish[f] / sum - 1 / (double)v->n_tiles)) * (double)v->cells;
    free(y), free(variance), free(video), free(frame);
}

/* Ascending and unique, and within [first, first + n) the n_best highest scores, but for those that are as near as rounding. */
static void expect_best(const double *score, int64_t first, int64_t n, const int32_t *kept, int64_t n_best) {
    double lowest = INFINITY, highest = -INFINITY;
    bool *stays = calloc((size_t)n, 1);
    for (int64_t i = 0; i < n_best; i++) {
        assert_true(kept[i] >= first && kept[i] < first + n && (i == 0 || kept[i] > kept[i - 1]));
        stays[kept[i] - first] = true;
    }
    for (int64_t i = 0; i < n; i++) {
        if (stays[i])
            lowest = fmin(lowest, score[first + i]);
        else
            highest = fmax(highest, score[first + i]);
    }
    assert_true(lowest >= highest - 1e-6);
    free(stays);
}

/* ---------------------------------------------------------------- choices */

static const sac_reduce_video videos[] = {{1, 6, 8},   {2, 1, 4},   {3, 5, 7},   {8, 16, 32}, {5, 49, 24},
                                          {17, 9, 16}, {24, 12, 9}, {40, 3, 12}, {9, 64, 48}};

static void evs_keeps_what_changes(void **state) {
    (void)state;
    static const double rates[] = {0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999};
    uint64_t random = 1;
    for (size_t k = 0; k < SAC_COUNT(videos); k++)
        for (size_t q = 0; q < SAC_COUNT(rates); q++) {
            const sac_reduce_video *v = &videos[k];
            const int64_t all = v->n_tiles * v->cells;
            char line[40];
            snprintf(line, sizeof line, "evs:prune=%g", rates[q]);
            const sac_reduce r = reducer(line);
            float *x = draw(v, &random);
            int32_t *kept = malloc((size_t)all * sizeof *kept);
            double *score = malloc((size_t)all * sizeof *score);
            const int64_t n = choose(&r, v, x, kept), want = (int64_t)floor((double)all * (1 - rates[q]));
            assert_int_equal(n, want > v->cells ? want : v->cells);
            evs_scores(v, x, score);
            if (n < all) {
                expect_best(score, 0, all, kept, n);
                for (int32_t i = 0; i < v->cells; i++)
                    assert_int_equal(kept[i], i); /* the first step is whole */
            }
            free(x), free(kept), free(score);
        }
}

/* Nothing changes: equal ones stay by their place. And what fell out on the way never comes back. */
static void evs_breaks_ties_by_place(void **state) {
    (void)state;
    const sac_reduce_video v = {6, 4, 3};
    const sac_reduce r = reducer("evs:prune=0.5");
    float x[6 * 4 * 3];
    int32_t kept[24], some[24];
    for (int i = 0; i < 72; i++) x[i] = (float)(i % 12 + 1);
    x[3 * 12 + 4] = -7; /* cell 1 of step 3, and so of step 4 */
    assert_int_equal(choose(&r, &v, x, kept), 12);
    static const int32_t want[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17};
    assert_memory_equal(kept, want, sizeof want);
    void *s = calloc(1, r.reducer->state_bytes(r.p, &v));
    for (int t = 0; t < 4; t++) r.reducer->see(r.p, &v, s, t, x + t * 12);
    r.reducer->choose_video(NULL, r.p, &v, s, 4, (sac_mat){0}, some, 12);
    for (int i = 0; i < 12; i++) {
        bool stays = kept[i] >= 16;
        for (int k = 0; k < 12; k++) stays = stays || some[k] == kept[i];
        assert_true(stays);
    }
    free(s);
}

static void expect_vidcom2(const sac_reduce_video *v, float *x, double rate, double temperature) {
    const int64_t all = v->n_tiles * v->cells;
    char line[80];
    snprintf(line, sizeof line, "vidcom2:rate=%g,temperature=%g", rate, temperature);
    const sac_reduce r = reducer(line);
    int32_t *kept = malloc((size_t)all * sizeof *kept);
    double *score = malloc((size_t)all * sizeof *score), *wish = malloc((size_t)v->n_tiles * sizeof *wish),
           cut = 0;
    const int64_t n = choose(&r, v, x, kept), want = (int64_t)floor((double)all * rate + 0.5);
    assert_int_equal(n, want > v->n_tiles ? want : v->n_tiles);
    vidcom2_scores(v, x, rate, temperature, score, wish);
    for (int64_t f = 0; f < v->n_tiles; f++)
        cut += wish[f]; /* the count, unless a frame is full or would have none */
    int64_t at = 0;
    for (int64_t f = 0; n < all && f < v->n_tiles; f++) {
        int64_t mine = 0;
        while (at + mine < n && kept[at + mine] < (f + 1) * v->cells) mine++;
        assert_true(mine >= 1);
        expect_best(score, f * v->cells, v->cells, kept + at, mine);
        if (fabs(cut - (double)n) < 0.5 && wish[f] >= 1) assert_true(fabs((double)mine - wish[f]) < 2);
        at += mine;
    }
    if (n < all) assert_int_equal(at, n);
    free(kept), free(score), free(wish);
}

static void vidcom2_keeps_what_is_unlike_the_rest(void **state) {
    (void)state;
    static const double rates[] = {0.01, 0.1, 0.25, 0.5, 0.75, 0.95};
    uint64_t random = 2;
    for (size_t k = 0; k < SAC_COUNT(videos); k++)
        for (size_t q = 0; q < SAC_COUNT(rates); q++) {
            float *x = draw(&videos[k], &random);
            expect_vidcom2(&videos[k], x, rates[q], q % 2 ? 0.01 : 0.3);
            free(x);
        }
}

/* One frame is unlike all others: it has more. */
static void vidcom2_gives_a_unique_frame_more(void **state) {
    (void)state;
    const sac_reduce_video v = {10, 20, 16};
    const sac_reduce r = reducer("vidcom2:rate=0.25");
    float x[10 * 20 * 16];
    int32_t kept[200];
    int of_frame[10] = {0};
    uint64_t random = 3;
    for (int i = 0; i < 3200; i++)
        x[i] = (float)((i / 320 != 7 ? 1 : i % 2 ? -1 : 3) + 0.05 * random_number(&random));
    assert_int_equal(choose(&r, &v, x, kept), 50);
    for (int i = 0; i < 50; i++) of_frame[kept[i] / 20]++;
    for (int f = 0; f < 10; f++) assert_true(f == 7 ? of_frame[f] > 8 : of_frame[f] <= 5);
}

static void uniform_is_even(void **state) {
    (void)state;
    const sac_reduce_video v = {3, 4, 2};
    const sac_reduce r = reducer("uniform:rate=0.5");
    float x[24] = {0};
    int32_t kept[12];
    static const int32_t want[] = {1, 3, 5, 7, 9, 11};
    assert_int_equal(choose(&r, &v, x, kept), 6);
    assert_memory_equal(kept, want, sizeof want);
}

static void half_rows_are_read(void **state) {
    (void)state;
    uint16_t half[4];
    float row[2];
    for (int i = 0; i < 4; i++) half[i] = sac_f32_to_bf16((float)i - 1.5f);
    sac_reduce_row((sac_mat){half, 2, 2, 2, SAC_DTYPE_BF16}, 1, row);
    assert_true(row[0] == 0.5f && row[1] == 1.5f);
    for (int i = 0; i < 4; i++) half[i] = sac_f32_to_f16((float)i - 1.5f);
    sac_reduce_row((sac_mat){half, 2, 2, 2, SAC_DTYPE_F16}, 0, row);
    assert_true(row[0] == -1.5f && row[1] == -0.5f);
}

static void lines_are_read(void **state) {
    (void)state;
    sac_reduce r;
    sac_error err;
    char text[80];
    static const char *const off[] = {"none", "evs:prune=0", "vidcom2:rate=1", "uniform:rate=1"};
    for (size_t i = 0; i < SAC_COUNT(off); i++) {
        r = reducer(off[i]);
        sac_reduce_print(&r, text, sizeof text);
        assert_false(r.is_on);
        assert_string_equal(text, "none");
    }
    r = reducer("vidcom2");
    sac_reduce_print(&r, text, sizeof text);
    assert_string_equal(text, "vidcom2:rate=0.25,temperature=0.01");
    assert_int_equal(sac_reduce_parse(&r, "evs:prune=1", &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_reduce_parse(&r, "evs:rate=0.5", &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_reduce_parse(&r, "evss", &err), SAC_BAD_ARGUMENT);
    assert_true(strstr(err.text, "none, hired, evs, vidcom2") != NULL);
    /* equal numbers of different reducers are not the same */
    sac_reduce a = reducer("vidcom2:rate=0.5,temperature=0.5"), b = reducer("hired:rate=0.5,alpha=0.5"),
               c = reducer("none");
    assert_memory_equal(a.p, b.p, sizeof a.p);
    assert_false(sac_reduce_same(&a, &b));
    assert_false(sac_reduce_same(&a, &c));
    assert_true(sac_reduce_same(&a, &a) && sac_reduce_same(&c, &c));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evs_keeps_what_changes),
        cmocka_unit_test(evs_breaks_ties_by_place),
        cmocka_unit_test(vidcom2_keeps_what_is_unlike_the_rest),
        cmocka_unit_test(vidcom2_gives_a_unique_frame_more),
        cmocka_unit_test(uniform_is_even),
        cmocka_unit_test(half_rows_are_read),
        cmocka_unit_test(lines_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
