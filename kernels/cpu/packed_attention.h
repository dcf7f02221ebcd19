/* packed_attention.h - how attention over packed rows is cut into tasks, the same for every instruction set.
 *
 * Parts are walked in stretches: up to 256 rows of one part that share their keys' ranges. A task is a
 * key-value head and a run of stretches; several runs leave partial results, joined from first to last. Runs
 * follow from the arguments alone, so results do not depend on the number of threads. */
#ifndef SAC_PACKED_ATTENTION_H
#define SAC_PACKED_ATTENTION_H

#include "cpu.h"
#include "packed_rows.h"

#define PACKED_STRETCH    256
#define PACKED_MAX_D      256 /* sums of 255 * 32767 for every channel, or row of a stretch, stay below 2^31 */
#define PACKED_MAX_GROUP  64  /* query heads of a key-value head */
#define PACKED_MAX_CHUNKS 64

typedef struct packed_job {
    const sac_stream *s;
    const sac_packed_attention_args *a;
    int group, d, n_kv_heads;
    int64_t n_rows, n_stretches, n_chunks;
    float *partial; /* [chunk][n_heads][2 + d], in the upper half of the first thread's scratch */
} packed_job;

typedef struct packed_stretch {
    const sac_packed_rows *p;
    int part;
    int64_t row, n; /* rows [row, row + n) of the part */
    int64_t scores; /* place of the first row among the rows of all parts */
} packed_stretch;

/* False where no fast path takes these arguments. */
bool sac_packed_plan(packed_job *job, const sac_stream *s, const sac_packed_attention_args *a);

/* Stretch number `index`, and the one after a stretch. */
packed_stretch sac_packed_stretch_at(const packed_job *job, int64_t index);
void sac_packed_stretch_next(const packed_job *job, packed_stretch *t);

/* Runs fn over all tasks (key-value head + n_kv_heads * chunk), on the caller alone when the
 * work is small. */
void sac_packed_run(packed_job *job, sac_task_fn fn);

sac_status sac_packed_attention_avx2(const sac_stream *s, const sac_packed_attention_args *a);
sac_status sac_packed_attention_avx512(const sac_stream *s, const sac_packed_attention_args *a);
sac_status sac_packed_attention_vnni(const sac_stream *s, const sac_packed_attention_args *a);
sac_status sac_packed_scores_avx2(const sac_stream *s, const sac_packed_scores_args *a);
sac_status sac_packed_scores_avx512(const sac_stream *s, const sac_packed_scores_args *a);
sac_status sac_packed_scores_vnni(const sac_stream *s, const sac_packed_scores_args *a);

#endif
