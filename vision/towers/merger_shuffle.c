#include "merger_shuffle.h"

#include <assert.h>
#include <string.h>

#define NORM_EPS 1e-5f /* torch's, which no configuration changes */

static sac_status linear(const sac_merger_run *r, sac_mat y, sac_mat x, const sac_weight *w,
                         const float *bias, sac_activation act) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){.y = y, .x = x, .w = *w, .bias = bias, .act = act, .fast = r->fast});
}

static int64_t joined_cols(const sac_merger *m) {
    return (int64_t)m->joins * m->in;
}

static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    const sac_merger_shuffle_weights *w = m->weights;
    const int64_t cols = joined_cols(m);
    assert(r->features.stride == m->in && r->features.rows % m->joins == 0 && r->pool <= 1 && !r->blend.n);
    sac_mat x = {r->features.data, r->features.rows / m->joins, cols, cols, r->features.dtype};
    SAC_TRY(r->ops->layernorm(r->stream, &(sac_layernorm_args){x, x, w->norm_w, w->norm_b, NORM_EPS}));
    SAC_TRY(linear(r, r->mid, x, &w->fc1, w->fc1_bias, m->act));
    return linear(r, r->y, r->mid, &w->fc2, w->fc2_bias, SAC_ACT_NONE);
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    const sac_shape_symbol all[] = {{"p_in", joined_cols(m)}, {"p_hidden", m->hidden}};
    memcpy(out, all, sizeof all);
    return (int)SAC_COUNT(all);
}

static sac_status place(sac_merger *m, sac_placer *p) {
    sac_merger_shuffle_weights *w = m->weights;
    SAC_TRY(sac_place_vector(p, &w->norm_w, joined_cols(m)));
    SAC_TRY(sac_place_vector(p, &w->norm_b, joined_cols(m)));
    SAC_TRY(sac_place_weight(p, &w->fc1));
    SAC_TRY(sac_place_weight(p, &w->fc2));
    SAC_TRY(sac_place_vector(p, &w->fc1_bias, m->hidden));
    return sac_place_vector(p, &w->fc2_bias, m->out);
}

#define SLOT(field, matrix)                                                                                  \
    { "projector." #field, false, matrix, offsetof(sac_merger_shuffle_weights, field) }
static const sac_weight_slot slots[] = {
    SLOT(norm_w, false),   SLOT(norm_b, false), SLOT(fc1, true),
    SLOT(fc1_bias, false), SLOT(fc2, true),     SLOT(fc2_bias, false),
};
#undef SLOT

const sac_merger_kind sac_merger_shuffle = {
    .name = "shuffle",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_merger_shuffle_weights),
    .joins_squares = true,
    .narrows = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};
