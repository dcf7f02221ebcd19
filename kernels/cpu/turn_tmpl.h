/* turn_tmpl.h - one stored key as f32, turned back by `pos` positions (ops.h: sac_rotation). */
#ifndef SAC_TURN_TMPL_H
#define SAC_TURN_TMPL_H

#include "ops.h"
#include "simd.h"

SAC_INLINE void turn_back_halves(sac_dtype t, const void *key, const sac_rotation *r, const float *cos_sin,
                                 float *out) {
    vf scale = vf_set1(1 / r->factor);
    int64_t half = r->rot_dim / 2;
    for (int64_t i = 0; i < half; i += VF) {
        vf c, s, u = vf_load_as_part(t, key, i, half - i), v = vf_load_as_part(t, key, half + i, half - i);
        vf_load_pairs(cos_sin + 2 * i, half - i, &c, &s);
        c = vf_mul(c, scale);
        s = vf_mul(s, scale);
        vf_store_part(out + i, vf_fma(u, c, vf_mul(v, s)), half - i);
        vf_store_part(out + half + i, vf_fnma(u, s, vf_mul(v, c)), half - i);
    }
}

SAC_INLINE void turn_back_interleaved(sac_dtype t, const void *key, const sac_rotation *r,
                                      const float *cos_sin, float *out) {
    vf scale = vf_alternate(vf_set1(1 / r->factor), vf_set1(-1 / r->factor));
    for (int64_t i = 0; i < r->rot_dim; i += VF) {
        vf cs = vf_mul(vf_load_part(cos_sin + i, r->rot_dim - i), scale);
        vf v = vf_load_as_part(t, key, i, r->rot_dim - i);
        vf_store_part(out + i, vf_rotate_pairs(v, cs), r->rot_dim - i);
    }
}

/* out: [d] */
SAC_INLINE void turn_back(sac_dtype t, const void *key, int64_t d, const sac_rotation *r, int64_t pos,
                          float *out) {
    const float *cos_sin = r->cos_sin + pos * r->rot_dim;
    if (r->interleaved)
        turn_back_interleaved(t, key, r, cos_sin, out);
    else
        turn_back_halves(t, key, r, cos_sin, out);
    for (int64_t c = r->rot_dim; c < d; c += VF)
        vf_store_part(out + c, vf_load_as_part(t, key, c, d - c), d - c);
}

#endif
