/* ref.h - the reference of every op: the contract as plain C, in double, one thread, no tricks. */
#ifndef SAC_REF_H
#define SAC_REF_H

#include "ops.h"

#include <assert.h>

#define X(op) sac_status sac_ref_##op(const sac_stream *s, const sac_##op##_args *a);
SAC_OPS(X)
#undef X

/* Attention with list_block, block by block through fn. */
sac_status sac_ref_attention_blocks(const sac_stream *s, const sac_attention_args *a,
                                    sac_status (*fn)(const sac_stream *s, const sac_attention_args *a));

/* What key_scores leaves in lse, from its scores: its last part, which variants share. */
sac_status sac_ref_key_scores_sums(const sac_stream *s, const sac_key_scores_args *a);

double sac_ref_activation(sac_activation act, double x);

/* What the ops on keys and values ask of their arguments. */
bool sac_ref_is_kv(const sac_kv_view *kv);       /* not in pages */
bool sac_ref_is_kv_pages(const sac_kv_view *kv); /* in pages */
bool sac_ref_is_lists(const sac_row_lists *l, const sac_kv_view *kv, int n_heads);
bool sac_ref_is_any_order(const sac_row_lists *l, const sac_kv_view *kv, int n_heads); /* or not ascending */
bool sac_ref_is_rotation(const sac_rotation *r, int head_dim);

/* The list of a query head. */
static inline int sac_ref_list_of(const sac_row_lists *l, int head, int n_heads) {
    return head / (n_heads / l->n_lists);
}

/* Channels of a head that turn together. */
typedef struct sac_ref_pair {
    int first, second;
} sac_ref_pair;
static inline sac_ref_pair sac_ref_pair_at(const sac_rotation *r, int i) {
    return r->interleaved ? (sac_ref_pair){2 * i, 2 * i + 1} : (sac_ref_pair){i, i + r->rot_dim / 2};
}
static inline void sac_ref_turn(const sac_rotation *r, int64_t pos, int i, bool back, double *u, double *v) {
    const float *cos_sin = r->cos_sin + pos * r->rot_dim + 2 * i;
    double c = (double)cos_sin[0], s = (double)cos_sin[1], x = *u, y = *v;
    if (back) {
        c /= (double)r->factor;
        s /= -(double)r->factor;
    }
    *u = x * c - y * s;
    *v = y * c + x * s;
}

/* One key of one key-value head, turned back by pos positions when `back` is given. */
void sac_ref_load_key(const sac_kv_view *kv, int64_t row, int head, const sac_rotation *back, int64_t pos,
                      double *key);

/* An f32 matrix of at least one column whose rows do not overlap. */
static inline bool sac_ref_is_mat(sac_mat m) {
    return (m.data || m.rows == 0) && m.dtype == SAC_DTYPE_F32 && m.rows >= 0 && m.cols > 0 &&
           m.stride >= m.cols;
}
static inline bool sac_ref_same_shape(sac_mat a, sac_mat b) {
    return a.rows == b.rows && a.cols == b.cols;
}

/* Element i of keys or values in F32, F16 or BF16. */
static inline float sac_ref_load(sac_dtype t, const void *p, int64_t i) {
    if (t == SAC_DTYPE_F32) return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return t == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}
static inline void sac_ref_store(sac_dtype t, void *p, int64_t i, float f) {
    if (t == SAC_DTYPE_F32)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
}

#endif
