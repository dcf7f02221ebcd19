#include "gather.h"

#include <math.h>
#include <stdlib.h>

enum { TILE = 64, MOST_ROWS = 256 };

sac_status sac_input_sums_begin(sac_input_sums *s, int64_t cols, sac_error *err) {
    const size_t n = (size_t)cols;
    *s = (sac_input_sums){.cols = cols, .h = calloc(n * n, sizeof *s->h), .magnitude = calloc(n, sizeof *s->magnitude)};
    if (s->h && s->magnitude) return SAC_OK;
    sac_input_sums_free(s);
    return sac_fail(err, SAC_NO_MEMORY, "no memory for the sums of %lld x %lld inputs", (long long)cols, (long long)cols);
}

void sac_input_sums_free(sac_input_sums *s) {
    free(s->h);
    free(s->magnitude);
    *s = (sac_input_sums){0};
}

static void transpose(const sac_input_sums *s, sac_mat x, float *turned) {
    for (int64_t r = 0; r < x.rows; r++) {
        const float *row = sac_mat_row_f32(x, r);
        for (int64_t c = 0; c < s->cols; c++) {
            turned[c * x.rows + r] = row[c];
            s->magnitude[c] += fabs((double)row[c]);
        }
    }
}

/* Columns [first, first + n) with all from `first` on: sums of f32 within so many rows, in f64 over them. */
static sac_status add_tile(sac_input_sums *s, const sac_ops *ops, const sac_stream *stream, const float *turned, int64_t rows,
                           int64_t first, int64_t n, float *y) {
    const int64_t k = s->cols - first;
    sac_tensor w = {.data = turned + first * rows, .dtype = SAC_DTYPE_F32, .n_dims = 2, .dim = {k, rows}};
    SAC_TRY(ops->linear(stream, &(sac_linear_args){.y = sac_mat_f32(y, n, k),
                                                   .x = sac_mat_f32((float *)(uintptr_t)(turned + first * rows), n, rows),
                                                   .w = sac_weight_of(w)}));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < k; j++) s->h[(first + i) * s->cols + first + j] += (double)y[i * k + j];
    return SAC_OK;
}

static sac_status add_few(sac_input_sums *s, const sac_ops *ops, const sac_stream *stream, sac_mat x, float *turned, float *y) {
    transpose(s, x, turned);
    for (int64_t first = 0; first < s->cols; first += TILE) {
        const int64_t n = s->cols - first < TILE ? s->cols - first : TILE;
        SAC_TRY(add_tile(s, ops, stream, turned, x.rows, first, n, y));
    }
    s->n_rows += x.rows;
    return SAC_OK;
}

sac_status sac_input_sums_add(sac_input_sums *s, const sac_ops *ops, const sac_stream *stream, sac_mat x) {
    const int64_t most = x.rows < MOST_ROWS ? x.rows : MOST_ROWS;
    float *turned = malloc((size_t)(s->cols * most) * sizeof *turned), *y = malloc((size_t)(s->cols * TILE) * sizeof *y);
    sac_status st = turned && y ? SAC_OK : SAC_NO_MEMORY;
    for (int64_t at = 0; at < x.rows && st == SAC_OK; at += most) {
        const int64_t n = x.rows - at < most ? x.rows - at : most;
        st = add_few(s, ops, stream, sac_mat_rows(x, at, n), turned, y);
    }
    free(turned);
    free(y);
    return st;
}

void sac_input_sums_end(sac_input_sums *s) {
    for (int64_t i = 0; i < s->cols; i++)
        for (int64_t j = 0; j < i; j++) s->h[i * s->cols + j] = s->h[j * s->cols + i];
}
