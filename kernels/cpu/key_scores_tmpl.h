#include "dot_tmpl.h"
#include "ref/ref.h"
#include "turn_tmpl.h"

#include <math.h>

/* Keys of a task: its keys stay in the second-level cache for all its rows, and so does its part of the
 * table of angles for the other heads' tasks that follow. */
#define KEY_SCORES_KEYS  256
#define KEY_SCORES_MAX_D 1024

/* Query heads that share their keys: those of a key-value head, or each alone when it has its own list. */
typedef struct key_scores_job {
    const sac_stream *s;
    const sac_key_scores_args *a;
    int64_t group, n_groups, d_pad;
} key_scores_job;

/* Keys [first, end) of a group and the rows of its queries against them. */
typedef struct key_scores_tile {
    const key_scores_job *job;
    const int32_t *rows; /* the group's list or NULL */
    const char *k;       /* row 0 of the key-value head */
    size_t row_bytes;
    int64_t first, end;
    const float *q; /* scaled, [rows][d_pad] */
    float *turned;  /* [VF][d_pad] */
    float *scores;  /* of the first row */
} key_scores_tile;

static int64_t key_scores_row(const key_scores_tile *t, int64_t i) {
    return t->rows ? t->rows[i] : t->job->a->first + i;
}

static int64_t key_scores_length(const key_scores_job *job, int64_t group, const int32_t **rows) {
    const sac_row_lists *l = job->a->lists;
    *rows = NULL;
    if (!l) return job->a->n;
    int64_t list = group / (job->n_groups / l->n_lists);
    *rows = l->rows + l->start[list];
    return l->start[list + 1] - l->start[list];
}

SAC_INLINE void key_scores_rows(sac_dtype t, const int rows, const key_scores_tile *tile) {
    const sac_key_scores_args *a = tile->job->a;
    const int64_t keys = DOT_KEYS(rows), d = a->kv.head_dim, d_pad = tile->job->d_pad;
    const size_t key_bytes = sac_dtype_row_bytes(t, d);
    for (int64_t j = tile->first; j < tile->end; j += keys) {
        const void *k[VF];
        float each[VF];
        int64_t n = sac_min_i64(keys, tile->end - j);
        for (int64_t i = 0; i < keys; i++) { /* past the end: the last one again */
            int64_t row = key_scores_row(tile, sac_min_i64(j + i, tile->end - 1));
            int64_t later = key_scores_row(tile, sac_min_i64(j + i + DOT_AHEAD, tile->end - 1));
            k[i] = tile->k + (size_t)row * tile->row_bytes;
            for (size_t b = 0; b < key_bytes; b += 64)
                _mm_prefetch(tile->k + (size_t)later * tile->row_bytes + b, _MM_HINT_T0);
            if (!a->back) continue;
            turn_back(t, k[i], d, a->back, row, tile->turned + i * d_pad);
            k[i] = tile->turned + i * d_pad;
        }
        if (a->back)
            dot_keys(SAC_DTYPE_F32, rows, tile->q, d_pad, d, k, each);
        else
            dot_keys(t, rows, tile->q, d_pad, d, k, each);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < n; i++) tile->scores[r * a->stride + j + i] = each[r * keys + i];
    }
}

static void key_scores_task(void *ctx, int64_t task, int thread) {
    const key_scores_job *job = ctx;
    const sac_key_scores_args *a = job->a;
    const sac_kv_view *kv = &a->kv;
    int64_t group = task % job->n_groups, chunk = task / job->n_groups, d = kv->head_dim;
    key_scores_tile t = {.job = job, .first = chunk * KEY_SCORES_KEYS};
    t.end = sac_min_i64(t.first + KEY_SCORES_KEYS, key_scores_length(job, group, &t.rows));
    if (t.first >= t.end) return;
    size_t element = sac_dtype_row_bytes(kv->dtype, 1);
    t.k = (const char *)kv->k + (size_t)(group / (job->n_groups / kv->n_heads) * kv->head_stride) * element;
    t.row_bytes = (size_t)kv->row_stride * element;
    float *q = sac_stream_thread_scratch(job->s, thread);
    t.turned = q + DOT_ROWS_MAX * job->d_pad;
    for (int64_t row = 0; row < job->group; row += DOT_ROWS_MAX) {
        int64_t n = sac_min_i64(DOT_ROWS_MAX, job->group - row), head = group * job->group + row;
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = 0; c < d; c += VF) {
                vf v = vf_load_part(a->q + (head + r) * d + c, d - c);
                vf_store(q + r * job->d_pad + c, vf_mul(v, vf_set1(a->scale)));
            }
        t.q = q;
        t.scores = a->scores + head * a->stride;
        DOT_CASES(kv->dtype, n, key_scores_rows, &t)
    }
}

static sac_status SAC_ISA(key_scores)(const sac_stream *s, const sac_key_scores_args *a);

/* Several queries, one after the other. */
static sac_status key_scores_each(const sac_stream *s, const sac_key_scores_args *a) {
    int64_t n_last = a->n + (a->n_queries - 1) * a->n_more;
    for (int i = 0; i < a->n_queries; i++) {
        sac_key_scores_args b = *a;
        b.n_queries = 1;
        b.n = a->n + i * a->n_more;
        b.q = a->q + (int64_t)i * a->n_heads * a->kv.head_dim;
        b.scores = a->scores + (int64_t)i * a->n_heads * a->stride;
        SAC_TRY(SAC_ISA(key_scores)(s, &b));
        for (int64_t h = 0; h < a->n_heads; h++)
            for (int64_t j = b.n; j < n_last; j++) b.scores[h * a->stride + j] = -INFINITY;
    }
    return SAC_OK;
}

static sac_status SAC_ISA(key_scores)(const sac_stream *s, const sac_key_scores_args *a) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    if (a->lse) {
        sac_key_scores_args b = *a;
        b.lse = NULL;
        SAC_TRY(SAC_ISA(key_scores)(s, &b));
        return sac_ref_key_scores_sums(s, a);
    }
    if (a->n_queries > 1) return key_scores_each(s, a);
    int64_t group = a->n_heads / a->kv.n_heads, longest = 0, total = 0;
    const int32_t *unused;
    if (a->lists && a->lists->n_lists > a->kv.n_heads) group = 1;
    if (a->kv.head_dim > KEY_SCORES_MAX_D) return sac_ref_key_scores(s, a);
    key_scores_job job = {s, a, group, a->n_heads / group, sac_div_up(a->kv.head_dim, VF) * VF};
    for (int64_t g = 0; g < job.n_groups; g++) {
        int64_t n = key_scores_length(&job, g, &unused);
        longest = sac_max_i64(longest, n);
        total += n;
    }
    int64_t n_tasks = sac_div_up(longest, KEY_SCORES_KEYS) * job.n_groups;
    if (total * (int64_t)sac_dtype_row_bytes(a->kv.dtype, a->kv.head_dim) > 2 * SAC_TASK_BYTES)
        sac_pool_run(s->pool, n_tasks, key_scores_task, &job);
    else
        for (int64_t t = 0; t < n_tasks; t++) key_scores_task(&job, t, 0);
    return SAC_OK;
}
