/* antidiagonal_sums_tmpl.h - products of units of queries with units of keys as register tiles, a task some
 * units of keys of a head; then softmax and sums, a task a block of queries. Queries are read where they lie:
 * those at the same place of neighbouring units are rows at an even distance. softmax_tmpl.h comes first. */
#include "ref/ref.h"
#include "tile.h"

#ifdef __AVX512F__
#define UNITS_MAX SAC_TILE_ROWS_AVX512
#else
#define UNITS_MAX SAC_TILE_ROWS_AVX2
#endif
#define UNITS_WIDTH (2 * VF) /* units of keys that are multiplied together */

typedef struct antidiagonal_job {
    const sac_stream *s;
    const sac_antidiagonal_sums_args *a;
    int64_t n_keys, n_units; /* units of keys, of queries */
    int64_t place;           /* floats of the packed keys that stand at one place of their units */
} antidiagonal_job;

/* Scratch of a task: the keys of units [first, first + n), place by place. */
typedef struct antidiagonal_tile {
    const antidiagonal_job *job;
    int64_t first, n;
    float *keys; /* [step][place] */
    float scores[UNITS_MAX * UNITS_WIDTH];
} antidiagonal_tile;

static size_t antidiagonal_scratch_bytes(const antidiagonal_job *job) {
    size_t d = (size_t)SAC_PACK_ROWS(job->a->kv.head_dim);
    return ((size_t)(job->a->step * job->place) + d) * sizeof(float);
}

/* Keys beyond the last are zeros. */
static void antidiagonal_pack(antidiagonal_tile *t, int kv_head, float *zeros) {
    const sac_antidiagonal_sums_args *a = t->job->a;
    const sac_kv_view *kv = &a->kv;
    const void *row[UNITS_WIDTH];
    size_t element = sac_dtype_row_bytes(kv->dtype, 1);
    const char *k = (const char *)kv->k + (size_t)(kv_head * kv->head_stride) * element;
    memset(zeros, 0, (size_t)kv->head_dim * sizeof *zeros);
    for (int64_t i = 0; i < a->step; i++) {
        for (int64_t j = 0; j < t->n; j++) {
            int64_t key = (t->first + j) * a->step + i;
            row[j] = key < kv->n_rows ? k + (size_t)(key * kv->row_stride) * element : (const void *)zeros;
        }
        SAC_ISA(sac_pack)(kv->dtype, row, t->n, kv->head_dim, t->keys + i * t->job->place, UNITS_WIDTH);
    }
}

/* Units [unit, unit + n) of a head's queries, whole ones or a single one, with the tile's keys. */
static void antidiagonal_multiply(antidiagonal_tile *t, int head, int64_t unit, int64_t n) {
    static const float ones[UNITS_MAX] = {1, 1, 1, 1,
                                          1, 1,
#ifdef __AVX512F__
                                          1, 1, 1, 1,
                                          1, 1
#endif
    };
    const sac_antidiagonal_sums_args *a = t->job->a;
    const float factor = a->scale / (float)a->step, *add = NULL;
    const int64_t d = a->kv.head_dim;
    for (int64_t i = 0; i < a->step; i++) {
        int64_t query = unit * a->step + a->step - 1 - i;
        if (query >= a->q.rows) continue;
        SAC_ISA(sac_tiles)
        [1][n - 1](d, sac_mat_row_f32(a->q, query) + head * d, a->step * a->q.stride,
                   t->keys + i * t->job->place, UNITS_WIDTH, t->scores, UNITS_WIDTH, add);
        add = ones;
    }
    for (int64_t r = 0; r < n; r++) {
        float *scores = a->scores + ((unit + r) * a->n_heads + head) * t->job->n_keys + t->first;
        int64_t seen = sac_min_i64(t->n, sac_antidiagonal_seen(a, unit + r) - t->first);
        for (int64_t j = 0; j < seen; j++) scores[j] = t->scores[r * UNITS_WIDTH + j] * factor;
    }
}

static void antidiagonal_scores_task(void *ctx, int64_t task, int thread) {
    const antidiagonal_job *job = ctx;
    const sac_antidiagonal_sums_args *a = job->a;
    int kv_head = (int)(task % a->kv.n_heads), group = a->n_heads / a->kv.n_heads;
    antidiagonal_tile t = {.job = job, .first = task / a->kv.n_heads * UNITS_WIDTH};
    int64_t n_whole = a->q.rows / a->step, unit = 0;
    t.n = sac_min_i64(UNITS_WIDTH, job->n_keys - t.first);
    t.keys = sac_stream_thread_scratch(job->s, thread);
    antidiagonal_pack(&t, kv_head, t.keys + a->step * job->place);
    while (unit < job->n_units && sac_antidiagonal_seen(a, unit) <= t.first) unit++;
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++) {
        for (int64_t u = unit; u < n_whole; u += UNITS_MAX)
            antidiagonal_multiply(&t, h, u, sac_min_i64(UNITS_MAX, n_whole - u));
        if (n_whole < job->n_units && unit < job->n_units) antidiagonal_multiply(&t, h, n_whole, 1);
    }
}

/* Adds the weights of n units of keys, over n_all, to the sums of their blocks. */
static void antidiagonal_add(const sac_antidiagonal_sums_args *a, const float *weights, int64_t n,
                             float n_all, float *sums) {
    const int64_t each = a->block / a->step;
    for (int64_t u = 0; u < n; u += each, sums++) {
        float sum = 0;
        for (int64_t i = u; i < sac_min_i64(u + each, n); i++) sum += weights[i];
        *sums += sum / n_all;
    }
}

static void antidiagonal_sums_task(void *ctx, int64_t task, int thread) {
    const antidiagonal_job *job = ctx;
    const sac_antidiagonal_sums_args *a = job->a;
    const int64_t each = a->block / a->step, t0 = task / a->n_heads * each, head = task % a->n_heads;
    const int64_t n = sac_min_i64(each, job->n_units - t0);
    float *sums = a->sums + task * a->stride;
    (void)thread;
    for (int64_t j = 0; j < sac_div_up(a->first + a->q.rows, a->block); j++) sums[j] = 0;
    for (int64_t t = t0; t < t0 + n; t++) {
        float *scores = a->scores + (t * a->n_heads + head) * job->n_keys;
        int64_t seen = sac_antidiagonal_seen(a, t);
        float max = softmax_max(scores, seen);
        softmax_weigh(scores, seen, (float)(log(softmax_sum(scores, seen, max)) + (double)max), scores);
        antidiagonal_add(a, scores, seen, (float)n, sums);
    }
}

static sac_status SAC_ISA(antidiagonal_sums)(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    antidiagonal_job job = {.s = s,
                            .a = a,
                            .n_keys = sac_antidiagonal_units(a),
                            .n_units = sac_div_up(a->q.rows, a->step),
                            .place = SAC_PACK_ROWS(a->kv.head_dim) * UNITS_WIDTH};
    if (antidiagonal_scratch_bytes(&job) > SAC_THREAD_SCRATCH_BYTES) return sac_ref_antidiagonal_sums(s, a);
    sac_pool_run(s->pool, sac_div_up(job.n_keys, UNITS_WIDTH) * a->kv.n_heads, antidiagonal_scores_task,
                 &job);
    sac_pool_run(s->pool, sac_div_up(job.n_units, a->block / a->step) * a->n_heads, antidiagonal_sums_task,
                 &job);
    return SAC_OK;
}
