/* attention_sums_tmpl.h - attention weights of some queries summed over queries and heads, in two passes over
 * the keys (attention_sums_job.h has the plan). Scores are in units of log2, as in attention_tmpl.h; products
 * are register tiles over packed keys, or keys as they lie when a group has few rows. */
#include "attention_sums_job.h"
#include "dot_tmpl.h"
#include "ref/ref.h"
#include "simd_math.h"
#include "tile.h"

#include <float.h>
#include <math.h>

#ifdef __AVX512F__
#define ROWS_MAX SAC_TILE_ROWS_AVX512 /* rows of a tile */
#else
#define ROWS_MAX SAC_TILE_ROWS_AVX2
#endif
#define PANEL (2 * VF)

/* A group's rows in scratch, and a stretch of its keys. */
typedef struct sums_state {
    const sums_job *job;
    sums_scratch x;
    int64_t group, d;
    sac_dtype dtype;
    const char *keys; /* row 0 of the key-value head */
    size_t row_bytes;
    bool few; /* keys are read as they lie */
    int64_t key0, n_keys;
} sums_state;

/* Rows [row, row + n) against keys [first, end) of the stretch that some of them see; all see [all_first,
 * all_end). */
typedef struct sums_tile {
    int64_t row, n, first, end, all_first, all_end;
    int64_t row_first[ROWS_MAX], row_end[ROWS_MAX];
} sums_tile;

static void sums_open(sums_state *st, const sums_job *job, int64_t group, int thread) {
    const sac_attention_sums_args *a = job->a;
    size_t element = sac_dtype_row_bytes(a->kv.dtype, 1);
    *st = (sums_state){.job = job, .group = group, .d = a->kv.head_dim, .dtype = a->kv.dtype};
    st->x = sac_sums_scratch(job, thread);
    st->keys = (const char *)a->kv.k + (size_t)(group * a->kv.head_stride) * element;
    st->row_bytes = (size_t)a->kv.row_stride * element;
    st->few = job->rows <= DOT_ROWS_MAX;
    vf scale = vf_set1(a->scale * 1.44269504f);
    for (int64_t r = 0; r < job->rows; r++) {
        int64_t head = group * job->group + r / job->n, probe = job->probe + r % job->n;
        const float *q = sac_mat_row_f32(a->q, sums_probe_row(a, probe)) + head * st->d;
        for (int64_t c = 0; c < job->d_pad; c += VF)
            vf_store(st->x.q + r * job->d_pad + c,
                     c < st->d ? vf_mul(vf_load_part(q + c, st->d - c), scale) : vf_zero());
    }
}

static const char *sums_key(const sums_state *st, int64_t key) {
    return st->keys + (size_t)key * st->row_bytes;
}

static void sums_stretch(sums_state *st, int64_t key0, int64_t end) {
    const void *row[PANEL];
    st->key0 = key0;
    st->n_keys = sac_min_i64(SUMS_KEYS, end - key0);
    for (int64_t j = 0; j < st->n_keys && !st->few; j += PANEL) {
        int64_t width = sac_min_i64(PANEL, st->n_keys - j);
        for (int64_t i = 0; i < width; i++) row[i] = sums_key(st, key0 + j + i);
        SAC_ISA(sac_pack)(st->dtype, row, width, st->d, st->x.k + j * SAC_PACK_ROWS(st->d), PANEL);
    }
}

static void sums_tile_open(sums_tile *tile, const sums_state *st, int64_t row, int64_t n) {
    const sums_job *job = st->job;
    *tile = (sums_tile){.row = row, .n = n, .first = st->n_keys, .all_end = st->n_keys};
    for (int64_t r = 0; r < n; r++) {
        int64_t first, end;
        sums_sees(job->a, job->probe + (row + r) % job->n, &first, &end);
        tile->row_first[r] = first = sac_max_i64(0, sac_min_i64(st->n_keys, first - st->key0));
        tile->row_end[r] = end = sac_max_i64(first, sac_min_i64(st->n_keys, end - st->key0));
        tile->first = sac_min_i64(tile->first, first);
        tile->end = sac_max_i64(tile->end, end);
        tile->all_first = sac_max_i64(tile->all_first, first);
        tile->all_end = sac_min_i64(tile->all_end, end);
    }
    tile->first = tile->first / VF * VF;
}

SAC_INLINE void sums_dot_rows(sac_dtype t, const int rows, const sums_state *st, const sums_tile *tile) {
    const int64_t keys = DOT_KEYS(rows);
    const size_t key_bytes = sac_dtype_row_bytes(t, st->d);
    const float *q = st->x.q + tile->row * st->job->d_pad;
    for (int64_t j = tile->first; j < tile->end; j += keys) {
        const void *k[VF];
        float each[VF];
        for (int64_t i = 0; i < keys; i++) {
            k[i] = sums_key(st, st->key0 + sac_min_i64(j + i, tile->end - 1));
            const char *later = sums_key(st, sac_min_i64(st->key0 + j + i + DOT_AHEAD, st->job->key_end - 1));
            for (size_t b = 0; b < key_bytes; b += 64) _mm_prefetch(later + b, _MM_HINT_T0);
        }
        dot_keys(t, rows, q, st->job->d_pad, st->d, k, each);
        for (int64_t r = 0; r < rows; r++)
            memcpy(st->x.scores + r * SUMS_STRIDE + j, each + r * keys, (size_t)keys * sizeof(float));
    }
}

static void sums_scores(const sums_state *st, const sums_tile *tile) {
    const int64_t d_pad = st->job->d_pad;
    if (st->few) {
        DOT_CASES(st->dtype, tile->n, sums_dot_rows, st, tile)
        return;
    }
    for (int64_t j = tile->first / PANEL * PANEL; j < tile->end; j += PANEL) SAC_ISA(sac_tiles)
    [1][tile->n - 1](st->d, st->x.q + tile->row * d_pad, d_pad, st->x.k + j * SAC_PACK_ROWS(st->d), PANEL,
                     st->x.scores + j, SUMS_STRIDE, NULL);
}

/* Scores j .. j + VF - 1 of row r, `otherwise` where it does not see the key. */
SAC_INLINE vf sums_seen(const sums_tile *tile, vf v, int64_t r, int64_t j, vf otherwise) {
    return vf_keep_lanes(v, tile->row_first[r] - j, tile->row_end[r] - j, otherwise);
}

/* ---------------------------------------------------------------- first pass */

/* Maxima and sums are kept lane by lane: nothing is added across lanes before the end. */
static void sums_denominators(const sums_state *st, const sums_tile *tile) {
    for (int64_t r = 0; r < tile->n; r++) {
        const float *s = st->x.scores + r * SUMS_STRIDE;
        float *max = st->x.max + (tile->row + r) * SUMS_LANES,
              *sum = st->x.sum + (tile->row + r) * SUMS_LANES;
        int64_t j, clear = tile->row_first[r] <= tile->first ? tile->row_end[r] / VF * VF : tile->first;
        vf old = vf_load(max), m = old;
        for (j = tile->first; j < clear; j += VF) m = vf_max(m, vf_load(s + j));
        for (; j < tile->row_end[r]; j += VF) m = vf_max(m, sums_seen(tile, vf_load(s + j), r, j, m));
        vf total = vf_mul(vf_load(sum), vf_exp2(vf_sub(old, m)));
        for (j = tile->first; j < clear; j += VF) total = vf_add(total, vf_exp2(vf_sub(vf_load(s + j), m)));
        for (; j < tile->row_end[r]; j += VF)
            total = vf_add(total, sums_seen(tile, vf_exp2(vf_sub(vf_load(s + j), m)), r, j, vf_zero()));
        vf_store(max, m);
        vf_store(sum, total);
    }
}

static void sums_first_task(void *ctx, int64_t task, int thread) {
    const sums_job *job = ctx;
    sums_state st;
    sums_tile tile;
    int64_t chunk = task / job->n_groups;
    sums_open(&st, job, task % job->n_groups, thread);
    for (int64_t i = 0; i < job->rows * SUMS_LANES; i += VF) {
        vf_store(st.x.max + i, vf_set1(-FLT_MAX)); /* finite, so that differences are no NaN */
        vf_store(st.x.sum + i, vf_zero());
    }
    int64_t first = job->key_first + chunk * job->key_chunk;
    int64_t end = sac_min_i64(first + job->key_chunk, job->key_end);
    for (int64_t key0 = first; key0 < end; key0 += SUMS_KEYS) {
        sums_stretch(&st, key0, end);
        for (int64_t row = 0; row < job->rows; row += ROWS_MAX) {
            sums_tile_open(&tile, &st, row, sac_min_i64(ROWS_MAX, job->rows - row));
            if (tile.first >= tile.end) continue;
            sums_scores(&st, &tile);
            sums_denominators(&st, &tile);
        }
    }
    float *partial = job->partial + (st.group * job->n_chunks + chunk) * 2 * job->stride;
    for (int64_t r = 0; r < job->rows; r++) {
        vf m = vf_load(st.x.max + r * SUMS_LANES);
        partial[r] = vf_max_lane(m);
        vf lanes = vf_exp2(vf_sub(m, vf_set1(partial[r])));
        partial[job->stride + r] = vf_sum(vf_mul(vf_load(st.x.sum + r * SUMS_LANES), lanes));
    }
}

/* The logarithms of a group's rows; those of rows that see nothing are never used. */
static void sums_join_task(void *ctx, int64_t group, int thread) {
    const sums_job *job = ctx;
    const float *partial = job->partial + group * job->n_chunks * 2 * job->stride;
    float *lse = job->lse + group * job->stride, sums[VF];
    (void)thread;
    for (int64_t r = 0; r < job->rows; r += VF) {
        vf max = vf_load(partial + r), sum = vf_zero();
        for (int64_t c = 1; c < job->n_chunks; c++)
            max = vf_max(max, vf_load(partial + 2 * c * job->stride + r));
        for (int64_t c = 0; c < job->n_chunks; c++) {
            const float *part = partial + 2 * c * job->stride + r;
            sum = vf_fma(vf_load(part + job->stride), vf_exp2(vf_sub(vf_load(part), max)), sum);
        }
        vf_store(sums, sum);
        for (int i = 0; i < VF; i++) sums[i] = log2f(sums[i]);
        vf_store(lse + r, vf_add(max, vf_load(sums)));
    }
}

/* ---------------------------------------------------------------- second pass */

/* Adds weights of the tile's rows to the columns; with `keep` leaves them in place of the scores. */
SAC_INLINE void sums_add_columns(const sums_state *st, const sums_tile *tile, const bool keep) {
    const float *lse = st->job->lse + st->group * st->job->stride + tile->row;
    for (int64_t j = tile->first; j < tile->end; j += VF) {
        bool all = tile->all_first <= j && j + VF <= tile->all_end;
        vf total = vf_zero();
        for (int64_t r = 0; r < tile->n; r++) {
            float *s = st->x.scores + r * SUMS_STRIDE + j;
            vf w = vf_exp2(vf_sub(vf_load(s), vf_set1(lse[r])));
            if (!all) w = sums_seen(tile, w, r, j, vf_zero());
            total = vf_add(total, w);
            if (keep) vf_store(s, w);
        }
        vf_store(st->x.columns + j, vf_add(vf_load(st->x.columns + j), total));
    }
}

/* The weights of the tile by distance. The farther key comes first in a row, so distances are counted down
 * from the last probe's to the stretch's first key. */
static void sums_add_distances(const sums_state *st, const sums_tile *tile) {
    const sums_job *job = st->job;
    int64_t last = sums_probe_row(job->a, job->probe + job->n - 1);
    for (int64_t r = 0; r < tile->n; r++) {
        const float *w = st->x.scores + r * SUMS_STRIDE;
        int64_t probe = sums_probe_row(job->a, job->probe + (tile->row + r) % job->n);
        float *to = st->x.distances + last - probe;
        for (int64_t j = tile->first; j < tile->end; j += VF)
            vf_store(to + j, vf_add(vf_load(to + j), vf_load(w + j)));
    }
}

static void sums_close(const sums_state *st, int64_t set) {
    const sums_job *job = st->job;
    const sac_attention_sums_args *a = job->a;
    float *sums = a->sums + set * a->stride + st->key0;
    for (int64_t j = 0; j < st->n_keys; j += VF) {
        int64_t n = st->n_keys - j;
        vf_store_part(sums + j, vf_add(vf_load_part(sums + j, n), vf_load_part(st->x.columns + j, n)), n);
    }
    if (a->n_diagonals == 0) return;
    int64_t last = sums_probe_row(a, job->probe + job->n - 1);
    int64_t span = last - sums_probe_row(a, job->probe), farthest = a->first + last - st->key0;
    float *diagonals = a->diagonals + set * a->n_diagonals;
    int64_t from = sac_max_i64(0, farthest - a->n_diagonals + 1);
    int64_t to = sac_min_i64(span + st->n_keys - 1, farthest);
    for (int64_t i = from; i <= to; i++) diagonals[farthest - i] += st->x.distances[i];
}

/* Rows [first, end) of a group against the stretch, for one set. */
static void sums_add_rows(const sums_state *st, int64_t first, int64_t end, int64_t set) {
    const sums_job *job = st->job;
    bool diagonals = job->a->n_diagonals > 0;
    int64_t height = st->few ? sac_min_i64(DOT_ROWS_MAX, ROWS_MAX) : ROWS_MAX;
    sums_tile tile;
    memset(st->x.columns, 0, SUMS_STRIDE * sizeof(float));
    if (diagonals) memset(st->x.distances, 0, (SUMS_MAX_SPAN + SUMS_STRIDE) * sizeof(float));
    for (int64_t row = first; row < end; row += height) {
        sums_tile_open(&tile, st, row, sac_min_i64(height, end - row));
        if (tile.first >= tile.end) continue;
        sums_scores(st, &tile);
        if (diagonals) {
            sums_add_columns(st, &tile, true);
            sums_add_distances(st, &tile);
        } else {
            sums_add_columns(st, &tile, false);
        }
    }
    sums_close(st, set);
}

static void sums_group(const sums_job *job, int64_t group, int64_t chunk, int thread) {
    sums_state st;
    int n_sums = job->a->n_sums;
    bool by_head = n_sums > 1 && n_sums == job->a->n_heads;
    sums_open(&st, job, group, thread);
    int64_t first = job->key_first + chunk * job->column_chunk;
    int64_t end = sac_min_i64(first + job->column_chunk, job->key_end);
    for (int64_t key0 = first; key0 < end; key0 += SUMS_KEYS) {
        sums_stretch(&st, key0, end);
        if (!by_head) sums_add_rows(&st, 0, job->rows, n_sums == 1 ? 0 : group);
        for (int64_t h = 0; by_head && h < job->group; h++)
            sums_add_rows(&st, h * job->n, (h + 1) * job->n, group * job->group + h);
    }
}

static void sums_second_task(void *ctx, int64_t task, int thread) {
    const sums_job *job = ctx;
    int64_t groups = job->a->n_sums == 1 ? 1 : job->n_groups;
    int64_t chunk = task / groups * job->n_colours + job->colour;
    if (job->a->n_sums > 1)
        sums_group(job, task % groups, chunk, thread);
    else
        for (int64_t group = 0; group < job->n_groups; group++) sums_group(job, group, chunk, thread);
}

sac_status SAC_ISA(sac_attention_sums)(const sac_stream *s, const sac_attention_sums_args *a) {
    sums_job job;
    if (!sac_sums_plan(&job, s, a)) return sac_ref_attention_sums(s, a);
    for (int set = 0; set < a->n_sums; set++) {
        memset(a->sums + set * a->stride, 0, (size_t)a->n_kv * sizeof(float));
        if (a->n_diagonals > 0)
            memset(a->diagonals + set * a->n_diagonals, 0, (size_t)a->n_diagonals * sizeof(float));
    }
    while (sac_sums_next_batch(&job)) {
        sac_sums_run(&job, sums_first_task, job.n_groups * job.n_chunks);
        sac_sums_run(&job, sums_join_task, job.n_groups);
        for (job.colour = 0; job.colour < job.n_colours; job.colour++) {
            int64_t chunks = sac_div_up(job.n_column_chunks - job.colour, job.n_colours);
            sac_sums_run(&job, sums_second_task, chunks * (a->n_sums == 1 ? 1 : job.n_groups));
        }
    }
    return SAC_OK;
}
