#define _DEFAULT_SOURCE
#include "round_rows.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct job {
    const sac_rounded *r;
    int64_t first;
    uint8_t *out;
    size_t row_bytes;
    float limit;
    float *rows; /* [threads][cols] */
    atomic_bool has_bad;
    atomic_bool has_large;
} job;

void sac_rounded_of(sac_rounded *r, const sac_checkpoint_tensor *t) {
    int64_t n = 1; /* of a tensor with elements below its bytes; of one without, its other dimensions may be anything */
    for (int i = 0; i < t->n_dims; i++) n = t->dim[i] < 1 ? 0 : n;
    for (int i = 0; i < t->n_dims && n; i++) n *= t->dim[i];
    *r = (sac_rounded){.from = t, .rows = t->n_dims > 1 ? t->dim[0] : 1};
    r->cols = r->rows ? n / r->rows : 0;
}

size_t sac_rounded_row_bytes(const sac_rounded *r) {
    if (r->part == SAC_ROW_SCALES)
        return sac_dtype_row_bytes(r->code.scale_type, sac_code_groups(&r->code, r->cols));
    return sac_dtype_row_bytes(r->part == SAC_ROW_CODES ? r->code.type : r->type, r->cols);
}

/* Where a row of the result comes from. */
static int64_t source_row(const sac_rounded *r, int64_t row) {
    if (!r->heads) return row;
    const int64_t head_rows = r->rows / r->heads, at = row % head_rows;
    return row - at + at % 2 * (head_rows / 2) + at / 2;
}

static void read_row(const sac_rounded *r, int64_t row, float *x) {
    const sac_dtype t = (sac_dtype)r->from->dtype;
    const size_t n = sac_dtype_row_bytes(t, r->cols);
    const uint8_t *from = r->from->data + (size_t)source_row(r, row) * n;
    for (int64_t i = 0; i < r->cols; i++) {
        uint16_t h;
        if (t == SAC_DTYPE_F32) {
            memcpy(&x[i], from + 4 * i, 4);
            continue;
        }
        memcpy(&h, from + 2 * i, 2);
        x[i] = t == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
    }
    if (r->plus != 0)
        for (int64_t i = 0; i < r->cols; i++) x[i] += r->plus;
}

static void round_one(void *ctx, int64_t task, int thread) {
    job *j = ctx;
    const sac_rounded *r = j->r;
    float *x = j->rows + (int64_t)thread * r->cols;
    uint8_t *out = j->out + (size_t)task * j->row_bytes;
    read_row(r, j->first + task, x);
    bool bad = false, large = false;
    for (int64_t i = 0; i < r->cols; i++) {
        bad |= !isfinite(x[i]);
        large |= fabsf(x[i]) > j->limit;
    }
    if (bad) j->has_bad = true;
    if (large) j->has_large = true;
    if (bad || large) return;
    if (r->part == SAC_ROW_BLOCKS && r->importance)
        sac_round_row_weighted(r->type, x, r->importance, out, r->cols);
    else if (r->part == SAC_ROW_BLOCKS)
        sac_round_row(r->type, x, out, r->cols);
    else
        sac_round_codes(&r->code, x, r->cols, r->part == SAC_ROW_CODES ? out : NULL,
                        r->part == SAC_ROW_SCALES ? out : NULL);
}

/* What f16 scales, and f16 itself, can hold. */
static float limit_of(const sac_rounded *r) {
    const sac_dtype t = r->part == SAC_ROW_BLOCKS ? r->type : r->code.scale_type;
    return t == SAC_DTYPE_F32 || t == SAC_DTYPE_BF16 ? INFINITY : 65504.0f;
}

static sac_status check(const sac_rounded *r, bool has_bad, bool has_large, sac_error *err) {
    if (has_bad)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.150s holds a value that is not finite: nothing to round",
                        r->from->name);
    if (has_large)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.150s holds a value beyond 65504, too large for f16 scales",
                        r->from->name);
    return SAC_OK;
}

sac_status sac_rounded_read(const sac_rounded *r, float *out, sac_error *err) {
    const float limit = limit_of(r);
    bool bad = false, large = false;
    for (int64_t i = 0; i < r->rows; i++) read_row(r, i, out + i * r->cols);
    for (int64_t i = 0; i < r->rows * r->cols; i++) {
        bad |= !isfinite(out[i]);
        large |= fabsf(out[i]) > limit;
    }
    sac_let_go(r->from, 0, r->from->n_bytes);
    return check(r, bad, large, err);
}

sac_status sac_round_rows(const sac_rounded *r, int64_t first, int64_t n, void *out, sac_pool *pool,
                          sac_error *err) {
    assert(first >= 0 && n >= 0 && first + n <= r->rows);
    job j = {.r = r, .first = first, .out = out, .row_bytes = sac_rounded_row_bytes(r), .limit = limit_of(r)};
    const size_t n_threads = pool ? (size_t)sac_pool_n_threads(pool) : 1;
    j.rows = malloc(n_threads * (size_t)r->cols * sizeof *j.rows + 1);
    if (!j.rows) return sac_fail_no_memory(err);
    if (pool)
        sac_pool_run(pool, n, round_one, &j);
    else
        for (int64_t i = 0; i < n; i++) round_one(&j, i, 0);
    free(j.rows);
    return check(r, j.has_bad, j.has_large, err);
}

void sac_let_go(const sac_checkpoint_tensor *t, size_t from, size_t to) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = ((uintptr_t)t->data + from + page - 1) / page * page,
                    last = ((uintptr_t)t->data + to) / page * page;
    if (t->file >= 0 && last > first) madvise((void *)first, last - first, MADV_DONTNEED);
}
