#include "gptq.h"

#include <math.h>
#include <stdlib.h>

enum { PANEL = 64, ROWS = 16, LANES = 8, BLOCK = 128 };

static void run(sac_pool *pool, int64_t n, sac_task_fn fn, void *ctx) {
    if (pool) {
        sac_pool_run(pool, n, fn, ctx);
        return;
    }
    for (int64_t i = 0; i < n; i++) fn(ctx, i, 0);
}

/* In eight sums, which compilers make vectors of. */
static double dot(const double *a, const double *b, int64_t n) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += a[i + l] * b[i + l];
    for (; i < n; i++) sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* ---------------------------------------------------------------- the factor */

/* H = R R^T with R upper triangular, panel by panel from the last column; then U = R^-1. */
typedef struct factor_job {
    double *h;
    int64_t k, first, end; /* columns of the panel */
} factor_job;

/* The panel's columns of a row, less what the columns behind it take away. */
static void reduce_row(void *ctx, int64_t i, int thread) {
    const factor_job *f = ctx;
    const int64_t k = f->k;
    double *row = f->h + i * k;
    (void)thread;
    for (int64_t j = f->first > i ? f->first : i; j < f->end; j++)
        row[j] -= dot(row + f->end, f->h + j * k + f->end, k - f->end);
}

/* A row above the panel: its columns in the panel, from the last on. */
static void solve_row(void *ctx, int64_t i, int thread) {
    const factor_job *f = ctx;
    const int64_t k = f->k;
    double *row = f->h + i * k;
    (void)thread;
    for (int64_t j = f->end - 1; j >= f->first; j--) {
        const double *r = f->h + j * k;
        row[j] = (row[j] - dot(row + j + 1, r + j + 1, f->end - j - 1)) / r[j];
    }
}

/* The triangle on the diagonal. False where it is not positive. */
static bool factor_corner(const factor_job *f) {
    const int64_t k = f->k;
    for (int64_t j = f->end - 1; j >= f->first; j--) {
        double *r = f->h + j * k;
        const double square = r[j] - dot(r + j + 1, r + j + 1, f->end - j - 1);
        if (!(square > 0) || !isfinite(square)) return false;
        r[j] = sqrt(square);
        for (int64_t i = f->first; i < j; i++) {
            double *row = f->h + i * k;
            row[j] = (row[j] - dot(row + j + 1, r + j + 1, f->end - j - 1)) / r[j];
        }
    }
    return true;
}

/* Column c of U, which lies in row c below the diagonal until all are made. */
static void invert_column(void *ctx, int64_t task, int thread) {
    const factor_job *f = ctx;
    const int64_t k = f->k, c = k - 1 - task; /* the longest first */
    double *column = f->h + c * k;
    const double last = 1 / f->h[c * k + c];
    (void)thread;
    for (int64_t i = c - 1; i >= 0; i--) {
        const double *r = f->h + i * k;
        const double sum = r[c] * last + dot(r + i + 1, column + i + 1, c - i - 1);
        column[i] = -sum / r[i];
    }
}

static void turn_row(void *ctx, int64_t i, int thread) {
    const factor_job *f = ctx;
    (void)thread;
    for (int64_t j = i + 1; j < f->k; j++) f->h[i * f->k + j] = f->h[j * f->k + i];
    f->h[i * f->k + i] = 1 / f->h[i * f->k + i];
}

/* A column without inputs is as if it met inputs of its own. */
static bool dampen(double *h, int64_t k, double damping) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        if (h[i * k + i] == 0) h[i * k + i] = 1;
        sum += h[i * k + i];
    }
    if (!isfinite(sum)) return false;
    for (int64_t i = 0; i < k; i++) h[i * k + i] += damping * sum / (double)k;
    return true;
}

sac_status sac_gptq_factor(double *h, int64_t k, double damping, sac_pool *pool, sac_error *err) {
    factor_job f = {.h = h, .k = k, .end = k};
    if (!dampen(h, k, damping)) return sac_fail(err, SAC_BAD_ARGUMENT, "the rows of a matrix's inputs are not finite");
    for (; f.end > 0; f.end = f.first) {
        f.first = f.end > PANEL ? f.end - PANEL : 0;
        if (f.end < k) run(pool, f.end, reduce_row, &f);
        if (!factor_corner(&f))
            return sac_fail(err, SAC_BAD_ARGUMENT, "the inputs of a matrix leave no inverse: give more prompts, or more different ones");
        run(pool, f.first, solve_row, &f);
    }
    run(pool, k, invert_column, &f);
    run(pool, k, turn_row, &f);
    return SAC_OK;
}

/* ---------------------------------------------------------------- rounding */

typedef struct round_job {
    const sac_gptq *g;
    float *w;
    int64_t n, block;
    uint8_t *codes, *scales, *bytes; /* bytes: [threads][k], a code each */
    size_t code_bytes, scale_bytes;  /* of a row */
    double *work;                    /* [threads][ROWS][k + block] */
    double *loss;                    /* [tasks] */
} round_job;

static float scale_at(const sac_gptq *g, const double *x, int64_t from, int64_t to) {
    float most = 0; /* of the group that begins here */
    for (int64_t i = from; i < to; i++) most = fmaxf(most, fabsf((float)(x[i] * (g->s ? (double)g->s[i] : 1))));
    return sac_code_scale(&g->format, &most, 1);
}

/* Columns [from, to) of a row x; e [to - from]: what is to be made good behind them. */
static double round_block(const round_job *r, int64_t row, double *x, int64_t from, int64_t to, double *e, uint8_t *bytes,
                          float *scale) {
    const sac_gptq *g = r->g;
    const int64_t k = g->k, n_groups = sac_code_groups(&g->format, k), group = n_groups == 1 ? k : g->format.group;
    double loss = 0;
    for (int64_t i = from; i < to; i++) {
        const double *u = g->u + i * k, s = g->s ? (double)g->s[i] : 1;
        if (i % group == 0) {
            *scale = scale_at(g, x, i, i + group < k ? i + group : k);
            if (r->scales) sac_code_store_scale(&g->format, *scale, r->scales + (size_t)row * r->scale_bytes, i / group);
        }
        const double step = (double)*scale, q = sac_code_nearest(g->format.type, x[i] * s / step, &bytes[i]) * step / s;
        const double error = (x[i] - q) / u[i];
        loss += error * error;
        e[i - from] = error;
        x[i] = q;
        for (int64_t j = i + 1; j < to; j++) x[j] -= error * u[j];
    }
    return loss;
}

static void make_good(const double *u, int64_t k, double *x, const double *e, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        const double error = e[i - from], *row = u + i * k;
        for (int64_t j = to; j < k; j++) x[j] -= error * row[j];
    }
}

/* ROWS rows: what is read of U serves all of them. */
static void round_rows(void *ctx, int64_t task, int thread) {
    const round_job *r = ctx;
    const int64_t k = r->g->k, first = task * ROWS, n = r->n - first < ROWS ? r->n - first : ROWS;
    double *x = r->work + (size_t)thread * ROWS * (size_t)(k + r->block), *e = x + ROWS * k, loss = 0;
    uint8_t *bytes = r->bytes + (size_t)thread * ROWS * (size_t)k;
    float scale[ROWS] = {0};
    for (int64_t i = 0; i < n * k; i++) x[i] = (double)r->w[first * k + i];
    for (int64_t from = 0; from < k; from += r->block) {
        const int64_t to = from + r->block < k ? from + r->block : k;
        for (int64_t i = 0; i < n; i++)
            loss += round_block(r, first + i, x + i * k, from, to, e + i * r->block, bytes + i * k, &scale[i]);
        for (int64_t i = 0; i < n; i++) make_good(r->g->u, k, x + i * k, e + i * r->block, from, to);
    }
    for (int64_t i = 0; i < n * k; i++) r->w[first * k + i] = (float)x[i];
    for (int64_t i = 0; i < n && r->codes; i++)
        sac_code_pack(r->g->format.type, bytes + i * k, k, r->codes + (size_t)(first + i) * r->code_bytes);
    r->loss[task] = loss;
}

/* Groups begin where blocks do, so that all that is before a group has come to it. */
static int64_t block_of(const sac_code_format *f, int64_t k) {
    const int64_t group = sac_code_groups(f, k) == 1 ? 1 : f->group, block = group > BLOCK ? group : BLOCK / group * group;
    return block < k ? block : k;
}

sac_status sac_gptq_round(const sac_gptq *g, float *w, int64_t n, uint8_t *codes, uint8_t *scales, double *loss, sac_pool *pool,
                          sac_error *err) {
    const size_t threads = pool ? (size_t)sac_pool_n_threads(pool) : 1, tasks = (size_t)((n + ROWS - 1) / ROWS), k = (size_t)g->k;
    round_job r = {.g = g, .w = w, .n = n, .block = block_of(&g->format, g->k), .codes = codes, .scales = scales};
    r.code_bytes = sac_dtype_row_bytes(g->format.type, g->k);
    r.scale_bytes = sac_dtype_row_bytes(g->format.scale_type, sac_code_groups(&g->format, g->k));
    r.work = malloc(threads * ROWS * (k + (size_t)r.block) * sizeof *r.work);
    r.bytes = malloc(threads * ROWS * k);
    r.loss = calloc(tasks + 1, sizeof *r.loss);
    *loss = 0;
    const bool has_room = r.work && r.bytes && r.loss;
    if (has_room) run(pool, (int64_t)tasks, round_rows, &r);
    for (size_t i = 0; i < tasks && has_room; i++) *loss += r.loss[i];
    free(r.work);
    free(r.bytes);
    free(r.loss);
    return has_room ? SAC_OK : sac_fail_no_memory(err);
}

/* ---------------------------------------------------------------- the loss of any rounding */

typedef struct loss_job {
    const double *u;
    const float *d;
    int64_t k;
    double *work, *loss; /* [threads][k]; [n] */
} loss_job;

/* y with y U = d: its squares add up to the loss. */
static void loss_of_row(void *ctx, int64_t i, int thread) {
    const loss_job *l = ctx;
    double *d = l->work + (int64_t)thread * l->k, sum = 0;
    for (int64_t j = 0; j < l->k; j++) d[j] = (double)l->d[i * l->k + j];
    for (int64_t j = 0; j < l->k; j++) {
        const double *u = l->u + j * l->k, y = d[j] / u[j];
        sum += y * y;
        for (int64_t c = j + 1; c < l->k; c++) d[c] -= y * u[c];
    }
    l->loss[i] = sum;
}

sac_status sac_gptq_loss(const double *u, int64_t k, const float *d, int64_t n, double *loss, sac_pool *pool, sac_error *err) {
    const size_t threads = pool ? (size_t)sac_pool_n_threads(pool) : 1;
    loss_job l = {.u = u, .d = d, .k = k};
    l.work = malloc(threads * (size_t)k * sizeof *l.work);
    l.loss = malloc(((size_t)n + 1) * sizeof *l.loss);
    *loss = 0;
    const bool has_room = l.work && l.loss;
    if (has_room) run(pool, n, loss_of_row, &l);
    for (int64_t i = 0; i < n && has_room; i++) *loss += l.loss[i];
    free(l.work);
    free(l.loss);
    return has_room ? SAC_OK : sac_fail_no_memory(err);
}
