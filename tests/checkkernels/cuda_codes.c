/* cuda_codes.c - products with weights whose scales lie apart, in groups that a GPU holds (cuda/weights/code_layout.h). */
#include "check.h"
#include "cuda/weights/code_layout.h"
#include "cuda_twin.h"
#include "ref/weights/ref_weights.h"
#include "ref/weights/x_rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct code_kind {
    sac_dtype type;
    int64_t group, group_rows; /* 0: all of a row; each row its own */
    sac_dtype scales;
    bool zeros, ordered, one_scale;
    sac_x_rounding how;
} code_kind;

/* Each of a GPU's types, from each of the formats, with and without what belongs to it. */
static const code_kind kinds[] = {
    {SAC_DTYPE_AWQ, 128, 0, SAC_DTYPE_F16, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_AWQ, 64, 0, SAC_DTYPE_F16, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_AWQ, 32, 0, SAC_DTYPE_F16, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_GPTQ_4, 128, 0, SAC_DTYPE_F16, true, true, false, SAC_X_EXACT},
    {SAC_DTYPE_GPTQ_4, 32, 0, SAC_DTYPE_BF16, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_GPTQ_8, 32, 0, SAC_DTYPE_F16, true, true, false, SAC_X_EXACT},
    {SAC_DTYPE_GPTQ_8, 0, 0, SAC_DTYPE_F16, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_PACKED_4, 64, 0, SAC_DTYPE_BF16, false, false, false, SAC_X_EXACT},
    {SAC_DTYPE_PACKED_4, 0, 0, SAC_DTYPE_F32, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_PACKED_8, 128, 0, SAC_DTYPE_BF16, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_PACKED_8, 0, 0, SAC_DTYPE_F16, false, false, true, SAC_X_EXACT},
    {SAC_DTYPE_I8, 0, 0, SAC_DTYPE_BF16, false, false, false, SAC_X_INT8_ROWS},
    {SAC_DTYPE_I8, 32, 0, SAC_DTYPE_F32, true, false, false, SAC_X_EXACT},
    {SAC_DTYPE_FP8, 0, 0, SAC_DTYPE_F32, false, false, true, SAC_X_EXACT},
    {SAC_DTYPE_FP8, 0, 0, SAC_DTYPE_BF16, false, false, false, SAC_X_FP8_ROWS},
    {SAC_DTYPE_FP8, 128, 128, SAC_DTYPE_F32, false, false, false, SAC_X_FP8_GROUPS},
    {SAC_DTYPE_FP8, 0, 0, SAC_DTYPE_BF16, false, false, true, SAC_X_FP8_STATIC},
    {SAC_DTYPE_I8, 0, 0, SAC_DTYPE_F32, false, false, false, SAC_X_INT8_STATIC},
    {SAC_DTYPE_NF4, 32, 0, SAC_DTYPE_F16, false, false, false, SAC_X_EXACT},
    {SAC_DTYPE_NF4, 64, 0, SAC_DTYPE_F32, false, false, false, SAC_X_EXACT},
    {SAC_DTYPE_FP4, 16, 0, SAC_DTYPE_F32, false, false, false, SAC_X_EXACT},
    {SAC_DTYPE_FP4, 32, 0, SAC_DTYPE_BF16, false, false, false, SAC_X_EXACT},
    {SAC_DTYPE_HQQ_4, 64, 0, SAC_DTYPE_F16, true, false, false, SAC_X_EXACT},
};
/* Rows of x up to those that are read from stored bytes and beyond; outputs and columns that fill neither tiles of 16 nor
 * stretches of 256, and that are fewer than one; of one row, several tiles for each block of a GPU (block_stream.cuh); the last is
 * unpacked in two goes. */
static const int64_t shapes[][3] = {{1, 9224, 512}, {1, 24, 8},     {1, 40, 2184},    {3, 72, 296},
                                    {8, 16, 4096},  {16, 200, 128}, {17, 8, 1056},    {32, 48, 760},
                                    {33, 264, 512}, {70, 136, 904}, {130, 272, 1040},
                                    {34, 2824, 16384}};
/* Plain rows: so many steps along k for each block of a GPU that its ring comes round, for each count of rows (blocks/few_e4m3.cuh). */
static const int64_t plain_shapes[][3] = {{1, 9224, 4096}, {16, 9224, 2064}, {24, 9224, 2064}};
static const int64_t plain_gates[][3] = {{12, 4104, 1040}, {24, 4104, 1040}};
/* Of out_step rows, hidden, columns of o and channels of the MLP, few of them a multiple of a tile: each product with a part for every
 * processor, then more parts than processors, rows of up to the most elements, some without so much work, and two rows. */
static const int64_t plain_outs[][4] = {{1, 2112, 912, 976},  {1, 1232, 1680, 1744}, {1, 2064, 1040, 2320}, {1, 3584, 3584, 1304},
                                        {1, 5136, 1040, 400}, {1, 8192, 528, 528},   {1, 528, 272, 1304},   {2, 2112, 912, 976}};
enum {
    N_KINDS = (int)SAC_COUNT(kinds),
    N_SHAPES = (int)SAC_COUNT(shapes),
    N_PLAIN_SHAPES = (int)SAC_COUNT(plain_shapes),
    N_GATES = 3,
    N_PLAIN_GATES = (int)SAC_COUNT(plain_gates),
    N_PLAIN_OUTS = (int)SAC_COUNT(plain_outs),
    N_MIXED_OUTS = 2
};

static sac_tensor random_tensor(check_case *c, sac_dtype t, int64_t rows, int64_t cols) {
    uint8_t *at = check_buffer_add(c, false, t, rows, cols, cols, (size_t)check_rand_int(c, 0, 3));
    const size_t n = (size_t)rows * sac_dtype_row_bytes(t, cols);
    for (size_t i = 0; i < n; i += 8) {
        const uint64_t eight = check_rand(&c->rng);
        memcpy(at + i, &eight, n - i < 8 ? n - i : 8);
    }
    return (sac_tensor){at, t, 2, {rows, cols}};
}
/* Below `most` in size, not far below in the mean. */
static sac_tensor scales_of(check_case *c, sac_dtype t, int64_t rows, int64_t cols, double most) {
    uint8_t *at = check_buffer_add(c, false, t, rows, cols, cols, 0);
    for (int64_t i = 0; i < rows * cols; i++) {
        const float f = (float)(most * (2 * check_rand_unit(c) - 1));
        const uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
        if (t == SAC_DTYPE_F32)
            memcpy(at + 4 * i, &f, 4);
        else
            memcpy(at + 2 * i, &h, 2);
    }
    return (sac_tensor){at, t, 2, {rows, cols}};
}
static sac_tensor order_of(check_case *c, int64_t k, int64_t group) {
    int32_t *g = check_buffer_add(c, false, SAC_DTYPE_I32, 1, k, k, 0);
    for (int64_t i = 0; i < k; i++) g[i] = (int32_t)(i / group);
    for (int64_t i = k - 1; i > 0; i--) {
        const int64_t j = check_rand_int(c, 0, (int)i);
        const int32_t was = g[i];
        g[i] = g[j], g[j] = was;
    }
    return (sac_tensor){g, SAC_DTYPE_I32, 2, {1, k}};
}

/* n and k are multiples of 8. Values of about `size`, whatever the codes. */
static sac_weight sized_weights(check_case *c, const code_kind *kind, int64_t n, int64_t k, double size) {
    static const sac_weight_format formats[SAC_N_DTYPES] = {
        [SAC_DTYPE_AWQ] = SAC_WEIGHT_AWQ,         [SAC_DTYPE_GPTQ_4] = SAC_WEIGHT_GPTQ,
        [SAC_DTYPE_GPTQ_8] = SAC_WEIGHT_GPTQ,     [SAC_DTYPE_PACKED_4] = SAC_WEIGHT_PACKED,
        [SAC_DTYPE_PACKED_8] = SAC_WEIGHT_PACKED, [SAC_DTYPE_I8] = SAC_WEIGHT_INT8,
        [SAC_DTYPE_FP8] = SAC_WEIGHT_FP8,         [SAC_DTYPE_NF4] = SAC_WEIGHT_NF4,
        [SAC_DTYPE_FP4] = SAC_WEIGHT_FP4,         [SAC_DTYPE_HQQ_4] = SAC_WEIGHT_HQQ};
    const bool is_hqq = kind->type == SAC_DTYPE_HQQ_4 && k % 32 == 0; /* others' rows are whole groups: those of its bits here */
    const sac_dtype t = kind->type == SAC_DTYPE_HQQ_4 && !is_hqq ? SAC_DTYPE_PACKED_4 : kind->type;
    sac_weight w = {.format = formats[t], .group = kind->group, .group_rows = (int)kind->group_rows};
    if (!w.group || w.group > k || (t == SAC_DTYPE_AWQ && k % w.group)) w.group = k;
    const int64_t n_groups = (k + w.group - 1) / w.group;
    const bool by_column = t == SAC_DTYPE_AWQ || t == SAC_DTYPE_GPTQ_4 || t == SAC_DTYPE_GPTQ_8;
    const int64_t rows = kind->one_scale ? 1 : w.group_rows ? (n + w.group_rows - 1) / w.group_rows : n;
    w.tensor = random_tensor(c, t, n, k);
    uint8_t *q = (uint8_t *)(uintptr_t)w.tensor.data;
    for (int64_t i = 0; t == SAC_DTYPE_FP8 && i < n * k; i++) q[i] &= 0xbf; /* below 2, and numbers */
    const double most = t == SAC_DTYPE_FP8 || t == SAC_DTYPE_NF4 ? 1
                        : sac_dtype_block(t) == 2                ? 0x1p-3
                                                                 : 0x1p-7;
    w.scales = scales_of(c, kind->scales, by_column ? n_groups : rows, by_column ? n : n_groups, size * most);
    if (kind->zeros && by_column)
        w.zeros = random_tensor(c, t, n_groups, n), w.zero_add = (int)check_rand_int(c, 0, 1);
    if (t == SAC_DTYPE_AWQ) w.zero_add = 0;
    if (kind->zeros && w.format == SAC_WEIGHT_PACKED)
        w.zeros = random_tensor(c, t, n_groups, rows == 1 ? 8 : n);
    if (is_hqq) w.zeros = scales_of(c, SAC_DTYPE_F32, rows, n_groups, 15);
    if (kind->zeros && t == SAC_DTYPE_I8) w.zeros = random_tensor(c, t, rows, n_groups);
    if (kind->ordered) w.order = order_of(c, k, w.group);
    w.x_rounding = kind->how;
    if (kind->how == SAC_X_FP8_STATIC || kind->how == SAC_X_INT8_STATIC)
        w.x_scale = kind->how == SAC_X_FP8_STATIC ? 0x1.8p-10f : 0x1.8p-7f; /* what is above 0.66 or 1.5 is cut */
    return w;
}
static sac_weight weights_of(check_case *c, const code_kind *kind, int64_t n, int64_t k) {
    return sized_weights(c, kind, n, k, 1);
}

static double unit_of(sac_dtype t) {
    return t == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}
/* Length of the products of two rows, element by element; four sums, so that they do not wait for each other. */
static double products(const float *x, const float *w, int64_t k) {
    double sum[4] = {0};
    for (int64_t i = 0; i < k; i++) {
        const double p = (double)x[i] * (double)w[i];
        sum[i % 4] += p * p;
    }
    return sqrt(sum[0] + sum[1] + sum[2] + sum[3]);
}
static bool is_coded(const sac_weight *w) {
    return w->format != SAC_WEIGHT_FLOATS && sac_code_layout_type(w, false) != SAC_N_DTYPES;
}

/* Scales in f32 keep 16 bits; rows of x that are rounded, weights that are unpacked and NF4's levels those of t. Errors of elements are
 * independent. Returns what a product of a row of x with one of w may be off. */
static double slack(const sac_weight *w, bool from_bytes, const float *x, const float *row, int64_t k,
                    sac_dtype t) {
    const double unit = !from_bytes || w->x_rounding || w->format == SAC_WEIGHT_NF4 ? unit_of(t)
                        : w->format == SAC_WEIGHT_HQQ                               ? 0x1p-10 /* d and m in f16 */
                        : w->scales.dtype == SAC_DTYPE_F32                          ? 0x1p-16
                                                                                    : 0;
    return (4 * unit + 8 * 0x1p-24 * sqrt((double)k)) * products(x, row, k);
}

void cuda_allow_codes(check_case *c, sac_dtype t) {
    const sac_linear_args *a = &c->linear;
    if (c->op != CHECK_linear || !is_coded(&a->w) || (t != SAC_DTYPE_F16 && t != SAC_DTYPE_BF16)) return;
    const int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols;
    const bool from_bytes = m <= 32 && (m == 1 || a->x.stride % 8 == 0);
    float *row = malloc((size_t)k * sizeof *row);
    for (int64_t j = 0; j < n; j++) {
        sac_ref_weight_of(&a->w)->row(&a->w, j, k, row);
        for (int64_t i = 0; i < m; i++)
            c->allowed[i * n + j] +=
                slack(&a->w, from_bytes, (const float *)a->x.data + i * a->x.stride, row, k, t);
    }
    free(row);
}

static void describe(check_case *c, const code_kind *kind, int64_t m, int64_t n, int64_t k, int64_t group) {
    snprintf(c->text, sizeof c->text, "%s m=%lld n=%lld k=%lld group=%lld %s scales%s%s%s",
             sac_dtype_name(kind->type), (long long)m, (long long)n, (long long)k, (long long)group,
             sac_dtype_name(kind->scales), kind->zeros ? " zeros" : "", kind->ordered ? " ordered" : "",
             kind->how ? " x rounded" : "");
}

/* Of what becomes plain rows on a GPU (code_layout.h, e4m3_rows) rows are whole vectors. */
static bool is_of_e4m3(const code_kind *kind) {
    return kind->type == SAC_DTYPE_FP8 && kind->how != SAC_X_EXACT;
}
static int64_t columns_of(const code_kind *kind, int64_t k) {
    return is_of_e4m3(kind) ? (k + 15) / 16 * 16 : k;
}

static void make_linear(check_case *c, const code_kind *kind, const int64_t *shape, int i) {
    const int64_t m = shape[0], n = shape[1], k = columns_of(kind, shape[2]);
    sac_linear_args *a = &c->linear;
    a->x = check_mat(c, false, m, k, 8, 0, i % 2 ? CHECK_OUTLIERS : CHECK_UNIFORM);
    a->y = check_mat(c, true, m, n, 8, 0, CHECK_UNIFORM);
    a->w = weights_of(c, kind, n, k);
    if (i % 3 == 0) a->bias = check_mat(c, false, 1, n, 0, 0, CHECK_UNIFORM).data;
    a->accumulate = i % 4 == 1;
    c->same_bits = true;
    double *allowed = check_allow(c, m * n);
    for (int64_t j = 0; j < m * n; j++)
        allowed[j] = 1e-6; /* cuda_allow_codes adds what the type of x asks for */
    describe(c, kind, m, n, k, a->w.group);
}

/* Two or three matrices of one kind, or, `mixed`, one of another between. Of one row the first is of several tiles for each block
 * of a GPU (block_stream.cuh). */
static void make_group(check_case *c, int i, int64_t m, sac_dtype t) {
    const code_kind *kind = &kinds[i % N_KINDS];
    const bool mixed = i / N_KINDS % 2;
    const int64_t cols[] = {m == 1 ? 9224 : 40, 16, 24}, k = is_of_e4m3(kind) && !mixed ? 528 : 520, all = cols[0] + cols[1] + cols[2];
    sac_linear_group_args *g = &c->linear_group;
    *g = (sac_linear_group_args){.n = i % 2 ? 2 : 3, .x = check_mat(c, false, m, k, 8, 0, CHECK_UNIFORM)};
    const int64_t n_all = g->n == 2 ? cols[0] + cols[1] : all;
    const sac_mat y = check_mat(c, true, m, n_all, 8, 0, CHECK_UNIFORM);
    double *allowed = check_allow(c, m * n_all);
    float *row = malloc((size_t)k * sizeof *row);
    for (int64_t p = 0, first = 0; p < g->n; first += cols[p++]) {
        const code_kind *of = mixed && p == 1 ? &kinds[(i + 5) % N_KINDS] : kind;
        const sac_weight w = weights_of(c, of, cols[p], k);
        g->w[p] = w, g->y[p] = y;
        g->y[p].data = (float *)y.data + first, g->y[p].cols = cols[p];
        if (p != 1) g->bias[p] = check_mat(c, false, 1, cols[p], 0, 0, CHECK_UNIFORM).data;
        for (int64_t j = 0; j < cols[p]; j++) {
            sac_ref_weight_of(&w)->row(&w, j, k, row);
            for (int64_t r = 0; r < m; r++)
                allowed[r * n_all + first + j] =
                    1e-6 + slack(&w, m <= 32, (const float *)g->x.data + r * g->x.stride, row, k, t);
        }
    }
    free(row);
    c->exact_x = c->same_bits = true;
    describe(c, kind, m, n_all, k, kind->group);
}

/* The normalised row is rounded to t before it is rounded to 8 bits, so that a few elements come one step beside the
 * reference's: e4m3's steps are 2^-4. */
static void make_gates(check_case *c, const code_kind *kind, int64_t rows, int64_t n, int64_t k,
                       sac_dtype t) {
    check_make_gates(c, rows, n, k, SAC_DTYPE_F16);
    sac_gate_up_step_args *a = &c->gate_up_step;
    a->gate = weights_of(c, kind, n, k);
    a->up = weights_of(c, kind, n, k);
    const sac_weight *pair[] = {&a->gate, &a->up};
    float *x = malloc((size_t)k * sizeof *x), *row = malloc((size_t)k * sizeof *row);
    for (int64_t r = 0; r < rows; r++) {
        const float *from = (const float *)a->x.data + r * a->x.stride;
        double squares = 0;
        for (int64_t i = 0; i < k; i++) squares += (double)from[i] * (double)from[i];
        const double scale = 1 / sqrt(squares / (double)k + (double)a->eps);
        for (int64_t i = 0; i < k; i++) x[i] = (float)((double)from[i] * scale * (double)a->norm[i]);
        for (int64_t j = 0; j < n; j++) {
            double sum[2] = {0}, off[2];
            for (int p = 0; p < 2; p++) {
                sac_ref_weight_of(pair[p])->row(pair[p], j, k, row);
                for (int64_t i = 0; i < k; i++) sum[p] += (double)x[i] * (double)row[i];
                off[p] = (kind->how ? 0.1 : 4 * unit_of(t)) * products(x, row, k);
                if (kind->how) off[p] += 4 * unit_of(t) * products(x, row, k);
            }
            const double gate = fabs(sum[0]) + off[0], up = fabs(sum[1]) + off[1];
            c->allowed[r * n + j] +=
                1.1 * off[0] * up + gate * off[1] + 4 * unit_of(t) * (gate < 30 ? gate * up : 0);
        }
    }
    free(x), free(row);
    describe(c, kind, rows, n, k, kind->group);
}

/* Rows of numbers, and what each may be off on the device. */
typedef struct inexact {
    int64_t rows, cols;
    float *x, *off;
} inexact;

static inexact inexact_rows(int64_t rows, int64_t cols) {
    const size_t n = (size_t)(rows * cols);
    return (inexact){rows, cols, calloc(n, sizeof(float)), calloc(n, sizeof(float))};
}
static void free_rows(inexact m) {
    free(m.x), free(m.off);
}

/* y += x w^T. Where x, rounded to 8 bits, is not what the reference has, a few elements come one step beside its: of 2^-4 or, of those
 * that are off themselves, of as much as they are. Errors of elements are independent. */
static void add_products(inexact y, inexact x, const sac_weight *w, bool is_exact, sac_dtype t) {
    const int64_t k = x.cols;
    const double part = (is_exact || !w->x_rounding ? 0 : 0.1) + 4 * unit_of(t);
    float *rounded = malloc((size_t)(x.rows * k) * sizeof *rounded), *row = malloc((size_t)k * sizeof *row);
    memcpy(rounded, x.x, (size_t)(x.rows * k) * sizeof *rounded);
    for (int64_t i = 0; i < x.rows && w->x_rounding; i++) sac_round_x(w, x.x + i * k, rounded + i * k, k);
    for (int64_t j = 0; j < y.cols; j++) {
        sac_ref_weight_of(w)->row(w, j, k, row);
        for (int64_t i = 0; i < x.rows; i++) {
            double sum[4] = {0};
            for (int64_t e = 0; e < k; e++) sum[e % 4] += (double)rounded[i * k + e] * (double)row[e];
            y.x[i * y.cols + j] += (float)(sum[0] + sum[1] + sum[2] + sum[3]);
            const double off =
                part * products(x.x + i * k, row, k) + (is_exact ? 0 : products(x.off + i * k, row, k));
            y.off[i * y.cols + j] += (float)off;
        }
    }
    free(rounded), free(row);
}

/* What out_step may be off: its sum of o is rounded to t, then the normalised row is, then the MLP's channels. */
static void allow_out(check_case *c, sac_dtype t) {
    const sac_out_step_args *a = &c->out_step;
    const int64_t rows = a->x.rows, hidden = a->x.cols, wide = a->wide.cols, n_x = rows * hidden,
                  n_wide = rows * wide;
    const double unit = unit_of(t);
    inexact o = inexact_rows(rows, a->o.cols), x = inexact_rows(rows, hidden),
            normed = inexact_rows(rows, hidden), gate = inexact_rows(rows, wide),
            up = inexact_rows(rows, wide);
    for (int64_t r = 0; r < rows; r++) {
        memcpy(o.x + r * o.cols, sac_mat_row_f32(a->o, r), (size_t)o.cols * sizeof(float));
        for (int64_t i = 0; i < hidden; i++)
            x.x[r * hidden + i] = sac_mat_row_f32(a->x, r)[i] + (a->o_bias ? a->o_bias[i] : 0);
    }
    add_products(x, o, &a->wo, true, t);
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0;
        for (int64_t i = r * hidden; i < (r + 1) * hidden; i++) {
            squares += (double)x.x[i] * (double)x.x[i];
            x.off[i] += (float)(2 * unit * fabs((double)x.x[i]));
        }
        const double scale = 1 / sqrt(squares / (double)hidden + (double)a->eps);
        for (int64_t i = 0; i < hidden; i++) {
            const double by = scale * (double)a->norm[i];
            normed.x[r * hidden + i] = (float)((double)x.x[r * hidden + i] * by);
            normed.off[r * hidden + i] = (float)((double)x.off[r * hidden + i] * fabs(by));
        }
    }
    add_products(gate, normed, &a->gate, false, t);
    add_products(up, normed, &a->up, false, t);
    for (int64_t i = 0; i < n_wide; i++) {
        const double g = (double)gate.x[i], off = (double)gate.off[i], most = fabs(g) + off,
                     most_up = fabs((double)up.x[i]) + (double)up.off[i];
        gate.x[i] = (float)(g / (1 + exp(-g)) * (double)up.x[i]);
        gate.off[i] = (float)(1.1 * off * most_up + most * (double)up.off[i] + 4 * unit * most * most_up);
    }
    add_products(x, gate, &a->down, false, t);
    double *allowed = check_allow(c, n_x + n_wide);
    for (int64_t i = 0; i < n_x; i++) allowed[i] = 1e-6 + (double)x.off[i];
    for (int64_t i = 0; i < n_wide; i++) allowed[n_x + i] = 1e-6 + (double)gate.off[i];
    free_rows(o), free_rows(x), free_rows(normed), free_rows(gate), free_rows(up);
}

/* Products with 3 / sqrt(k) of weights of about 1 come to about 1. Each input has a scale of its own where it has one that does not change.
 * `mixed`: one of the products is of weights that are no plain rows. */
static void make_out(check_case *c, const code_kind *kind, const int64_t *shape, int i, bool mixed,
                     sac_dtype t) {
    static const code_kind other = {SAC_DTYPE_FP8, 0, 0, SAC_DTYPE_F32, false, false, true, SAC_X_EXACT};
    const int64_t rows = shape[0], hidden = shape[1], k = shape[2], wide = shape[3];
    const code_kind *of_o = mixed && i % 2 ? &other : kind, *of_down = mixed && i % 2 == 0 ? &other : kind;
    sac_out_step_args *a = &c->out_step;
    check_make_out_rows(c, rows, hidden, k, wide, i % 3 != 1);
    a->wo = sized_weights(c, of_o, hidden, k, 3 / sqrt((double)k));
    a->gate = weights_of(c, kind, wide, hidden);
    a->up = weights_of(c, kind, wide, hidden);
    a->down = sized_weights(c, of_down, hidden, wide, 3 / sqrt((double)wide));
    a->gate.x_scale *= 0.5f, a->up.x_scale *= 0.5f, a->down.x_scale *= 2;
    c->same_bits = true;
    allow_out(c, t);
    char text[120];
    snprintf(text, sizeof text, "%.119s", c->text);
    snprintf(c->text, sizeof c->text, "%s group=%lld %s scales%s%s", text, (long long)kind->group,
             sac_dtype_name(kind->scales), kind->how ? " x rounded" : "", mixed ? " mixed" : "");
}

/* Of cases_step.c's shapes those whose heads are halves of whole tiles, all turned; the wide ones last, which not every kind has:
 * their weights take the host seconds. */
static const int qkv_shapes[] = {1, 2, 8, 6, 10, 12, 9};
enum { N_QKV = (int)SAC_COUNT(qkv_shapes), N_NARROW_QKV = 3 };
static bool is_left_out(int kind, int of) {
    return of == N_QKV - 1 ? kind % 7 : of >= N_NARROW_QKV && kind % 4 != of % 4;
}

void cuda_allow_qkv(check_case *c, double of) {
    sac_qkv_step_args *a = &c->qkv_step;
    const int64_t k = a->x.cols, n_q = a->q.cols, n_kv = a->wk.tensor.dim[0],
                  stored = 2 * a->kv.n_rows * n_kv, half = a->kv.head_dim / 2;
    const sac_weight *w[] = {&a->wq, &a->wk, &a->wv};
    float *x = malloc((size_t)k * sizeof *x), *row = malloc((size_t)k * sizeof *row);
    double *off = malloc((size_t)n_q * sizeof *off), squares = 0, most = 0;
    for (int64_t i = 0; i < k; i++)
        squares += (double)((const float *)a->x.data)[i] * (double)((const float *)a->x.data)[i];
    const double scale = 1 / sqrt(squares / (double)k + (double)a->eps);
    for (int64_t i = 0; i < k; i++)
        x[i] = (float)((double)((const float *)a->x.data)[i] * scale * (double)a->norm[i]);
    for (int m = 0; m < 3; m++)
        for (int64_t j = 0; j < w[m]->tensor.dim[0]; j++) {
            sac_ref_weight_of(w[m])->row(w[m], j, k, row);
            const double is_off = of * products(x, row, k);
            if (m == 0)
                off[j] = is_off;
            else
                most = fmax(most, is_off);
        }
    /* what a channel is turned with is off as well */
    for (int64_t j = 0; j < n_q; j++)
        c->allowed[j] += off[j] + off[a->rotation.interleaved ? j ^ 1 : j % (2 * half) < half ? j + half : j - half];
    for (int64_t j = 0; j < stored; j++) c->allowed[n_q + j] += 2 * most;
    free(x), free(row), free(off);
}

static void make_qkv(check_case *c, const code_kind *kind, int shape, bool interleaved, sac_dtype t) {
    if (!check_make_step_of(c, shape, t)) return;
    sac_qkv_step_args *a = &c->qkv_step;
    a->rotation.interleaved = interleaved;
    const int64_t k = a->x.cols, n_q = a->q.cols, n_kv = a->wk.tensor.dim[0];
    a->wq = weights_of(c, kind, n_q, k);
    a->wk = weights_of(c, kind, n_kv, k);
    a->wv = weights_of(c, kind, n_kv, k);
    cuda_allow_qkv(c, kind->how ? 0.1 : 4 * unit_of(t));
    describe(c, kind, a->n_heads, n_kv, k, kind->group);
}

int cuda_n_code_cases(check_op op) {
    return op == CHECK_linear         ? N_KINDS * (N_SHAPES + N_PLAIN_SHAPES)
           : op == CHECK_linear_group ? N_KINDS * 6
           : op == CHECK_gate_up_step ? N_KINDS * (N_GATES + N_PLAIN_GATES)
           : op == CHECK_out_step     ? N_KINDS * (N_PLAIN_OUTS + N_MIXED_OUTS)
           : op == CHECK_qkv_step     ? N_KINDS * N_QKV
                                      : 0;
}

const char *cuda_code_case_type(check_op op, int i) {
    return i >= 0 && i < cuda_n_code_cases(op) ? sac_dtype_name(kinds[i % N_KINDS].type) : NULL;
}

bool cuda_has_codes_of(const char *type) {
    bool has = false;
    for (int i = 0; i < N_KINDS; i++) has |= strcmp(sac_dtype_name(kinds[i].type), type) == 0;
    return has;
}

void cuda_make_code_case(check_case *c, check_op op, int i, sac_dtype t) {
    static const int64_t group_rows[] = {1, 5, 40}, gates[N_GATES][3] = {{1, 64, 512}, {1, 9224, 264}, {6, 40, 264}},
                         many[] = {38, 136, 528};
    if (t == SAC_DTYPE_F32) return; /* no buffers: left out */
    const code_kind *kind = &kinds[i % N_KINDS];
    const int of = i / N_KINDS;
    if (op == CHECK_linear && of < N_SHAPES && (of < N_SHAPES - 1 || i % N_KINDS % 5 == 0))
        make_linear(c, kind, shapes[of], i + of);
    if (op == CHECK_linear && of >= N_SHAPES && is_of_e4m3(kind))
        make_linear(c, kind, plain_shapes[of - N_SHAPES], i + of);
    if (op == CHECK_linear_group) make_group(c, i, group_rows[of / 2], t);
    if (op == CHECK_qkv_step && !kind->ordered && !is_left_out(i % N_KINDS, of))
        make_qkv(c, kind, qkv_shapes[of], of == 1 && i % N_KINDS % 2 && !is_of_e4m3(kind), t);
    if (op == CHECK_gate_up_step && !kind->ordered && (of < N_GATES || is_of_e4m3(kind))) {
        const int64_t *shape = of >= N_GATES ? plain_gates[of - N_GATES] : of == 2 && is_of_e4m3(kind) ? many : gates[of];
        make_gates(c, kind, shape[0], shape[1], columns_of(kind, shape[2]), t);
    }
    if (op == CHECK_out_step && is_of_e4m3(kind)) {
        const bool mixed = of >= N_PLAIN_OUTS;
        make_out(c, kind, plain_outs[mixed ? 0 : of], of, mixed, t);
    }
}
