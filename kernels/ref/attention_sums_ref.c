#include "ref.h"

#include <math.h>

static int64_t probe_position(const sac_attention_sums_args *a, int64_t i) {
    return a->first + (a->probes ? a->probes[i] : i);
}

/* In units of e; -infinity where the probe does not see the key. */
static double score(const sac_attention_sums_args *a, int head, int64_t probe, int64_t key) {
    const sac_kv_view *kv = &a->kv;
    int64_t position = probe_position(a, probe);
    if (key > position || (a->window > 0 && key <= position - a->window)) return -INFINITY;
    int64_t at = key * kv->row_stride + (int64_t)(head / (a->n_heads / kv->n_heads)) * kv->head_stride;
    const float *q = sac_mat_row_f32(a->q, a->probes ? a->probes[probe] : probe) + head * kv->head_dim;
    double sum = 0;
    for (int c = 0; c < kv->head_dim; c++)
        sum += (double)q[c] * (double)sac_ref_load(kv->dtype, kv->k, at + c);
    return sum * (double)a->scale;
}

/* Logarithm of the softmax's denominator; what a probe without keys gets is never read. */
static double denominator(const sac_attention_sums_args *a, int head, int64_t probe) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->n_kv; j++) max = fmax(max, score(a, head, probe, j));
    for (int64_t j = 0; j < a->n_kv; j++) sum += exp(score(a, head, probe, j) - max);
    return log(sum) + max;
}

static double weight(const sac_attention_sums_args *a, int head, int64_t probe, int64_t key, double lse) {
    double v = key >= 0 && key < a->n_kv ? score(a, head, probe, key) : -INFINITY;
    return v == -INFINITY ? 0 : exp(v - lse);
}

/* Adds the mass of probes [first, end) to the sums and diagonals of one set; lse [heads of a set][end -
 * first]. */
static void add_probes(const sac_attention_sums_args *a, int set, int64_t first, int64_t end, double *lse) {
    int per_set = a->n_heads / a->n_sums;
    int64_t n = end - first;
    for (int h = 0; h < per_set; h++)
        for (int64_t i = first; i < end; i++) lse[h * n + i - first] = denominator(a, set * per_set + h, i);
    for (int64_t j = 0; j < a->n_kv; j++) {
        double sum = 0;
        for (int h = 0; h < per_set; h++)
            for (int64_t i = first; i < end; i++)
                sum += weight(a, set * per_set + h, i, j, lse[h * n + i - first]);
        a->sums[set * a->stride + j] += (float)sum;
    }
    for (int64_t c = 0; c < a->n_diagonals; c++) {
        double sum = 0;
        for (int h = 0; h < per_set; h++)
            for (int64_t i = first; i < end; i++)
                sum += weight(a, set * per_set + h, i, probe_position(a, i) - c, lse[h * n + i - first]);
        a->diagonals[set * a->n_diagonals + c] += (float)sum;
    }
}

sac_status sac_ref_attention_sums(const sac_stream *s, const sac_attention_sums_args *a) {
    int64_t n_probes = a->probes ? a->n_probes : a->q.rows;
    assert(a->sums && a->stride >= a->n_kv && sac_ref_is_mat(a->q) && sac_ref_is_kv(&a->kv));
    assert(a->q.cols == (int64_t)a->n_heads * a->kv.head_dim && a->n_heads % a->kv.n_heads == 0);
    assert(a->n_sums == 1 || a->n_sums == a->kv.n_heads || a->n_sums == a->n_heads);
    assert(a->n_kv >= 0 && a->n_kv <= a->kv.n_rows && a->n_diagonals >= 0 &&
           (a->diagonals || !a->n_diagonals));
    for (int64_t i = 0; a->probes && i < n_probes; i++)
        assert(a->probes[i] < a->q.rows && a->probes[i] >= (i ? a->probes[i - 1] + 1 : 0));
    int64_t at_once = (int64_t)(SAC_THREAD_SCRATCH_BYTES / sizeof(double)) / (a->n_heads / a->n_sums);
    for (int set = 0; set < a->n_sums; set++) {
        for (int64_t j = 0; j < a->n_kv; j++) a->sums[set * a->stride + j] = 0;
        for (int64_t c = 0; c < a->n_diagonals; c++) a->diagonals[set * a->n_diagonals + c] = 0;
        for (int64_t i = 0; i < n_probes; i += at_once)
            add_probes(a, set, i, i + at_once < n_probes ? i + at_once : n_probes,
                       sac_stream_thread_scratch(s, 0));
    }
    return SAC_OK;
}
