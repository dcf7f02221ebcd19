#include "merger_smolvlm.h"

#include <assert.h>
#include <string.h>

static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    const sac_merger_smolvlm_weights *w = m->weights;
    sac_mat x = r->features;
    assert(x.cols == m->in && x.stride == m->in && x.rows % m->joins == 0 && r->pool <= 1 && !r->blend.n);
    SAC_TRY(r->ops->layernorm(r->stream, &(sac_layernorm_args){x, x, w->norm_w, w->norm_b, m->norm_eps}));
    x = (sac_mat){x.data, x.rows / m->joins, x.cols * m->joins, x.cols * m->joins, x.dtype};
    return r->ops->linear(r->stream, &(sac_linear_args){.y = r->y, .x = x, .w = w->fc, .fast = r->fast});
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    const sac_shape_symbol all[] = {{"p_in", m->in}, {"p_hidden", m->hidden}};
    memcpy(out, all, sizeof all);
    return (int)SAC_COUNT(all);
}

static sac_status place(sac_merger *m, sac_placer *p) {
    sac_merger_smolvlm_weights *w = m->weights;
    SAC_TRY(sac_place_vector(p, &w->norm_w, m->in));
    SAC_TRY(sac_place_vector(p, &w->norm_b, m->in));
    return sac_place_weight(p, &w->fc);
}

static const sac_weight_slot slots[] = {
    {"projector.norm_w", false, false, offsetof(sac_merger_smolvlm_weights, norm_w)},
    {"projector.norm_b", false, false, offsetof(sac_merger_smolvlm_weights, norm_b)},
    {"projector.fc", false, true, offsetof(sac_merger_smolvlm_weights, fc)},
};

const sac_merger_kind sac_merger_smolvlm = {
    .name = "smolvlm",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_merger_smolvlm_weights),
    .joins_squares = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};
