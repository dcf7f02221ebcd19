/* top_k_tmpl.h - the k best of a row by radix selection: the k-th best score's bits are found eleven at a
 * time, by histograms from the highest bits down, then everything above it and the first of its equals are
 * collected. Blocks of scores become sortable integers first, a loop the compiler vectorises. */
#include "cpu.h"
#include "simd.h"

#include <math.h>

#define TOP_K_BLOCK   1024
#define TOP_K_BUCKETS 2048

/* Digits of a key from the top: lowest bit, number of bits. */
static const int top_k_digits[3][2] = {{21, 11}, {10, 11}, {0, 10}};

/* Keys in the order of the scores, -0 equal to 0 and NaN to -infinity. Returns their number. */
static int64_t top_k_keys(const float *scores, int64_t n, uint32_t key[TOP_K_BLOCK]) {
    n = sac_min_i64(n, TOP_K_BLOCK);
    for (int64_t i = 0; i < n; i++) {
        float f = scores[i] != scores[i] ? -INFINITY : scores[i] + 0.0f;
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        key[i] = u ^ ((uint32_t)((int32_t)u >> 31) | 0x80000000u);
    }
    return n;
}

/* Moves the keys that begin with `prefix` together; returns their number. No branch to mispredict. */
static int64_t top_k_candidates(uint32_t key[TOP_K_BLOCK], int64_t n, int shift, uint32_t prefix) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = key[i];
        key[m] = u;
        m += u >> shift == prefix;
    }
    return m;
}

/* The k-th best's key, *n_equal of whose equals are among the k. The four histograms are taken in turn:
 * counting twice in a row into one place waits for memory. */
static uint32_t top_k_find(const float *scores, int64_t n, int64_t k, uint32_t (*count)[4],
                           int64_t *n_equal) {
    uint32_t key[TOP_K_BLOCK], prefix = 0;
    for (int level = 0; level < 3; level++) {
        int shift = top_k_digits[level][0];
        uint32_t n_buckets = 1u << top_k_digits[level][1], digit = n_buckets - 1;
        memset(count, 0, n_buckets * sizeof *count);
        for (int64_t at = 0; at < n; at += TOP_K_BLOCK) {
            int64_t m = top_k_keys(scores + at, n - at, key);
            if (level > 0) m = top_k_candidates(key, m, top_k_digits[level - 1][0], prefix);
            for (int64_t i = 0; i < m; i++) count[key[i] >> shift & (n_buckets - 1)][i & 3]++;
        }
        for (;; digit--) {
            int64_t here = (int64_t)count[digit][0] + count[digit][1] + count[digit][2] + count[digit][3];
            if (here >= k) break;
            k -= here;
        }
        prefix = prefix << top_k_digits[level][1] | digit;
    }
    *n_equal = k;
    return prefix;
}

/* Indices of the keys above the k-th best's and of the first n_equal of its equals, ascending. */
static void top_k_collect(const float *scores, int64_t n, uint32_t kth, int64_t n_equal, int32_t *indices) {
    uint32_t key[TOP_K_BLOCK];
    int32_t found[TOP_K_BLOCK];
    for (int64_t at = 0; at < n; at += TOP_K_BLOCK) {
        int64_t m = 0, n_keys = top_k_keys(scores + at, n - at, key), equal = 0;
        for (int64_t i = 0; i < n_keys; i++) equal += key[i] == kth;
        for (int64_t i = n_keys - 1; equal > n_equal; i--) /* equals beyond the last one wanted */
            if (key[i] == kth) {
                key[i] = 0;
                equal--;
            }
        for (int64_t i = 0; i < n_keys; i++) {
            found[m] = (int32_t)(at + i);
            m += key[i] >= kth;
        }
        memcpy(indices, found, (size_t)m * sizeof *indices);
        indices += m;
        n_equal -= equal;
    }
}

typedef struct top_k_job {
    const sac_stream *s;
    const sac_top_k_args *a;
    int64_t k;
} top_k_job;

static void top_k_row(void *ctx, int64_t row, int thread) {
    const top_k_job *job = ctx;
    const float *scores = job->a->scores + row * job->a->stride;
    int32_t *indices = job->a->indices + row * job->k;
    int64_t n_equal, n = job->a->n;
    if (job->k == n) {
        for (int64_t i = 0; i < n; i++) indices[i] = (int32_t)i;
        return;
    }
    uint32_t kth = top_k_find(scores, n, job->k, sac_stream_thread_scratch(job->s, thread), &n_equal);
    top_k_collect(scores, n, kth, n_equal, indices);
}

static sac_status SAC_ISA(top_k)(const sac_stream *s, const sac_top_k_args *a) {
    top_k_job job = {s, a, sac_min_i64(a->k, a->n)};
    if (job.k == 0) return SAC_OK;
    if (a->n * a->n_rows * 16 > 2 * SAC_TASK_BYTES)
        sac_pool_run(s->pool, a->n_rows, top_k_row, &job);
    else
        for (int64_t row = 0; row < a->n_rows; row++) top_k_row(&job, row, 0);
    return SAC_OK;
}
