#include "attention_job.h"

#define TARGET_TASKS   ATTENTION_MAX_CHUNKS /* enough for any machine of today to share */
#define MIN_CHUNK_KEYS 512                  /* shorter, and joining costs more than it brings */
#define PARTIAL_FLOATS ((int64_t)(SAC_THREAD_SCRATCH_BYTES / 2 / sizeof(float)))

/* First index in [0, n_kv] whose row is greater than `row`. */
static int64_t first_after(const sac_attention_args *a, int64_t row) {
    if (!a->rows) return sac_max_i64(0, sac_min_i64(a->n_kv, row + 1));
    int64_t low = 0, high = a->n_kv;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (a->rows[middle] > row)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void sac_attention_sees(const sac_attention_args *a, int64_t query, int64_t *first, int64_t *end) {
    int64_t position = a->first + query;
    *first = a->window ? first_after(a, position - a->window) : 0;
    *end = a->causal ? first_after(a, position) : a->n_kv;
    if (*end < *first) *end = *first;
}

/* Keys that any of the queries [query, query + n) sees; first on a tile. */
static void block_sees(const sac_attention_args *a, int64_t query, int64_t n, int64_t *first, int64_t *end) {
    int64_t unused;
    sac_attention_sees(a, query, first, &unused);
    sac_attention_sees(a, query + n - 1, &unused, end);
    *first = *first / ATTENTION_KEYS * ATTENTION_KEYS;
    if (*end < *first) *end = *first;
}

/* Several chunks of keys when queries and heads alone leave processors idle. */
static void plan_chunks(attention_job *job) {
    const sac_attention_args *a = job->a;
    int64_t n_keys = job->key_end - job->key_first, blocks = sac_attention_n_tasks(job);
    int64_t chunk_floats = blocks * job->q_block * job->group * (a->kv.head_dim + 2);
    int64_t n = sac_min_i64(sac_div_up(TARGET_TASKS, blocks), n_keys / MIN_CHUNK_KEYS);
    n = sac_max_i64(1, sac_min_i64(n, PARTIAL_FLOATS / chunk_floats));
    job->key_chunk = sac_div_up(sac_div_up(sac_max_i64(1, n_keys), n), ATTENTION_KEYS) * ATTENTION_KEYS;
    job->n_chunks = sac_max_i64(1, sac_div_up(n_keys, job->key_chunk));
}

bool sac_attention_plan(attention_job *job, const sac_stream *s, const sac_attention_args *a) {
    int64_t d = a->kv.head_dim, group = a->n_heads / a->kv.n_heads;
    if (d % 8 != 0 || d > ATTENTION_MAX_D || group > ATTENTION_MAX_ROWS) return false;
    *job = (attention_job){.s = s, .a = a, .group = group, .n_chunks = 1};
    job->q_block = sac_min_i64(a->n_q, ATTENTION_MAX_ROWS / group);
    job->n_q_blocks = sac_div_up(a->n_q, job->q_block);
    job->q_block = sac_div_up(a->n_q, job->n_q_blocks);
    job->n_q_blocks = sac_div_up(a->n_q, job->q_block);
    block_sees(a, 0, a->n_q, &job->key_first, &job->key_end);
    plan_chunks(job);
    job->partial = (float *)(void *)(s->thread_scratch + SAC_THREAD_SCRATCH_BYTES / 2);
    return true;
}

attention_task sac_attention_task(const attention_job *job, int64_t number) {
    const sac_attention_args *a = job->a;
    const sac_kv_view *kv = &a->kv;
    size_t element = sac_dtype_row_bytes(kv->dtype, 1);
    attention_task t = {.kv_head = number % kv->n_heads};
    int64_t chunk = number / kv->n_heads % job->n_chunks, rest = number / kv->n_heads / job->n_chunks;
    t.batch = rest % a->n_batch;
    /* the last queries see the most keys: begin with them, so that the short tasks even out the end */
    t.query = (job->n_q_blocks - 1 - rest / a->n_batch) * job->q_block;
    t.n_queries = sac_min_i64(job->q_block, a->n_q - t.query);
    t.rows = t.n_queries * job->group;
    block_sees(a, t.query, t.n_queries, &t.key_first, &t.key_end);
    t.key_first = sac_max_i64(t.key_first, job->key_first + chunk * job->key_chunk);
    t.key_end = sac_min_i64(t.key_end, job->key_first + (chunk + 1) * job->key_chunk);
    size_t offset =
        (size_t)(t.batch * a->batch_rows * kv->row_stride + t.kv_head * kv->head_stride) * element;
    t.k = (const char *)kv->k + offset;
    t.v = (const char *)kv->v + offset;
    t.row_bytes = (size_t)kv->row_stride * element;
    return t;
}

void sac_attention_run(attention_job *job, sac_task_fn fn, int64_t n_tasks) {
    const sac_attention_args *a = job->a;
    int64_t n_keys = job->key_end - job->key_first;
    int64_t kv_bytes = n_keys * a->kv.n_heads * (int64_t)sac_dtype_row_bytes(a->kv.dtype, a->kv.head_dim) * 2;
    if (a->n_batch * a->n_q * kv_bytes > 2 * SAC_TASK_BYTES)
        sac_pool_run(job->s->pool, n_tasks, fn, job);
    else
        for (int64_t t = 0; t < n_tasks; t++) fn(job, t, 0);
}
