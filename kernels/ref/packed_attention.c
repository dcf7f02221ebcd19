#include "packed_rows.h"
#include "ref.h"

#include <math.h>
#include <string.h>

static void assert_packed(const sac_packed_attention_args *a) {
    int64_t n = 0;
    for (int i = 0; i < a->n_parts; i++) {
        assert(sac_packed_is_valid(&a->parts[i]) && (a->parts[i].v || !a->o));
        assert(a->parts[i].n_heads == a->parts[0].n_heads && a->parts[i].head_dim == a->parts[0].head_dim);
        n += a->parts[i].n;
    }
    assert(a->n_parts > 0 && a->n_heads % a->parts[0].n_heads == 0);
    assert(a->q && (a->o || a->scores) && (!a->scores || a->stride >= n));
    assert(!a->weights || (a->scores && (a->o || !a->min_score)));
    (void)n;
}

static double score(const sac_packed_attention_args *a, const sac_packed_rows *p, int head, int64_t row,
                    float *key) {
    const float *q = a->q + (int64_t)head * p->head_dim;
    double sum = 0;
    sac_packed_get_key(p, head / (a->n_heads / p->n_heads), row, key);
    for (int c = 0; c < p->head_dim; c++) sum += (double)q[c] * (double)key[c];
    return sum * (double)a->scale;
}

/* A head's output over all parts, with a running maximum as in attention. acc [head_dim], row [head_dim]. */
static void attend(const sac_packed_attention_args *a, int head, double *acc, float *x) {
    double max = -INFINITY, sum = 0;
    int64_t at = 0;
    int d = a->parts[0].head_dim;
    memset(acc, 0, (size_t)d * sizeof *acc);
    for (int i = 0; i < a->n_parts; i++) {
        const sac_packed_rows *p = &a->parts[i];
        for (int64_t row = 0; row < p->n; row++, at++) {
            double s = a->scores ? (double)a->scores[head * a->stride + at] : score(a, p, head, row, x);
            if (a->min_score && s < (double)a->min_score[head]) continue;
            if (a->scores && a->weights) s = log(s); /* a weight of 0 counts for nothing */
            if (s == -INFINITY) continue;
            double new_max = s > max ? s : max, rescale = exp(max - new_max), w = exp(s - new_max);
            sac_packed_get_value(p, head / (a->n_heads / p->n_heads), row, x);
            sum = sum * rescale + w;
            for (int c = 0; c < d; c++) acc[c] = acc[c] * rescale + w * (double)x[c];
            max = new_max;
        }
    }
    for (int c = 0; c < d; c++) a->o[head * d + c] = sum > 0 ? (float)(acc[c] / sum) : 0.0f;
    if (a->lse) a->lse[head] = sum > 0 ? (float)(log(sum) + max) : -INFINITY;
}

/* Scores alone, and ln sum exp of those that count. */
static void write_scores(const sac_packed_attention_args *a, int head, float *x) {
    double max = -INFINITY, sum = 0;
    float *out = a->scores + head * a->stride;
    int64_t n = 0;
    for (int i = 0; i < a->n_parts; i++)
        for (int64_t row = 0; row < a->parts[i].n; row++)
            out[n++] = (float)score(a, &a->parts[i], head, row, x);
    float least = a->min_score ? a->min_score[head] : -INFINITY;
    for (int64_t j = 0; j < n; j++) max = out[j] >= least ? fmax(max, (double)out[j]) : max;
    for (int64_t j = 0; j < n; j++) sum += out[j] >= least ? exp((double)out[j] - max) : 0;
    double lse = sum > 0 ? log(sum) + max : -INFINITY;
    for (int64_t j = 0; a->weights && j < n; j++) out[j] = (float)exp((double)out[j] - lse);
    if (a->lse) a->lse[head] = (float)lse;
}

sac_status sac_ref_packed_attention(const sac_stream *s, const sac_packed_attention_args *a) {
    assert_packed(a);
    int d = a->parts[0].head_dim;
    double *acc = sac_stream_thread_scratch(s, 0);
    for (int head = 0; head < a->n_heads; head++) {
        if (a->o)
            attend(a, head, acc, (float *)(acc + d));
        else
            write_scores(a, head, (float *)acc);
    }
    return SAC_OK;
}
