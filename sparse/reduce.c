/* What reducers share. */
#include "reduce.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sac_reduce_each(const sac_reduce_run *run, int64_t n, sac_task_fn fn, void *ctx) {
    if (run && run->pool) {
        sac_pool_run(run->pool, n, fn, ctx);
        return;
    }
    for (int64_t i = 0; i < n; i++) fn(ctx, i, 0);
}

bool sac_reduce_is_stopped(const sac_reduce_run *run) {
    return run && run->stopped && run->stopped(run->ctx);
}

uint64_t sac_reduce_key(float score, int32_t cell) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u; /* ascends with the score */
    return (uint64_t)~bits << 32 | (uint32_t)cell;
}

static int by_key(const void *a, const void *b) {
    const uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
    return (i > j) - (i < j);
}

static int by_cell(const void *a, const void *b) {
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return (i > j) - (i < j);
}

void sac_reduce_sort(uint64_t *keys, int64_t n) {
    qsort(keys, (size_t)n, sizeof *keys, by_key);
}

void sac_reduce_take_best(uint64_t *keys, int64_t n, int32_t *kept, int64_t n_kept) {
    assert(n_kept <= n);
    sac_reduce_sort(keys, n);
    for (int64_t i = 0; i < n_kept; i++) kept[i] = (int32_t)(uint32_t)keys[i];
    qsort(kept, (size_t)n_kept, sizeof *kept, by_cell);
}

void sac_reduce_split(int64_t total, const double *want, int64_t n, int64_t most, int64_t *budget) {
    assert(total <= n * most);
    for (int64_t k = 0; k < n; k++) {
        budget[k] = want[k] < (double)most ? (int64_t)want[k] : most;
        total -= budget[k];
    }
    for (; total > 0; total--) {
        int64_t lacks = -1;
        for (int64_t k = 0; k < n; k++)
            if (budget[k] < most &&
                (lacks < 0 || want[k] - (double)budget[k] > want[lacks] - (double)budget[lacks]))
                lacks = k;
        budget[lacks]++;
    }
}

static void *place_of(sac_mat rows, int64_t i) {
    return (uint8_t *)rows.data + (size_t)i * sac_dtype_row_bytes(rows.dtype, rows.stride);
}

void sac_reduce_row(sac_mat rows, int64_t i, float *out) {
    const uint16_t *half = place_of(rows, i);
    if (rows.dtype == SAC_DTYPE_F32) {
        memcpy(out, half, (size_t)rows.cols * sizeof *out);
        return;
    }
    for (int64_t c = 0; c < rows.cols; c++)
        out[c] = rows.dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(half[c]) : sac_bf16_to_f32(half[c]);
}

void sac_reduce_put_row(sac_mat rows, int64_t i, const float *from) {
    uint16_t *half = place_of(rows, i);
    if (rows.dtype == SAC_DTYPE_F32) {
        memcpy(half, from, (size_t)rows.cols * sizeof *from);
        return;
    }
    for (int64_t c = 0; c < rows.cols; c++)
        half[c] = rows.dtype == SAC_DTYPE_F16 ? sac_f32_to_f16(from[c]) : sac_f32_to_bf16(from[c]);
}
