/* FlashVID's outer stages against their definition, step by step in fp64: which tokens stay, and of what they are the means. */
#include "reduce_test.h"

enum { MOST = 400, MOST_COLS = 48 };

typedef struct settings {
    double rate, expansion, alpha, cut;
    int segments;
    double merge;
    int k;
} settings;

typedef struct oracle {
    const sac_reduce_video *v;
    settings o;
    int budget, n_picked;
    double x[MOST][MOST_COLS]; /* sums of trees, then means */
    double raw[MOST][MOST_COLS];
    int frame_begins[MOST], parent[MOST], size[MOST];
    bool picked[MOST], merged[MOST], kept[MOST];
    double like[MOST];
} oracle;

static double cos_of(const double *a, const double *b, int64_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t c = 0; c < n; c++) ab += a[c] * b[c], aa += a[c] * a[c], bb += b[c] * b[c];
    return ab / sqrt(aa * bb);
}

static void cut_parts(oracle *s) {
    const int n = (int)s->v->n_tiles, cells = (int)s->v->cells;
    static double mean[MOST][MOST_COLS];
    double like[MOST];
    int n_parts = 1;
    memset(mean, 0, sizeof mean);
    for (int i = 0; i < n * cells; i++)
        for (int c = 0; c < s->v->cols; c++) mean[i / cells][c] += s->raw[i][c];
    s->frame_begins[0] = 1;
    for (int f = 1; f < n; f++) {
        like[f] = cos_of(mean[f - 1], mean[f], s->v->cols);
        n_parts += s->frame_begins[f] = like[f] < s->o.cut;
    }
    for (; n_parts < s->o.segments && n_parts < n; n_parts++) {
        int best = -1;
        for (int f = 1; f < n; f++)
            if (!s->frame_begins[f] && (best < 0 || like[f] < like[best])) best = f;
        s->frame_begins[best] = 1;
    }
}

/* The greedy choice from its words: the token that is farthest from what is picked. */
static void pick_of_frame(oracle *s, int first) {
    const int cells = (int)s->v->cells;
    for (int t = 0; t < s->n_picked; t++) {
        int best = -1;
        double far = -2;
        for (int i = first; i < first + cells; i++) {
            double nearest = 9;
            for (int k = first; k < first + cells; k++)
                if (k != i && (t == 0 || s->picked[k]))
                    nearest = fmin(nearest, 1 - cos_of(s->raw[i], s->raw[k], s->v->cols));
            if (!s->picked[i] && nearest > far) far = nearest, best = i;
        }
        s->picked[best] = s->kept[best] = true;
    }
}

static void merge_part(oracle *s, int from, int to) {
    const int cells = (int)s->v->cells, n = (to - from) * cells;
    int left = n;
    for (int i = (from + 1) * cells; i < to * cells; i++) {
        const int before = (i / cells - 1) * cells;
        s->like[i] = -2;
        for (int k = before; k < before + cells && !s->picked[i]; k++) {
            const double like = s->picked[k] ? -2 : cos_of(s->raw[i], s->raw[k], s->v->cols);
            if (like > s->like[i]) s->like[i] = like, s->parent[i] = k;
        }
    }
    for (;;) { /* the nearest first */
        int best = -1;
        for (int i = (from + 1) * cells; i < to * cells; i++)
            if (!s->merged[i] && s->like[i] > s->o.merge && (best < 0 || s->like[i] > s->like[best]))
                best = i;
        if (best < 0 || left == (to - from) * s->budget) break;
        s->merged[best] = true;
        left--;
    }
    /* each token that stays is the mean of all those whose way upwards ends in it */
    for (int i = from * cells; i < to * cells; i++) s->size[i] = 0, memset(s->x[i], 0, sizeof s->x[i]);
    for (int i = from * cells; i < to * cells; i++) {
        int top = i;
        while (s->merged[top]) top = s->parent[top];
        s->size[top]++;
        for (int c = 0; c < s->v->cols; c++) s->x[top][c] += s->raw[i][c];
    }
    for (int i = from * cells; i < to * cells; i++)
        for (int c = 0; c < s->v->cols && s->size[i]; c++) s->x[i][c] /= s->size[i];
}

static double distance(const oracle *s, int a, int b) {
    double squares = 0;
    for (int c = 0; c < s->v->cols; c++) squares += pow(s->x[a][c] - s->x[b][c], 2);
    return sqrt(squares / (double)s->v->cols);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void cluster_of(oracle *s, const int *list, int n, int n_centres) {
    double density[MOST], score[MOST], widest = 0;
    static double sum[MOST][MOST_COLS];
    int size[MOST] = {0}, k = s->o.k < n_centres ? s->o.k : n_centres;
    for (int i = 0; i < n; i++) {
        double d[MOST], mean = 0;
        for (int c = 0; c < n; c++) d[c] = distance(s, list[i], list[c]), widest = fmax(widest, d[c]);
        qsort(d, (size_t)n, sizeof *d, by_value);
        for (int c = 0; c < k; c++) mean += d[c] * d[c] / k;
        density[i] = exp(-mean);
    }
    for (int i = 0; i < n; i++) {
        double nearest = widest;
        for (int c = 0; c < n; c++)
            if (density[c] > density[i] || (density[c] == density[i] && c < i))
                nearest = fmin(nearest, distance(s, list[i], list[c]));
        score[i] = nearest * density[i];
    }
    for (int t = 0; t < n_centres; t++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!s->kept[list[i]] && (best < 0 || score[i] > score[best])) best = i;
        s->kept[list[best]] = true;
    }
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < n; i++) {
        int to = s->kept[list[i]] ? i : -1;
        for (int c = 0; c < n && !s->kept[list[i]]; c++)
            if (s->kept[list[c]] &&
                (to < 0 || distance(s, list[i], list[c]) < distance(s, list[i], list[to])))
                to = c;
        size[to]++;
        for (int c = 0; c < s->v->cols; c++) sum[to][c] += s->x[list[i]][c];
    }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < s->v->cols && size[i]; c++) s->x[list[i]][c] = sum[i][c] / size[i];
}

static void cluster_part(oracle *s, int from, int to) {
    const int cells = (int)s->v->cells, rest = (to - from) * (s->budget - s->n_picked);
    static int list[MOST][MOST];
    int n[MOST] = {0}, share[MOST], left = 0, given = 0;
    for (int i = from * cells; i < to * cells; i++)
        if (!s->picked[i] && !s->merged[i]) list[i / cells][n[i / cells]++] = i, left++;
    for (int f = from; f < to; f++) given += share[f] = left ? n[f] * rest / left : 0;
    while (given < rest) { /* largest remainders, the first of equals */
        int best = -1;
        for (int f = from; f < to; f++)
            if (share[f] == n[f] * rest / left && (best < 0 || n[f] * rest % left > n[best] * rest % left))
                best = f;
        share[best]++, given++;
    }
    for (int f = from; f < to; f++)
        if (share[f]) cluster_of(s, list[f], n[f], share[f]);
}

static void define(oracle *s, const sac_reduce_video *v, const settings *o, const float *x) {
    memset(s, 0, sizeof *s);
    s->v = v, s->o = *o;
    s->budget = (int)ceil((double)v->cells * o->rate * o->expansion);
    s->n_picked = (int)ceil(s->budget * o->alpha);
    for (int64_t i = 0; i < v->n_tiles * v->cells * v->cols; i++)
        s->raw[i / v->cols][i % v->cols] = (double)x[i];
    cut_parts(s);
    for (int f = 0; f < v->n_tiles; f++) pick_of_frame(s, f * (int)v->cells);
    for (int from = 0, to; from < v->n_tiles; from = to) {
        for (to = from + 1; to < v->n_tiles && !s->frame_begins[to];) to++;
        merge_part(s, from, to);
        cluster_part(s, from, to);
    }
}

static void expect_definition(const sac_reduce_video *v, const settings *o, uint64_t *random) {
    static oracle want;
    char line[160];
    int32_t kept[MOST];
    snprintf(line, sizeof line, "flashvid:rate=%g,expansion=%g,alpha=%g,cut=%g,segments=%d,merge=%g,k=%d",
             o->rate, o->expansion, o->alpha, o->cut, o->segments, o->merge, o->k);
    const sac_reduce r = reducer(line);
    float *x = draw(v, random);
    define(&want, v, o, x);
    const int64_t n = choose(&r, v, x, kept);
    assert_int_equal(n, v->n_tiles * want.budget);
    int64_t at = 0, n_means = 0;
    for (int i = 0; i < v->n_tiles * v->cells && n < v->n_tiles * v->cells; i++) {
        if (!want.kept[i]) continue;
        if (kept[at++] != i)
            fail_msg("%s, %d frames: token %d stays, not %d", line, (int)v->n_tiles, kept[at - 1], i);
        for (int c = 0; c < v->cols; c++) {
            const double got = (double)x[i * v->cols + c], y = want.picked[i] ? want.raw[i][c] : want.x[i][c];
            n_means += y != want.raw[i][c];
            if (!(fabs(got - y) < 1e-5 * (1 + fabs(y))))
                fail_msg("%s: number %d of token %d is %g, not %g", line, c, i, got, y);
        }
    }
    if (n < v->n_tiles * v->cells) assert_int_equal(at, n);
    if (n < v->n_tiles * v->cells && want.budget > want.n_picked) assert_true(n_means > 0);
    free(x);
}

static void stages_are_as_defined(void **state) {
    (void)state;
    static const sac_reduce_video videos[] = {{1, 16, 12},  {2, 9, 8},    {6, 16, 16},
                                              {12, 12, 24}, {24, 16, 20}, {30, 9, 47}};
    static const settings all[] = {{0.25, 1.25, 0.7, 0.9, 1, 0.8, 7}, {0.2, 1.25, 0.7, 0.9, 8, 0.8, 7},
                                   {0.5, 1, 0.5, -1, 1, 0.2, 3},      {0.3, 1.25, 0, 0.5, 2, 0.8, 7},
                                   {0.4, 1, 1, 0.9, 1, 0.8, 7},       {0.15, 2, 0.3, -1, 1, 0.999, 2},
                                   {0.6, 1, 0.6, -1, 1, -1, 7}};
    uint64_t random = 5;
    for (size_t i = 0; i < SAC_COUNT(videos); i++)
        for (size_t k = 0; k < SAC_COUNT(all); k++) expect_definition(&videos[i], &all[k], &random);
}

/* Rows of no numbers (a tower that overflows): as many stay as were promised, each once. */
static void rows_of_no_numbers(void **state) {
    (void)state;
    const sac_reduce_video v = {5, 9, 4};
    const sac_reduce r = reducer("flashvid:rate=0.4,expansion=1");
    for (int most = 0; most <= 45 * 4; most += 12) {
        float x[45 * 4];
        int32_t kept[45];
        uint64_t random = 3;
        for (int i = 0; i < 45 * 4; i++) x[i] = i < most ? NAN : test_rand_float(&random);
        int64_t n = choose(&r, &v, x, kept);
        assert_int_equal(n, r.reducer->count_video(r.p, &v));
        for (int64_t i = 0; i < n; i++) assert_true(kept[i] >= 0 && kept[i] < 45 && (i == 0 || kept[i] > kept[i - 1]));
    }
}

/* A chain of four equal tokens over as many frames is their mean, and stands where it begins. */
static void trees_weigh_every_token(void **state) {
    (void)state;
    const sac_reduce_video v = {4, 2, 2};
    const sac_reduce r = reducer("flashvid:rate=0.5,expansion=1,alpha=0,cut=-1,segments=1,merge=0.5");
    float x[] = {1, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 9, 0, 0, 7};
    int32_t kept[8];
    assert_int_equal(choose(&r, &v, x, kept), 4);
    /* of 8 tokens 4 may go: the nearest are all as near, so the first four */
    static const int32_t want[] = {0, 1, 6, 7};
    assert_memory_equal(kept, want, sizeof want);
    assert_true(fabsf(x[0] - 7.0f / 3) < 1e-6f && x[1] == 0 && x[2] == 0 && x[3] == 3);
    assert_true(x[12] == 9 && x[15] == 7);
}

/* However many threads, the same tokens and the same bits. */
static void threads_change_nothing(void **state) {
    (void)state;
    const sac_reduce_video v = {9, 16, 24};
    const sac_reduce r = reducer("flashvid:rate=0.3,alpha=0.5,segments=2,merge=0.3");
    uint64_t random = 11;
    int32_t want[MOST], kept[MOST];
    const size_t n_bytes = (size_t)(v.n_tiles * v.cells * v.cols) * sizeof(float);
    float *x = draw(&v, &random), *means = malloc(n_bytes), *got = malloc(n_bytes);
    memcpy(means, x, n_bytes);
    const int64_t n = choose(&r, &v, means, want);
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        sac_error err;
        sac_reduce_run run = {0};
        assert_ok(sac_pool_create(&run.pool, n_threads, &err), err);
        memcpy(got, x, n_bytes);
        assert_int_equal(choose_with(&run, &r, &v, got, kept), n);
        assert_memory_equal(kept, want, (size_t)n * sizeof *kept);
        assert_memory_equal(got, means, n_bytes);
        sac_pool_free(run.pool);
    }
    free(x), free(means), free(got);
}

typedef struct patience {
    int asked, most;
} patience;

static bool has_run_out(void *ctx) {
    patience *p = ctx;
    return p->asked++ == p->most;
}

/* It is asked at every frame of every stage whether to go on; until the end the rows are as they came. */
static void stops_between_frames(void **state) {
    (void)state;
    const sac_reduce_video v = {6, 9, 8};
    const sac_reduce r = reducer("flashvid:rate=0.3,alpha=0.5,segments=2,merge=0.3");
    uint64_t random = 12;
    int32_t kept[MOST];
    const size_t n_bytes = (size_t)(v.n_tiles * v.cells * v.cols) * sizeof(float);
    float *x = draw(&v, &random), *got = malloc(n_bytes);
    patience p = {0, -1};
    const sac_reduce_run run = {.stopped = has_run_out, .ctx = &p};
    memcpy(got, x, n_bytes);
    assert_true(choose_with(&run, &r, &v, got, kept) > 0);
    assert_memory_not_equal(got, x, n_bytes);
    const int n_asked = p.asked;
    assert_int_equal(n_asked, 3 * 6);
    for (int most = 0; most < n_asked; most++) {
        p = (patience){0, most};
        memcpy(got, x, n_bytes);
        assert_int_equal(choose_with(&run, &r, &v, got, kept), -1);
        assert_int_equal(p.asked, most + 1);
        assert_memory_equal(got, x, n_bytes);
    }
    free(x), free(got);
}

static void halves_are_rounded_back(void **state) {
    (void)state;
    uint16_t half[4] = {0};
    const float from[] = {0.5f, -3.0f};
    float to[2];
    static const sac_dtype types[] = {SAC_DTYPE_F16, SAC_DTYPE_BF16};
    for (int i = 0; i < 2; i++) {
        const sac_mat rows = {half, 2, 2, 2, types[i]};
        sac_reduce_put_row(rows, 1, from);
        sac_reduce_row(rows, 1, to);
        assert_memory_equal(from, to, sizeof to);
        assert_int_equal(half[0], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_as_defined),
        cmocka_unit_test(rows_of_no_numbers),
        cmocka_unit_test(trees_weigh_every_token),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(stops_between_frames),
        cmocka_unit_test(halves_are_rounded_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
