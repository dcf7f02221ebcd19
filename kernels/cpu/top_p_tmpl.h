/* top_p_tmpl.h - the threshold above which weights make up p of a row, by radix search: its bits are found
 * eleven at a time from the highest down, by histograms of weight (weights are not negative, so they are in
 * the order of their bits). */
#include "cpu.h"
#include "simd.h"

#define TOP_P_BLOCK 1024

/* Digits of a weight's bits from the top, its sign aside: lowest bit, number of bits. */
static const int top_p_digits[3][2] = {{20, 11}, {9, 11}, {0, 9}};

/* Positive weights of the block that begin with `prefix`, together; zeros and NaN weigh nothing. */
static int64_t top_p_candidates(const float *weights, int64_t n, int shift, uint32_t prefix,
                                uint32_t bits[TOP_P_BLOCK]) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &weights[i], sizeof u);
        bits[m] = u;
        m += (weights[i] > 0) & (u >> shift == prefix);
    }
    return m;
}

/* Of the buckets from the top the first with which they hold `target`; *above is what those above it hold.
 * The last that holds anything, when rounding keeps all of them short of it. */
static uint32_t top_p_digit(double (*sum)[2], uint32_t n_buckets, double target, double *above) {
    uint32_t last = 0;
    double total = *above;
    for (uint32_t digit = n_buckets; digit-- > 0;) {
        double here = sum[digit][0] + sum[digit][1];
        if (here <= 0) continue;
        last = digit;
        *above = total;
        total += here;
        if (total >= target) break;
    }
    return last;
}

static float top_p_find(const float *weights, int64_t n, double p, double (*sum)[2]) {
    uint32_t bits[TOP_P_BLOCK], prefix = 0;
    double target = 0, above = 0;
    for (int level = 0; level < 3; level++) {
        int shift = top_p_digits[level][0];
        uint32_t n_buckets = 1u << top_p_digits[level][1];
        memset(sum, 0, n_buckets * sizeof *sum);
        for (int64_t at = 0; at < n; at += TOP_P_BLOCK) {
            int64_t m = top_p_candidates(weights + at, sac_min_i64(n - at, TOP_P_BLOCK),
                                         level ? top_p_digits[level - 1][0] : 31, prefix, bits);
            for (int64_t i = 0; i < m; i++) {
                float w;
                memcpy(&w, &bits[i], sizeof w);
                sum[bits[i] >> shift & (n_buckets - 1)][i & 1] += (double)w;
            }
        }
        if (level == 0) {
            for (uint32_t digit = n_buckets; digit-- > 0;) target += sum[digit][0] + sum[digit][1];
            target *= p;
        }
        prefix = prefix << top_p_digits[level][1] | top_p_digit(sum, n_buckets, target, &above);
    }
    float threshold;
    memcpy(&threshold, &prefix, sizeof threshold);
    return threshold;
}

typedef struct top_p_job {
    const sac_stream *s;
    const sac_top_p_args *a;
} top_p_job;

static void top_p_row(void *ctx, int64_t row, int thread) {
    const top_p_job *job = ctx;
    const sac_top_p_args *a = job->a;
    const float *weights = a->weights + row * a->stride;
    int64_t n = a->counts ? a->counts[row] : a->n, n_kept = 0;
    double(*sum)[2] = sac_stream_thread_scratch(job->s, thread);
    float threshold = a->p >= 1 ? 0 : top_p_find(weights, n, a->p, sum);
    for (int64_t i = 0; i < n; i++) n_kept += weights[i] >= threshold;
    a->threshold[row] = threshold;
    a->n_kept[row] = n_kept;
}

static sac_status SAC_ISA(top_p)(const sac_stream *s, const sac_top_p_args *a) {
    top_p_job job = {s, a};
    if (a->stride * a->n_rows * 16 > 2 * SAC_TASK_BYTES)
        sac_pool_run(s->pool, a->n_rows, top_p_row, &job);
    else
        for (int64_t row = 0; row < a->n_rows; row++) top_p_row(&job, row, 0);
    return SAC_OK;
}
