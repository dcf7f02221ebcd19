/* cases_rows.c - cases of the ops on rows: norms, moves, conversions. */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#define EPS 0x1p-24

/* rows x cols: one, odd, either side of a vector, real widths, and enough rows to wake the pool */
static const int64_t shapes[][2] = {{1, 1},    {1, 7},    {3, 8},    {2, 15},  {5, 16},   {4, 17},
                                    {1, 33},   {7, 40},   {3, 384},  {1, 896}, {64, 256}, {2, 1023},
                                    {1, 4096}, {33, 300}, {9, 2048}, {700, 96}};
#define N_SHAPES ((int)SAC_COUNT(shapes))

typedef struct row_case {
    int64_t rows, cols, gap;
    size_t misalign;
    check_values v;
    bool in_place;
} row_case;

static row_case row_shape(check_case *c, int i) {
    row_case r = {.rows = shapes[i % N_SHAPES][0], .cols = shapes[i % N_SHAPES][1]};
    r.gap = check_rand_int(c, 0, 1) * check_rand_int(c, 1, 9);
    r.misalign = 4 * (size_t)check_rand_int(c, 0, 3);
    r.v = (check_values)(i / N_SHAPES % CHECK_N_VALUES);
    r.in_place = check_rand_int(c, 0, 2) == 0;
    snprintf(c->text, sizeof c->text, "%lldx%lld gap=%lld misalign=%zu%s %s", (long long)r.rows,
             (long long)r.cols, (long long)r.gap, r.misalign, r.in_place ? " in place" : "",
             check_values_name(r.v));
    return r;
}

static const float *vector(check_case *c, int64_t n) {
    return check_mat(c, false, 1, n, 0, 4, CHECK_UNIFORM).data;
}

static void make_rmsnorm(check_case *c, const row_case *r) {
    sac_rmsnorm_args *a = &c->rmsnorm;
    a->y = check_mat(c, true, r->rows, r->cols, r->gap, r->misalign, r->v);
    a->x = r->in_place ? a->y : check_mat(c, false, r->rows, r->cols, 2 * r->gap, r->misalign, r->v);
    a->w = vector(c, r->cols);
    a->eps = 1e-6f;
    check_allow(c, r->rows * r->cols);
    c->relative = EPS * (6 + sqrt((double)r->cols));
}

/* The difference from the mean carries the error of the mean, eps (4 + sqrt n) max|x|, scaled like it. */
static void make_layernorm(check_case *c, const row_case *r) {
    sac_layernorm_args *a = &c->layernorm;
    a->y = check_mat(c, true, r->rows, r->cols, r->gap, r->misalign, r->v);
    a->x = r->in_place ? a->y : check_mat(c, false, r->rows, r->cols, 2 * r->gap, r->misalign, r->v);
    a->w = vector(c, r->cols);
    a->b = vector(c, r->cols);
    a->eps = 1e-5f;
    double *allowed = check_allow(c, r->rows * r->cols), sqrt_n = sqrt((double)r->cols);
    for (int64_t i = 0; i < r->rows; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        double mean = 0, var = 0, max = 0;
        for (int64_t j = 0; j < r->cols; j++) {
            mean += (double)x[j] / (double)r->cols;
            max = fmax(max, fabs((double)x[j]));
        }
        for (int64_t j = 0; j < r->cols; j++) var += ((double)x[j] - mean) * ((double)x[j] - mean);
        double scale = 1 / sqrt(var / (double)r->cols + (double)a->eps);
        for (int64_t j = 0; j < r->cols; j++)
            allowed[i * r->cols + j] = EPS * (4 + sqrt_n) * scale * 3 * max * fabs((double)a->w[j]) +
                                       2 * EPS * fabs((double)a->b[j]);
    }
    c->relative = EPS * (6 + sqrt_n);
}

static void make_rope(check_case *c, const row_case *r, int i) {
    static const int dims[] = {64, 8, 80, 128, 2, 256, 20, 44};
    sac_rope_args *a = &c->rope;
    a->head_dim = dims[(i + i / N_SHAPES) % 8]; /* each with many rows, too */
    a->rotation.rot_dim = i % 4 == 1 ? a->head_dim / 2 / 2 * 2 : a->head_dim;
    if (a->rotation.rot_dim == 0) a->rotation.rot_dim = 2;
    a->n_heads = 1 + i % 5;
    a->rotation.interleaved = i / N_SHAPES % 3 == 2;
    a->rotation.factor = i % 4 == 3 ? 1.25f : 1;
    a->back = i % 5 >= 3;
    int64_t n_pos = 40, cols = (int64_t)a->n_heads * a->head_dim;
    a->x = check_mat(c, true, r->rows, cols, r->gap, r->misalign, r->v);
    float *angles = check_mat(c, false, n_pos, a->rotation.rot_dim, 0, 4, CHECK_UNIFORM).data;
    int32_t *pos = check_buffer_add(c, false, SAC_DTYPE_F32, 1, r->rows, r->rows, 4);
    for (int64_t row = 0; row < r->rows; row++) pos[row] = (int32_t)check_rand_int(c, 0, n_pos - 1);
    a->rotation.cos_sin = angles;
    a->pos = pos;
    double *allowed = check_allow(c, r->rows * cols);
    for (int64_t j = 0; j < r->rows * cols; j++) { /* |x| of the pair is at most the largest of the row */
        double max = 0;
        for (int64_t p = 0; p < cols; p++) max = fmax(max, fabs((double)sac_mat_row_f32(a->x, j / cols)[p]));
        int64_t end = (j / cols + 1) * cols;
        for (; j < end; j++) allowed[j] = 4 * EPS * max;
        j--;
    }
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " heads=%dx%d rot=%d%s%s",
             a->n_heads, a->head_dim, a->rotation.rot_dim, a->rotation.interleaved ? " interleaved" : "",
             a->back ? " back" : "");
}

/* Of GELU by tanh(u), x / (1 + e^-2u): u is wrong by some eps of itself; the reference's 1 + tanh u cancels. */
static double gelu_tanh_error(double x) {
    double u = 0.7978845608 * (x + 0.044715 * x * x * x);
    return fabs(x) * (EPS * 8 * fabs(u) * fmin(1, exp(2 * u)) + 0x1p-51);
}

static void make_swiglu(check_case *c, const row_case *r) {
    sac_swiglu_args *a = &c->swiglu;
    a->y = check_mat(c, true, r->rows, r->cols, r->gap, r->misalign, r->v);
    a->gate = r->in_place ? a->y : check_mat(c, false, r->rows, r->cols, 2 * r->gap, r->misalign, r->v);
    a->up = r->in_place && r->rows % 2 ? a->y : check_mat(c, false, r->rows, r->cols, 0, r->misalign, r->v);
    static const sac_activation acts[] = {SAC_ACT_NONE, SAC_ACT_NONE, SAC_ACT_GELU_TANH, SAC_ACT_SIGMOID};
    a->act = acts[check_rand_int(c, 0, 3)];
    const bool is_alone = r->rows % 3 == 2; /* without up */
    if (is_alone && check_rand_int(c, 0, 1)) a->act = SAC_ACT_GELU;
    if (is_alone) a->up = (sac_mat){0};
    double *allowed = check_allow(c, r->rows * r->cols);
    for (int64_t i = 0; i < r->rows * r->cols; i++) {
        const double gate = (double)sac_mat_row_f32(a->gate, i / r->cols)[i % r->cols],
                     up = is_alone ? 1 : (double)sac_mat_row_f32(a->up, i / r->cols)[i % r->cols];
        allowed[i] = 1e-37 * 1e4; /* e^-g beyond f32 gives 0 */
        if (a->act == SAC_ACT_GELU) allowed[i] += 4 * EPS * fabs(gate); /* 1 + erf cancels */
        if (a->act == SAC_ACT_GELU_TANH) allowed[i] += gelu_tanh_error(gate) * fabs(up);
    }
    c->relative = 8 * EPS;
}

static void make_kv_store(check_case *c, const row_case *r, int i) {
    static const int dims[] = {64, 8, 80, 20, 256};
    sac_kv_store_args *a = &c->kv_store;
    sac_kv_view *kv = &a->kv;
    *kv = (sac_kv_view){.dtype = (sac_dtype)(i % 3), .head_dim = dims[i % 5], .n_heads = 1 + i % 4};
    a->first = check_rand_int(c, 0, 5);
    kv->n_rows = a->first + r->rows + check_rand_int(c, 0, 3);
    bool by_head = check_rand_int(c, 0, 1);
    kv->row_stride = by_head ? kv->head_dim : (int64_t)kv->n_heads * kv->head_dim;
    kv->head_stride = by_head ? kv->n_rows * kv->head_dim : kv->head_dim;
    int64_t n = kv->n_rows * kv->n_heads * kv->head_dim, cols = (int64_t)kv->n_heads * kv->head_dim;
    size_t element = kv->dtype == SAC_DTYPE_F32 ? 4 : 2;
    kv->k = check_buffer_add(c, true, kv->dtype, 1, n, n, element);
    kv->v = check_buffer_add(c, true, kv->dtype, 1, n, n, 0);
    a->k = check_mat(c, false, r->rows, cols, r->gap, r->misalign, r->v);
    a->v = check_mat(c, false, r->rows, cols, 0, r->misalign, r->v);
    c->exact = true;
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " %s heads=%dx%d",
             sac_dtype_name(kv->dtype), kv->n_heads, kv->head_dim);
}

static void make_patchify(check_case *c, const row_case *r, int i) {
    /* patches, pixels of each; the last is a patch of two frames */
    static const int sizes[][2] = {{1, 196}, {4, 196}, {5, 196},  {9, 25},
                                   {49, 1},  {4, 256}, {64, 196}, {6, 392}};
    sac_patchify_args *a = &c->patchify;
    int64_t area = sizes[i % 8][1], n_patches = (1 + i % 3) * (int64_t)sizes[i % 8][0],
            n = n_patches * area * 3;
    n += n % 2; /* bytes kept in a buffer of halves */
    uint8_t *pixels = check_buffer_add(c, false, SAC_DTYPE_F16, 1, n / 2, n / 2, 1);
    for (int64_t p = 0; p < n; p++) pixels[p] = (uint8_t)check_rand(&c->rng);
    a->pixels = pixels;
    for (int ch = 0; ch < 3; ch++) {
        a->mean[ch] = (float)check_rand_unit(c);
        a->std[ch] = 0.2f + (float)check_rand_unit(c);
    }
    a->y = check_mat(c, true, n_patches, 3 * area, r->gap, r->misalign, r->v);
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lld patches of %lld pixels", (long long)n_patches, (long long)area);
}

static void make_pool(check_case *c, const row_case *r, int i) {
    static const int grids[][3] = {{8, 8, 2}, {7, 7, 2}, {4, 4, 4}, {24, 24, 2}, {5, 5, 1},
                                   {9, 9, 3}, {3, 8, 2}, {9, 5, 2}, {1, 7, 1},   {12, 4, 4}};
    sac_pool_tokens_args *a = &c->pool_tokens;
    const int *grid = grids[(size_t)i % SAC_COUNT(grids)];
    a->h = grid[0];
    a->w = grid[1];
    a->stride = grid[2];
    a->n_tiles = 1 + i % 3;
    int64_t out = (int64_t)(a->h / a->stride) * (a->w / a->stride);
    a->y = check_mat(c, true, a->n_tiles * out, r->cols, r->gap, r->misalign, r->v);
    a->x = check_mat(c, false, a->n_tiles * a->h * a->w, r->cols, 0, r->misalign, r->v);
    double *allowed = check_allow(c, a->y.rows * r->cols), max = 0;
    for (int64_t j = 0; j < a->x.rows * r->cols; j++) max = fmax(max, fabs((double)((float *)a->x.data)[j]));
    for (int64_t j = 0; j < a->y.rows * r->cols; j++) allowed[j] = EPS * (4 + a->stride) * max;
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " grid %d x %d by %d", a->h, a->w,
             a->stride);
}

/* Rows of several tiles by one table, whose first row may be the filling; on a device, rows that tiles share are f32. */
static void make_blend(check_case *c, const row_case *r, int i) {
    sac_blend_rows_args *a = &c->blend_rows;
    int64_t n = 1 + r->rows % 40, x_rows = 3 + i % 7;
    a->n_tiles = 1 + i % 3;
    a->y = check_mat(c, true, a->n_tiles * n, r->cols, r->gap, r->misalign, r->v);
    a->shared = i % 5 < 2;
    a->accumulate = i % 4 < 2;
    a->x = check_mat(c, false, (a->shared ? 1 : a->n_tiles) * x_rows, r->cols, 0, r->misalign, r->v);
    int32_t *source = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n * SAC_BLEND_TAPS, n * SAC_BLEND_TAPS, 4);
    const float *weight = vector(c, n * SAC_BLEND_TAPS);
    for (int64_t k = 0; k < n * SAC_BLEND_TAPS; k++) source[k] = (int32_t)check_rand_int(c, 0, x_rows - 1);
    if (r->in_place) {
        source[0] = -1;
        a->fill = vector(c, r->cols);
    }
    a->source = source;
    a->weight = weight;
    double *allowed = check_allow(c, a->y.rows * r->cols), max = 0, most = 0;
    for (int64_t j = 0; j < a->x.rows * r->cols; j++) max = fmax(max, fabs((double)((float *)a->x.data)[j]));
    for (int64_t j = 0; j < n * SAC_BLEND_TAPS; j++) most = fmax(most, fabs((double)weight[j]));
    for (int64_t j = 0; j < a->y.rows * r->cols; j++) allowed[j] = EPS * 2 * SAC_BLEND_TAPS * most * max;
    if (a->accumulate) c->relative = EPS;
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text),
             " %lld of %lld rows%s, %lld tiles%s", (long long)n, (long long)x_rows,
             a->shared ? " of all" : "", (long long)a->n_tiles, a->accumulate ? ", added" : "");
}

static void make_scale_add(check_case *c, const row_case *r) {
    sac_scale_add_args *a = &c->scale_add;
    a->y = check_mat(c, true, r->rows, r->cols, r->gap, r->misalign, r->v);
    a->x = check_mat(c, false, r->rows, r->cols, 0, r->misalign, r->v);
    a->scale = vector(c, r->cols);
    const int plain = (int)check_rand_int(c, 0, 2);
    if (!plain) a->scale = NULL, a->factor = check_rand_int(c, 0, 1) ? 0 : -0.3f;
    const double factor = a->factor != 0 ? (double)a->factor : 1;
    double *allowed = check_allow(c, r->rows * r->cols);
    for (int64_t i = 0; i < r->rows; i++)
        for (int64_t j = 0; j < r->cols; j++)
            allowed[i * r->cols + j] = EPS * fabs((double)sac_mat_row_f32(a->x, i)[j] * (a->scale ? (double)a->scale[j] : factor));
    c->relative = EPS;
}

static void make_gather(check_case *c, const row_case *r) {
    sac_gather_rows_args *a = &c->gather_rows;
    int64_t n = r->rows + 3;
    a->x = check_mat(c, false, n, r->cols, r->gap, r->misalign, r->v);
    a->y = check_mat(c, true, r->rows, r->cols, 0, r->misalign, r->v);
    int32_t *source = check_buffer_add(c, false, SAC_DTYPE_F32, 1, r->rows, r->rows, 4);
    for (int64_t i = 0; i < r->rows; i++) source[i] = (int32_t)check_rand_int(c, r->in_place ? -1 : 0, n - 1);
    a->source = source;
    if (r->in_place) a->fill = vector(c, r->cols);
    c->exact = true;
}

/* Every row once at most, in any order; rows that are no target keep what they hold. */
static void make_scatter(check_case *c, const row_case *r) {
    sac_scatter_rows_args *a = &c->scatter_rows;
    int64_t n = r->rows + 3;
    a->y = check_mat(c, true, n, r->cols, r->gap, r->misalign, r->v);
    a->x = check_mat(c, false, r->rows, r->cols, 0, r->misalign, r->v);
    int32_t *target = check_buffer_add(c, false, SAC_DTYPE_F32, 1, r->rows, r->rows, 4);
    int64_t first = check_rand_int(c, 0, n - 1);
    for (int64_t i = 0; i < r->rows; i++) target[i] = (int32_t)((first + i) % n);
    for (int64_t i = r->rows - 1; i > 0; i--) {
        int64_t j = check_rand_int(c, 0, i);
        int32_t t = target[i];
        target[i] = target[j];
        target[j] = t;
    }
    a->target = r->gap ? target : NULL;
    a->accumulate = r->in_place;
    c->exact = true;
}

/* All pairs of types, in place where elements keep their size. */
static void make_convert(check_case *c, const row_case *r, int i) {
    static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    sac_convert_rows_args *a = &c->convert_rows;
    const sac_dtype from = types[i % 3], to = types[i / 3 % 3];
    const size_t x_bytes = sac_dtype_row_bytes(from, 1), y_bytes = sac_dtype_row_bytes(to, 1);
    const int64_t cols = r->cols, stride = cols + r->gap;
    const bool in_place = r->in_place && x_bytes == y_bytes;
    /* of an output the checker asks no more than its bytes: it holds x's numbers before, and y's after */
    a->x = (sac_mat){check_buffer_add(c, in_place, in_place ? to : from, r->rows, cols, stride, x_bytes),
                     r->rows, cols, stride, from};
    a->y = a->x;
    a->y.dtype = to;
    if (!in_place) a->y.data = check_buffer_add(c, true, to, r->rows, cols, stride, y_bytes);
    float *row = malloc((size_t)cols * sizeof *row);
    for (int64_t k = 0; k < r->rows; k++) {
        check_fill(c, row, cols, r->v);
        for (int64_t j = 0; j < cols; j++) {
            uint8_t *at = (uint8_t *)a->x.data + (size_t)(k * stride + j) * x_bytes;
            const uint16_t half = from == SAC_DTYPE_F16 ? sac_f32_to_f16(row[j]) : sac_f32_to_bf16(row[j]);
            memcpy(at, from == SAC_DTYPE_F32 ? (void *)&row[j] : (void *)&half, x_bytes);
        }
    }
    free(row);
    c->exact = true;
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " %s to %s", sac_dtype_name(from),
             sac_dtype_name(to));
}

static void make_embed(check_case *c, const row_case *r, int i) {
    sac_embed_args *a = &c->embed;
    sac_dtype t = (sac_dtype)(i % (SAC_DTYPE_HQQ_4 + 1));
    const bool is_packed = t > SAC_DTYPE_I8; /* rows of whole words */
    const int64_t vocab = 56, cols = sac_dtype_block(t) > 1 ? 256 * (1 + i % 2)
                                     : is_packed            ? (r->cols + 7) / 8 * 8
                                                            : r->cols;
    a->table = is_packed           ? check_packed_weights(c, t, vocab, cols)
               : t == SAC_DTYPE_I8 ? check_int8_weights(c, vocab, cols)
                                   : check_weights(c, t, vocab, cols, 2, r->v);
    a->y = check_mat(c, true, r->rows, cols, r->gap, r->misalign, r->v);
    int32_t *ids = check_buffer_add(c, false, SAC_DTYPE_F32, 1, r->rows, r->rows, 4);
    for (int64_t row = 0; row < r->rows; row++) ids[row] = (int32_t)check_rand_int(c, 0, vocab - 1);
    a->ids = ids;
    a->scale = check_rand_int(c, 0, 1) ? 0 : 5.5f;
    c->exact = true;
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " %s", sac_dtype_name(t));
}

/* Rows more than 2^31 bytes apart. */
static bool make_far_gather(check_case *c) {
    const int64_t stride = (int64_t)3 << 28, n = 33, rows = 3;
    float *x = check_buffer_add_sparse(c, false, SAC_DTYPE_F32, rows, n, stride);
    if (!x) return true;
    for (int64_t i = 0; i < rows; i++) check_fill(c, x + i * stride, n, CHECK_UNIFORM);
    sac_gather_rows_args *a = &c->gather_rows;
    a->x = (sac_mat){x, rows, n, stride, SAC_DTYPE_F32};
    a->y = check_mat(c, true, 2, n, 0, 4, CHECK_UNIFORM);
    int32_t *source = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2, 2, 4);
    source[0] = 2;
    source[1] = 1;
    a->source = source;
    c->exact = true;
    snprintf(c->text, sizeof c->text, "rows 3 GiB apart");
    return true;
}

bool check_make_rows(check_case *c, int i, bool quick) {
    if (i == N_SHAPES * CHECK_N_VALUES) return c->op == CHECK_gather_rows && make_far_gather(c);
    if (i > N_SHAPES * CHECK_N_VALUES) return false;
    row_case r = row_shape(c, i);
    if (quick && r.rows * r.cols > 20000 && r.v != CHECK_OUTLIERS) return true;
    c->same_bits = true;
    switch ((int)c->op) {
    case CHECK_rmsnorm: make_rmsnorm(c, &r); break;
    case CHECK_layernorm: make_layernorm(c, &r); break;
    case CHECK_rope: make_rope(c, &r, i); break;
    case CHECK_swiglu: make_swiglu(c, &r); break;
    case CHECK_kv_store: make_kv_store(c, &r, i); break;
    case CHECK_patchify: make_patchify(c, &r, i); break;
    case CHECK_pool_tokens: make_pool(c, &r, i); break;
    case CHECK_blend_rows: make_blend(c, &r, i); break;
    case CHECK_scale_add: make_scale_add(c, &r); break;
    case CHECK_gather_rows: make_gather(c, &r); break;
    case CHECK_scatter_rows: make_scatter(c, &r); break;
    case CHECK_convert_rows: make_convert(c, &r, i); break;
    default: make_embed(c, &r, i); break;
    }
    return true;
}
