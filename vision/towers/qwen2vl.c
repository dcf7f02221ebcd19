/* qwen2vl.c - the way of the Qwen2-VL towers from patch rows to features, and their tables. */
#include "qwen2vl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct run {
    const sac_tower *t;
    const sac_tower_config *c;
    sac_tower_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
    const sac_patch_rows *in;
    int64_t rows;
    sac_qwen2vl_tables tables;
} run;

static sac_mat mat(const run *r, int buffer, int64_t cols) {
    return (sac_mat){r->s->at[buffer], r->rows, cols, cols, r->s->dtype};
}

static sac_status linear(const run *r, sac_mat y, sac_mat x, const sac_weight *w, const float *bias,
                         sac_activation act, bool accumulate) {
    return r->ops->linear(
        r->stream,
        &(sac_linear_args){
            .y = y, .x = x, .w = *w, .bias = bias, .act = act, .accumulate = accumulate, .fast = r->s->fast});
}

static sac_status norm(const run *r, sac_mat y, sac_mat x, const float *w, const float *b) {
    if (b) return r->ops->layernorm(r->stream, &(sac_layernorm_args){y, x, w, b, r->c->norm_eps});
    return r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){y, x, w, r->c->norm_eps});
}

static sac_status reorder(const run *r, sac_mat y, sac_mat x, const int32_t *source) {
    return r->ops->gather_rows(r->stream, &(sac_gather_rows_args){y, x, source, NULL});
}

static sac_status add_positions(const run *r, sac_mat x, const float *table) {
    const sac_qwen2vl_tables *t = &r->tables;
    const int64_t table_rows = (int64_t)r->c->table_side * r->c->table_side,
                  n_taps = x.rows / t->n_tiles * SAC_BLEND_TAPS;
    for (int i = 0; i < sac_qwen2vl_blends(r->c); i++)
        SAC_TRY(r->ops->blend_rows(
            r->stream, &(sac_blend_rows_args){.y = x,
                                              .x = sac_mat_f32((void *)(uintptr_t)table, table_rows, x.cols),
                                              .source = t->taps + i * n_taps,
                                              .weight = t->tap_weight + i * n_taps,
                                              .n_tiles = t->n_tiles,
                                              .shared = true,
                                              .accumulate = true}));
    return SAC_OK;
}

/* h = the embedded patches, window by window. */
static sac_status embed(const run *r) {
    const sac_qwen2vl_weights *w = r->t->weights;
    const sac_patch_rows *in = r->in;
    sac_mat patches = mat(r, SAC_QWEN2VL_PATCHES, sac_tower_patch_bytes(r->c));
    sac_mat h = mat(r, SAC_QWEN2VL_H, r->c->hidden), n = mat(r, SAC_QWEN2VL_NORM, r->c->hidden);
    SAC_TRY(r->ops->patchify(r->stream, &(sac_patchify_args){.y = patches,
                                                             .pixels = in->pixels,
                                                             .mean = {in->mean[0], in->mean[1], in->mean[2]},
                                                             .std = {in->std[0], in->std[1], in->std[2]}}));
    SAC_TRY(linear(r, n, patches, &w->patch_embed, w->patch_bias, SAC_ACT_NONE, false));
    if (w->patch_norm) SAC_TRY(norm(r, n, n, w->patch_norm, NULL));
    if (w->positions) SAC_TRY(add_positions(r, n, w->positions));
    if (w->pre_norm) SAC_TRY(norm(r, n, n, w->pre_norm, NULL));
    return reorder(r, h, n, r->tables.order);
}

static bool sees_all(const sac_tower_config *c, int layer) {
    if (c->window_size == 0) return true;
    for (int i = 0; i < c->n_full_layers; i++)
        if (c->full_layer[i] == layer) return true;
    return false;
}

static sac_status rotate(const run *r, sac_mat x) {
    int dim = r->c->hidden / r->c->n_heads;
    return r->ops->rope(r->stream, &(sac_rope_args){.x = x,
                                                    .n_heads = (int)(x.cols / dim),
                                                    .head_dim = dim,
                                                    .rotation = {r->tables.cos_sin, dim, r->c->kind->turns_neighbours, 1},
                                                    .pos = r->tables.rotation});
}

/* Queries, keys and values: side by side in rows, or one matrix behind another. */
static sac_status project(const run *r, const sac_qwen2vl_layer *w, sac_mat n, sac_mat qkv[3]) {
    const int hidden = r->c->hidden;
    const sac_weight *const apart[] = {&w->q, &w->k, &w->v};
    const float *const bias[] = {w->q_bias, w->k_bias, w->v_bias};
    sac_mat all = mat(r, SAC_QWEN2VL_QKV, 3 * (int64_t)hidden);
    const bool is_one = w->qkv.tensor.data != NULL;
    for (int i = 0; i < 3; i++) {
        size_t before = (size_t)i * sac_dtype_row_bytes(all.dtype, hidden) * (size_t)(is_one ? 1 : r->rows);
        qkv[i] =
            (sac_mat){(uint8_t *)all.data + before, r->rows, hidden, is_one ? all.stride : hidden, all.dtype};
        if (!is_one) SAC_TRY(linear(r, qkv[i], n, apart[i], bias[i], SAC_ACT_NONE, false));
    }
    return is_one ? linear(r, all, n, &w->qkv, w->qkv_bias, SAC_ACT_NONE, false) : SAC_OK;
}

/* Each head by itself, of rows that stand alone. */
static sac_status norm_heads(const run *r, sac_mat x, const float *w) {
    const int dim = r->c->hidden / r->c->n_heads;
    if (!w) return SAC_OK;
    assert(x.stride == x.cols);
    const sac_mat heads = {x.data, x.rows * r->c->n_heads, dim, dim, x.dtype};
    return norm(r, heads, heads, w, NULL);
}

static sac_status attend(const run *r, const sac_qwen2vl_layer *w, int layer) {
    const sac_tower_config *c = r->c;
    int hidden = c->hidden, dim = hidden / c->n_heads;
    bool all = sees_all(c, layer);
    sac_mat h = mat(r, SAC_QWEN2VL_H, hidden), n = mat(r, SAC_QWEN2VL_NORM, hidden), qkv[3];
    SAC_TRY(norm(r, n, h, w->norm1_w, w->norm1_b));
    SAC_TRY(project(r, w, n, qkv));
    SAC_TRY(norm_heads(r, qkv[0], w->q_norm));
    SAC_TRY(norm_heads(r, qkv[1], w->k_norm));
    const sac_mat q = qkv[0];
    const bool side_by_side = w->qkv.tensor.data != NULL; /* queries and keys are turned alike */
    SAC_TRY(rotate(r, side_by_side ? (sac_mat){q.data, q.rows, 2 * q.cols, q.stride, q.dtype} : q));
    if (!side_by_side) SAC_TRY(rotate(r, qkv[1]));
    SAC_TRY(r->ops->attention(r->stream, &(sac_attention_args){
                                             .o = q,
                                             .q = q,
                                             .kv = {.k = qkv[1].data,
                                                    .v = qkv[2].data,
                                                    .dtype = r->s->dtype,
                                                    .n_heads = c->n_heads,
                                                    .head_dim = dim,
                                                    .n_rows = r->rows,
                                                    .row_stride = q.stride,
                                                    .head_stride = dim},
                                             .segment_start = all ? r->in->segment_start : r->tables.window,
                                             .n_segments = all ? r->in->n_segments : r->tables.n_windows,
                                             .n_heads = c->n_heads,
                                             .scale = 1.0f / sqrtf((float)dim),
                                         }));
    return linear(r, h, q, &w->o, w->o_bias, SAC_ACT_NONE, true);
}

static sac_status feed_forward(const run *r, const sac_qwen2vl_layer *w) {
    const sac_tower_config *c = r->c;
    sac_mat h = mat(r, SAC_QWEN2VL_H, c->hidden), n = mat(r, SAC_QWEN2VL_NORM, c->hidden);
    sac_mat up = mat(r, SAC_QWEN2VL_UP, c->intermediate), gate = mat(r, SAC_QWEN2VL_GATE, c->intermediate);
    bool gated = w->gate.tensor.data != NULL;
    SAC_TRY(norm(r, n, h, w->norm2_w, w->norm2_b));
    SAC_TRY(linear(r, up, n, &w->up, w->up_bias, gated ? SAC_ACT_NONE : c->act, false));
    if (gated) {
        SAC_TRY(linear(r, gate, n, &w->gate, w->gate_bias, SAC_ACT_NONE, false));
        SAC_TRY(
            r->ops->swiglu(r->stream, &(sac_swiglu_args){.y = up, .gate = gate, .up = up, .act = c->act}));
    }
    return linear(r, h, up, &w->down, w->down_bias, SAC_ACT_NONE, true);
}

/* What the layers that are read have made, one matrix behind another or side by side; state i is that after i layers. */
static sac_status keep_features(const run *r, int state, sac_mat features) {
    const sac_tower_config *c = r->c;
    const sac_qwen2vl_weights *w = r->t->weights;
    const bool apart = c->kind->features_apart;
    for (int k = 0; k < c->n_feature_layers; k++) {
        size_t before = (size_t)k * (size_t)(apart ? r->rows : 1) * sac_dtype_row_bytes(features.dtype, c->hidden);
        sac_mat to = {(uint8_t *)features.data + before, r->rows, c->hidden,
                      apart ? c->hidden : features.stride, features.dtype};
        if (c->feature_layer[k] != state) continue;
        SAC_TRY(reorder(r, to, mat(r, SAC_QWEN2VL_H, c->hidden), r->tables.back));
        if (w->final_norm) SAC_TRY(norm(r, to, to, w->final_norm, w->final_norm_b));
    }
    return SAC_OK;
}

sac_status sac_qwen2vl_encode(const sac_tower_run *call, const sac_patch_rows *in, sac_mat features) {
    const sac_tower *t = call->tower;
    const sac_qwen2vl_layer *layers = t->layers;
    run r = {.t = t,
             .c = &t->config,
             .s = call->state,
             .ops = call->ops,
             .stream = call->stream,
             .in = in,
             .rows = in->segment_start[in->n_segments]};
    assert(r.rows == features.rows && r.rows <= sac_qwen2vl_max_rows(r.s, r.c));
    SAC_TRY(sac_qwen2vl_prepare(call, in->grid, in->n_segments, &r.tables));
    SAC_TRY(embed(&r));
    SAC_TRY(keep_features(&r, 0, features));
    for (int i = 0; i < t->config.n_layers; i++) {
        SAC_TRY(attend(&r, &layers[i], i));
        SAC_TRY(feed_forward(&r, &layers[i]));
        SAC_TRY(keep_features(&r, i + 1, features));
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- weights on a device */

static sac_status place_layer(sac_placer *p, const sac_tower_config *c, sac_qwen2vl_layer *l) {
    sac_weight *matrices[] = {&l->qkv, &l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    const float **vectors[] = {&l->norm1_w, &l->norm1_b, &l->norm2_w, &l->norm2_b, &l->o_bias, &l->down_bias, &l->q_bias, &l->k_bias, &l->v_bias};
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(sac_place_weight(p, matrices[i]));
    for (size_t i = 0; i < SAC_COUNT(vectors); i++) SAC_TRY(sac_place_vector(p, vectors[i], c->hidden));
    SAC_TRY(sac_place_vector(p, &l->qkv_bias, 3 * (int64_t)c->hidden));
    SAC_TRY(sac_place_vector(p, &l->q_norm, c->hidden / c->n_heads));
    SAC_TRY(sac_place_vector(p, &l->k_norm, c->hidden / c->n_heads));
    SAC_TRY(sac_place_vector(p, &l->gate_bias, c->intermediate));
    return sac_place_vector(p, &l->up_bias, c->intermediate);
}

sac_status sac_qwen2vl_place(sac_tower *t, sac_placer *p) {
    sac_qwen2vl_weights *w = t->weights;
    sac_qwen2vl_layer *layers = t->layers;
    SAC_TRY(sac_place_rounded(p, &w->patch_embed));
    SAC_TRY(sac_place_vector(p, &w->patch_bias, t->config.hidden));
    SAC_TRY(sac_place_vector(p, &w->patch_norm, t->config.hidden));
    SAC_TRY(sac_place_vector(p, &w->pre_norm, t->config.hidden));
    SAC_TRY(sac_place_vector(p, &w->final_norm, t->config.hidden));
    SAC_TRY(sac_place_vector(p, &w->final_norm_b, t->config.hidden));
    SAC_TRY(sac_place_vector(p, &w->positions,
                             (int64_t)t->config.table_side * t->config.table_side * t->config.hidden));
    for (int i = 0; i < t->config.n_layers; i++) SAC_TRY(place_layer(p, &t->config, &layers[i]));
    return SAC_OK;
}

/* ---------------------------------------------------------------- the tables */

sac_status sac_qwen2vl_plan(const sac_tower_config *c, int width, int height, int frames, sac_tower_plan *p,
                            sac_error *err) {
    int square = c->patch_size * c->merge_size;
    if (width < square || height < square || width % square || height % square ||
        frames != c->temporal_patch_size)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "%d frames of %d x %d pixels together: this vision tower takes %d, in multiples of %d pixels",
            frames, width, height, c->temporal_patch_size, square);
    sac_grid g = {1, height / c->patch_size, width / c->patch_size};
    int64_t n = sac_grid_cells(g);
    *p = (sac_tower_plan){.patches = g,
                          .n_patches = n,
                          .n_inside = n,
                          .n_features = n,
                          .n_segments = 1,
                          .most_segments = (int)(n / (c->merge_size * c->merge_size))};
    return SAC_OK;
}

int sac_qwen2vl_symbols(const sac_tower_config *c, sac_shape_symbol out[SAC_TOWER_MAX_SYMBOLS]) {
    const sac_shape_symbol all[] = {{"t_hidden", c->hidden},  {"t_intermediate", c->intermediate},
                                    {"channels", 3},          {"frames", c->temporal_patch_size},
                                    {"patch", c->patch_size}, {"table", c->table_side},
                                    {"merge", c->merge_size}, {"t_head_dim", c->hidden / c->n_heads}};
    memcpy(out, all, sizeof all);
    return (int)SAC_COUNT(all);
}

#define PATCH_EMBED SAC_QWEN2VL_PART(patch_embed, true)
#define LAYER       SAC_QWEN2VL_LAYER
static const sac_weight_slot qwen2vl_slots[] = {
    PATCH_EMBED,
    LAYER(norm1_w, false),
    LAYER(norm1_b, false),
    LAYER(qkv, true),
    LAYER(qkv_bias, false),
    LAYER(o, true),
    LAYER(o_bias, false),
    LAYER(norm2_w, false),
    LAYER(norm2_b, false),
    LAYER(up, true),
    LAYER(up_bias, false),
    LAYER(down, true),
    LAYER(down_bias, false),
};
static const sac_weight_slot qwen2_5vl_slots[] = {
    PATCH_EMBED,
    LAYER(norm1_w, false),
    LAYER(qkv, true),
    LAYER(qkv_bias, false),
    LAYER(o, true),
    LAYER(o_bias, false),
    LAYER(norm2_w, false),
    LAYER(gate, true),
    LAYER(gate_bias, false),
    LAYER(up, true),
    LAYER(up_bias, false),
    LAYER(down, true),
    LAYER(down_bias, false),
};
static const sac_weight_slot qwen3vl_slots[] = {
    PATCH_EMBED,
    SAC_QWEN2VL_PART(patch_bias, false),
    SAC_QWEN2VL_PART(positions, false),
    LAYER(norm1_w, false),
    LAYER(norm1_b, false),
    LAYER(qkv, true),
    LAYER(qkv_bias, false),
    LAYER(o, true),
    LAYER(o_bias, false),
    LAYER(norm2_w, false),
    LAYER(norm2_b, false),
    LAYER(up, true),
    LAYER(up_bias, false),
    LAYER(down, true),
    LAYER(down_bias, false),
};
#undef PATCH_EMBED
#undef LAYER

const sac_tower_kind sac_tower_qwen2vl = {.name = "qwen2vl",
                                          .model_type = "qwen2_vl_vision",
                                          .slots = qwen2vl_slots,
                                          .n_slots = (int)SAC_COUNT(qwen2vl_slots),
                                          SAC_QWEN2VL_KIND};
const sac_tower_kind sac_tower_qwen2_5vl = {.name = "qwen2_5vl",
                                            .model_type = "qwen2_5_vl_vision",
                                            .slots = qwen2_5vl_slots,
                                            .n_slots = (int)SAC_COUNT(qwen2_5vl_slots),
                                            SAC_QWEN2VL_KIND};
const sac_tower_kind sac_tower_qwen3vl = {.name = "qwen3vl",
                                          .model_type = "qwen3_vl_vision",
                                          .slots = qwen3vl_slots,
                                          .n_slots = (int)SAC_COUNT(qwen3vl_slots),
                                          SAC_QWEN2VL_KIND};
