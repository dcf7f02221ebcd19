/* packed_turned_tmpl.h - scores of packed keys that are turned back first: unpacked, turned and multiplied a
 * few at a time, so that they stay in the first-level cache. */
#include "cpu.h"
#include "dot_tmpl.h"
#include "packed_rows.h"
#include "ref/ref.h"

#define TURNED_KEYS  256 /* of a task */
#define TURNED_MAX_D 1024

typedef struct turned_job {
    const sac_stream *s;
    const sac_packed_scores_args *a;
    int64_t group, d_pad;
} turned_job;

/* Places [first, end) of a key-value head's list and some of its queries. */
typedef struct turned_tile {
    const turned_job *job;
    int head;
    int64_t first, end;
    const float *q; /* scaled, [rows][d_pad] */
    float *keys;    /* [VF][d_pad] */
    float *scores;  /* of the first row */
} turned_tile;

static void turned_load(const turned_tile *t, int64_t place, float *key) {
    const sac_packed_scores_args *a = t->job->a;
    int64_t d = a->keys.head_dim, at = (a->n_lists > 1 ? t->head * a->n : 0) + place;
    sac_packed_get_key(&a->keys, t->head, a->rows ? a->rows[at] : a->first + place, key);
    const sac_rope_args turn = {.x = sac_mat_f32(key, 1, d),
                                .n_heads = 1,
                                .head_dim = (int)d,
                                .rotation = *a->rotation,
                                .pos = a->turn_back + at,
                                .back = true};
    rope_rows(&turn, 0, 1);
}

SAC_INLINE void turned_rows(sac_dtype dtype, const int rows, const turned_tile *t) {
    const sac_packed_scores_args *a = t->job->a;
    const int64_t keys = DOT_KEYS(rows), d_pad = t->job->d_pad;
    for (int64_t j = t->first; j < t->end; j += keys) {
        const void *k[VF];
        float each[VF];
        int64_t n = sac_min_i64(keys, t->end - j);
        for (int64_t i = 0; i < keys; i++) {
            if (i < n) turned_load(t, j + i, t->keys + i * d_pad);
            k[i] = t->keys + sac_min_i64(i, n - 1) * d_pad;
        }
        dot_keys(dtype, rows, t->q, d_pad, a->keys.head_dim, k, each);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < n; i++) t->scores[r * a->stride + j + i] = each[r * keys + i];
    }
}

static void turned_task(void *ctx, int64_t task, int thread) {
    const turned_job *job = ctx;
    const sac_packed_scores_args *a = job->a;
    int64_t d = a->keys.head_dim, block = task / a->keys.n_heads;
    turned_tile t = {.job = job, .head = (int)(task % a->keys.n_heads), .first = block * TURNED_KEYS};
    float *q = sac_stream_thread_scratch(job->s, thread);
    t.end = sac_min_i64(t.first + TURNED_KEYS, a->n);
    t.keys = q + DOT_ROWS_MAX * job->d_pad;
    for (int64_t row = 0; row < job->group; row += DOT_ROWS_MAX) {
        int64_t n = sac_min_i64(DOT_ROWS_MAX, job->group - row), head = t.head * job->group + row;
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = 0; c < d; c += VF) {
                vf v = vf_load_part(sac_mat_row_f32(a->q, 0) + (head + r) * d + c, d - c);
                vf_store(q + r * job->d_pad + c, vf_mul(v, vf_set1(a->scale)));
            }
        t.q = q;
        t.scores = a->scores + head * a->stride;
        DOT_ROWS_CASES(SAC_DTYPE_F32, n, turned_rows, &t)
    }
}

/* `plain` for keys that stay as they are. */
static sac_status SAC_ISA(packed_scores_or)(const sac_stream *s, const sac_packed_scores_args *a,
                                            sac_packed_scores_fn plain) {
    int64_t d = a->keys.head_dim, n_bytes = a->n * a->keys.n_heads * d * (int64_t)sizeof(float);
    if (!a->turn_back || d > TURNED_MAX_D || a->n_lists > a->keys.n_heads) return plain(s, a);
    if (sac_is_skipped(a->skip)) return SAC_OK;
    turned_job job = {s, a, a->n_heads / a->keys.n_heads, sac_div_up(d, VF) * VF};
    int64_t n_tasks = sac_div_up(a->n, TURNED_KEYS) * a->keys.n_heads;
    if (n_bytes > SAC_TASK_BYTES)
        sac_pool_run(s->pool, n_tasks, turned_task, &job);
    else
        for (int64_t t = 0; t < n_tasks; t++) turned_task(&job, t, 0);
    if (!a->lse) return SAC_OK;
    return sac_ref_softmax(
        s, &(sac_softmax_args){
               .scores = a->scores, .stride = a->stride, .n = a->n, .n_rows = a->n_heads, .lse = a->lse});
}
