/* attention_job.h - how attention is cut into tasks, the same for every instruction set.
 *
 * A task is a block of queries of one batch, a group of query heads and a chunk of their keys. A group is the
 * heads that share one key-value head (so K and V are read once for all of them), or a single head when each
 * has a list of its own. A task's rows are (query, head) pairs, row r = query r / group, head r % group. With
 * one chunk a task writes its output; with several it leaves partial results (row maxima, sums, unnormalised
 * outputs), which are then joined from the first chunk to the last. Blocks and chunks follow from the
 * arguments alone, so results do not depend on the number of threads. */
#ifndef SAC_ATTENTION_JOB_H
#define SAC_ATTENTION_JOB_H

#include "cpu.h"

#define ATTENTION_KEYS       128 /* keys between two rescalings of the output */
#define ATTENTION_MAX_ROWS   96  /* of a task */
#define ATTENTION_MAX_D      512
/* Tasks of up to this many rows read K and V as they lie; from there on packing them first is faster. */
#define ATTENTION_DOT_ROWS   8
#define ATTENTION_MAX_CHUNKS 128

typedef struct attention_job {
    const sac_stream *s;
    const sac_attention_args *a;
    int64_t group, n_groups;     /* query heads a group */
    int64_t q_block, n_q_blocks; /* queries a task */
    int64_t n_keys;              /* that any query sees, in all groups */
    int64_t key_chunk, n_chunks; /* keys a task, whole tiles; a short list leaves its last chunks empty */
    float *partial;              /* [task][rows][2 + d], in the upper half of the first thread's scratch */
    bool each_alone;             /* every query has the bits that a call for it alone gives it */
} attention_job;

/* Keys of a group: rows of its list, or rows 0 .. n - 1. */
typedef struct attention_keys {
    const int32_t *rows; /* or NULL */
    int64_t n;
    bool in_order;        /* neither a list nor pages: keys follow one another */
    const int32_t *pages; /* of the view, or NULL */
    uint32_t page_rows;
    size_t page_bytes;
} attention_keys;

typedef struct attention_task {
    int64_t batch, group, query, n_queries; /* first query of the block */
    int64_t rows;                           /* n_queries * heads of the group */
    attention_keys keys;
    int64_t key_first, key_end; /* indices into keys */
    const char *k, *v;          /* row 0 of this batch and head */
    size_t row_bytes;
} attention_task;

/* False when no fast path takes these arguments (head sizes that are no multiple of 8 or
 * beyond the limits). */
bool sac_attention_plan(attention_job *job, const sac_stream *s, const sac_attention_args *a);

/* The first *n of several calls as one job, whose arguments become *joined: calls of one query each for rows of one sequence that
 * follow one another. As many as have one another's chunks of keys when each is planned alone, and as there is room for; a task
 * is that of a lone query with the rows of all. False where there is but one, or no fast path. */
bool sac_attention_plan_alone(attention_job *job, const sac_stream *s, const sac_attention_args *each, int n_each,
                              sac_attention_args *joined, int *n);

static inline int64_t sac_attention_n_tasks(const attention_job *job) {
    return job->a->n_batch * job->n_groups * job->n_q_blocks * job->n_chunks;
}

/* Task number to task. Keys are those that some query of the block sees within the chunk (maybe none). */
attention_task sac_attention_task(const attention_job *job, int64_t number);

/* Keys [*first, *end) that query sees: rows ascend, so they are one stretch. */
void sac_attention_sees(const sac_attention_args *a, const attention_keys *keys, int64_t query,
                        int64_t *first, int64_t *end);

/* Runs fn over all tasks, on the caller alone when the work is small. */
void sac_attention_run(attention_job *job, sac_task_fn fn, int64_t n_tasks);

/* Where a key, or its value, begins; base: t->k or t->v. */
static inline const char *sac_attention_key_at(const attention_task *t, const char *base, int64_t key) {
    const attention_keys *keys = &t->keys;
    if (keys->in_order) return base + (size_t)key * t->row_bytes;
    uint32_t row = (uint32_t)(keys->rows ? keys->rows[key] : key);
    if (!keys->pages) return base + (size_t)row * t->row_bytes;
    return base + (size_t)keys->pages[row / keys->page_rows] * keys->page_bytes +
           (size_t)(row % keys->page_rows) * t->row_bytes;
}

/* Where row r of a task lies in a matrix of queries or outputs, and its lse (not with batches). */
static inline float *sac_attention_row(sac_mat m, const attention_job *job, const attention_task *t,
                                       int64_t r) {
    int64_t d = job->a->kv.head_dim, head = t->group * job->group + r % job->group;
    return sac_mat_row_f32(m, t->batch * job->a->batch_rows + t->query + r / job->group) + head * d;
}
static inline float *sac_attention_lse(const attention_job *job, const attention_task *t, int64_t r) {
    int64_t head = t->group * job->group + r % job->group;
    return job->a->lse + (t->query + r / job->group) * job->a->n_heads + head;
}

#endif
