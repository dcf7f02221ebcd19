#include "cpu.h"
#include "simd.h"

/* The turn of one row: cos and sin with signs and the factor such that one formula turns both ways. */
typedef struct rope_turn {
    const float *cos_sin;
    vf cos_scale, sin_scale;
} rope_turn;

/* Channels [i, i + n) of the first half and their partners, in all heads: the angles are the same. */
static void rope_halves(const sac_rope_args *a, float *x, const rope_turn *t, int64_t i, int64_t n) {
    vf c, s;
    vf_load_pairs(t->cos_sin + 2 * i, n, &c, &s);
    c = vf_mul(c, t->cos_scale);
    s = vf_mul(s, t->sin_scale);
    for (int head = 0; head < a->n_heads; head++) {
        float *first = x + (int64_t)head * a->head_dim + i, *second = first + a->rotation.rot_dim / 2;
        vf u = vf_load_part(first, n), v = vf_load_part(second, n);
        vf_store_part(first, vf_sub(vf_mul(u, c), vf_mul(v, s)), n);
        vf_store_part(second, vf_fma(v, c, vf_mul(u, s)), n);
    }
}

static void rope_interleaved(const sac_rope_args *a, float *x, const rope_turn *t, int64_t i, int64_t n) {
    vf cs = vf_mul(vf_load_part(t->cos_sin + i, n), vf_alternate(t->cos_scale, t->sin_scale));
    for (int head = 0; head < a->n_heads; head++) {
        float *at = x + (int64_t)head * a->head_dim + i;
        vf_store_part(at, vf_rotate_pairs(vf_load_part(at, n), cs), n);
    }
}

static void rope_rows(const void *args, int64_t first, int64_t end) {
    const sac_rope_args *a = args;
    const sac_rotation *rot = &a->rotation;
    float back = a->back ? 1 / rot->factor : 1;
    rope_turn t = {NULL, vf_set1(back), vf_set1(a->back ? -back : 1)};
    int64_t half = rot->rot_dim / 2;
    for (int64_t row = first; row < end; row++) {
        float *x = sac_mat_row_f32(a->x, row);
        t.cos_sin = rot->cos_sin + (int64_t)a->pos[row] * rot->rot_dim;
        if (rot->interleaved)
            for (int64_t i = 0; i < rot->rot_dim; i += VF)
                rope_interleaved(a, x, &t, i, sac_min_i64(VF, rot->rot_dim - i));
        else
            for (int64_t i = 0; i < half; i += VF) rope_halves(a, x, &t, i, sac_min_i64(VF, half - i));
    }
}

static sac_status SAC_ISA(rope)(const sac_stream *s, const sac_rope_args *a) {
    sac_for_rows(s, a->x.rows, a->x.cols * 8, rope_rows, a);
    return SAC_OK;
}
