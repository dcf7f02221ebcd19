#include "even_tiles.h"
#include "pack_rows.h"
#include "ref.h"

#include <math.h>

sac_status sac_ref_even_factors(const sac_stream *s, const sac_even_factors_args *a) {
    float *scratch = sac_stream_thread_scratch(s, 0);
    assert(sac_even_fits(&a->tiles, &a->kv, a->first));
    for (int64_t i = 0; i < sac_even_n_tasks(&a->tiles); i++) sac_even_find(&a->tiles, &a->kv, a->first, i, scratch);
    return SAC_OK;
}

sac_status sac_ref_pack_even(const sac_stream *s, const sac_pack_even_args *a) {
    float *scratch = sac_stream_thread_scratch(s, 0);
    assert(sac_even_fits(&a->tiles, &a->kv, a->first));
    for (int64_t i = 0; i < sac_even_n_tasks(&a->tiles); i++) sac_even_pack(&a->tiles, &a->kv, a->first, i, scratch);
    return SAC_OK;
}

sac_status sac_ref_unpack_even(const sac_stream *s, const sac_unpack_even_args *a) {
    float *scratch = sac_stream_thread_scratch(s, 0);
    assert(sac_even_fits(&a->tiles, &a->kv, a->first));
    for (int64_t i = 0; i < sac_even_n_tasks(&a->tiles); i++) sac_even_unpack(&a->tiles, &a->kv, a->first, i, scratch);
    return SAC_OK;
}

/* ---------------------------------------------------------------- a step */

/* As sac_even_turn has it. */
static void turn(double *x, int n) {
    for (int half = 1; half < n; half *= 2)
        for (int i = 0; i < n; i++) {
            if (i & half) continue;
            double u = x[i], v = x[i + half];
            x[i] = u + v;
            x[i + half] = u - v;
        }
    for (int i = 0; i < n; i++) x[i] /= sqrt((double)n);
}

/* A head's query, which is the output's place, and the output so far, relative to the largest score. */
typedef struct mix {
    double max, sum, q[SAC_EVEN_MAX], acc[SAC_EVEN_MAX];
} mix;

static void add(mix *m, int d, double scale, const float *key, const float *value) {
    double s = 0;
    for (int c = 0; c < d; c++) s += m->q[c] * (double)key[c];
    s *= scale;
    double max = fmax(s, m->max), rescale = exp(m->max - max), w = exp(s - max);
    m->sum = m->sum * rescale + w;
    for (int c = 0; c < d; c++) m->acc[c] = m->acc[c] * rescale + w * (double)value[c];
    m->max = max;
}

static void add_tiles(mix *m, int n, double scale, const sac_even_tiles *t, int kv_head) {
    float key[SAC_EVEN_MAX], value[SAC_EVEN_MAX];
    for (int64_t i = 0; i < t->n * SAC_EVEN_TILE; i++) {
        const sac_even_tile tile = sac_even_tile_at(t, i / SAC_EVEN_TILE);
        const int64_t row = i % SAC_EVEN_TILE;
        const double factor = (double)sac_f16_to_f32(tile.factor[kv_head * SAC_EVEN_TILE + row]);
        sac_packed_get_key(&tile.keys, kv_head, row, key);
        sac_packed_get_value(&tile.values, kv_head, row, value);
        for (int h = 0; h < n; h++) add(&m[h], t->head_dim, scale * factor, key, value);
    }
}

/* The n query heads of a key-value head. */
static void step_heads(const sac_even_step_args *a, int kv_head, int n, mix *m) {
    const int d = a->tail.head_dim;
    float *out = sac_mat_row_f32(a->q, 0) + (int64_t)kv_head * n * d, key[SAC_EVEN_MAX], value[SAC_EVEN_MAX];
    for (int h = 0; h < n; h++) {
        m[h] = (mix){.max = -INFINITY};
        for (int c = 0; c < d; c++) m[h].q[c] = (double)out[h * d + c];
        turn(m[h].q, d);
    }
    for (int i = 0; i < SAC_EVEN_RUNS; i++) add_tiles(m, n, (double)a->scale, &a->tiles[i], kv_head);
    for (int h = 0; h < n; h++) {
        turn(m[h].acc, d);
        for (int c = 0; c < d; c++) m[h].q[c] = (double)out[h * d + c];
    }
    for (int64_t row = 0; row < a->tail.n_rows; row++) {
        sac_kv_load(&a->tail, a->tail.k, kv_head, row, key);
        sac_kv_load(&a->tail, a->tail.v, kv_head, row, value);
        for (int h = 0; h < n; h++) add(&m[h], d, (double)a->scale, key, value);
    }
    for (int h = 0; h < n; h++) {
        for (int c = 0; c < d; c++) out[h * d + c] = (float)(m[h].acc[c] / m[h].sum);
        if (a->lse) a->lse[kv_head * n + h] = (float)(log(m[h].sum) + m[h].max);
    }
}

sac_status sac_ref_even_step(const sac_stream *s, const sac_even_step_args *a) {
    const int group = a->n_heads / a->tail.n_heads;
    int64_t n = a->tail.n_rows;
    assert(sac_ref_is_mat(a->q) && a->q.rows == 1 && a->q.cols == (int64_t)a->n_heads * a->tail.head_dim);
    assert(a->tail.head_dim <= SAC_EVEN_MAX && a->n_heads % a->tail.n_heads == 0);
    for (int i = 0; i < SAC_EVEN_RUNS; n += a->tiles[i++].n)
        assert(a->tiles[i].n == 0 || (sac_even_is_valid(&a->tiles[i]) && a->tiles[i].n_heads == a->tail.n_heads &&
                                      a->tiles[i].head_dim == a->tail.head_dim));
    assert(n > 0);
    (void)n;
    for (int head = 0; head < a->tail.n_heads; head++) step_heads(a, head, group, sac_stream_thread_scratch(s, 0));
    return SAC_OK;
}
