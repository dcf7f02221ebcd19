/* softmax_tmpl.h - softmax of rows, a task a row, and the vote of rows on columns, a task some columns. Sums
 * are of one vector of floats for every SOFTMAX_BLOCK of them, then of doubles. */
#include "cpu.h"
#include "simd_math.h"

#include <math.h>

#define SOFTMAX_BLOCK (64 * VF)
#define VOTE_COLUMNS  1024

/* Lanes past the end are -infinity. */
SAC_INLINE vf softmax_load(const float *x, int64_t n) {
    return n >= VF ? vf_load(x) : vf_keep_lanes(vf_load_part(x, n), 0, n, vf_set1(-INFINITY));
}

static float softmax_max(const float *x, int64_t n) {
    vf max = vf_set1(-INFINITY);
    for (int64_t j = 0; j < n; j += VF) max = vf_max(max, softmax_load(x + j, n - j));
    return vf_max_lane(max);
}

static double softmax_sum(const float *x, int64_t n, float max) {
    double sum = 0;
    for (int64_t block = 0; block < n; block += SOFTMAX_BLOCK) {
        int64_t end = sac_min_i64(n, block + SOFTMAX_BLOCK);
        vf part = vf_zero(), m = vf_set1(max);
        for (int64_t j = block; j < end; j += VF)
            part = vf_add(part, vf_exp(vf_sub(softmax_load(x + j, end - j), m)));
        sum += (double)vf_sum(part);
    }
    return sum;
}

static void softmax_weigh(const float *x, int64_t n, float lse, float *weights) {
    for (int64_t j = 0; j < n; j += VF) {
        vf w = lse > -INFINITY ? vf_exp(vf_sub(softmax_load(x + j, n - j), vf_set1(lse))) : vf_zero();
        vf_store_part(weights + j, w, n - j);
    }
}

static void softmax_rows(const void *args, int64_t first, int64_t end) {
    const sac_softmax_args *a = args;
    for (int64_t row = first; row < end; row++) {
        const float *x = a->scores + row * a->stride;
        int64_t n = a->counts ? a->counts[row] : a->n;
        float max = softmax_max(x, n);
        a->lse[row] = max > -INFINITY ? (float)(log(softmax_sum(x, n, max)) + (double)max) : -INFINITY;
        if (a->weights) softmax_weigh(x, n, a->lse[row], a->weights + row * a->stride);
    }
}

static sac_status SAC_ISA(softmax)(const sac_stream *s, const sac_softmax_args *a) {
    int64_t n = a->n;
    if (sac_is_skipped(a->skip)) return SAC_OK;
    for (int row = 0; a->counts && row < a->n_rows; row++) n = sac_max_i64(n, a->counts[row]);
    sac_for_rows(s, a->n_rows, n * 12, softmax_rows, a);
    return SAC_OK;
}

/* Shares are kept above -3e38, so that a column that nobody votes for has differences of 0 and not of
 * infinities; its vote is then no number that counts and becomes -infinity. */
SAC_INLINE vf vote_share(const sac_soft_vote_args *a, int row, int64_t j) {
    vf x = softmax_load(a->scores + row * a->stride + j, a->n - j);
    return vf_max(vf_set1(-3e38f), vf_sub(x, vf_set1(a->lse[row])));
}

static void vote_columns(const sac_soft_vote_args *a, int64_t j, float *max, float *sum) {
    vf m = vf_set1(-3e38f), total = vf_zero();
    for (int row = 0; row < a->n_rows; row++)
        if (a->lse[row] > -INFINITY) m = vf_max(m, vote_share(a, row, j));
    for (int row = 0; row < a->n_rows; row++)
        if (a->lse[row] > -INFINITY) total = vf_add(total, vf_exp(vf_sub(vote_share(a, row, j), m)));
    vf_store(max, m);
    vf_store(sum, total);
}

static void vote_rows(const void *args, int64_t first, int64_t end) {
    const sac_soft_vote_args *a = args;
    float max[VF], sum[VF];
    for (int64_t j = first * VOTE_COLUMNS; j < sac_min_i64(a->n, end * VOTE_COLUMNS); j += VF) {
        vote_columns(a, j, max, sum);
        for (int64_t i = 0; i < VF && j + i < a->n; i++)
            a->votes[j + i] = max[i] > -3e38f ? max[i] + logf(sum[i]) : -INFINITY;
    }
}

static sac_status SAC_ISA(soft_vote)(const sac_stream *s, const sac_soft_vote_args *a) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    for (int g = 1; g < a->n_groups; g++) {
        sac_soft_vote_args b = *a;
        b.scores += (int64_t)g * a->n_rows * a->stride, b.lse += (int64_t)g * a->n_rows,
            b.votes += g * a->stride;
        b.n_groups = 1;
        SAC_TRY(SAC_ISA(soft_vote)(s, &b));
    }
    sac_for_rows(s, sac_div_up(a->n, VOTE_COLUMNS), (int64_t)VOTE_COLUMNS * a->n_rows * 12, vote_rows, a);
    return SAC_OK;
}
