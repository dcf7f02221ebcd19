#include "packed_attention.h"

#define MIN_CHUNK_ROWS 512
#define TARGET_TASKS   128
#define PARTIAL_FLOATS ((int64_t)(SAC_THREAD_SCRATCH_BYTES / 2 / sizeof(float)))

static int64_t rows_of_stretch(const sac_packed_rows *p) {
    return p->k_group > 0 ? sac_min_i64(PACKED_STRETCH, p->k_group) : PACKED_STRETCH;
}

static packed_stretch cut(const sac_packed_rows *p, int part, int64_t row, int64_t scores) {
    return (packed_stretch){p, part, row, sac_min_i64(rows_of_stretch(p), p->n - row), scores};
}

packed_stretch sac_packed_stretch_at(const packed_job *job, int64_t index) {
    const sac_packed_rows *parts = job->a->parts;
    int64_t scores = 0;
    int i = 0;
    for (; i < job->a->n_parts - 1; i++) {
        int64_t n = sac_div_up(parts[i].n, rows_of_stretch(&parts[i]));
        if (index < n) break;
        index -= n;
        scores += parts[i].n;
    }
    int64_t row = index * rows_of_stretch(&parts[i]);
    return cut(&parts[i], i, row, scores + row);
}

void sac_packed_stretch_next(const packed_job *job, packed_stretch *t) {
    const sac_packed_rows *parts = job->a->parts;
    int64_t row = t->row + t->n, scores = t->scores + t->n;
    int i = t->part;
    while (i < job->a->n_parts && row >= parts[i].n) {
        row = 0;
        i++;
    }
    if (i < job->a->n_parts) *t = cut(&parts[i], i, row, scores);
}

/* Stretches of equal length must not straddle two ranges of keys. */
static bool is_fast(const sac_packed_rows *p) {
    return p->k_group <= PACKED_STRETCH || p->k_group % PACKED_STRETCH == 0 || p->k_group >= p->capacity;
}

bool sac_packed_plan(packed_job *job, const sac_stream *s, const sac_packed_attention_args *a) {
    int64_t d = a->parts[0].head_dim;
    *job = (packed_job){.s = s, .a = a, .d = (int)d, .n_kv_heads = a->parts[0].n_heads};
    job->group = a->n_heads / job->n_kv_heads;
    for (int i = 0; i < a->n_parts; i++) {
        if (!is_fast(&a->parts[i])) return false;
        job->n_stretches += sac_div_up(a->parts[i].n, rows_of_stretch(&a->parts[i]));
        job->n_rows += a->parts[i].n;
    }
    if (job->n_rows == 0 || d > PACKED_MAX_D || job->group > PACKED_MAX_GROUP) return false;
    if (a->n_heads * (d + 2) > PARTIAL_FLOATS) return false;
    int64_t n = sac_min_i64(job->n_rows / MIN_CHUNK_ROWS, sac_div_up(TARGET_TASKS, job->n_kv_heads));
    n = sac_min_i64(n, PARTIAL_FLOATS / (a->n_heads * (d + 2)));
    n = sac_min_i64(sac_min_i64(n, PACKED_MAX_CHUNKS), job->n_stretches);
    job->n_chunks = sac_max_i64(1, n);
    job->partial = (float *)(void *)(s->thread_scratch + SAC_THREAD_SCRATCH_BYTES / 2);
    return true;
}

void sac_packed_run(packed_job *job, sac_task_fn fn) {
    int64_t n_bytes = 0, n_tasks = job->n_kv_heads * job->n_chunks;
    for (int i = 0; i < job->a->n_parts; i++) {
        const sac_packed_rows *p = &job->a->parts[i];
        n_bytes += p->n * p->n_heads * p->head_dim * p->bits / 4;
    }
    if (n_tasks > 1 && n_bytes > SAC_TASK_BYTES)
        sac_pool_run(job->s->pool, n_tasks, fn, job);
    else
        for (int64_t t = 0; t < n_tasks; t++) fn(job, t, 0);
}
