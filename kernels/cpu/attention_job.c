#include "attention_job.h"

#define TARGET_TASKS   ATTENTION_MAX_CHUNKS /* enough for any machine of today to share */
#define MIN_CHUNK_KEYS 512                  /* shorter, and joining costs more than it brings */
#define TASKS_A_THREAD 4  /* that even out */
#define STEADY_LEAST_ROWS 32 /* of a task: fewer, and packing its keys shows */
#define PARTIAL_FLOATS ((int64_t)(SAC_THREAD_SCRATCH_BYTES / 2 / sizeof(float)))

/* First index in [0, n] whose row is greater than `row`. */
static int64_t first_after(const attention_keys *keys, int64_t row) {
    if (!keys->rows) return sac_max_i64(0, sac_min_i64(keys->n, row + 1));
    int64_t low = 0, high = keys->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (keys->rows[middle] > row)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void sac_attention_sees(const sac_attention_args *a, const attention_keys *keys, int64_t query,
                        int64_t *first, int64_t *end) {
    int64_t position = a->first + query;
    *first = a->window ? first_after(keys, position - a->window) : 0;
    *end = a->causal ? first_after(keys, sac_max_i64(position, sac_span_end(a, position) - 1)) : keys->n;
    if (*end < *first) *end = *first;
}

/* Keys that any of the queries [query, query + n) sees; first on a tile. */
static void block_sees(const sac_attention_args *a, const attention_keys *keys, int64_t query, int64_t n,
                       int64_t *first, int64_t *end) {
    int64_t unused;
    sac_attention_sees(a, keys, query, first, &unused);
    sac_attention_sees(a, keys, query + n - 1, &unused, end);
    *first = *first / ATTENTION_KEYS * ATTENTION_KEYS;
    if (*end < *first) *end = *first;
}

static attention_keys group_keys(const attention_job *job, int64_t group) {
    const sac_row_lists *l = job->a->lists;
    const sac_kv_view *kv = &job->a->kv;
    attention_keys keys = {.n = job->a->n_kv, .in_order = !l && !kv->pages, .pages = kv->pages};
    if (kv->pages) {
        keys.page_rows = (uint32_t)kv->page_rows;
        keys.page_bytes = (size_t)kv->page_stride * sac_dtype_row_bytes(kv->dtype, 1);
    }
    if (!l) return keys;
    int64_t list = group / (job->n_groups / l->n_lists);
    keys.rows = l->rows + l->start[list];
    keys.n = l->start[list + 1] - l->start[list];
    return keys;
}

/* Queries a task. Where bits do not hang on it (steady), so few that every thread has some tasks. */
static void plan_blocks(attention_job *job) {
    const int64_t n_q = job->a->n_q;
    job->q_block = sac_min_i64(n_q, ATTENTION_MAX_ROWS / job->group);
    if (job->a->steady) {
        int64_t blocks = sac_div_up(TASKS_A_THREAD * sac_pool_n_threads(job->s->pool), job->n_groups);
        int64_t least = sac_div_up(STEADY_LEAST_ROWS, job->group);
        job->q_block = sac_min_i64(job->q_block, sac_max_i64(least, sac_div_up(n_q, blocks)));
    }
    job->n_q_blocks = sac_div_up(n_q, job->q_block);
    job->q_block = sac_div_up(n_q, job->n_q_blocks);
    job->n_q_blocks = sac_div_up(n_q, job->q_block);
}

/* Several chunks of keys when queries and heads alone leave processors idle, or one list is much longer than
 * the others. */
static void plan_chunks(attention_job *job) {
    const sac_attention_args *a = job->a;
    int64_t longest = 0, first, end;
    for (int64_t g = 0; g < job->n_groups; g++) {
        attention_keys keys = group_keys(job, g);
        block_sees(a, &keys, 0, a->n_q, &first, &end);
        longest = sac_max_i64(longest, end - first);
        job->n_keys += end - first;
    }
    int64_t blocks = sac_attention_n_tasks(job), per_group = blocks / job->n_groups;
    int64_t chunk_floats = blocks * job->q_block * job->group * (a->kv.head_dim + 2);
    int64_t work = sac_max_i64(1, per_group * job->n_keys);
    int64_t n = sac_min_i64(sac_div_up(TARGET_TASKS * longest, work), longest / MIN_CHUNK_KEYS);
    n = a->steady ? 1 : sac_max_i64(1, sac_min_i64(n, PARTIAL_FLOATS / chunk_floats));
    job->key_chunk = sac_div_up(sac_div_up(sac_max_i64(1, longest), n), ATTENTION_KEYS) * ATTENTION_KEYS;
    job->n_chunks = sac_max_i64(1, sac_div_up(longest, job->key_chunk));
}

bool sac_attention_plan(attention_job *job, const sac_stream *s, const sac_attention_args *a) {
    int64_t d = a->kv.head_dim, group = a->n_heads / a->kv.n_heads;
    if (a->lists && a->lists->n_lists > a->kv.n_heads) group = 1;
    if (d % 8 != 0 || d > ATTENTION_MAX_D || group > ATTENTION_MAX_ROWS) return false;
    *job = (attention_job){.s = s, .a = a, .group = group, .n_groups = a->n_heads / group, .n_chunks = 1};
    plan_blocks(job);
    plan_chunks(job);
    job->partial = (float *)(void *)(s->thread_scratch + SAC_THREAD_SCRATCH_BYTES / 2);
    return true;
}

static bool is_lone(const sac_attention_args *a) {
    return a->n_q == 1 && a->n_batch == 1 && a->causal && !a->lists && !a->lse && !a->steady && !a->segment_start && !a->n_spans &&
           a->n_kv == a->first + 1 && !(a->window && a->first >= a->window);
}

/* Whether b is the next row's call. */
static bool follows(const sac_attention_args *a, const sac_attention_args *b) {
    const size_t q_row = sac_dtype_row_bytes(a->q.dtype, a->q.stride), o_row = sac_dtype_row_bytes(a->o.dtype, a->o.stride);
    return is_lone(b) && b->first == a->first + 1 && b->kv.k == a->kv.k && b->kv.v == a->kv.v && b->kv.pages == a->kv.pages &&
           b->kv.row_stride == a->kv.row_stride && b->kv.head_stride == a->kv.head_stride && b->kv.n_heads == a->kv.n_heads &&
           b->kv.dtype == a->kv.dtype && b->kv.head_dim == a->kv.head_dim && b->n_heads == a->n_heads && b->scale == a->scale &&
           b->window == a->window && b->softcap == a->softcap && b->q.stride == a->q.stride && b->o.stride == a->o.stride &&
           (const char *)b->q.data == (const char *)a->q.data + q_row && (const char *)b->o.data == (const char *)a->o.data + o_row;
}

bool sac_attention_plan_alone(attention_job *job, const sac_stream *s, const sac_attention_args *each, int n_each,
                              sac_attention_args *joined, int *n) {
    attention_job next;
    *n = 1;
    if (n_each < 2 || !is_lone(each) || !follows(each, each + 1) || !sac_attention_plan(job, s, each)) return false;
    const int64_t group = job->group, partial = job->n_groups * job->n_chunks * group * (each->kv.head_dim + 2);
    const int64_t most = group > ATTENTION_DOT_ROWS ? 1 : sac_min_i64(ATTENTION_MAX_ROWS / group, PARTIAL_FLOATS / partial);
    while (*n < most && *n < n_each && follows(&each[*n - 1], &each[*n]) && sac_attention_plan(&next, s, &each[*n]) &&
           next.key_chunk == job->key_chunk && next.n_chunks == job->n_chunks) {
        job->n_keys = next.n_keys;
        ++*n;
    }
    *joined = each[*n - 1];
    joined->first = each->first;
    joined->n_q = *n;
    joined->q = each->q, joined->o = each->o;
    joined->q.rows = joined->o.rows = *n;
    job->a = joined;
    job->q_block = *n;
    job->each_alone = true;
    return *n > 1;
}

attention_task sac_attention_task(const attention_job *job, int64_t number) {
    const sac_attention_args *a = job->a;
    const sac_kv_view *kv = &a->kv;
    size_t element = sac_dtype_row_bytes(kv->dtype, 1);
    attention_task t = {.group = number % job->n_groups};
    int64_t chunk = number / job->n_groups % job->n_chunks, rest = number / job->n_groups / job->n_chunks;
    int64_t all_first, unused, kv_head = t.group / (job->n_groups / kv->n_heads);
    t.batch = rest % a->n_batch;
    /* the last queries see the most keys: begin with them, so that the short tasks even out the end */
    t.query = (job->n_q_blocks - 1 - rest / a->n_batch) * job->q_block;
    t.n_queries = sac_min_i64(job->q_block, a->n_q - t.query);
    t.rows = t.n_queries * job->group;
    t.keys = group_keys(job, t.group);
    block_sees(a, &t.keys, 0, a->n_q, &all_first, &unused);
    block_sees(a, &t.keys, t.query, t.n_queries, &t.key_first, &t.key_end);
    t.key_first = sac_max_i64(t.key_first, all_first + chunk * job->key_chunk);
    t.key_end = sac_min_i64(t.key_end, all_first + (chunk + 1) * job->key_chunk);
    int64_t kv_batch = a->kv_batch_rows ? a->kv_batch_rows : a->batch_rows;
    size_t offset = (size_t)(t.batch * kv_batch * kv->row_stride + kv_head * kv->head_stride) * element;
    t.k = (const char *)kv->k + offset;
    t.v = (const char *)kv->v + offset;
    t.row_bytes = (size_t)kv->row_stride * element;
    return t;
}

void sac_attention_run(attention_job *job, sac_task_fn fn, int64_t n_tasks) {
    const sac_attention_args *a = job->a;
    int64_t kv_bytes = job->n_keys * (int64_t)sac_dtype_row_bytes(a->kv.dtype, a->kv.head_dim) * 2;
    if (a->n_batch * a->n_q * kv_bytes > 2 * SAC_TASK_BYTES)
        sac_pool_run(job->s->pool, n_tasks, fn, job);
    else
        for (int64_t t = 0; t < n_tasks; t++) fn(job, t, 0);
}
