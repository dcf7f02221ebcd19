/* cases_experts.c - cases of route, expert_linear and mix_rows. */
#include "check.h"
#include "ref/weights/ref_weights.h"

#include <math.h>
#include <stdlib.h>

#define EPS 0x1p-24

static int32_t *integers(check_case *c, bool output, int64_t rows, int64_t cols) {
    int32_t *p = check_buffer_add(c, output, SAC_DTYPE_F32, rows, cols, cols, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    return p;
}

/* ---------------------------------------------------------------- route */

/* rows, experts, those that see a row: one of each, all, either side of a warp, those of real models */
static const int routes[][3] = {{1, 1, 1},     {1, 2, 1},   {1, 128, 8},  {3, 5, 5},    {7, 33, 3},
                                {64, 60, 4},   {17, 64, 8}, {2, 1024, 9}, {130, 31, 2}, {1, 8, 2},
                                {300, 128, 8}, {33, 32, 1}, {5, 300, 40}, {700, 6, 2}};
#define N_ROUTES ((int)SAC_COUNT(routes))
typedef enum route_values {
    ROUTE_SMALL,
    ROUTE_WIDE,
    ROUTE_TIES,
    ROUTE_EQUAL,
    ROUTE_NAN,
    ROUTE_N_VALUES
} route_values;

static float score(check_case *c, route_values v) {
    switch (v) {
    case ROUTE_SMALL: return (float)(2 * check_rand_unit(c) - 1);
    case ROUTE_WIDE: return (float)(200 * check_rand_unit(c) - 100);
    case ROUTE_TIES: return (float)check_rand_int(c, -2, 2) * 0.5f;
    case ROUTE_NAN: return check_rand_int(c, 0, 9) ? (float)check_rand_unit(c) : NAN;
    default: return 0.25f;
    }
}

/* Scores by themselves, with a bias or without, and groups where the experts can stand in some that have enough of them. */
static void draw_sigmoid(check_case *c, int n_experts, int n_used, bool grouped) {
    static const int counts[] = {2, 3, 4, 8, 11, 150, 512};
    sac_route_args *a = &c->route;
    a->sigmoid = true;
    a->factor = check_rand_int(c, 0, 2) ? (float)(0.5 + 2 * check_rand_unit(c)) : 0;
    if (check_rand_int(c, 0, 3)) {
        float *bias = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n_experts, n_experts, 4);
        for (int e = 0; e < n_experts; e++) bias[e] = (float)(check_rand_unit(c) - 0.3);
        a->bias = bias;
    }
    for (size_t k = 0, first = (size_t)check_rand_int(c, 0, 6); k < SAC_COUNT(counts) && grouped; k++) {
        const int n = counts[(first + k) % SAC_COUNT(counts)], n_each = n_experts / n;
        if (n_experts % n || n_each < 2) continue;
        const int fewest = (n_used + n_each - 1) / n_each;
        a->n_groups = n;
        a->n_groups_used = (int)check_rand_int(c, fewest, fewest + 2 < n ? fewest + 2 : n);
        break;
    }
}

static bool make_route(check_case *c, int i) {
    if (i >= 4 * N_ROUTES * ROUTE_N_VALUES) return false;
    const bool sigmoid = i >= 2 * N_ROUTES * ROUTE_N_VALUES;
    const route_values v = (route_values)(i / 2 / N_ROUTES % ROUTE_N_VALUES);
    const int *r = routes[i / 2 % N_ROUTES], n = r[0], n_experts = r[1], n_used = r[2];
    sac_route_args *a = &c->route;
    a->normed = i % 2 == 0;
    if (v == ROUTE_NAN && (!a->normed || n_used * 2 > n_experts))
        return true; /* no buffers: NaN is no weight */
    a->scores = check_mat(c, false, n, n_experts, check_rand_int(c, 0, 3), 4, CHECK_UNIFORM);
    for (int64_t row = 0; row < n; row++)
        for (int64_t e = 0; e < n_experts; e++) sac_mat_row_f32(a->scores, row)[e] = score(c, v);
    a->n_used = n_used;
    if (sigmoid) draw_sigmoid(c, n_experts, n_used, v != ROUTE_NAN);
    a->weights = check_buffer_add(c, true, SAC_DTYPE_F32, n, n_used, n_used, 4);
    a->place = integers(c, true, n, n_used);
    a->source = integers(c, true, n, n_used);
    a->expert = integers(c, true, n, n_used);
    a->starts = integers(c, true, 1, n_experts + 1);
    double *allowed = check_allow(c, (int64_t)4 * n * n_used + n_experts + 1);
    for (int64_t j = 0; j < (int64_t)n * n_used; j++) allowed[j] = 1e-7;
    c->relative = 300 * EPS; /* of a power of up to 200; far from 1 where integers are compared */
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%d of %d experts, %d rows, kind %d%s%s%s, %d of %d groups", n_used,
             n_experts, n, (int)v, a->normed ? " normed" : "", sigmoid ? " sigmoid" : "",
             a->bias ? " bias" : "", a->n_groups_used, a->n_groups);
    return true;
}

/* ---------------------------------------------------------------- expert_linear */

/* rows, experts, outputs, inputs */
static const int products[][4] = {{1, 1, 1, 256},     {1, 4, 7, 256},    {8, 128, 40, 256},
                                  {2, 3, 33, 512},    {16, 8, 65, 256},  {5, 2, 96, 768},
                                  {40, 6, 17, 256},   {9, 9, 64, 256},   {70, 5, 130, 512},
                                  {200, 16, 48, 256}, {130, 1, 31, 256}, {64, 3, 128, 1024}};
#define N_PRODUCTS ((int)SAC_COUNT(products))
static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16, SAC_DTYPE_Q8_0,
                                  SAC_DTYPE_Q4_K};
#define N_TYPES ((int)SAC_COUNT(types))

/* As of linear (cases_linear.c). */
static void allow_experts(check_case *c) {
    const sac_expert_linear_args *a = &c->expert_linear;
    const int64_t m = a->x.rows, k = a->x.cols, n = a->y.cols;
    double *allowed = check_allow(c, m * n);
    float *w = malloc((size_t)k * sizeof *w);
    for (int64_t i = 0; i < m; i++) {
        const sac_weight *of = &a->w[a->expert[i] * a->w_step];
        const float *x = sac_mat_row_f32(a->x, i);
        double x_norm = check_norm(x, k), x_max = 0;
        for (int64_t p = 0; p < k; p++) x_max = fmax(x_max, fabs((double)x[p]));
        for (int64_t j = 0; j < n; j++) {
            sac_ref_weight_of(of)->row(of, j, k, w);
            const double w_norm = check_norm(w, k);
            double e = EPS * (4 + sqrt((double)k)) * x_norm * w_norm;
            if (sac_ref_weight_of(of)->round_x && !c->exact_x)
                e += 6 * w_norm *
                     (x_max / 127 / sqrt(12.0) + 0x1p-11 * x_norm / sqrt((double)k) + 127 * 0x1p-25);
            allowed[i * n + j] = 1.2 * e + 1e-40;
        }
    }
    c->relative = 2 * EPS;
    free(w);
}

/* Rows of experts, some of which have none. */
static void draw_rows(check_case *c, int64_t m) {
    sac_expert_linear_args *a = &c->expert_linear;
    int32_t *starts = integers(c, false, 1, a->n_experts + 1), *expert = integers(c, false, 1, m), at = 0;
    memset(starts, 0, (size_t)(a->n_experts + 1) * sizeof *starts);
    for (int64_t i = 0; i < m; i++) starts[1 + check_rand_int(c, 0, 2 * a->n_experts) % a->n_experts]++;
    for (int e = 0; e < a->n_experts; e++) {
        starts[e + 1] += starts[e];
        while (at < starts[e + 1]) expert[at++] = e;
    }
    a->starts = starts, a->expert = expert;
}

static bool make_product(check_case *c, const int shape[4], sac_dtype t, int64_t gap, size_t misalign) {
    sac_expert_linear_args *a = &c->expert_linear;
    const int64_t m = shape[0], n = shape[2], k = shape[3];
    a->n_experts = shape[1];
    a->w_step = 1;
    a->y = check_mat(c, true, m, n, gap, misalign, CHECK_UNIFORM);
    a->x = check_mat(c, false, m, k, gap, misalign, CHECK_UNIFORM);
    const sac_weight all = check_weights(c, t, a->n_experts * n, k, 0, CHECK_UNIFORM);
    for (int e = 0; e < a->n_experts; e++) {
        c->many.experts[e] = all;
        c->many.experts[e].tensor.dim[0] = n;
        c->many.experts[e].tensor.data =
            (const uint8_t *)all.tensor.data + (size_t)(e * n) * sac_dtype_row_bytes(t, k);
    }
    a->w = c->many.experts;
    draw_rows(c, m);
    allow_experts(c);
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%s %lldx%lldx%lld of %d experts", sac_dtype_name(t), (long long)m,
             (long long)n, (long long)k, a->n_experts);
    return true;
}

int check_n_expert_products(void) {
    return N_PRODUCTS;
}

bool check_make_expert_product(check_case *c, int i, sac_dtype t) {
    return make_product(c, products[i], t, 8, 0);
}

/* ---------------------------------------------------------------- mix_rows */

static const int mixes[][3] = {{1, 1, 1},    {1, 8, 2048}, {3, 2, 33},  {7, 5, 17},
                               {64, 8, 256}, {2, 3, 1023}, {300, 4, 96}};
#define N_MIXES ((int)SAC_COUNT(mixes))

static bool make_mix(check_case *c, int i) {
    if (i >= N_MIXES * CHECK_N_VALUES) return false;
    const int *shape = mixes[i % N_MIXES];
    const int64_t n = shape[0], n_used = shape[1], cols = shape[2], rows = n * n_used;
    const check_values v = (check_values)(i / N_MIXES);
    sac_mix_rows_args *a = &c->mix_rows;
    a->accumulate = check_rand_int(c, 0, 1);
    a->n_used = (int)n_used;
    a->y = check_mat(c, true, n, cols, check_rand_int(c, 0, 3), 4, v);
    a->x = check_mat(c, false, rows, cols, check_rand_int(c, 0, 3), 4, v);
    float *weights = check_buffer_add(c, false, SAC_DTYPE_F32, n, n_used, n_used, 4);
    int32_t *place = integers(c, false, n, n_used);
    for (int64_t j = 0; j < rows; j++) {
        weights[j] = (float)check_rand_unit(c);
        place[j] = (int32_t)(rows - 1 - j);
    }
    for (int64_t j = 0; j < rows; j++) { /* some permutation */
        const int64_t other = check_rand_int(c, 0, rows - 1);
        const int32_t t = place[j];
        place[j] = place[other], place[other] = t;
    }
    a->weights = weights, a->place = place;
    double *allowed = check_allow(c, n * cols);
    for (int64_t r = 0; r < n; r++)
        for (int64_t col = 0; col < cols; col++) {
            double sum = a->accumulate ? fabs((double)sac_mat_row_f32(a->y, r)[col]) : 0;
            for (int64_t j = r * n_used; j < (r + 1) * n_used; j++)
                sum += (double)weights[j] * fabs((double)sac_mat_row_f32(a->x, place[j])[col]);
            allowed[r * cols + col] = EPS * (double)(2 + n_used) * sum + 1e-40;
        }
    c->relative = 2 * EPS;
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%lld rows of %lld, %lld columns%s %s", (long long)n, (long long)n_used,
             (long long)cols, a->accumulate ? " added" : "", check_values_name(v));
    return true;
}

bool check_make_experts(check_case *c, int i) {
    if (c->op == CHECK_route) return make_route(c, i);
    if (c->op == CHECK_mix_rows) return make_mix(c, i);
    if (i >= N_PRODUCTS * N_TYPES) return false;
    return make_product(c, products[i % N_PRODUCTS], types[i / N_PRODUCTS], check_rand_int(c, 0, 5),
                        4 * (size_t)check_rand_int(c, 0, 3));
}
