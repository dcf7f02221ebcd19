#include "cpu.h"
#include "simd.h"

/* Channels [i, i + n) of the first half and their partners, in all heads: the angles are the same. */
static void rope_halves(const sac_rope_args *a, float *x, const float *cos_sin, int64_t i, int64_t n) {
    vf c, s;
    vf_load_pairs(cos_sin + 2 * i, n, &c, &s);
    for (int head = 0; head < a->n_heads; head++) {
        float *first = x + (int64_t)head * a->head_dim + i, *second = first + a->rot_dim / 2;
        vf u = vf_load_part(first, n), v = vf_load_part(second, n);
        vf_store_part(first, vf_sub(vf_mul(u, c), vf_mul(v, s)), n);
        vf_store_part(second, vf_fma(v, c, vf_mul(u, s)), n);
    }
}

static void rope_interleaved(const sac_rope_args *a, float *x, const float *cos_sin, int64_t i, int64_t n) {
    vf cs = vf_load_part(cos_sin + i, n);
    for (int head = 0; head < a->n_heads; head++) {
        float *at = x + (int64_t)head * a->head_dim + i;
        vf_store_part(at, vf_rotate_pairs(vf_load_part(at, n), cs), n);
    }
}

static void rope_rows(const void *args, int64_t first, int64_t end) {
    const sac_rope_args *a = args;
    int64_t half = a->rot_dim / 2;
    for (int64_t row = first; row < end; row++) {
        float *x = sac_mat_row_f32(a->x, row);
        const float *cos_sin = a->cos_sin + (int64_t)a->pos[row] * a->rot_dim;
        if (a->interleaved)
            for (int64_t i = 0; i < a->rot_dim; i += VF)
                rope_interleaved(a, x, cos_sin, i, sac_min_i64(VF, a->rot_dim - i));
        else
            for (int64_t i = 0; i < half; i += VF) rope_halves(a, x, cos_sin, i, sac_min_i64(VF, half - i));
    }
}

static sac_status SAC_ISA(rope)(const sac_stream *s, const sac_rope_args *a) {
    sac_for_rows(s, a->x.rows, a->x.cols * 8, rope_rows, a);
    return SAC_OK;
}
