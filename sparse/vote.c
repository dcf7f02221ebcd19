/* Loops run over blocks of LANES keys without branches, so that the compiler makes vectors of them; sums are
 * kept in LANES parts and joined in one order. */
#include "vote.h"

#include <math.h>
#include <string.h>

#define LANES     16
#define TASK_KEYS 4096

/* e^x for x <= 88; 0 below -87. Reduction by ln 2 in two parts, then the fit of kernels/cpu/simd_math.h
 * (2.6e-9 on the reduced range), so about one ulp. */
static inline float exp_lane(float x) {
    float held = x < -87.0f ? -87.0f : x;
    float n = held * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: rounds to an integer in the low bits */
    uint32_t bits;
    memcpy(&bits, &n, sizeof bits);
    n -= 12582912.0f;
    float f = (held - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.406229101e-3f;
    p = p * f + 8.379288018e-3f;
    p = p * f + 4.166475311e-2f;
    p = p * f + 1.666636169e-1f;
    p = p * f + 5.000000596e-1f;
    p = p * f + 1.0f;
    p = p * f + 1.0f;
    bits = (bits + 127u) << 23; /* 2^n: the bits above the exponent fall off */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -87.0f ? 0.0f : p * scale;
}

typedef struct rows_job {
    const float *scores;
    int64_t stride, n;
    const int64_t *counts;
    const float *lse; /* of a softmax */
    float *out;       /* lse [n_rows], or weights laid out like the scores */
} rows_job;

static int64_t row_count(const rows_job *j, int64_t row) {
    return j->counts ? j->counts[row] : j->n;
}

/* A block of x, padded with `pad` past the n that are left. */
static inline void load_block(const float *x, int64_t n, float pad, float *block) {
    if (n >= LANES) {
        memcpy(block, x, LANES * sizeof *x);
        return;
    }
    for (int i = 0; i < LANES; i++) block[i] = i < n ? x[i] : pad;
}

static float row_max(const float *x, int64_t n) {
    float max[LANES], block[LANES];
    for (int i = 0; i < LANES; i++) max[i] = -INFINITY;
    for (int64_t j = 0; j < n; j += LANES) {
        load_block(x + j, n - j, -INFINITY, block);
        for (int i = 0; i < LANES; i++) max[i] = block[i] > max[i] ? block[i] : max[i];
    }
    for (int i = 1; i < LANES; i++) max[0] = max[i] > max[0] ? max[i] : max[0];
    return max[0];
}

static void lse_task(void *ctx, int64_t row, int thread) {
    const rows_job *job = ctx;
    const float *x = job->scores + row * job->stride;
    int64_t n = row_count(job, row);
    float part[LANES] = {0}, block[LANES], max = row_max(x, n);
    (void)thread;
    if (max == -INFINITY) {
        job->out[row] = -INFINITY;
        return;
    }
    for (int64_t j = 0; j < n; j += LANES) {
        load_block(x + j, n - j, -INFINITY, block);
        for (int i = 0; i < LANES; i++) part[i] += exp_lane(block[i] - max);
    }
    double sum = 0;
    for (int i = 0; i < LANES; i++) sum += (double)part[i];
    job->out[row] = (float)(log(sum) + (double)max);
}

void sac_scores_lse(const sac_stream *s, const float *scores, int64_t stride, int n_rows,
                    const int64_t *counts, int64_t n, float *lse) {
    rows_job job = {scores, stride, n, counts, NULL, lse};
    sac_pool_run(s->pool, n_rows, lse_task, &job);
}

static void softmax_task(void *ctx, int64_t row, int thread) {
    const rows_job *job = ctx;
    const float *x = job->scores + row * job->stride;
    float *y = job->out + row * job->stride, lse = job->lse[row], block[LANES];
    int64_t n = row_count(job, row);
    (void)thread;
    for (int64_t j = 0; j < n; j += LANES) {
        load_block(x + j, n - j, -INFINITY, block);
        for (int i = 0; i < LANES; i++) block[i] = exp_lane(block[i] - lse);
        memcpy(y + j, block, (size_t)(n - j < LANES ? n - j : LANES) * sizeof *y);
    }
}

void sac_scores_softmax(const sac_stream *s, float *scores, int64_t stride, int n_rows, const int64_t *counts,
                        int64_t n, const float *lse) {
    rows_job job = {scores, stride, n, counts, lse, scores};
    sac_pool_run(s->pool, n_rows, softmax_task, &job);
}

typedef struct vote_job {
    const float *scores, *lse;
    int64_t stride, n;
    int n_rows;
    float *votes;
} vote_job;

/* Votes of up to LANES keys from key j on. */
static void vote_block(const vote_job *job, int64_t j, float *votes) {
    float max[LANES], sum[LANES] = {0}, block[LANES];
    for (int i = 0; i < LANES; i++) max[i] = -INFINITY;
    for (int r = 0; r < job->n_rows; r++) {
        load_block(job->scores + r * job->stride + j, job->n - j, 0, block);
        for (int i = 0; i < LANES; i++) {
            float x = block[i] - job->lse[r];
            max[i] = x > max[i] ? x : max[i];
        }
    }
    for (int r = 0; r < job->n_rows; r++) {
        load_block(job->scores + r * job->stride + j, job->n - j, 0, block);
        for (int i = 0; i < LANES; i++) sum[i] += exp_lane(block[i] - job->lse[r] - max[i]);
    }
    for (int i = 0; i < LANES; i++) votes[i] = max[i] + logf(sum[i]);
}

static void vote_task(void *ctx, int64_t task, int thread) {
    const vote_job *job = ctx;
    int64_t first = task * TASK_KEYS, end = first + TASK_KEYS < job->n ? first + TASK_KEYS : job->n;
    float votes[LANES];
    (void)thread;
    for (int64_t j = first; j < end; j += LANES) {
        vote_block(job, j, votes);
        memcpy(job->votes + j, votes, (size_t)(end - j < LANES ? end - j : LANES) * sizeof *votes);
    }
}

void sac_soft_vote(const sac_stream *s, const float *scores, int64_t stride, int n_rows, int64_t n,
                   const float *lse, float *votes) {
    vote_job job = {scores, lse, stride, n, n_rows, votes};
    sac_pool_run(s->pool, (n + TASK_KEYS - 1) / TASK_KEYS, vote_task, &job);
}

void sac_sum_vote(const float *scores, int64_t stride, int n_rows, int64_t n, float *votes) {
    memcpy(votes, scores, (size_t)n * sizeof *votes);
    for (int r = 1; r < n_rows; r++)
        for (int64_t j = 0; j < n; j++) votes[j] += scores[r * stride + j];
}
