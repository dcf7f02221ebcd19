/* top_k_tmpl.h - the k best of a row by radix selection: the k-th best score's bits are found eleven at a
 * time, by histograms from the highest bits down, then everything above it and the first of its equals are
 * collected. Blocks of scores become sortable integers first, a loop the compiler vectorises. */
#include "cpu.h"
#include "simd.h"

#include <string.h>

#define TOP_K_BLOCK 1024

/* Keys in the order of the scores, -0 equal to 0 and NaN to -infinity, by integers alone, which no compiler
 * hesitates to vectorise. After the last a vector of zeros, which no score has for a key. Returns their
 * number. */
static int64_t top_k_keys(const float *scores, int64_t n, uint32_t key[TOP_K_BLOCK + VF]) {
    const uint32_t infinity = 0x7f800000, sign = 0x80000000;
    n = sac_min_i64(n, TOP_K_BLOCK);
    memcpy(key, scores, (size_t)n * sizeof *key);
    memset(key + n, 0, VF * sizeof *key);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = key[i], size = u & ~sign;
        u = size == 0 ? 0 : u;
        u = size > infinity ? sign | infinity : u;
        key[i] = u ^ ((uint32_t)((int32_t)u >> 31) | sign);
    }
    return n;
}

/* Moves the keys in [base, base + width) together; returns their number. */
static int64_t top_k_candidates(uint32_t *key, int64_t n, uint32_t base, uint32_t width) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i += VF)
        m += vi_pack_range(key + m, vi_load(key + i), vi_load(key + i), base, width);
    return m;
}

/* The digit of n_bits bits at `shift` of the k-th best key, whose higher bits are those of `prefix`; lowers
 * *k to its place among the keys that share the digit. The four histograms are taken in turn: counting twice
 * in a row into one place waits for memory. */
SAC_INLINE uint32_t top_k_digit(const float *scores, int64_t n, const int shift, const int n_bits,
                                uint32_t prefix, uint32_t (*count)[4], int64_t *k) {
    const uint32_t n_buckets = 1u << n_bits;
    uint32_t key[TOP_K_BLOCK + VF], digit = n_buckets - 1;
    memset(count, 0, n_buckets * sizeof *count);
    for (int64_t at = 0; at < n; at += TOP_K_BLOCK) {
        int64_t m = top_k_keys(scores + at, n - at, key);
        if (shift + n_bits < 32) m = top_k_candidates(key, m, prefix, n_buckets << shift);
        for (int64_t i = 0; i < m; i++) count[key[i] >> shift & (n_buckets - 1)][i & 3]++;
    }
    for (;; digit--) {
        int64_t here = (int64_t)count[digit][0] + count[digit][1] + count[digit][2] + count[digit][3];
        if (here >= *k) break;
        *k -= here;
    }
    return prefix | digit << shift;
}

/* Indices of the keys above the k-th best's and of the first n_equal of its equals, ascending. */
static void top_k_collect(const float *scores, int64_t n, uint32_t kth, int64_t n_equal, int32_t *indices) {
    uint32_t key[TOP_K_BLOCK + VF];
    int32_t found[TOP_K_BLOCK + VF];
    for (int64_t at = 0; at < n; at += TOP_K_BLOCK) {
        int64_t m = 0, n_keys = top_k_keys(scores + at, n - at, key), equal = 0;
        for (int64_t i = 0; i < n_keys; i++) equal += key[i] == kth;
        for (int64_t i = n_keys - 1; equal > n_equal; i--) /* equals beyond the last one wanted */
            if (key[i] == kth) {
                key[i] = 0;
                equal--;
            }
        for (int64_t i = 0; i < n_keys; i += VF) /* all numbers from kth on: 2^32 - kth of them */
            m += vi_pack_range(found + m, vi_count_from((int32_t)(at + i)), vi_load(key + i), kth, 0 - kth);
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
    int64_t n_equal = job->k, n = job->a->n;
    uint32_t(*count)[4] = sac_stream_thread_scratch(job->s, thread), kth = 0;
    if (job->k == n) {
        for (int64_t i = 0; i < n; i++) indices[i] = (int32_t)i;
        return;
    }
    kth = top_k_digit(scores, n, 21, 11, kth, count, &n_equal);
    kth = top_k_digit(scores, n, 10, 11, kth, count, &n_equal);
    kth = top_k_digit(scores, n, 0, 10, kth, count, &n_equal);
    top_k_collect(scores, n, kth, n_equal, indices);
}

static sac_status SAC_ISA(top_k)(const sac_stream *s, const sac_top_k_args *a) {
    top_k_job job = {s, a, sac_min_i64(a->k, a->n)};
    if (sac_is_skipped(a->skip)) return SAC_OK;
    if (job.k == 0) return SAC_OK;
    if (a->n * a->n_rows * 16 > 2 * SAC_TASK_BYTES)
        sac_pool_run(s->pool, a->n_rows, top_k_row, &job);
    else
        for (int64_t row = 0; row < a->n_rows; row++) top_k_row(&job, row, 0);
    return SAC_OK;
}
