#include "merger_mlp.h"

#include <string.h>

static sac_status linear(const sac_merger_run *r, sac_mat y, sac_mat x, const sac_weight *w,
                         const float *bias, sac_activation act) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){.y = y, .x = x, .w = *w, .bias = bias, .act = act, .fast = r->fast});
}

static sac_status pool(const sac_merger_run *r, sac_mat y, sac_mat x) {
    return r->ops->pool_tokens(
        r->stream, &(sac_pool_tokens_args){
                       .y = y, .x = x, .n_tiles = r->n, .h = r->grid.h, .w = r->grid.w, .stride = r->pool});
}

static sac_status run(const sac_merger_run *r);

/* The projector of pooled features. */
static sac_status run_pooled(const sac_merger_run *r) {
    const int64_t rows = r->n * (int64_t)(r->grid.h / r->pool) * (r->grid.w / r->pool);
    sac_merger_run fewer = *r;
    fewer.features = (sac_mat){r->raw, rows, r->merger->in, r->merger->in, r->features.dtype};
    fewer.mid.rows = rows;
    fewer.pool = 1;
    SAC_TRY(pool(r, fewer.features, r->features));
    return run(&fewer);
}

/* y += (scale - 1) y, which is rounded once. */
static sac_status scale_rows(const sac_merger_run *r, sac_mat y) {
    const float factor = r->merger->scale - 1;
    if (r->merger->scale == 0 || factor == 0) return SAC_OK;
    return r->ops->scale_add(r->stream, &(sac_scale_add_args){.y = y, .x = y, .factor = factor});
}

static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    if (r->pool > 1 && m->pools_first) return run_pooled(r);
    const sac_merger_mlp_weights *w = m->weights;
    sac_mat raw = {r->raw, r->features.rows, m->out, m->out, r->y.dtype};
    if (r->pool <= 1 && !r->blend.n) raw = r->y;
    SAC_TRY(linear(r, r->mid, r->features, &w->fc1, w->fc1_bias, m->act));
    SAC_TRY(linear(r, raw, r->mid, &w->fc2, w->fc2_bias, SAC_ACT_NONE));
    SAC_TRY(scale_rows(r, raw));
    if (r->blend.n)
        return r->ops->blend_rows(r->stream, &(sac_blend_rows_args){.y = r->y,
                                                                    .x = raw,
                                                                    .source = r->blend.source,
                                                                    .weight = r->blend.weight,
                                                                    .fill = r->blend.newline,
                                                                    .n_tiles = r->n});
    return r->pool > 1 ? pool(r, r->y, raw) : SAC_OK;
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    const sac_shape_symbol all[] = {{"p_in", m->in}, {"p_hidden", m->hidden}};
    memcpy(out, all, sizeof all);
    return (int)SAC_COUNT(all);
}

static sac_status place(sac_merger *m, sac_placer *p) {
    sac_merger_mlp_weights *w = m->weights;
    SAC_TRY(sac_place_weight(p, &w->fc1));
    SAC_TRY(sac_place_weight(p, &w->fc2));
    SAC_TRY(sac_place_vector(p, &w->fc1_bias, m->hidden));
    return sac_place_vector(p, &w->fc2_bias, m->out);
}

static const sac_weight_slot slots[] = {
    {"projector.fc1", false, true, offsetof(sac_merger_mlp_weights, fc1)},
    {"projector.fc1_bias", false, false, offsetof(sac_merger_mlp_weights, fc1_bias)},
    {"projector.fc2", false, true, offsetof(sac_merger_mlp_weights, fc2)},
    {"projector.fc2_bias", false, false, offsetof(sac_merger_mlp_weights, fc2_bias)},
};

const sac_merger_kind sac_merger_mlp = {
    .name = "mlp",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_merger_mlp_weights),
    .symbols = symbols,
    .place = place,
    .run = run,
};
