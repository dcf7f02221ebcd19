#include "linear_quant_formats.h"
#include "linear_quant_job.h"

#include "quants.h"
#include "ref/ref.h"

/* ---- what every variant shares ---- */

static size_t record_bytes(sac_dtype w, int rows) {
    sac_lq_format f = sac_lq_format_of(w);
    return (size_t)(rows * (f.block + 4 + sac_lq_bytes_beside(f)));
}

static int panel_rows(int64_t m) {
    return m <= 2                    ? (int)m
           : m <= SAC_LQ_DIRECT_ROWS ? SAC_LQ_DIRECT_ROWS
           : m <= 8                  ? 8
                                     : SAC_LQ_MAX_PANEL_ROWS;
}

size_t sac_linear_quant_scratch_bytes(int64_t m, int64_t k) {
    if (m <= 0 || k <= 0) return 0;
    int rows = panel_rows(m);
    size_t n_rows = (size_t)sac_div_up(m, rows) * (size_t)rows;
    size_t small = n_rows * (size_t)sac_div_up(k, 32) * 40; /* the most that a record takes */
    size_t large = n_rows * (size_t)sac_div_up(k, 256) * 324;
    return small > large ? small : large;
}

sac_lq_columns sac_lq_column_group(const sac_lq_job *j, int n_lanes, int64_t group) {
    if (j->n < n_lanes) return (sac_lq_columns){j->w + (size_t)group * j->w_row_bytes, 0, group, 0, 1};
    int64_t col = group * n_lanes, back = col + n_lanes > j->n ? col + n_lanes - j->n : 0;
    return (sac_lq_columns){j->w + (size_t)(col - back) * j->w_row_bytes, j->w_row_bytes, col, (int)back,
                            n_lanes - (int)back};
}

/* ---- plain C ---- */

typedef struct plain_job {
    const sac_linear_args *a;
    uint8_t *xq;
    size_t xq_row_bytes, w_row_bytes;
} plain_job;

static void plain_quantize(void *ctx, int64_t row, int thread) {
    const plain_job *j = ctx;
    (void)thread;
    sac_quantize_activations(j->a->w.tensor.dtype, sac_mat_row_f32(j->a->x, row),
                             j->xq + (size_t)row * j->xq_row_bytes, j->a->x.cols);
}

static void plain_column(void *ctx, int64_t col, int thread) {
    const plain_job *j = ctx;
    const uint8_t *w = (const uint8_t *)j->a->w.tensor.data + (size_t)col * j->w_row_bytes;
    (void)thread;
    for (int64_t row = 0; row < j->a->x.rows; row++) {
        float sum =
            sac_quant_dot(j->a->w.tensor.dtype, w, j->xq + (size_t)row * j->xq_row_bytes, j->a->x.cols);
        float *y = sac_mat_row_f32(j->a->y, row) + col;
        if (j->a->bias) sum += j->a->bias[col];
        sum = (float)sac_ref_activation(j->a->act, (double)sum);
        *y = j->a->accumulate ? *y + sum : sum;
    }
}

sac_status sac_linear_quant_plain(const sac_stream *s, const sac_linear_args *a) {
    plain_job j = {a, s->shared_scratch, sac_activation_row_bytes(a->w.tensor.dtype, a->x.cols),
                   sac_dtype_row_bytes(a->w.tensor.dtype, a->x.cols)};
    assert((size_t)a->x.rows * j.xq_row_bytes <= s->shared_scratch_bytes);
    sac_pool_run(s->pool, a->x.rows, plain_quantize, &j);
    sac_pool_run(s->pool, a->y.cols, plain_column, &j);
    return SAC_OK;
}

/* ---- tasks ---- */

typedef struct tasks {
    const sac_lq_job *job;
    const sac_lq_variant *variant;
    const sac_stream *stream;
    int64_t n_groups, groups_a_task, panels_a_task, n_column_tasks;
} tasks;

static void quantize_task(void *ctx, int64_t panel, int thread) {
    const tasks *t = ctx;
    (void)thread;
    t->variant->quantize_panel(t->job, panel);
}

static void multiply_task(void *ctx, int64_t task, int thread) {
    const tasks *t = ctx;
    int64_t first = task % t->n_column_tasks * t->groups_a_task;
    int64_t panel = task / t->n_column_tasks * t->panels_a_task;
    t->variant->multiply(t->job, first, sac_min_i64(first + t->groups_a_task, t->n_groups), panel,
                         sac_min_i64(panel + t->panels_a_task, t->job->n_panels),
                         sac_stream_thread_scratch(t->stream, thread));
}

/* Few rows: reading weights is the work. Four tasks a thread even out its speed; of at least 32 KB, since
 * each starts with cold reads. Many rows: a task unpacks two column groups and takes them past up to 512
 * rows. */
static void cut(tasks *t, int n_lanes) {
    const sac_lq_job *j = t->job;
    t->n_groups = j->n < n_lanes ? j->n : sac_div_up(j->n, n_lanes);
    t->panels_a_task = 512 / SAC_LQ_MAX_PANEL_ROWS;
    t->groups_a_task = 2;
    if (j->m <= SAC_LQ_DIRECT_ROWS) {
        int64_t group_bytes = (int64_t)j->w_row_bytes * n_lanes;
        int64_t share = group_bytes * t->n_groups / (4 * sac_pool_n_threads(t->stream->pool));
        t->groups_a_task = sac_div_up(sac_max_i64(32 << 10, sac_min_i64(share, 256 << 10)), group_bytes);
    }
    t->n_column_tasks = sac_div_up(t->n_groups, t->groups_a_task);
}

sac_status sac_lq_run(const sac_stream *s, const sac_linear_args *a, const sac_lq_variant *v) {
    sac_dtype w = a->w.tensor.dtype;
    sac_lq_job j = {.a = a, .m = a->x.rows, .n = a->y.cols, .k = a->x.cols, .w = a->w.tensor.data};
    assert(a->y.rows == j.m && a->w.tensor.n_dims == 2 && a->w.tensor.dim[0] == j.n &&
           a->w.tensor.dim[1] == j.k);
    assert(a->x.dtype == SAC_DTYPE_F32 && a->y.dtype == SAC_DTYPE_F32 && j.k % sac_dtype_block(w) == 0);
    if (j.m == 0 || j.n == 0) return SAC_OK;
    j.block = sac_dtype_block(w);
    j.w_block_bytes = (size_t)sac_dtype_block_bytes(w);
    j.w_row_bytes = sac_dtype_row_bytes(w, j.k);
    j.n_panel_rows = panel_rows(j.m);
    j.n_panels = sac_div_up(j.m, j.n_panel_rows);
    j.record_bytes = record_bytes(w, j.n_panel_rows);
    j.panel_bytes = (size_t)(j.k / j.block) * j.record_bytes;
    j.x = s->shared_scratch;
    assert((size_t)j.n_panels * j.panel_bytes <= s->shared_scratch_bytes);

    if (j.w_row_bytes >= (size_t)1 << 27)
        return sac_linear_quant_plain(s, a); /* 16 rows apart no longer fit an int32 */

    tasks t = {.job = &j, .variant = v, .stream = s};
    cut(&t, v->n_lanes);
    sac_pool_run(s->pool, j.n_panels, quantize_task, &t);
    sac_pool_run(s->pool, t.n_column_tasks * sac_div_up(j.n_panels, t.panels_a_task), multiply_task, &t);
    return SAC_OK;
}
