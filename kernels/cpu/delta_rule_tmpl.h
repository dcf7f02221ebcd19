/* delta_rule_tmpl.h - a head of a part goes down its rows. Some of the columns of its state, which stay in the first
 * cache, go through a block of rows before the next columns do; what of a row all columns need is made once a block. */
#include "cpu.h"
#include "simd_math.h"

#include <math.h>

enum { DELTA_ROWS = 16, DELTA_VECTORS = 4 };

/* What the columns of a head need of a block of rows. */
typedef struct delta_rows {
    const sac_delta_rule_args *a;
    int head;
    int64_t first, n, dk, dv;
    float q[DELTA_ROWS][SAC_DELTA_KEY_MOST], k[DELTA_ROWS][SAC_DELTA_KEY_MOST]; /* scaled */
    float decay[DELTA_ROWS], beta[DELTA_ROWS];
} delta_rows;

static void delta_scale(float *to, const float *from, int64_t n, float eps, float factor) {
    vf sum = vf_zero();
    for (int64_t i = 0; i < n; i += VF) {
        const vf x = vf_load_part(from + i, n - i);
        sum = vf_fma(x, x, sum);
    }
    const vf scale = vf_set1(factor / sqrtf(vf_sum(sum) + eps));
    for (int64_t i = 0; i < n; i += VF) vf_store_part(to + i, vf_mul(vf_load_part(from + i, n - i), scale), n - i);
}

static void delta_load(delta_rows *r) {
    const sac_delta_rule_args *a = r->a;
    const int64_t from = r->head / (a->n_heads / a->n_key_heads) * r->dk;
    const float rate = expf(a->a_log[r->head]);
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t t = r->first + i;
        const float x = sac_mat_row_f32(a->a, t)[r->head] + a->dt_bias[r->head];
        delta_scale(r->q[i], sac_mat_row_f32(a->q, t) + from, r->dk, a->eps, 1.0f / sqrtf((float)r->dk));
        delta_scale(r->k[i], sac_mat_row_f32(a->k, t) + from, r->dk, a->eps, 1.0f);
        r->decay[i] = expf(-rate * (x > 20.0f ? x : log1pf(expf(x))));
        r->beta[i] = 1.0f / (1.0f + expf(-sac_mat_row_f32(a->b, t)[r->head]));
    }
}

/* sum += S^T k of one channel of the keys; n_v vectors of columns, of which m are there. */
SAC_INLINE void delta_held(vf sum[], const float *s, float k, int n_v, int64_t m) {
    const vf key = vf_set1(k);
    for (int j = 0; j < n_v; j++) sum[j] = vf_fma(vf_load_part(s + j * VF, m - j * VF), key, sum[j]);
}

/* S = decay S + k change; sum += S^T q, of one channel. */
SAC_INLINE void delta_change(vf sum[], float *s, float k, float q, vf decay, const vf change[], int n_v, int64_t m) {
    const vf key = vf_set1(k), query = vf_set1(q);
    for (int j = 0; j < n_v; j++) {
        const vf next = vf_fma(key, change[j], vf_mul(decay, vf_load_part(s + j * VF, m - j * VF)));
        vf_store_part(s + j * VF, next, m - j * VF);
        sum[j] = vf_fma(next, query, sum[j]);
    }
}

/* Row i of the block and n_v vectors of columns from c on. Sums along the keys go in two halves, which do not wait for
 * one another. */
SAC_INLINE void delta_row(const delta_rows *r, float *state, int64_t i, int n_v, int64_t c) {
    const float *k = r->k[i], *q = r->q[i], *v = sac_mat_row_f32(r->a->v, r->first + i) + r->head * r->dv + c;
    float *y = sac_mat_row_f32(r->a->y, r->first + i) + r->head * r->dv + c, *s = state + c;
    const vf decay = vf_set1(r->decay[i]), beta = vf_set1(r->beta[i]);
    const int64_t m = r->dv - c, dv = r->dv;
    vf even[DELTA_VECTORS], odd[DELTA_VECTORS], change[DELTA_VECTORS];
    int64_t d = 0;
    for (int j = 0; j < n_v; j++) even[j] = odd[j] = vf_zero();
    for (; d + 2 <= r->dk; d += 2) {
        delta_held(even, s + d * dv, k[d], n_v, m);
        delta_held(odd, s + (d + 1) * dv, k[d + 1], n_v, m);
    }
    if (d < r->dk) delta_held(even, s + d * dv, k[d], n_v, m);
    for (int j = 0; j < n_v; j++) {
        const vf held = vf_mul(decay, vf_add(even[j], odd[j]));
        change[j] = vf_mul(vf_sub(vf_load_part(v + j * VF, m - j * VF), held), beta);
        even[j] = odd[j] = vf_zero();
    }
    for (d = 0; d + 2 <= r->dk; d += 2) {
        delta_change(even, s + d * dv, k[d], q[d], decay, change, n_v, m);
        delta_change(odd, s + (d + 1) * dv, k[d + 1], q[d + 1], decay, change, n_v, m);
    }
    if (d < r->dk) delta_change(even, s + d * dv, k[d], q[d], decay, change, n_v, m);
    for (int j = 0; j < n_v; j++) vf_store_part(y + j * VF, vf_add(even[j], odd[j]), m - j * VF);
}

static void delta_head(const sac_delta_rule_args *a, const sac_state_rows *part, int64_t first, int head) {
    delta_rows r; /* not zeroed: it is large */
    r.a = a, r.head = head;
    r.dk = sac_delta_key_dim(a), r.dv = sac_delta_value_dim(a);
    const int64_t width = DELTA_VECTORS * VF;
    float *state = part->state + head * r.dk * r.dv;
    for (int64_t i = 0; i < part->n; i += DELTA_ROWS) {
        r.first = first + i;
        r.n = sac_min_i64(DELTA_ROWS, part->n - i);
        delta_load(&r);
        int64_t c = 0;
        for (; c + width <= r.dv; c += width)
            for (int64_t row = 0; row < r.n; row++) delta_row(&r, state, row, DELTA_VECTORS, c);
        for (; c < r.dv; c += VF)
            for (int64_t row = 0; row < r.n; row++) delta_row(&r, state, row, 1, c);
    }
}

/* Row i of the job: one head of one part. */
static void delta_rule_rows(const void *args, int64_t begin, int64_t end) {
    const sac_delta_rule_args *a = args;
    for (int64_t i = begin; i < end; i++) {
        const int p = (int)(i / a->n_heads);
        int64_t first = 0;
        for (int j = 0; j < p; j++) first += a->parts[j].n;
        delta_head(a, &a->parts[p], first, (int)(i % a->n_heads));
    }
}

static sac_status SAC_ISA(delta_rule)(const sac_stream *s, const sac_delta_rule_args *a) {
    if (!a->n_parts) return SAC_OK;
    const int64_t state_bytes = sac_delta_key_dim(a) * sac_delta_value_dim(a) * 4;
    sac_for_rows(s, (int64_t)a->n_parts * a->n_heads, (a->y.rows / a->n_parts + 1) * state_bytes, delta_rule_rows, a);
    return SAC_OK;
}
