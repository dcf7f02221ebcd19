#include "merger_patch.h"

#include <assert.h>
#include <string.h>

/* Those that make one row of y, as one row. */
static sac_mat join(const sac_merger *m, sac_mat x) {
    return (sac_mat){x.data, x.rows / m->joins, x.cols * m->joins, x.cols * m->joins, x.dtype};
}

static sac_status linear(const sac_merger_run *r, sac_mat y, sac_mat x, const sac_weight *w,
                         const float *bias, sac_activation act) {
    return r->ops->linear(
        r->stream, &(sac_linear_args){.y = y, .x = x, .w = *w, .bias = bias, .act = act, .fast = r->fast});
}

/* x, which is scratch afterwards, to y; the norm is that of a feature or, where it is as wide, of joined ones. */
static sac_status merge(const sac_merger_run *r, const sac_merger_patch_weights *w, sac_mat x, sac_mat y) {
    const sac_merger *m = r->merger;
    SAC_TRY(w->norm_b
                ? r->ops->layernorm(r->stream, &(sac_layernorm_args){x, x, w->norm_w, w->norm_b, m->norm_eps})
                : r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){x, x, w->norm_w, m->norm_eps}));
    if (x.cols < m->hidden) x = join(m, x);
    SAC_TRY(linear(r, r->mid, x, &w->fc1, w->fc1_bias, m->act));
    return linear(r, y, r->mid, &w->fc2, w->fc2_bias, SAC_ACT_NONE);
}

/* The features of layer i, and where its rows go. */
static sac_mat layer_features(const sac_merger_run *r, int i) {
    sac_mat x = r->features;
    x.data = (uint8_t *)x.data + (size_t)i * (size_t)x.rows * sac_dtype_row_bytes(x.dtype, x.cols);
    return x;
}
static sac_mat layer_rows(const sac_merger_run *r, int i) {
    sac_mat y = r->deep;
    y.cols = r->merger->out;
    y.data = (uint8_t *)y.data + sac_dtype_row_bytes(y.dtype, (int64_t)i * y.cols);
    return y;
}

static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    const sac_merger_patch_weights *deep = m->layers;
    assert(r->features.cols == m->in && r->features.stride == m->in && r->features.rows % m->joins == 0 &&
           r->pool <= 1 && !r->blend.n);
    SAC_TRY(merge(r, m->weights, m->kind == &sac_merger_joined ? join(m, r->features) : r->features, r->y));
    for (int i = 0; i < m->n_deep; i++)
        SAC_TRY(merge(r, &deep[i], join(m, layer_features(r, i + 1)), layer_rows(r, i)));
    return SAC_OK;
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    const sac_shape_symbol all[] = {{"p_in", m->in}, {"p_hidden", m->hidden}};
    memcpy(out, all, sizeof all);
    return (int)SAC_COUNT(all);
}

static sac_status place_one(const sac_merger *m, sac_placer *p, sac_merger_patch_weights *w, int norm) {
    SAC_TRY(sac_place_vector(p, &w->norm_w, norm));
    SAC_TRY(sac_place_vector(p, &w->norm_b, norm));
    SAC_TRY(sac_place_weight(p, &w->fc1));
    SAC_TRY(sac_place_weight(p, &w->fc2));
    SAC_TRY(sac_place_vector(p, &w->fc1_bias, m->hidden));
    return sac_place_vector(p, &w->fc2_bias, m->out);
}

static sac_status place(sac_merger *m, sac_placer *p) {
    sac_merger_patch_weights *deep = m->layers;
    SAC_TRY(place_one(m, p, m->weights, m->kind == &sac_merger_joined ? m->hidden : m->in));
    for (int i = 0; i < m->n_deep; i++) SAC_TRY(place_one(m, p, &deep[i], m->hidden));
    return SAC_OK;
}

#define SLOT(field, matrix)                                                                                  \
    { "projector." #field, false, matrix, offsetof(sac_merger_patch_weights, field) }
static const sac_weight_slot slots[] = {
    SLOT(norm_w, false),   SLOT(norm_b, false), SLOT(fc1, true),
    SLOT(fc1_bias, false), SLOT(fc2, true),     SLOT(fc2_bias, false),
};
#undef SLOT
#define SLOT(field, deep, matrix)                                                                            \
    {                                                                                                        \
        deep ? "projector.deep." #field : "projector." #field, deep, matrix,                                 \
            offsetof(sac_merger_patch_weights, field)                                                        \
    }
#define SLOTS(deep)                                                                                          \
    SLOT(norm_w, deep, false), SLOT(norm_b, deep, false), SLOT(fc1, deep, true),                             \
        SLOT(fc1_bias, deep, false), SLOT(fc2, deep, true), SLOT(fc2_bias, deep, false)
static const sac_weight_slot deepstack_slots[] = {SLOTS(false), SLOTS(true)};
#undef SLOTS
#undef SLOT

const sac_merger_kind sac_merger_patch = {
    .name = "patch",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_merger_patch_weights),
    .joins_squares = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};

/* MiniCPM-V's (transformers' MiniCPMV4_6DownsampleMLP): the norm is that of joined features. */
const sac_merger_kind sac_merger_joined = {
    .name = "joined",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_merger_patch_weights),
    .joins_squares = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};

/* Qwen3-VL's (arXiv:2511.21631): features of n_deep more layers, each by a merger of its own that joins before the
 * norm. */
const sac_merger_kind sac_merger_deepstack = {
    .name = "deepstack",
    .slots = deepstack_slots,
    .n_slots = (int)SAC_COUNT(deepstack_slots),
    .weights_bytes = sizeof(sac_merger_patch_weights),
    .layer_bytes = sizeof(sac_merger_patch_weights),
    .joins_squares = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};
