#include "ref.h"

#include <math.h>

static bool better(const float *scores, int32_t i, int32_t j) {
    float a = isnan(scores[i]) ? -INFINITY : scores[i], b = isnan(scores[j]) ? -INFINITY : scores[j];
    return a > b || (a == b && i < j);
}
static bool by_score(const float *scores, int32_t i, int32_t j) {
    return better(scores, j, i);
}
static bool by_index(const float *scores, int32_t i, int32_t j) {
    (void)scores;
    return i > j;
}

/* A heap of n indices with the one that is `above` all others at its root: lets heap[i] down to its place. */
static void sift(int32_t *heap, int64_t n, int64_t i, const float *scores,
                 bool (*above)(const float *, int32_t, int32_t)) {
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && above(scores, heap[child + 1], heap[child])) child++;
        if (!above(scores, heap[child], heap[i])) return;
        int32_t t = heap[i];
        heap[i] = heap[child];
        heap[child] = t;
        i = child;
    }
}

/* The best k so far are a heap with the worst at its root, which a better one replaces; then heapsort by
 * index. */
static void select_row(const float *scores, int64_t n, int64_t k, int32_t *best) {
    for (int64_t i = 0; i < k; i++) best[i] = (int32_t)i;
    for (int64_t i = k / 2 - 1; i >= 0; i--) sift(best, k, i, scores, by_score);
    for (int64_t i = k; i < n && k > 0; i++)
        if (better(scores, (int32_t)i, best[0])) {
            best[0] = (int32_t)i;
            sift(best, k, 0, scores, by_score);
        }
    for (int64_t i = k / 2 - 1; i >= 0; i--) sift(best, k, i, scores, by_index);
    for (int64_t end = k - 1; end > 0; end--) {
        int32_t last = best[0];
        best[0] = best[end];
        best[end] = last;
        sift(best, end, 0, scores, by_index);
    }
}

sac_status sac_ref_top_k(const sac_stream *s, const sac_top_k_args *a) {
    (void)s;
    if (sac_is_skipped(a->skip)) return SAC_OK;
    int64_t k = a->k < a->n ? a->k : a->n;
    assert(a->n_rows >= 0 && a->n >= 0 && a->n <= INT32_MAX && a->k >= 0 && a->stride >= a->n);
    for (int row = 0; row < a->n_rows; row++)
        select_row(a->scores + row * a->stride, a->n, k, a->indices + row * k);
    return SAC_OK;
}
