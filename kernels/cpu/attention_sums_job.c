#include "attention_sums_job.h"

#include "tile.h"

#define HALF_FLOATS    ((int64_t)(SAC_THREAD_SCRATCH_BYTES / 2 / sizeof(float)))
#define TARGET_TASKS   64 /* enough for any machine of today to share, few enough that copying q is nothing */
#define MIN_CHUNK_KEYS 512
#define MAX_CHUNK_KEYS 1024

static int64_t whole(int64_t n, int64_t of) {
    return sac_div_up(n, of) * of;
}

/* Floats of a thread's scratch apart from those of the rows. */
static int64_t fixed_floats(const sums_job *job) {
    return SUMS_ROWS * SUMS_STRIDE + SUMS_STRIDE + SUMS_MAX_SPAN + SUMS_STRIDE +
           SUMS_KEYS * SAC_PACK_ROWS(job->a->kv.head_dim);
}

bool sac_sums_plan(sums_job *job, const sac_stream *s, const sac_attention_sums_args *a) {
    int64_t d = a->kv.head_dim;
    *job = (sums_job){.s = s,
                      .a = a,
                      .n_probes = a->probes ? a->n_probes : a->q.rows,
                      .group = a->n_heads / a->kv.n_heads,
                      .n_groups = a->kv.n_heads,
                      .d_pad = whole(d, SUMS_LANES)};
    if (d % 8 != 0 || d > SUMS_MAX_D) return false;
    int64_t own = (HALF_FLOATS - fixed_floats(job)) / (job->d_pad + 2 * SUMS_LANES);
    int64_t shared = HALF_FLOATS / (3 * job->n_groups) - SUMS_LANES; /* at least one chunk of keys */
    int64_t most = sac_min_i64(own, shared) / job->group;
    if (most < 1) return false;
    job->max_probes = sac_div_up(job->n_probes, sac_max_i64(1, sac_div_up(job->n_probes, most)));
    return true;
}

static void plan_keys(sums_job *job) {
    const sac_attention_sums_args *a = job->a;
    int64_t unused, n_keys;
    sums_sees(a, job->probe, &job->key_first, &unused);
    sums_sees(a, job->probe + job->n - 1, &unused, &job->key_end);
    job->key_first = job->key_first / SUMS_KEYS * SUMS_KEYS;
    job->key_end = sac_max_i64(job->key_first, job->key_end);
    n_keys = sac_max_i64(1, job->key_end - job->key_first);

    int64_t room = (HALF_FLOATS / (job->n_groups * job->stride) - 1) / 2;
    int64_t n = sac_min_i64(sac_div_up(TARGET_TASKS, job->n_groups), n_keys / MIN_CHUNK_KEYS);
    n = sac_max_i64(1, sac_min_i64(n, room));
    job->key_chunk = whole(sac_div_up(n_keys, n), SUMS_KEYS);
    job->n_chunks = sac_div_up(n_keys, job->key_chunk);

    int64_t all = n_keys * (a->n_sums == 1 ? 1 : job->n_groups);
    job->column_chunk = sac_min_i64(MAX_CHUNK_KEYS, whole(sac_div_up(all, TARGET_TASKS), SUMS_KEYS));
    job->n_column_chunks = sac_div_up(n_keys, job->column_chunk);
}

/* Positions from the first to the last probe of the batch. */
static int64_t span(const sums_job *job) {
    return sums_probe_row(job->a, job->probe + job->n - 1) - sums_probe_row(job->a, job->probe);
}

bool sac_sums_next_batch(sums_job *job) {
    job->probe += job->n;
    if (job->probe == job->n_probes) return false;
    job->n = sac_min_i64(job->max_probes, job->n_probes - job->probe);
    job->n_colours = 1;
    if (job->a->n_diagonals > 0)
        while (span(job) > SUMS_MAX_SPAN) job->n--;
    job->rows = job->n * job->group;
    job->stride = whole(job->rows, SUMS_LANES);
    plan_keys(job);
    /* chunks i and i + n_colours have no distance in common */
    if (job->a->n_diagonals > 0) job->n_colours = (span(job) + job->column_chunk - 1) / job->column_chunk + 1;
    job->lse = (float *)(void *)(job->s->thread_scratch + SAC_THREAD_SCRATCH_BYTES / 2);
    job->partial = job->lse + job->n_groups * job->stride;
    return true;
}

sums_scratch sac_sums_scratch(const sums_job *job, int thread) {
    sums_scratch x;
    x.q = sac_stream_thread_scratch(job->s, thread);
    x.max = x.q + job->rows * job->d_pad;
    x.sum = x.max + job->rows * SUMS_LANES;
    x.scores = x.sum + job->rows * SUMS_LANES;
    x.columns = x.scores + SUMS_ROWS * SUMS_STRIDE;
    x.distances = x.columns + SUMS_STRIDE;
    x.k = x.distances + SUMS_MAX_SPAN + SUMS_STRIDE;
    return x;
}

void sac_sums_run(sums_job *job, sac_task_fn fn, int64_t n_tasks) {
    int64_t keys = (job->key_end - job->key_first) * job->n_groups;
    if (keys * job->rows * job->d_pad > 8 * SAC_TASK_BYTES)
        sac_pool_run(job->s->pool, n_tasks, fn, job);
    else
        for (int64_t t = 0; t < n_tasks; t++) fn(job, t, 0);
}
