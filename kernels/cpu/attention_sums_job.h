/* attention_sums_job.h - how attention_sums is cut into tasks, the same for every instruction set.
 *
 * Probes are taken in batches that fit the scratch. For a batch, a first pass over the keys gives every row
 * (a probe and a query head) the logarithm of its softmax's denominator: tasks are a group of heads and a
 * chunk of keys, whose partial results are joined from the first chunk to the last. A second pass adds the
 * weights up: a task owns the columns of some keys. With diagonals, tasks whose keys lie close together would
 * meet at the same distances: they get different colours, and colours run one after the other. All of this
 * follows from the arguments, so results do not depend on the number of threads. */
#ifndef SAC_ATTENTION_SUMS_JOB_H
#define SAC_ATTENTION_SUMS_JOB_H

#include "cpu.h"

#define SUMS_KEYS     128 /* keys of a stretch, packed at a time */
#define SUMS_LANES    16  /* of the widest vector */
#define SUMS_STRIDE   (SUMS_KEYS + SUMS_LANES)
#define SUMS_ROWS     12 /* of the tallest tile */
#define SUMS_MAX_D    512
#define SUMS_MAX_SPAN 4096 /* positions of a batch when there are diagonals */

typedef struct sums_job {
    const sac_stream *s;
    const sac_attention_sums_args *a;
    int64_t n_probes, group, n_groups; /* query heads that share a key-value head, key-value heads */
    int64_t d_pad, max_probes;         /* of a batch */
    /* the batch */
    int64_t probe, n;     /* probes [probe, probe + n) */
    int64_t rows, stride; /* of a group, row r = head r / n, probe r % n; up to whole vectors */
    int64_t key_first, key_end;
    int64_t key_chunk, n_chunks;           /* first pass */
    int64_t column_chunk, n_column_chunks; /* second pass */
    int64_t colour, n_colours;
    float *partial; /* [group][chunk][2][stride]: maxima, in units of log2, and sums */
    float *lse;     /* [group][stride], in units of log2 */
} sums_job;

/* The scratch of a thread: at most half of it, as the first thread's other half is shared. */
typedef struct sums_scratch {
    float *q;         /* [rows][d_pad], scaled */
    float *max, *sum; /* [rows][SUMS_LANES] */
    float *scores;    /* [SUMS_ROWS][SUMS_STRIDE] */
    float *columns;   /* [SUMS_STRIDE] */
    float *distances; /* [SUMS_MAX_SPAN + SUMS_STRIDE] */
    float *k;         /* packed: [panels][SAC_PACK_ROWS(d)][PANEL] */
} sums_scratch;

/* False when no fast path takes these arguments (head sizes that are no multiple of 8 or
 * beyond the limits). */
bool sac_sums_plan(sums_job *job, const sac_stream *s, const sac_attention_sums_args *a);
bool sac_sums_next_batch(sums_job *job); /* false when all are done */
sums_scratch sac_sums_scratch(const sums_job *job, int thread);
void sac_sums_run(sums_job *job, sac_task_fn fn, int64_t n_tasks);

static inline int64_t sums_probe_row(const sac_attention_sums_args *a, int64_t i) {
    return a->probes ? a->probes[i] : i;
}
/* Keys [*first, *end) that probe i sees. */
static inline void sums_sees(const sac_attention_sums_args *a, int64_t i, int64_t *first, int64_t *end) {
    int64_t position = a->first + sums_probe_row(a, i);
    *first = a->window > 0 ? sac_max_i64(0, sac_min_i64(a->n_kv, position - a->window + 1)) : 0;
    *end = sac_max_i64(0, sac_min_i64(a->n_kv, position + 1));
    if (*end < *first) *end = *first;
}

#endif
