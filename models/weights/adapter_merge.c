/* adapter_merge.c - the sum of a matrix and what adapters add to it, row by row. */
#include "adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_ROWS 32 /* that a thread takes at a time */

static bool is_float(int dtype) {
    return dtype == SAC_DTYPE_F32 || dtype == SAC_DTYPE_F16 || dtype == SAC_DTYPE_BF16;
}

static float element(const void *data, int dtype, int64_t i) {
    const uint8_t *bytes = data;
    float f;
    uint16_t h;
    if (dtype == SAC_DTYPE_F32) {
        memcpy(&f, bytes + 4 * i, 4);
        return f;
    }
    memcpy(&h, bytes + 2 * i, 2);
    return dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

static void store(void *data, sac_dtype type, int64_t i, float f) {
    if (type == SAC_DTYPE_F32) {
        ((float *)data)[i] = f;
        return;
    }
    ((uint16_t *)data)[i] = type == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
}

/* ---- shapes ---- */

static sac_status misfit(const sac_lora *l, const sac_checkpoint_tensor *t, const char *why, sac_error *err) {
    char shape[SAC_SHAPE_TEXT];
    return sac_fail(err, SAC_BAD_FILE, "%s%s: %.150s is %s %s, %s: not an adapter of this base",
                    l->adapter->folder, sac_adapter_file(l->adapter), t->name, t->dtype_name,
                    sac_shape_text(shape, t->dim, t->n_dims), why);
}

/* Elements behind the first `from` dimensions; -1 when they cannot be counted (a file may hold [0, huge, huge]). */
static int64_t count(const sac_checkpoint_tensor *t, int from) {
    size_t n = 1;
    for (int i = from; i < t->n_dims; i++)
        if (!sac_mul_size(n, (size_t)t->dim[i], &n) || n > INT64_MAX) return -1;
    return (int64_t)n;
}

/* [first][second], or a convolution of as many numbers. */
static bool is_shape(const sac_checkpoint_tensor *t, int64_t first, int64_t second) {
    return t->n_dims >= 2 && t->dim[0] == first && count(t, 1) == second;
}

static sac_status check_one(const sac_lora *l, int64_t rows, int64_t columns, sac_error *err) {
    const sac_checkpoint_tensor *parts[] = {l->a, l->b, l->magnitude};
    char why[80];
    if (l->part.n_whole) rows = l->part.n_whole;
    if (l->part.n_whole && l->is_embedding) return misfit(l, l->a, "which is an embedding's", err);
    for (size_t i = 0; i < SAC_COUNT(parts); i++)
        if (parts[i] && !is_float(parts[i]->dtype)) return misfit(l, parts[i], "which is no float type", err);
    if (!l->a_by_rows && (l->a->n_dims < 1 || l->a->dim[0] != l->rank)) {
        snprintf(why, sizeof why, "but adapter_config.json gives it rank %lld", (long long)l->rank);
        return misfit(l, l->a, why, err);
    }
    snprintf(why, sizeof why, "which does not go with rank %lld and a matrix of [%lld, %lld]",
             (long long)l->rank, (long long)rows, (long long)columns);
    if (l->a_by_rows ? !is_shape(l->a, rows, l->rank)
                     : !is_shape(l->a, l->rank, l->is_embedding ? rows : columns))
        return misfit(l, l->a, why, err);
    if (!is_shape(l->b, l->is_embedding ? columns : rows, l->rank)) return misfit(l, l->b, why, err);
    if (l->magnitude && count(l->magnitude, 0) != (l->is_embedding ? columns : rows))
        return misfit(l, l->magnitude, why, err);
    return SAC_OK;
}

sac_status sac_lora_check(const sac_lora *loras, int n, const sac_tensor *base, sac_error *err) {
    if (n && !is_float((int)base->dtype))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%s: an adapter goes with weights in f32, f16 or bf16, and %.150s is for one in %s; "
                        "use the original "
                        "checkpoint",
                        loras[0].adapter->folder, loras[0].a->name, sac_dtype_name(base->dtype));
    return sac_lora_check_shapes(loras, n, base->dim[0], base->dim[1], err);
}

sac_status sac_lora_check_shapes(const sac_lora *loras, int n, int64_t rows, int64_t columns,
                                 sac_error *err) {
    for (int i = 0; i < n; i++) SAC_TRY(check_one(&loras[i], rows, columns, err));
    return SAC_OK;
}

/* ---- apart ---- */

void sac_lora_stack(const sac_lora *loras, int n, int64_t rows, int64_t columns, float *a, float *b) {
    int64_t all = 0, at = 0;
    for (int k = 0; k < n; k++) all += loras[k].rank;
    for (int k = 0; k < n; at += loras[k++].rank) {
        const sac_lora *l = &loras[k];
        for (int64_t i = 0; i < l->rank * columns; i++)
            a[at * columns + i] = element(l->a->data, l->a->dtype, i);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < l->rank; j++)
                b[i * all + at + j] = (float)l->scaling * element(l->b->data, l->b->dtype, (l->part.first + i) * l->rank + j);
    }
}

/* ---- sums ---- */

/* One adapter of one matrix, ready for rows. */
typedef struct product {
    const sac_lora *l;
    float *right;   /* [rank][columns] */
    float *factors; /* [columns], DoRA's of an embedding; or NULL */
} product;

static float *right_of(const sac_lora *l, int64_t columns) {
    const sac_checkpoint_tensor *t = l->is_embedding ? l->b : l->a;
    size_t n;
    if (!sac_mul_size((size_t)l->rank, (size_t)columns, &n) || !sac_mul_size(n, sizeof(float), &n))
        return NULL;
    float *right = malloc(n);
    if (!right) return NULL;
    for (int64_t k = 0; k < l->rank; k++)
        for (int64_t j = 0; j < columns; j++)
            right[k * columns + j] =
                element(t->data, t->dtype, l->is_embedding ? j * l->rank + k : k * columns + j);
    return right;
}

/* sum [columns] += scaling * B A, row i: four rows of A at a time, so that the sum is read and written less often. */
static void add_row(const product *p, int64_t i, int64_t rows, int64_t columns, float *restrict sum) {
    const sac_lora *l = p->l;
    const sac_checkpoint_tensor *t = l->is_embedding ? l->a : l->b;
    bool by_columns = l->is_embedding && !l->a_by_rows;
    for (int64_t k = 0; k < l->rank; k += 4) {
        float left[4] = {0};
        const float *right[4];
        for (int64_t m = 0; m < 4; m++) {
            int64_t at = k + m < l->rank ? k + m : k;
            right[m] = p->right + at * columns;
            if (k + m < l->rank)
                left[m] = (float)l->scaling *
                          element(t->data, t->dtype, by_columns ? at * rows + i : (l->part.first + i) * l->rank + at);
        }
        const float *restrict r0 = right[0], *restrict r1 = right[1], *restrict r2 = right[2],
                              *restrict r3 = right[3];
        for (int64_t j = 0; j < columns; j++)
            sum[j] += left[0] * r0[j] + left[1] * r1[j] + left[2] * r2[j] + left[3] * r3[j];
    }
}

static void read_row(const sac_tensor *base, int64_t i, float *row) {
    for (int64_t j = 0; j < base->dim[1]; j++)
        row[j] = element(base->data, (int)base->dtype, i * base->dim[1] + j);
}

/* Of an embedding, peft takes the norms over the vocabulary. */
static bool find_factors(product *p, const sac_tensor *base, float *row) {
    int64_t columns = base->dim[1];
    const sac_checkpoint_tensor *m = p->l->magnitude;
    double *squares = calloc((size_t)columns, sizeof *squares);
    p->factors = malloc((size_t)columns * sizeof *p->factors);
    for (int64_t i = 0; squares && p->factors && i < base->dim[0]; i++) {
        read_row(base, i, row);
        add_row(p, i, base->dim[0], columns, row);
        for (int64_t j = 0; j < columns; j++) squares[j] += (double)row[j] * (double)row[j];
    }
    bool done = squares && p->factors;
    for (int64_t j = 0; done && j < columns; j++)
        p->factors[j] = (float)((double)element(m->data, m->dtype, j) / sqrt(squares[j]));
    free(squares);
    return done;
}

static float row_factor(const sac_lora *l, int64_t i, const float *sum, int64_t columns) {
    double squares = 0;
    for (int64_t j = 0; j < columns; j++) squares += (double)sum[j] * (double)sum[j];
    return (float)((double)element(l->magnitude->data, l->magnitude->dtype, l->part.first + i) / sqrt(squares));
}

/* row = W, out = what the adapters before made of it; sum is scratch. */
static void apply(const product *p, int64_t i, int64_t rows, int64_t columns, const float *row, float *sum,
                  float *out) {
    add_row(p, i, rows, columns, out);
    if (!p->l->magnitude) return;
    if (p->factors) {
        for (int64_t j = 0; j < columns; j++) out[j] *= p->factors[j];
        return;
    }
    memcpy(sum, row, (size_t)columns * sizeof *sum);
    add_row(p, i, rows, columns, sum);
    float f = row_factor(p->l, i, sum, columns);
    for (int64_t j = 0; j < columns; j++) out[j] *= f;
}

/* All rows, in blocks that threads take. */
typedef struct job {
    product products[SAC_MAX_ADAPTERS];
    int n;
    const sac_tensor *base;
    sac_dtype type;
    void *out;
    float *scratch; /* three rows a thread */
} job;

static void merge_block(void *ctx, int64_t task, int thread) {
    const job *g = ctx;
    int64_t rows = g->base->dim[0], columns = g->base->dim[1], end = (task + 1) * BLOCK_ROWS;
    float *row = g->scratch + 3 * columns * thread, *sum = row + columns, *out = sum + columns;
    for (int64_t i = task * BLOCK_ROWS; i < (end < rows ? end : rows); i++) {
        read_row(g->base, i, row);
        memcpy(out, row, (size_t)columns * sizeof *out);
        for (int k = 0; k < g->n; k++) apply(&g->products[k], i, rows, columns, row, sum, out);
        for (int64_t j = 0; j < columns; j++) store(g->out, g->type, i * columns + j, out[j]);
    }
}

static sac_status merge(job *g, const sac_lora *loras, sac_pool *pool, sac_error *err) {
    int64_t columns = g->base->dim[1], n_tasks = (g->base->dim[0] + BLOCK_ROWS - 1) / BLOCK_ROWS;
    g->scratch =
        calloc((size_t)columns * 3 + 1, sizeof *g->scratch * (pool ? (size_t)sac_pool_n_threads(pool) : 1));
    for (int k = 0; k < g->n; k++) {
        product *p = &g->products[k];
        *p = (product){.l = &loras[k], .right = right_of(&loras[k], columns)};
        bool by_column = loras[k].is_embedding && loras[k].magnitude;
        if (!g->scratch || !p->right || (by_column && !find_factors(p, g->base, g->scratch)))
            return sac_fail(err, SAC_NO_MEMORY, "no memory to merge %.100s", loras[k].a->name);
    }
    if (pool)
        sac_pool_run(pool, n_tasks, merge_block, g);
    else
        for (int64_t task = 0; task < n_tasks; task++) merge_block(g, task, 0);
    return SAC_OK;
}

sac_status sac_lora_merge(const sac_lora *loras, int n, const sac_tensor *base, sac_dtype type, void *out,
                          sac_pool *pool, sac_error *err) {
    job g = {.n = n, .base = base, .type = type, .out = out};
    sac_status st = merge(&g, loras, pool, err);
    for (int k = 0; k < n; k++) {
        free(g.products[k].right);
        free(g.products[k].factors);
    }
    free(g.scratch);
    return st;
}
