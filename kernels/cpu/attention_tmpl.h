/* attention_tmpl.h - softmax(q k^T) v over tiles of keys with a running maximum (Dao et al.,
 * arXiv:2205.14135).
 *
 * Scores are kept in units of log2 (q is scaled by scale * log2 e on the way in), so the softmax needs 2^x
 * only. A task walks over its keys, ATTENTION_KEYS at a time; for each stretch its rows go a tile at a time
 * through scores, softmax and mix, so the scores never leave the first-level cache. Many rows: K is packed as
 * columns and V widened to f32 once a stretch, then both products are register tiles. Few rows (decode): K
 * and V are read once as they lie (attention_dot_tmpl.h). */
#include "attention_job.h"
#include "ref/ref.h"
#include "segments.h"
#include "simd_math.h"
#include "tile.h"

#include <float.h>
#include <math.h>

#ifdef __AVX512F__
#define ROWS_MAX SAC_TILE_ROWS_AVX512 /* rows of a tile */
#else
#define ROWS_MAX SAC_TILE_ROWS_AVX2
#endif
#define PANEL        (2 * VF)
#define SCORE_STRIDE (ATTENTION_KEYS + VF) /* the last vector of a row may reach over its end */

typedef struct attention_state {
    const attention_job *job;
    attention_task t;
    sac_dtype dtype;
    int64_t d, d_pad; /* head size, and up to whole vectors: row length of q, o and v here */
    float *q, *o;     /* [rows][d_pad] */
    float *max, *sum; /* [rows] of what was seen so far, with room for a whole vector after the last */
    float *k, *v;     /* packed: [panels][SAC_PACK_ROWS(d)][PANEL], [ATTENTION_KEYS][d_pad] */
    float *scores;    /* [ROWS_MAX][SCORE_STRIDE] */
} attention_state;

/* A tile: rows [row, row + n) of the task against keys [first, end) that some of them see, counted from the
 * start of the stretch at key0. row_first and row_end say what each row sees. */
typedef struct attention_tile {
    int64_t row, n, key0, first, end;
    int64_t row_first[ROWS_MAX], row_end[ROWS_MAX];
} attention_tile;

static const char *key_address(const attention_state *st, const char *base, int64_t key) {
    return sac_attention_key_at(&st->t, base, key);
}

/* Scratch of a task: at most half of the thread's, as the first thread's other half holds partial results. */
static void attention_open(attention_state *st, const attention_job *job, int64_t task, int thread) {
    const sac_attention_args *a = job->a;
    *st = (attention_state){.job = job, .t = sac_attention_task(job, task), .dtype = a->kv.dtype};
    st->d = a->kv.head_dim;
    st->d_pad = sac_div_up(st->d, VF) * VF;
    int64_t rows = st->t.rows;
    st->q = sac_stream_thread_scratch(job->s, thread);
    st->o = st->q + rows * st->d_pad;
    st->max = st->o + rows * st->d_pad;
    st->sum = st->max + rows + VF;
    st->scores = st->sum + rows + VF;
    st->k = st->scores + ROWS_MAX * SCORE_STRIDE;
    st->v = st->k + ATTENTION_KEYS * SAC_PACK_ROWS(st->d);
    vf scale = vf_set1(a->scale * 1.44269504f);
    for (int64_t r = 0; r < rows; r++) {
        const float *q = sac_attention_row(a->q, job, &st->t, r);
        for (int64_t c = 0; c < st->d; c += VF) {
            vf_store(st->q + r * st->d_pad + c, vf_mul(vf_load_part(q + c, st->d - c), scale));
            vf_store(st->o + r * st->d_pad + c, vf_zero());
        }
        st->max[r] = -FLT_MAX; /* finite, so that the difference of two of them is no NaN */
        st->sum[r] = 0;
    }
}
_Static_assert(sizeof(float) * (2 * ATTENTION_MAX_ROWS * (ATTENTION_MAX_D + 16) + ROWS_MAX * SCORE_STRIDE +
                                2 * ATTENTION_KEYS * ATTENTION_MAX_D) <=
                   SAC_THREAD_SCRATCH_BYTES / 2,
               "a task fits half the scratch of a thread");

/* Rows of the tile and the keys they see in the stretch [key0, key0 + n). */
static void tile_open(attention_tile *tile, const attention_state *st, int64_t row, int64_t n_rows, int64_t key0, int64_t n) {
    *tile = (attention_tile){.row = row, .n = n_rows, .key0 = key0, .first = n};
    int64_t first = 0, end = 0, query = -1;
    for (int64_t r = 0; r < tile->n; r++) {
        if (query != st->t.query + (row + r) / st->job->group) {
            query = st->t.query + (row + r) / st->job->group;
            sac_attention_sees(st->job->a, &st->t.keys, query, &first, &end);
            first = sac_max_i64(0, sac_min_i64(n, first - key0));
            end = sac_max_i64(first, sac_min_i64(n, end - key0));
        }
        tile->row_first[r] = first;
        tile->row_end[r] = end;
        tile->first = sac_min_i64(tile->first, first);
        tile->end = sac_max_i64(tile->end, end);
    }
}

/* c tanh(s / c) of scores in units of log2, in place. */
static void cap_scores(const attention_state *st, const attention_tile *tile) {
    const float cap = st->job->a->softcap * 1.44269504f;
    const vf to = vf_set1(cap), by = vf_set1(1 / cap);
    for (int64_t r = 0; r < tile->n; r++)
        for (int64_t j = tile->first / VF * VF; j < tile->end; j += VF) {
            float *s = st->scores + r * SCORE_STRIDE + j;
            vf_store(s, vf_mul(vf_tanh(vf_mul(vf_load(s), by)), to));
        }
}

/* Largest of the scores that row r sees. Rows that see all of [begin, end) go without masks. */
static float row_top(const attention_tile *tile, const float *s, int64_t r, int64_t begin) {
    vf m[2] = {vf_set1(-FLT_MAX), vf_set1(-FLT_MAX)};
    int64_t j = begin;
    if (tile->row_first[r] <= begin)
        for (; j + 2 * VF <= tile->row_end[r]; j += 2 * VF) {
            m[0] = vf_max(m[0], vf_load(s + j));
            m[1] = vf_max(m[1], vf_load(s + j + VF));
        }
    for (; j < tile->row_end[r]; j += VF)
        m[0] =
            vf_max(m[0], vf_keep_lanes(vf_load(s + j), tile->row_first[r] - j, tile->row_end[r] - j, m[0]));
    return vf_max_lane(vf_max(m[0], m[1]));
}

/* 2^(score - max) of what row r sees, zero elsewhere up to the end of the tile; returns their sum. */
static float row_weights(const attention_tile *tile, float *s, int64_t r, int64_t begin, float max) {
    vf m = vf_set1(max), total = vf_zero();
    int64_t j = begin;
    if (tile->row_first[r] <= begin)
        for (; j + VF <= tile->row_end[r]; j += VF) {
            vf p = vf_exp2(vf_sub(vf_load(s + j), m));
            total = vf_add(total, p);
            vf_store(s + j, p);
        }
    for (; j < tile->end; j += VF) {
        vf p = vf_exp2(vf_sub(vf_load(s + j), m));
        p = vf_keep_lanes(p, tile->row_first[r] - j, tile->row_end[r] - j, vf_zero());
        total = vf_add(total, p);
        vf_store(s + j, p);
    }
    return vf_sum(total);
}

/* Scores to weights 2^(score - max), zero for keys that a row does not see; rescale[r] is what the old output
 * is to be multiplied with, as it is in units of the old maximum. Vectors begin at multiples of VF from the
 * stretch, whatever the tile sees, so that a row's sum does not depend on the other rows. */
static void softmax(attention_state *st, const attention_tile *tile, float rescale[ROWS_MAX + VF]) {
    int64_t begin = tile->first / VF * VF;
    float *max = st->max + tile->row, *sum = st->sum + tile->row;
    float top[ROWS_MAX + VF];
    for (int64_t r = 0; r < tile->n; r++) top[r] = row_top(tile, st->scores + r * SCORE_STRIDE, r, begin);
    for (int64_t r = 0; r < tile->n; r += VF) {
        vf old = vf_load(max + r), new = vf_max(old, vf_load(top + r));
        vf_store(rescale + r, vf_exp2(vf_sub(old, new)));
        vf_store_part(max + r, new, tile->n - r);
    }
    for (int64_t r = 0; r < tile->n; r++)
        sum[r] = sum[r] * rescale[r] + row_weights(tile, st->scores + r * SCORE_STRIDE, r, begin, max[r]);
}

/* K of the stretch as columns, V as f32 rows. */
static void pack_keys(attention_state *st, int64_t key0, int64_t n) {
    const void *row[PANEL];
    for (int64_t j = 0; j < n; j += PANEL) {
        int64_t width = sac_min_i64(PANEL, n - j);
        for (int64_t i = 0; i < width; i++) row[i] = key_address(st, st->t.k, key0 + j + i);
        SAC_ISA(sac_pack)(st->dtype, row, width, st->d, st->k + j * SAC_PACK_ROWS(st->d), PANEL);
    }
    for (int64_t j = 0; j < n; j++) {
        const char *from = key_address(st, st->t.v, key0 + j);
        float *to = st->v + j * st->d_pad;
        for (int64_t c = 0; c < st->d; c += VF)
            vf_store(to + c, vf_load_as_part(st->dtype, from, c, st->d - c));
    }
}

static void scores_packed(const attention_state *st, const attention_tile *tile) {
    for (int64_t j = tile->first / PANEL * PANEL; j < tile->end; j += PANEL) SAC_ISA(sac_tiles)
    [1][tile->n - 1](st->d, st->q + tile->row * st->d_pad, st->d_pad, st->k + j * SAC_PACK_ROWS(st->d), PANEL,
                     st->scores + j, SCORE_STRIDE, NULL);
}

static void mix_packed(const attention_state *st, const attention_tile *tile, const float *rescale) {
    for (int64_t c = 0; c < st->d_pad; c += PANEL) SAC_ISA(sac_tiles)
    [c + PANEL <= st->d_pad][tile->n - 1](tile->end - tile->first, st->scores + tile->first, SCORE_STRIDE,
                                          st->v + tile->first * st->d_pad + c, st->d_pad,
                                          st->o + tile->row * st->d_pad + c, st->d_pad, rescale);
}

#include "attention_dot_tmpl.h"

/* ln sum exp, from a maximum in units of log2 and the sum of 2^(score - maximum). */
static float log_sum(float max, float sum) {
    return sum > 0 ? (max + log2f(sum)) * 0.693147181f : -INFINITY;
}

/* The output, or the partial result of a chunk. */
static void attention_close(const attention_state *st, int64_t task) {
    const attention_job *job = st->job;
    int64_t partial_row = st->d + 2;
    float *partial = job->partial + task * job->q_block * job->group * partial_row;
    for (int64_t r = 0; r < st->t.rows; r++) {
        const float *o = st->o + r * st->d_pad;
        if (job->n_chunks > 1) {
            partial[r * partial_row] = st->max[r];
            partial[r * partial_row + 1] = st->sum[r];
            memcpy(partial + r * partial_row + 2, o, (size_t)st->d * sizeof(float));
            continue;
        }
        if (job->a->lse) *sac_attention_lse(job, &st->t, r) = log_sum(st->max[r], st->sum[r]);
        float *out = sac_attention_row(job->a->o, job, &st->t, r);
        vf scale = vf_set1(st->sum[r] > 0 ? 1.0f / st->sum[r] : 0.0f); /* no key seen: zeros */
        for (int64_t c = 0; c < st->d; c += VF)
            vf_store_part(out + c, vf_mul(vf_load(o + c), scale), st->d - c);
    }
}

/* Rows of the task from `row` on that go through a stretch [key0, key0 + n) together. Queries that are each alone share what
 * all of them see, whose products do not depend on the rows of a tile; where one's keys end, each goes by itself. */
static int64_t rows_together(const attention_state *st, int64_t row, int64_t key0, int64_t n) {
    const int64_t group = st->job->group, left = st->t.rows - row;
    int64_t first, end, of_query = group - row % group;
    if (!st->job->each_alone) return sac_min_i64(ROWS_MAX, left);
    sac_attention_sees(st->job->a, &st->t.keys, st->t.query, &first, &end);
    if (end < key0 + n) return sac_min_i64(ROWS_MAX, of_query);
    return sac_min_i64(sac_min_i64(ROWS_MAX, ATTENTION_DOT_ROWS), left);
}

static void attention_task_fn(void *ctx, int64_t task, int thread) {
    attention_state st;
    attention_tile tile;
    float rescale[ROWS_MAX + VF];
    attention_open(&st, ctx, task, thread);
    bool few = (st.t.rows <= ATTENTION_DOT_ROWS && !st.job->a->steady) || st.job->each_alone;
    for (int64_t key0 = st.t.key_first; key0 < st.t.key_end; key0 += ATTENTION_KEYS) {
        int64_t n = sac_min_i64(ATTENTION_KEYS, st.t.key_end - key0);
        if (!few) pack_keys(&st, key0, n);
        for (int64_t row = 0, together; row < st.t.rows; row += together) {
            together = rows_together(&st, row, key0, n);
            tile_open(&tile, &st, row, together, key0, n);
            if (tile.first == tile.end) continue;
            (few ? scores_dot : scores_packed)(&st, &tile);
            if (st.job->a->softcap > 0) cap_scores(&st, &tile);
            softmax(&st, &tile, rescale);
            (few ? mix_direct : mix_packed)(&st, &tile, rescale);
        }
    }
    attention_close(&st, task);
}

/* Joins the chunks of one block: each in units of its own maximum, first to last. */
static void attention_join_fn(void *ctx, int64_t block, int thread) {
    const attention_job *job = ctx;
    int64_t groups = job->n_groups, d = job->a->kv.head_dim;
    int64_t first = (block / groups * job->n_chunks) * groups + block % groups;
    attention_task t = sac_attention_task(job, first);
    (void)thread;
    for (int64_t r = 0; r < t.rows; r++) {
        const float *part = job->partial + (first * job->q_block * job->group + r) * (d + 2);
        const int64_t next = groups * job->q_block * job->group * (d + 2);
        float max = -FLT_MAX, sum = 0, *out = sac_attention_row(job->a->o, job, &t, r);
        float weight[ATTENTION_MAX_CHUNKS];
        for (int64_t i = 0; i < job->n_chunks; i++) max = part[i * next] > max ? part[i * next] : max;
        for (int64_t i = 0; i < job->n_chunks; i++) {
            weight[i] = vf_sum(vf_keep_lanes(vf_exp2(vf_set1(part[i * next] - max)), 0, 1, vf_zero()));
            sum += weight[i] * part[i * next + 1];
        }
        if (job->a->lse) *sac_attention_lse(job, &t, r) = log_sum(max, sum);
        vf scale = vf_set1(sum > 0 ? 1.0f / sum : 0.0f);
        for (int64_t c = 0; c < d; c += VF) {
            vf o = vf_zero();
            for (int64_t i = 0; i < job->n_chunks; i++)
                o = vf_fma(vf_set1(weight[i]), vf_load_part(part + i * next + 2 + c, d - c), o);
            vf_store_part(out + c, vf_mul(o, scale), d - c);
        }
    }
}

sac_status SAC_ISA(sac_attention)(const sac_stream *s, const sac_attention_args *a) {
    attention_job job;
    if (a->segment_start) return sac_attention_by_segments(s, a, SAC_ISA(sac_attention));
    if (a->n_q == 0) return SAC_OK;
    if (a->list_block) return sac_ref_attention_blocks(s, a, SAC_ISA(sac_attention));
    if (!sac_attention_plan(&job, s, a)) return sac_ref_attention(s, a);
    sac_attention_run(&job, attention_task_fn, sac_attention_n_tasks(&job));
    if (job.n_chunks > 1)
        sac_attention_run(&job, attention_join_fn, sac_attention_n_tasks(&job) / job.n_chunks);
    return SAC_OK;
}

static void run(attention_job *job) {
    sac_attention_run(job, attention_task_fn, sac_attention_n_tasks(job));
    if (job->n_chunks > 1) sac_attention_run(job, attention_join_fn, sac_attention_n_tasks(job) / job->n_chunks);
}

/* The processor is busy with one of them; rows of one sequence that follow one another share the reading of their keys. The bits
 * of each are those of attention. */
sac_status SAC_ISA(sac_attention_many)(const sac_stream *s, const sac_attention_many_args *a) {
    for (int i = 0, n; i < a->n; i += n) {
        attention_job job;
        sac_attention_args joined;
        if (sac_attention_plan_alone(&job, s, &a->each[i], a->n - i, &joined, &n))
            run(&job);
        else
            for (int k = 0; k < n; k++) SAC_TRY(SAC_ISA(sac_attention)(s, &a->each[i + k]));
    }
    return SAC_OK;
}
