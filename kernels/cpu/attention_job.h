/* attention_job.h - how attention is cut into tasks, the same for every instruction set.
 *
 * A task is a block of queries of one batch, the query heads that share one key-value head (so K and V are
 * read once for all of them) and a chunk of the keys. Its rows are (query, head) pairs, row r = query r /
 * group, head r % group. With one chunk a task writes its output; with several it leaves partial results (row
 * maxima, sums, unnormalised outputs), which are then joined from the first chunk to the last. Blocks and
 * chunks follow from the arguments alone, so results do not depend on the number of threads. */
#ifndef SAC_ATTENTION_JOB_H
#define SAC_ATTENTION_JOB_H

#include "cpu.h"

#define ATTENTION_KEYS     128 /* keys between two rescalings of the output */
#define ATTENTION_MAX_ROWS 96  /* of a task */
#define ATTENTION_MAX_D    512
#define ATTENTION_DOT_ROWS                                                                                   \
    8 /* tasks up to this many rows read K and V as they lie; more, and packing pays                         \
       */
#define ATTENTION_MAX_CHUNKS 128

typedef struct attention_job {
    const sac_stream *s;
    const sac_attention_args *a;
    int64_t group;               /* query heads a key-value head */
    int64_t q_block, n_q_blocks; /* queries a task */
    int64_t key_first, key_end;  /* keys that any query sees, as indices of the list; key_first on a tile */
    int64_t key_chunk, n_chunks; /* keys a task, whole tiles */
    float *partial;              /* [task][rows][2 + d], in the upper half of the first thread's scratch */
} attention_job;

typedef struct attention_task {
    int64_t batch, kv_head, query, n_queries; /* first query of the block */
    int64_t rows;                             /* n_queries * group */
    int64_t key_first, key_end;
    const char *k, *v; /* row 0 of this batch and head */
    size_t row_bytes;
} attention_task;

/* False when no fast path takes these arguments (head sizes that are no multiple of 8 or beyond the limits).
 */
bool sac_attention_plan(attention_job *job, const sac_stream *s, const sac_attention_args *a);

static inline int64_t sac_attention_n_tasks(const attention_job *job) {
    return job->a->n_batch * job->a->kv.n_heads * job->n_q_blocks * job->n_chunks;
}

/* Task number to task. Keys are those that some query of the block sees within the chunk (maybe none). */
attention_task sac_attention_task(const attention_job *job, int64_t number);

/* Keys [*first, *end) of the list that query sees: rows ascend, so they are one stretch. */
void sac_attention_sees(const sac_attention_args *a, int64_t query, int64_t *first, int64_t *end);

/* Runs fn over all tasks, on the caller alone when the work is small. */
void sac_attention_run(attention_job *job, sac_task_fn fn, int64_t n_tasks);

static inline int64_t sac_attention_key_row(const sac_attention_args *a, int64_t key) {
    return a->rows ? a->rows[key] : key;
}

/* Where row r of a task lies in a matrix of queries or outputs. */
static inline float *sac_attention_row(sac_mat m, const attention_job *job, const attention_task *t,
                                       int64_t r) {
    int64_t d = job->a->kv.head_dim, head = t->kv_head * job->group + r % job->group;
    return sac_mat_row_f32(m, t->batch * job->a->batch_rows + t->query + r / job->group) + head * d;
}

#endif
