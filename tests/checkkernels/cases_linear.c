#include "check.h"
#include "ref/weights/ref_weights.h"

#include <math.h>
#include <stdlib.h>

#define EPS 0x1p-24

static double row_norm(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, (const char *)x + i * 4, 4);
        sum += (double)f * (double)f;
    }
    return sqrt(sum);
}

/* Sums of k products in f32, in any order: eps (4 + sqrt k) |x| |w|, and with minima of both parts of w. Quantised weights: x is rounded to 8
 * bits, an error of at most max|x| / 254 an element, uniform and independent, so 6 deviations of its sum.
 * `fast`: both factors keep 8 bits. Activations bend the error by no more than 1.2 and add a few units in the
 * last place; the tail of GELU counts against 1e-7 x. */
static void allow_linear(check_case *c) {
    const sac_linear_args *a = &c->linear;
    int64_t m = a->x.rows, k = a->x.cols, n = a->y.cols;
    const bool has_blocks = sac_ref_weight_of(&a->w)->round_x, quantised = has_blocks && !c->exact_x;
    double *allowed = check_allow(c, m * n), *x_norm = calloc((size_t)m, sizeof *x_norm),
           *x_max = calloc((size_t)m, sizeof *x_max);
    float *w = malloc((size_t)k * sizeof *w);
    for (int64_t i = 0; i < m; i++) {
        const char *x = (const char *)a->x.data + i * a->x.stride * 4;
        x_norm[i] = row_norm((const float *)(const void *)x, k);
        for (int64_t p = 0; p < k; p++) {
            float f;
            memcpy(&f, x + p * 4, 4);
            x_max[i] = fmax(x_max[i], fabs((double)f));
        }
    }
    for (int64_t j = 0; j < n; j++) {
        sac_ref_weight_of(&a->w)->row(&a->w, j, k, w);
        double w_norm = row_norm(w, k), bias = a->bias ? fabs((double)a->bias[j]) : 0;
        for (int64_t i = 0; i < m; i++) {
            double e = EPS * (4 + sqrt((double)k)) * (x_norm[i] * w_norm + bias);
            if (has_blocks && c->exact_x) e *= 4;
            if (quantised) { /* the scale is an f16: 11 bits, and steps of 2^-24 at its small end */
                double scale_error = 0x1p-11 * x_norm[i] / sqrt((double)k) + 127 * 0x1p-25;
                e += 6 * w_norm * (x_max[i] / 127 / sqrt(12.0) + scale_error);
            }
            if (a->fast || (has_blocks && c->exact_x && m > 32)) /* weights that are unpacked keep 8 bits */
                e += 6 * 0x1p-8 * x_norm[i] * w_norm / sqrt((double)k);
            float y;
            memcpy(&y, (const char *)a->y.data + (i * a->y.stride + j) * 4, 4);
            allowed[i * n + j] = 1.2 * e + 1e-40 + (a->accumulate ? 2 * EPS * fabs((double)y) : 0);
            if (a->act != SAC_ACT_NONE) allowed[i * n + j] += 1e-7 * fmin(1, x_norm[i] * w_norm + bias);
        }
    }
    c->relative = (a->act == SAC_ACT_NONE ? 2 : 10) * EPS;
    free(x_norm);
    free(x_max);
    free(w);
}

typedef struct linear_shape {
    int64_t m, n, k;
    bool slow;
} linear_shape;

/* 1, odd, either side of vectors (8, 16), tiles (6, 12 rows; 16, 32 columns), stretches of k (512) and blocks
 * of a task (96, 256, 480), and the layers of real models with fewer rows. */
static const linear_shape float_shapes[] = {
    {1, 1, 1, 0},       {1, 1, 16, 0},      {1, 7, 15, 0},     {2, 9, 17, 0},      {3, 8, 33, 0},
    {4, 65, 64, 0},     {5, 31, 40, 0},     {6, 64, 100, 0},   {7, 63, 96, 0},     {8, 33, 8, 0},
    {11, 32, 3, 0},     {12, 12, 129, 0},   {13, 33, 1, 0},    {13, 32, 31, 0},    {23, 47, 65, 0},
    {25, 130, 511, 0},  {24, 17, 512, 0},   {14, 40, 513, 0},  {37, 16, 1100, 0},  {97, 257, 48, 0},
    {200, 33, 70, 0},   {1, 384, 1024, 0},  {1, 1024, 384, 0}, {3, 512, 384, 0},   {64, 256, 588, 1},
    {49, 384, 1024, 1}, {33, 1024, 256, 1}, {481, 50, 40, 1},  {1, 200, 11008, 1}, {17, 96, 4096, 1},
};
static const linear_shape block_shapes[] = {
    /* k in blocks of 256 */
    {1, 1, 1, 0},   {1, 7, 2, 0},   {2, 33, 1, 0},  {3, 16, 3, 0},   {4, 17, 2, 0},
    {5, 8, 1, 0},   {6, 40, 2, 0},  {8, 64, 4, 0},  {13, 65, 2, 0},  {16, 15, 5, 0},
    {17, 31, 1, 0}, {33, 48, 3, 1}, {70, 36, 4, 1}, {1, 256, 16, 1},
};
#define N_FLOAT ((int)SAC_COUNT(float_shapes))
#define N_BLOCK ((int)SAC_COUNT(block_shapes))
static const sac_dtype float_types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
enum {
    N_FLOAT_TYPES = (int)SAC_COUNT(float_types),
    N_BLOCK_TYPES = CHECK_BLOCK_TYPES,
    N_PACKED_TYPES = SAC_DTYPE_HQQ_4 - SAC_DTYPE_I8
};

/* Rows of x and y more than 2^31 bytes apart. */
static bool make_far(check_case *c) {
    const int64_t stride = (int64_t)3 << 28, k = 40, n = 24, m = 3;
    float *x = check_buffer_add_sparse(c, false, SAC_DTYPE_F32, m, k, stride);
    float *y = x ? check_buffer_add_sparse(c, true, SAC_DTYPE_F32, m, n, stride) : NULL;
    if (!y) return false;
    for (int64_t i = 0; i < m; i++) check_fill(c, x + i * stride, k, CHECK_UNIFORM);
    c->linear =
        (sac_linear_args){.x = {x, m, k, stride, SAC_DTYPE_F32}, .y = {y, m, n, stride, SAC_DTYPE_F32}};
    c->linear.w = check_weights(c, SAC_DTYPE_F16, n, k, 2, CHECK_UNIFORM);
    allow_linear(c);
    snprintf(c->text, sizeof c->text, "rows 3 GiB apart");
    return true;
}

sac_weight check_int8_weights(check_case *c, int64_t n, int64_t k) {
    static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    const int64_t groups[] = {k, 32, 13, 8};
    sac_weight w = {.format = SAC_WEIGHT_INT8, .group = groups[check_rand_int(c, 0, 3)]};
    int64_t n_groups = (k + w.group - 1) / w.group;
    int64_t n_scaled = w.group == k && check_rand_int(c, 0, 3) == 0 ? 1 : n;
    int8_t *q = check_buffer_add(c, false, SAC_DTYPE_I8, n, k, k, (size_t)check_rand_int(c, 0, 3));
    for (int64_t i = 0; i < n * k; i++) q[i] = (int8_t)check_rand_int(c, -128, 127);
    w.tensor = (sac_tensor){q, SAC_DTYPE_I8, 2, {n, k}};
    w.scales = check_weights(c, types[check_rand_int(c, 0, 2)], n_scaled, n_groups, 0, CHECK_UNIFORM).tensor;
    if (check_rand_int(c, 0, 1)) {
        int8_t *z = check_buffer_add(c, false, SAC_DTYPE_I8, n_scaled, n_groups, n_groups, 0);
        for (int64_t i = 0; i < n_scaled * n_groups; i++) z[i] = (int8_t)check_rand_int(c, -128, 127);
        w.zeros = (sac_tensor){z, SAC_DTYPE_I8, 2, {n_scaled, n_groups}};
    }
    return w;
}

/* Weights with scales apart: int8, and those packed in words. */
static bool make_apart(check_case *c, const linear_shape *shape, sac_dtype t, bool quick) {
    sac_linear_args *a = &c->linear;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    if (quick && shape->slow) return true; /* no buffers: skipped */
    const int64_t whole = t == SAC_DTYPE_I8 ? 1 : 8, n = (shape->n + whole - 1) / whole * whole,
                  k = (shape->k + whole - 1) / whole * whole;
    a->x = check_mat(c, false, shape->m, k, check_rand_int(c, 0, 5), 0, v);
    a->y = check_mat(c, true, shape->m, n, 0, 0, CHECK_UNIFORM);
    a->w = t == SAC_DTYPE_I8 ? check_int8_weights(c, n, k) : check_packed_weights(c, t, n, k);
    if (check_rand_int(c, 0, 1)) a->bias = check_mat(c, false, 1, n, 0, 4, CHECK_UNIFORM).data;
    a->accumulate = check_rand_int(c, 0, 1);
    a->steady = check_rand_int(c, 0, 1);
    if (a->steady && shape->m > SAC_LINEAR_FEW_ROWS) a->n_unsteady = check_rand_int(c, SAC_LINEAR_FEW_ROWS + 1, shape->m);
    c->same_bits = true;
    allow_linear(c);
    snprintf(c->text, sizeof c->text, "%s m=%lld n=%lld k=%lld group=%lld %s scales%s%s%s%s x %s",
             sac_dtype_name(t), (long long)shape->m, (long long)n, (long long)k, (long long)a->w.group,
             sac_dtype_name(a->w.scales.dtype), a->w.zeros.data ? " zeros" : "", a->bias ? " bias" : "",
             a->accumulate ? " accumulate" : "", a->steady ? " steady" : "", check_values_name(v));
    return true;
}

bool check_make_linear_of(check_case *c, int64_t m, int64_t n, int64_t k, sac_dtype t) {
    check_values v = check_rand_int(c, 0, 1) ? CHECK_UNIFORM : CHECK_OUTLIERS;
    sac_linear_args *a = &c->linear;
    a->x = check_mat(c, false, m, k, 8 * check_rand_int(c, 0, 2), 0, v);
    a->y = check_mat(c, true, m, n, 8 * check_rand_int(c, 0, 2), 0, CHECK_UNIFORM);
    a->w = check_weights(c, t, n, k, 0, CHECK_UNIFORM);
    if (check_rand_int(c, 0, 1)) a->bias = check_mat(c, false, 1, n, 0, 4, CHECK_UNIFORM).data;
    a->act = v == CHECK_OUTLIERS ? SAC_ACT_NONE : (sac_activation)check_rand_int(c, 0, SAC_ACT_SIGMOID);
    a->accumulate = a->act == SAC_ACT_NONE && check_rand_int(c, 0, 1);
    c->same_bits = true;
    allow_linear(c);
    snprintf(c->text, sizeof c->text, "%s m=%lld n=%lld k=%lld act=%d%s%s x %s", sac_dtype_name(t),
             (long long)m, (long long)n, (long long)k, (int)a->act, a->bias ? " bias" : "",
             a->accumulate ? " accumulate" : "", check_values_name(v));
    return true;
}

bool check_make_linear(check_case *c, int i, bool quick) {
    const int n_float = N_FLOAT * N_FLOAT_TYPES, n_block = N_BLOCK * N_BLOCK_TYPES;
    if (i == n_float + n_block) return make_far(c);
    const int apart = i - n_float - n_block - 1;
    if (apart >= (2 + N_PACKED_TYPES) * N_FLOAT) return false;
    if (apart >= 0) { /* int8 twice */
        sac_dtype t = (sac_dtype)(SAC_DTYPE_I8 + (apart < N_FLOAT ? 0 : apart / N_FLOAT - 1));
        return make_apart(c, &float_shapes[apart % N_FLOAT], t, quick);
    }
    bool block = i >= n_float;
    const linear_shape *shape = block ? &block_shapes[(i - n_float) % N_BLOCK] : &float_shapes[i % N_FLOAT];
    sac_dtype t = block ? (sac_dtype)(SAC_DTYPE_Q8_0 + (i - n_float) / N_BLOCK) : float_types[i / N_FLOAT];
    if (quick && shape->slow && t != SAC_DTYPE_BF16) return true; /* no buffers: skipped */
    int64_t k =
        block ? shape->k * (sac_dtype_block(t) == 256 ? 256 : 32 * check_rand_int(c, 1, 8)) : shape->k;
    size_t x_misalign = 4 * (size_t)check_rand_int(c, 0, 3), w_misalign = 2 * (size_t)check_rand_int(c, 0, 7);
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    int64_t gap = check_rand_int(c, 0, 1) * check_rand_int(c, 1, 20);
    sac_linear_args *a = &c->linear;
    a->x = check_mat(c, false, shape->m, k, gap, x_misalign, v);
    a->y = check_mat(c, true, shape->m, shape->n, gap / 2, x_misalign, CHECK_UNIFORM);
    /* F32 weights may lie on any even byte of a file, but C reads floats at multiples of 4 */
    a->w = check_weights(c, t, shape->n, k, w_misalign, CHECK_UNIFORM);
    if (check_rand_int(c, 0, 1)) a->bias = check_mat(c, false, 1, shape->n, 0, 4, CHECK_UNIFORM).data;
    a->act = v == CHECK_OUTLIERS ? SAC_ACT_NONE : (sac_activation)check_rand_int(c, 0, SAC_ACT_SIGMOID);
    a->accumulate = check_rand_int(c, 0, 1);
    a->fast = !block && check_rand_int(c, 0, 3) == 0;
    c->same_bits = true;
    allow_linear(c);
    snprintf(c->text, sizeof c->text, "%s m=%lld n=%lld k=%lld gap=%lld act=%d%s%s%s x %s", sac_dtype_name(t),
             (long long)shape->m, (long long)shape->n, (long long)k, (long long)gap, (int)a->act,
             a->bias ? " bias" : "", a->accumulate ? " accumulate" : "", a->fast ? " fast" : "",
             check_values_name(v));
    return true;
}

/* ---------------------------------------------------------------- groups */

/* Columns [first, first + n) of a matrix. */
static sac_mat columns(sac_mat m, int64_t first, int64_t n) {
    m.data = (uint8_t *)m.data + sac_dtype_row_bytes(m.dtype, first);
    m.cols = n;
    return m;
}

/* What keeps a group from being one product. */
typedef enum group_kind {
    GROUP_ONE,
    GROUP_OUTPUTS_TURNED,
    GROUP_WEIGHTS_APART,
    GROUP_BIASES_APART
} group_kind;

static const int64_t group_rows[] = {1, 2, 7, 8, 33}, group_cols[SAC_LINEAR_GROUP_MOST] = {48, 16, 16};
enum { N_GROUP_ROWS = (int)SAC_COUNT(group_rows) };

int check_n_linear_groups(void) {
    return N_GROUP_ROWS * (GROUP_BIASES_APART + 1);
}

/* A group cut out of one product; where its parts are apart, all begin with the product's first column. */
static sac_linear_group_args cut_group(check_case *c, const sac_linear_args *one, int n_parts,
                                       group_kind kind) {
    sac_linear_group_args g = {.n = n_parts, .x = one->x};
    for (int64_t p = 0, first = 0; p < n_parts; first += group_cols[p++]) {
        int64_t n = group_cols[p], last = one->y.cols - first - n,
                row = kind == GROUP_WEIGHTS_APART ? 0 : first;
        g.y[p] = columns(one->y, kind == GROUP_OUTPUTS_TURNED ? last : first, n);
        g.w[p] = one->w, g.w[p].tensor.dim[0] = n;
        g.w[p].tensor.data = (const uint8_t *)one->w.tensor.data +
                             (size_t)row * sac_dtype_row_bytes(one->w.tensor.dtype, one->x.cols);
        if (c->exact_x) { /* on a GPU a matrix in blocks is in an order of its own */
            void *own = check_buffer_add(c, false, one->w.tensor.dtype, n, one->x.cols, one->x.cols, 0);
            memcpy(own, g.w[p].tensor.data, sac_weight_part_bytes(&g.w[p].tensor));
            g.w[p].tensor.data = own;
        }
        g.bias[p] = kind != GROUP_BIASES_APART ? one->bias + first : p ? one->bias : NULL;
    }
    return g;
}

bool check_make_linear_group(check_case *c, int i, sac_dtype t) {
    if (i >= check_n_linear_groups()) return false;
    const int64_t m = group_rows[i % N_GROUP_ROWS], k = c->exact_x ? 512 : 160;
    const int n_parts = i % 2 ? 2 : SAC_LINEAR_GROUP_MOST;
    const group_kind kind = (group_kind)(i / N_GROUP_ROWS);
    sac_linear_args one = {.x = check_mat(c, false, m, k, 8, 0, CHECK_UNIFORM)};
    int64_t n = group_cols[0] + group_cols[1] + (n_parts == 3 ? group_cols[2] : 0);
    one.y = check_mat(c, true, m, n, 8, 0, CHECK_UNIFORM);
    one.w = check_weights(c, t, n, k, 0, CHECK_UNIFORM);
    one.bias = check_mat(c, false, 1, n, 0, 0, CHECK_UNIFORM).data;
    c->linear = one;
    allow_linear(c);
    for (int64_t j = 0; j < m * n; j++) c->allowed[j] *= 2; /* a column may be that of other weights */
    c->linear_group = cut_group(c, &one, n_parts, kind);
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%s m=%lld, %d parts of kind %d", sac_dtype_name(t), (long long)m,
             n_parts, (int)kind);
    return true;
}
