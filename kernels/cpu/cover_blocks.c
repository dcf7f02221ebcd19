#include "cpu.h"

#include <assert.h>

typedef struct cover_job {
    const sac_stream *s;
    const sac_cover_blocks_args *a;
} cover_job;

/* The largest of n parts, the first of equal ones; chosen ones are -1. */
static int64_t largest(const int64_t *parts, int64_t n) {
    int64_t most = -1, j = 0;
    for (int64_t i = 0; i < n; i++) most = sac_max_i64(most, parts[i]);
    while (parts[j] != most) j++;
    return j;
}

static void cover_task(void *ctx, int64_t task, int thread) {
    const cover_job *job = ctx;
    const sac_cover_blocks_args *a = job->a;
    int64_t begin = a->first + task / a->n_heads * a->block, end = sac_min_i64(begin + a->block, a->n_rows);
    int64_t n = sac_div_up(end, a->block), own = begin / a->block, total = 0, held = 0, at = 0, n_chosen = 0;
    int64_t *parts = sac_stream_thread_scratch(job->s, thread);
    const float *sums = a->sums + task * a->stride;
    int32_t *columns = a->columns + task * a->stride;
    for (int64_t j = 0; j < n; j++) {
        parts[j] = sac_cover_parts(sums[j]);
        total += parts[j];
        if (j >= a->n_first && j <= own - a->n_local) continue;
        held += parts[j];
        parts[j] = -1;
        n_chosen++;
    }
    for (; n_chosen < n && (double)held < a->cover * (double)total; n_chosen++) {
        int64_t j = largest(parts, n);
        held += parts[j];
        parts[j] = -1;
    }
    for (int64_t j = 0; j < n; j++)
        if (parts[j] < 0) columns[at++] = (int32_t)j;
    while (at < a->stride) columns[at++] = -1;
}

sac_status sac_cpu_cover_blocks(const sac_stream *s, const sac_cover_blocks_args *a) {
    cover_job job = {s, a};
    assert((size_t)a->stride * sizeof(int64_t) <= SAC_THREAD_SCRATCH_BYTES);
    sac_pool_run(s->pool, a->n_blocks * a->n_heads, cover_task, &job);
    return SAC_OK;
}
