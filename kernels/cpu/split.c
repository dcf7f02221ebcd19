#include "cpu.h"

typedef struct rows_job {
    sac_rows_fn fn;
    const void *args;
    int64_t n_rows, rows_per_task;
} rows_job;

static void rows_task(void *ctx, int64_t task, int thread) {
    const rows_job *j = ctx;
    int64_t first = task * j->rows_per_task;
    (void)thread;
    j->fn(j->args, first, sac_min_i64(j->n_rows, first + j->rows_per_task));
}

void sac_for_rows(const sac_stream *s, int64_t n_rows, int64_t row_bytes, sac_rows_fn fn, const void *args) {
    if (n_rows <= 0) return;
    int64_t rows_per_task = sac_max_i64(1, SAC_TASK_BYTES / sac_max_i64(1, row_bytes));
    rows_job job = {fn, args, n_rows, rows_per_task};
    if (n_rows <= 2 * rows_per_task)
        fn(args, 0, n_rows);
    else
        sac_pool_run(s->pool, sac_div_up(n_rows, rows_per_task), rows_task, &job);
}
