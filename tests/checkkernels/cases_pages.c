/* cases_pages.c - cases of the ops that summarise keys (page_bounds, page_scores, channel_sums,
 * pick_channels) and of join_attention. */
#include "check.h"

#include <math.h>

#define EPS 0x1p-24

static const struct page_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t page, first, n;
} page_shapes[] = {{1, 1, 1, 1, 0, 1},       {6, 2, 16, 16, 0, 9},   {28, 4, 128, 16, 3, 40},
                   {7, 1, 80, 5, 1, 33},     {4, 4, 12, 64, 0, 2},   {8, 2, 64, 17, 2, 1},
                   {28, 4, 128, 16, 0, 600}, {3, 3, 20, 100, 1, 3},  {2, 1, 256, 9, 0, 70},
                   {4, 2, 64, 16, 5, 0},     {14, 2, 64, 2, 0, 333}, {2, 2, 7, 3, 0, 5}};
#define N_PAGES ((int)SAC_COUNT(page_shapes))

/* Rows of keys alone: what they hold lies in k. */
static sac_kv_view keys(check_case *c, bool output, sac_dtype t, int n_heads, int d, int64_t n) {
    check_kv_shape sh = {
        .dtype = t, .n_heads = n_heads, .head_dim = d, .n_rows = n, .n_valid = n, .output = output};
    return check_kv(c, &sh, NULL, NULL);
}

static void make_bounds(check_case *c, const struct page_shape *s, sac_dtype t, bool same_type) {
    int64_t n_pages = s->first + s->n;
    sac_dtype to = same_type ? t : t == SAC_DTYPE_F16 ? SAC_DTYPE_F32 : SAC_DTYPE_F16;
    c->page_bounds = (sac_page_bounds_args){.page = s->page, .first = s->first, .n = s->n};
    c->page_bounds.kv = keys(c, false, t, s->n_kv_heads, s->head_dim, n_pages * s->page);
    c->page_bounds.bounds = keys(c, true, to, s->n_kv_heads, 2 * s->head_dim, n_pages);
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%s to %s heads=%dx%d page=%lld pages %lld + %lld", sac_dtype_name(t),
             sac_dtype_name(to), s->n_kv_heads, s->head_dim, (long long)s->page, (long long)s->first,
             (long long)s->n);
}

static void make_scores(check_case *c, const struct page_shape *s, sac_dtype t, bool each_head,
                        check_values v) {
    sac_page_scores_args *a = &c->page_scores;
    int64_t n = s->first + s->n, cols = (int64_t)s->n_heads * s->head_dim;
    int n_sums = each_head ? s->n_heads : s->n_kv_heads, group = s->n_heads / n_sums;
    *a = (sac_page_scores_args){.n_sums = n_sums, .n_heads = s->n_heads, .n = n};
    a->stride = n + check_rand_int(c, 0, 3);
    a->q = check_mat(c, false, 1, cols, 0, 4, v);
    check_kv_shape sh = {.dtype = t,
                         .n_heads = s->n_kv_heads,
                         .head_dim = 2 * s->head_dim,
                         .n_rows = n,
                         .n_valid = n,
                         .k = v == CHECK_LARGE ? CHECK_OUTLIERS : CHECK_UNIFORM};
    double largest;
    a->bounds = check_kv(c, &sh, &largest, NULL);
    a->scores = check_buffer_add(c, true, SAC_DTYPE_F32, n_sums, n, a->stride, 4);
    double *allowed = check_allow(c, n_sums * n);
    double error = EPS * (16 + 4 * sqrt((double)s->head_dim * group)) * largest * 1.01;
    for (int64_t i = 0; i < n_sums * n; i++)
        for (int h = 0; h < group; h++)
            allowed[i] += error * check_norm((const float *)a->q.data + (i / n * group + h) * s->head_dim,
                                             s->head_dim) +
                          1e-44;
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d sums=%d pages=%lld %s", sac_dtype_name(t),
             s->n_heads, s->n_kv_heads, s->head_dim, n_sums, (long long)n, check_values_name(v));
}

static const struct sums_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t n, first;
} sums_shapes[] = {{1, 1, 1, 1, 0},     {6, 2, 16, 40, 3},    {28, 4, 128, 513, 0}, {7, 1, 80, 1500, 1},
                   {4, 4, 20, 1024, 0}, {8, 2, 64, 33000, 2}, {3, 3, 7, 17, 5}};
#define N_SUMS ((int)SAC_COUNT(sums_shapes))

/* All terms are positive: the error is relative. */
static void make_sums(check_case *c, const struct sums_shape *s, sac_dtype t, check_values v) {
    sac_channel_sums_args *a = &c->channel_sums;
    int64_t cols = (int64_t)s->n_kv_heads * s->head_dim;
    *a = (sac_channel_sums_args){.n_heads = s->n_heads, .first = s->first};
    a->q = check_mat(c, false, s->n, (int64_t)s->n_heads * s->head_dim, check_rand_int(c, 0, 3), 4, v);
    a->kv = keys(c, false, t, s->n_kv_heads, s->head_dim, s->first + s->n);
    a->sums = check_buffer_add(c, true, SAC_DTYPE_F32, 1, cols, cols, 4);
    double *allowed = check_allow(c, cols);
    for (int64_t i = 0; i < cols; i++) allowed[i] = 1e-40;
    c->relative = EPS * (16 + 4 * sqrt((double)s->n));
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d tokens=%lld + %lld %s", sac_dtype_name(t),
             s->n_heads, s->n_kv_heads, s->head_dim, (long long)s->first, (long long)s->n,
             check_values_name(v));
}

static const struct pick_shape {
    int n_heads, n_sets, head_dim, r;
    int64_t first, n;
} pick_shapes[] = {{4, 4, 128, 16, 0, 300}, {28, 4, 128, 16, 0, 1}, {2, 2, 80, 10, 7, 33},
                   {6, 2, 16, 16, 3, 5},    {3, 1, 20, 3, 1, 9},    {1, 1, 1, 1, 0, 1},
                   {2, 1, 64, 8, 4, 0}};
#define N_PICKS ((int)SAC_COUNT(pick_shapes))

static void make_pick(check_case *c, const struct pick_shape *s, sac_dtype from, sac_dtype to) {
    sac_pick_channels_args *a = &c->pick_channels;
    int64_t n = (int64_t)s->n_sets * s->r;
    *a = (sac_pick_channels_args){.n_sets = s->n_sets, .first = s->first, .n = s->n};
    a->src = keys(c, false, from, s->n_heads, s->head_dim, s->first + s->n);
    a->dst = keys(c, true, to, s->n_heads, s->r, s->first + s->n);
    int32_t *channels = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n, n, 4);
    for (int64_t i = 0; i < n; i++) channels[i] = (int32_t)check_rand_int(c, 0, s->head_dim - 1);
    a->channels = channels;
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%s to %s heads=%d sets=%d %d of %d rows %lld + %lld",
             sac_dtype_name(from), sac_dtype_name(to), s->n_heads, s->n_sets, s->r, s->head_dim,
             (long long)s->first, (long long)s->n);
}

static const int64_t join_shapes[][3] = {/* rows, heads, d */
                                         {1, 1, 1},
                                         {5, 3, 16},
                                         {300, 28, 128},
                                         {17, 4, 20},
                                         {64, 2, 80}};
#define N_JOINS ((int)SAC_COUNT(join_shapes))

/* A logarithm: near the others, far off, or of a query that saw nothing. */
static float log_sum(check_case *c) {
    int64_t kind = check_rand_int(c, 0, 5);
    return kind == 0 ? -INFINITY : (float)((kind == 1 ? 100 : 6) * (2 * check_rand_unit(c) - 1));
}

static void make_join(check_case *c, const int64_t *s, check_values v) {
    sac_join_attention_args *a = &c->join_attention;
    int64_t rows = s[0], cols = s[1] * s[2], n = rows * s[1];
    a->o = check_mat(c, true, rows, cols, check_rand_int(c, 0, 1) * 8, 4, v);
    a->other = check_mat(c, false, rows, cols, check_rand_int(c, 0, 1) * 8, 4, v);
    float *lse = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n, n, 4);
    float *other = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n, n, 4);
    for (int64_t i = 0; i < n; i++) lse[i] = log_sum(c), other[i] = log_sum(c);
    a->lse = lse, a->other_lse = other, a->n_heads = (int)s[1];
    double *allowed = check_allow(c, rows * cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        double x = (double)sac_mat_row_f32(a->o, i / cols)[i % cols];
        double y = (double)sac_mat_row_f32(a->other, i / cols)[i % cols];
        allowed[i] = EPS * 240 * (fabs(x) + fabs(y)) + 1e-44;
    }
    snprintf(c->text, sizeof c->text, "%lld x %lld x %lld %s", (long long)s[0], (long long)s[1],
             (long long)s[2], check_values_name(v));
}

bool check_make_pages(check_case *c, int i, bool quick) {
    sac_dtype t = (sac_dtype)(i % 3); /* F32, F16, BF16 */
    check_values v = (check_values)(i % CHECK_N_VALUES);
    c->same_bits = true;
    if (c->op == CHECK_page_bounds && i < 6 * N_PAGES) {
        make_bounds(c, &page_shapes[i / 6], t, i % 2 == 0);
    } else if (c->op == CHECK_page_scores && i < 6 * N_PAGES) {
        make_scores(c, &page_shapes[i / 6], t, i % 2 == 0, v);
    } else if (c->op == CHECK_channel_sums && i < 3 * N_SUMS) {
        if (!quick || sums_shapes[i / 3].n < 10000) make_sums(c, &sums_shapes[i / 3], t, v);
    } else if (c->op == CHECK_pick_channels && i < 9 * N_PICKS) {
        make_pick(c, &pick_shapes[i / 9], t, (sac_dtype)(i / 3 % 3));
    } else if (c->op == CHECK_join_attention && i < CHECK_N_VALUES * N_JOINS) {
        make_join(c, join_shapes[i / CHECK_N_VALUES], v);
    } else {
        return false;
    }
    return true;
}
