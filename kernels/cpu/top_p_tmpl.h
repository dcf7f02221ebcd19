/* top_p_tmpl.h - the threshold above which weights make up p of a row, by radix search: its bits are found
 * eleven at a time from the highest down, by histograms of weight (weights are not negative, so they are in
 * the order of their bits). */
#include "cpu.h"
#include "simd.h"
#include "softmax_tmpl.h"

#include <float.h>

#define TOP_P_BLOCK   1024
#define TOP_P_BUCKETS 2048

/* Scores of a row whose weights fit the scratch of a thread, behind the histograms. */
#define TOP_P_MOST_SCORES                                                                                    \
    ((int64_t)((SAC_THREAD_SCRATCH_BYTES - TOP_P_BUCKETS * 4 * sizeof(double)) / sizeof(float)))

/* Bits of the block's weights in [base, base + width), together; returns their number. base is above 0. */
static int64_t top_p_candidates(const float *weights, int64_t n, uint32_t base, uint32_t width,
                                uint32_t bits[TOP_P_BLOCK + VF]) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i += VF) {
        vi v = vf_bits(vf_load_part(weights + i, n - i));
        m += vi_pack_range(bits + m, v, v, base, width);
    }
    return m;
}

/* Weights whose higher bits are those of `prefix`, by their n_bits bits at `shift`. Zeros and what is not a
 * weight count for nothing. Four histograms are taken in turn: adding twice in a row into one place waits for
 * memory. */
SAC_INLINE void top_p_histogram(const float *weights, int64_t n, const int shift, const int n_bits,
                                uint32_t prefix, double (*sum)[4]) {
    const uint32_t n_buckets = 1u << n_bits, infinity = 0x7f800000;
    uint32_t bits[TOP_P_BLOCK + VF], zero = prefix == 0;
    uint32_t width = shift + n_bits == 31 ? infinity + 1 : n_buckets << shift;
    memset(sum, 0, n_buckets * sizeof *sum);
    for (int64_t at = 0; at < n; at += TOP_P_BLOCK) {
        int64_t m = top_p_candidates(weights + at, sac_min_i64(n - at, TOP_P_BLOCK), prefix + zero,
                                     width - zero, bits);
        for (int64_t i = 0; i < m; i++) {
            float w;
            memcpy(&w, &bits[i], sizeof w);
            sum[bits[i] >> shift & (n_buckets - 1)][i & 3] += (double)w;
        }
    }
}
static double top_p_bucket(double (*sum)[4], uint32_t digit) {
    return (sum[digit][0] + sum[digit][1]) + (sum[digit][2] + sum[digit][3]);
}

/* Of the buckets from the top the first with which they hold `target`; *above is what those above it hold.
 * The last that holds anything, when rounding keeps all of them short of it. */
static uint32_t top_p_digit(double (*sum)[4], uint32_t n_buckets, double target, double *above) {
    uint32_t last = 0;
    double total = *above;
    for (uint32_t digit = n_buckets; digit-- > 0;) {
        double here = top_p_bucket(sum, digit);
        if (here <= 0) continue;
        last = digit;
        *above = total;
        total += here;
        if (total >= target) break;
    }
    return last;
}

static float top_p_find(const float *weights, int64_t n, double p, double (*sum)[4]) {
    double target = 0, above = 0;
    top_p_histogram(weights, n, 20, 11, 0, sum);
    for (uint32_t digit = 2048; digit-- > 0;) target += top_p_bucket(sum, digit);
    target *= p;
    uint32_t bits = top_p_digit(sum, 2048, target, &above) << 20;
    top_p_histogram(weights, n, 9, 11, bits, sum);
    bits |= top_p_digit(sum, 2048, target, &above) << 9;
    top_p_histogram(weights, n, 0, 9, bits, sum);
    bits |= top_p_digit(sum, 512, target, &above);
    float threshold;
    memcpy(&threshold, &bits, sizeof threshold);
    return threshold;
}

/* Weights that reach the threshold; with scores beside them (else NULL) only where these are above -infinity,
 * and *least is the least such score. */
SAC_INLINE int64_t top_p_count(const float *weights, const float *scores, int64_t n, float threshold,
                               float *least) {
    const vf enough = vf_set1(threshold), lowest = vf_set1(-FLT_MAX), none = vf_set1(INFINITY);
    vf low = none;
    int64_t n_kept = 0;
    for (int64_t i = 0; i < n; i += VF) {
        vm kept = vm_and(vm_first(n - i), vf_at_least(vf_load_part(weights + i, n - i), enough));
        if (scores) {
            vf score = vf_load_part(scores + i, n - i);
            kept = vm_and(kept, vf_at_least(score, lowest));
            low = vf_min(low, vf_choose(kept, score, none));
        }
        n_kept += vm_count(kept);
    }
    if (scores) *least = -vf_max_lane(vf_sub(vf_zero(), low));
    return n_kept;
}

/* Of scores: their weights are searched, and the least score whose weight is enough is the threshold. room
 * [n] is for the weights. */
static float top_p_find_score(const float *scores, int64_t n, double p, int64_t *n_kept, double (*sum)[4],
                              float *room) {
    float least = INFINITY;
    for (int64_t i = 0; i < n; i += VF) /* what is not a number becomes -infinity */
        vf_store_part(room + i, vf_max(vf_load_part(scores + i, n - i), vf_set1(-INFINITY)), n - i);
    float max = softmax_max(room, n);
    *n_kept = 0;
    if (!(max > -INFINITY)) return INFINITY;
    softmax_weigh(room, n, (float)(log(softmax_sum(room, n, max)) + (double)max), room);
    float threshold = p >= 1 ? 0 : top_p_find(room, n, p, sum);
    *n_kept = top_p_count(room, scores, n, threshold, &least);
    return least;
}

typedef struct top_p_job {
    const sac_stream *s;
    const sac_top_p_args *a;
} top_p_job;

static void top_p_row(void *ctx, int64_t row, int thread) {
    const top_p_job *job = ctx;
    const sac_top_p_args *a = job->a;
    const float *weights = a->weights + row * a->stride;
    int64_t n = a->counts ? a->counts[row] : a->n;
    double(*sum)[4] = sac_stream_thread_scratch(job->s, thread);
    if (a->scores) {
        a->threshold[row] =
            top_p_find_score(weights, n, a->p, &a->n_kept[row], sum, (float *)(void *)(sum + TOP_P_BUCKETS));
        return;
    }
    float threshold = a->p >= 1 ? 0 : top_p_find(weights, n, a->p, sum);
    a->threshold[row] = threshold;
    a->n_kept[row] = top_p_count(weights, NULL, n, threshold, NULL);
}

static sac_status SAC_ISA(top_p)(const sac_stream *s, const sac_top_p_args *a) {
    top_p_job job = {s, a};
    if (a->scores && a->stride > TOP_P_MOST_SCORES) return sac_ref_top_p(s, a);
    if (a->stride * a->n_rows * 16 > 2 * SAC_TASK_BYTES)
        sac_pool_run(s->pool, a->n_rows, top_p_row, &job);
    else
        for (int64_t row = 0; row < a->n_rows; row++) top_p_row(&job, row, 0);
    return SAC_OK;
}
