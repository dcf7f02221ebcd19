/* merger_mistral3.c - the projector of Mistral Small 3.1 (transformers' Mistral3MultiModalProjector): an RMS norm, the features
 * of a square side by side made as wide as one, then linear, activation, linear. */
#include "merger.h"

#include <assert.h>

typedef struct weights {
    const float *norm_w;              /* [in] */
    sac_weight join;                  /* [in][joins * in], the square's features row by row */
    sac_weight fc1, fc2;              /* [out][in], [out][out] */
    const float *fc1_bias, *fc2_bias; /* [out]; NULL where absent */
} weights;

static sac_status linear(const sac_merger_run *r, sac_mat y, sac_mat x, const sac_weight *w,
                         const float *bias, sac_activation act) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){.y = y, .x = x, .w = *w, .bias = bias, .act = act, .fast = r->fast});
}

/* r->mid: rows as wide as a feature, and behind all of them rows as wide as y's. */
static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    const weights *w = m->weights;
    sac_mat x = r->features;
    const int64_t n = x.rows / m->joins, joined = (int64_t)m->joins * m->in;
    assert(x.cols == m->in && x.stride == m->in && x.rows % m->joins == 0 && r->pool <= 1 && !r->blend.n &&
           m->hidden == m->in + m->out);
    sac_mat one = {r->mid.data, n, m->in, m->in, r->mid.dtype};
    sac_mat inner = {(uint8_t *)one.data + (size_t)n * sac_dtype_row_bytes(one.dtype, m->in), n, m->out,
                     m->out, one.dtype};
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){x, x, w->norm_w, m->norm_eps}));
    x = (sac_mat){x.data, n, joined, joined, x.dtype};
    SAC_TRY(linear(r, one, x, &w->join, NULL, SAC_ACT_NONE));
    SAC_TRY(linear(r, inner, one, &w->fc1, w->fc1_bias, m->act));
    return linear(r, r->y, inner, &w->fc2, w->fc2_bias, SAC_ACT_NONE);
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    out[0] = (sac_shape_symbol){"p_in", m->in};
    out[1] = (sac_shape_symbol){"joins", m->joins};
    return 2;
}

static sac_status place(sac_merger *m, sac_placer *p) {
    weights *w = m->weights;
    SAC_TRY(sac_place_vector(p, &w->norm_w, m->in));
    SAC_TRY(sac_place_weight(p, &w->join));
    SAC_TRY(sac_place_weight(p, &w->fc1));
    SAC_TRY(sac_place_weight(p, &w->fc2));
    SAC_TRY(sac_place_vector(p, &w->fc1_bias, m->out));
    return sac_place_vector(p, &w->fc2_bias, m->out);
}

#define SLOT(field, matrix)                                                                                  \
    { "projector." #field, false, matrix, offsetof(weights, field) }
static const sac_weight_slot slots[] = {
    SLOT(norm_w, false),   SLOT(join, true), SLOT(fc1, true),
    SLOT(fc1_bias, false), SLOT(fc2, true),  SLOT(fc2_bias, false),
};
#undef SLOT

const sac_merger_kind sac_merger_mistral3 = {
    .name = "mistral3",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(weights),
    .joins_squares = true,
    .reduces = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};
