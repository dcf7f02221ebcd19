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

/* A head's output so far, with a running maximum as in attention. */
typedef struct mix {
    double max, sum, *acc; /* acc [d] */
    int d;
} mix;

static mix mix_start(double *acc, int d) {
    memset(acc, 0, (size_t)d * sizeof *acc);
    return (mix){-INFINITY, 0, acc, d};
}

static void mix_add(mix *m, double s, const float *value) {
    double new_max = s > m->max ? s : m->max, rescale = exp(m->max - new_max), w = exp(s - new_max);
    m->sum = m->sum * rescale + w;
    for (int c = 0; c < m->d; c++) m->acc[c] = m->acc[c] * rescale + w * (double)value[c];
    m->max = new_max;
}

static void mix_end(const mix *m, float *o, float *lse) {
    for (int c = 0; c < m->d; c++) o[c] = m->sum > 0 ? (float)(m->acc[c] / m->sum) : 0.0f;
    if (lse) *lse = m->sum > 0 ? (float)(log(m->sum) + m->max) : -INFINITY;
}

/* A head's output over all parts. acc [head_dim], x [head_dim]. */
static void attend(const sac_packed_attention_args *a, int head, double *acc, float *x) {
    int64_t at = 0;
    int d = a->parts[0].head_dim;
    mix m = mix_start(acc, d);
    for (int i = 0; i < a->n_parts; i++) {
        const sac_packed_rows *p = &a->parts[i];
        for (int64_t row = 0; row < p->n; row++, at++) {
            double s = a->scores ? (double)a->scores[head * a->stride + at] : score(a, p, head, row, x);
            if (a->min_score && s < (double)a->min_score[head]) continue;
            if (a->scores && a->weights) s = log(s); /* a weight of 0 counts for nothing */
            if (s == -INFINITY) continue;
            sac_packed_get_value(p, head / (a->n_heads / p->n_heads), row, x);
            mix_add(&m, s, x);
        }
    }
    mix_end(&m, a->o + head * d, a->lse ? &a->lse[head] : NULL);
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

/* ---------------------------------------------------------------- with a plain tail */

static void step_head(const sac_packed_step_args *a, int head, double *acc, float *x) {
    const sac_kv_view *tail = &a->tail;
    int d = tail->head_dim, kv_head = head / (a->n_heads / tail->n_heads);
    float *q = sac_mat_row_f32(a->q, 0) + (int64_t)head * d;
    const sac_packed_attention_args args = {
        .q = sac_mat_row_f32(a->q, 0), .n_heads = a->n_heads, .scale = a->scale};
    int64_t at = head * a->stride; /* in weights */
    mix m = mix_start(acc, d);
    for (int i = 0; i < a->n_parts; i++)
        for (int64_t row = 0; row < a->parts[i].n; row++, at++) {
            if (a->weights && !(a->weights[at] >= a->least[head] && a->weights[at] > 0)) continue;
            double s = a->weights ? log((double)a->weights[at]) + (double)a->lse_parts[head]
                                  : score(&args, &a->parts[i], head, row, x);
            sac_packed_get_value(&a->parts[i], kv_head, row, x);
            mix_add(&m, s, x);
        }
    for (int64_t row = 0; row < tail->n_rows; row++) {
        double dot = 0;
        at = row * tail->row_stride + kv_head * tail->head_stride;
        for (int c = 0; c < d; c++) dot += (double)q[c] * (double)sac_ref_load(tail->dtype, tail->k, at + c);
        for (int c = 0; c < d; c++) x[c] = sac_ref_load(tail->dtype, tail->v, at + c);
        mix_add(&m, dot * (double)a->scale, x);
    }
    mix_end(&m, q, a->lse ? &a->lse[head] : NULL);
}

sac_status sac_ref_packed_step(const sac_stream *s, const sac_packed_step_args *a) {
    double *acc = sac_stream_thread_scratch(s, 0);
    assert(sac_ref_is_mat(a->q) && a->q.rows == 1 && a->q.cols == (int64_t)a->n_heads * a->tail.head_dim);
    assert((a->tail.n_rows > 0 || a->n_parts > 0) && a->n_heads % a->tail.n_heads == 0);
    assert(!a->weights || (a->least && a->lse_parts));
    for (int i = 0; i < a->n_parts; i++)
        assert(sac_packed_is_valid(&a->parts[i]) && a->parts[i].v && a->parts[i].n_heads == a->tail.n_heads &&
               a->parts[i].head_dim == a->tail.head_dim);
    for (int head = 0; head < a->n_heads; head++) step_head(a, head, acc, (float *)(acc + a->tail.head_dim));
    return SAC_OK;
}
