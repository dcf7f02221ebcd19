/* even_tasks.c - tiles of turned rows, a head's keys or values a task. */
#include "cpu.h"
#include "even_tiles.h"

typedef struct even_job {
    const sac_even_tiles *tiles;
    const sac_kv_view *kv;
    int64_t first;
    const sac_stream *stream;
    void (*fn)(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch);
} even_job;

static void run_task(void *ctx, int64_t task, int thread) {
    const even_job *job = ctx;
    job->fn(job->tiles, job->kv, job->first, task, sac_stream_thread_scratch(job->stream, thread));
}

static sac_status run(const sac_stream *s, even_job job) {
    job.stream = s;
    sac_pool_run(s->pool, sac_even_n_tasks(job.tiles), run_task, &job);
    return SAC_OK;
}

sac_status sac_cpu_even_factors(const sac_stream *s, const sac_even_factors_args *a) {
    return run(s, (even_job){.tiles = &a->tiles, .kv = &a->kv, .first = a->first, .fn = sac_even_find});
}
sac_status sac_cpu_pack_even(const sac_stream *s, const sac_pack_even_args *a) {
    return run(s, (even_job){.tiles = &a->tiles, .kv = &a->kv, .first = a->first, .fn = sac_even_pack});
}
sac_status sac_cpu_unpack_even(const sac_stream *s, const sac_unpack_even_args *a) {
    return run(s, (even_job){.tiles = &a->tiles, .kv = &a->kv, .first = a->first, .fn = sac_even_unpack});
}
