/* clip.c - the CLIP tower's way from patch rows to features, and its table. */
#include "clip.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct run {
    const sac_tower *t;
    const sac_tower_config *c;
    const sac_clip_weights *w;
    sac_tower_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
    int tokens;            /* of a picture */
    int64_t n_tiles, rows; /* pictures, and rows of them */
} run;

static run run_of(const sac_tower_run *call, int64_t n_tiles) {
    const sac_tower *t = call->tower;
    int tokens = sac_clip_tokens(&t->config);
    return (run){.t = t,
                 .c = &t->config,
                 .w = sac_clip_weights_of(t),
                 .s = call->state,
                 .ops = call->ops,
                 .stream = call->stream,
                 .tokens = tokens,
                 .n_tiles = n_tiles,
                 .rows = n_tiles * tokens};
}

static sac_status linear(const run *r, sac_mat y, sac_mat x, const sac_weight *w, const float *bias,
                         sac_activation act, bool accumulate) {
    return r->ops->linear(
        r->stream,
        &(sac_linear_args){
            .y = y, .x = x, .w = *w, .bias = bias, .act = act, .accumulate = accumulate, .fast = r->s->fast});
}

static sac_status norm(const run *r, sac_mat y, sac_mat x, const float *w, const float *b) {
    if (!b) return r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){y, x, w, r->c->norm_eps});
    return r->ops->layernorm(r->stream, &(sac_layernorm_args){y, x, w, b, r->c->norm_eps});
}

/* h += x w^T + bias, scaled column by column where the layer has a scale; n is scratch then. */
static sac_status add(const run *r, sac_mat h, sac_mat n, sac_mat x, const sac_weight *w, const float *bias,
                      const float *scale) {
    if (!scale) return linear(r, h, x, w, bias, SAC_ACT_NONE, true);
    SAC_TRY(linear(r, n, x, w, bias, SAC_ACT_NONE, false));
    return r->ops->scale_add(r->stream, &(sac_scale_add_args){.y = h, .x = n, .scale = scale});
}

static sac_mat mat(const run *r, void *data, int64_t rows, int64_t cols) {
    return (sac_mat){data, rows, cols, cols, r->s->dtype};
}
/* The rows of this run's pictures in a buffer of `cols` columns. */
static sac_mat tile_rows(const run *r, int buffer, int64_t cols) {
    return mat(r, r->s->at[buffer], r->rows, cols);
}

/* [class; patches] + positions of a picture: on a device the rows begin as what is added. */
static sac_status add_positions(const run *r, sac_mat h, sac_mat patches, int64_t t) {
    int n_patches = sac_clip_patches(r->c), hidden = r->c->hidden, n_class = r->tokens - n_patches;
    bool begun = r->s->on_device;
    float *first = sac_mat_row_f32(h, t * r->tokens);
    if (!begun && n_class) memcpy(first, r->w->class_embed, (size_t)hidden * sizeof(float));
    SAC_TRY(linear(r, sac_mat_rows(h, t * r->tokens + n_class, n_patches),
                   sac_mat_rows(patches, t * n_patches, n_patches), &r->w->patch_embed,
                   begun ? NULL : r->w->patch_bias, SAC_ACT_NONE, begun));
    for (int row = 0; row < r->tokens && !begun; row++) {
        const float *position = r->w->pos_embed + (int64_t)sac_clip_position(r->c, row) * hidden;
        for (int i = 0; i < hidden; i++) first[(int64_t)row * hidden + i] += position[i];
    }
    return SAC_OK;
}

/* h = pre_ln([class; patches] + positions) for every picture. */
static sac_status embed(const run *r, const sac_patch_rows *in) {
    int n_patches = sac_clip_patches(r->c), hidden = r->c->hidden;
    sac_mat patches =
        mat(r, r->s->at[SAC_CLIP_PATCHES], r->n_tiles * n_patches, r->w->patch_embed.tensor.dim[1]);
    sac_mat h = mat(r, r->s->at[SAC_CLIP_H], r->rows, hidden);
    sac_patchify_args rows = {.y = patches,
                              .pixels = in->pixels,
                              .mean = {in->mean[0], in->mean[1], in->mean[2]},
                              .std = {in->std[0], in->std[1], in->std[2]}};
    rows.y.cols = sac_tower_patch_bytes(r->c);
    SAC_TRY(r->ops->patchify(r->stream, &rows));
    if (r->s->on_device) {
        sac_mat start = mat(r, (void *)(uintptr_t)r->w->start_rows, r->tokens, hidden);
        SAC_TRY(r->ops->gather_rows(r->stream,
                                    &(sac_gather_rows_args){h, start, r->s->at[SAC_CLIP_START], NULL}));
    }
    for (int64_t t = 0; t < r->n_tiles; t++) SAC_TRY(add_positions(r, h, patches, t));
    return r->w->pre_ln_w ? norm(r, h, h, r->w->pre_ln_w, r->w->pre_ln_b) : SAC_OK;
}

/* What the class token of each picture looks at, out[pictures][tokens]; it is the first, and sees all. */
static sac_status sum_class_attention(const run *r, sac_mat q, const sac_kv_view *kv, float scale,
                                      float *out) {
    int tokens = r->tokens;
    for (int64_t t = 0; out && t < r->n_tiles; t++) {
        sac_kv_view tile = *kv;
        tile.k = (float *)kv->k + t * tokens * kv->row_stride;
        tile.v = (float *)kv->v + t * tokens * kv->row_stride;
        tile.n_rows = tokens;
        SAC_TRY(
            r->ops->attention_sums(r->stream, &(sac_attention_sums_args){.sums = out + t * tokens,
                                                                         .stride = tokens,
                                                                         .n_sums = 1,
                                                                         .q = sac_mat_rows(q, t * tokens, 1),
                                                                         .first = tokens - 1,
                                                                         .kv = tile,
                                                                         .n_kv = tokens,
                                                                         .n_heads = r->c->n_heads,
                                                                         .scale = scale}));
    }
    return SAC_OK;
}

/* Norm, then q, k and v: three matrices, or side by side in one. */
static sac_status project_qkv(const run *r, const sac_clip_layer *w, sac_mat qkv[3]) {
    int hidden = r->c->hidden;
    sac_mat h = tile_rows(r, SAC_CLIP_H, hidden), n = tile_rows(r, SAC_CLIP_NORM, hidden);
    SAC_TRY(norm(r, n, h, w->ln1_w, w->ln1_b));
    if (w->qkv.tensor.data) {
        sac_mat all = tile_rows(r, SAC_CLIP_QKV, 3 * (int64_t)hidden);
        for (int i = 0; i < 3; i++) {
            qkv[i] = all;
            qkv[i].cols = hidden;
            qkv[i].data = (uint8_t *)all.data + sac_dtype_row_bytes(all.dtype, (int64_t)i * hidden);
        }
        return linear(r, all, n, &w->qkv, w->qkv_bias, SAC_ACT_NONE, false);
    }
    sac_mat all = tile_rows(r, SAC_CLIP_QKV, 3 * (int64_t)hidden);
    all.cols = all.stride = hidden;
    for (int i = 0; i < 3; i++) qkv[i] = sac_mat_rows(all, i * r->rows, r->rows);
    SAC_TRY(linear(r, qkv[0], n, &w->q, w->q_bias, SAC_ACT_NONE, false));
    SAC_TRY(linear(r, qkv[1], n, &w->k, w->k_bias, SAC_ACT_NONE, false));
    return linear(r, qkv[2], n, &w->v, w->v_bias, SAC_ACT_NONE, false);
}

/* InternVLVisionRMSNorm's own epsilon, whatever the configuration says of the other norms. */
#define QK_NORM_EPS 1e-6f

static sac_status norm_qk(const run *r, const sac_clip_layer *w, sac_mat qkv[3]) {
    const float *const weight[] = {w->q_norm, w->k_norm};
    for (int i = 0; i < 2; i++)
        if (weight[i])
            SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){qkv[i], qkv[i], weight[i], QK_NORM_EPS}));
    return SAC_OK;
}

static sac_status attend(const run *r, const sac_clip_layer *w, float *class_first, float *class_last) {
    const sac_tower_config *c = r->c;
    int hidden = c->hidden;
    sac_mat h = tile_rows(r, SAC_CLIP_H, hidden), n = tile_rows(r, SAC_CLIP_NORM, hidden);
    sac_mat qkv[3];
    SAC_TRY(project_qkv(r, w, qkv));
    SAC_TRY(norm_qk(r, w, qkv));
    sac_mat q = qkv[0];
    float scale = 1.0f / sqrtf((float)hidden / (float)c->n_heads);
    sac_kv_view kv = {.k = qkv[1].data,
                      .v = qkv[2].data,
                      .dtype = r->s->dtype,
                      .n_heads = c->n_heads,
                      .head_dim = hidden / c->n_heads,
                      .n_rows = r->rows,
                      .row_stride = q.stride,
                      .head_stride = hidden / c->n_heads};
    SAC_TRY(sum_class_attention(r, q, &kv, scale, class_first));
    SAC_TRY(sum_class_attention(r, q, &kv, scale, class_last));
    SAC_TRY(r->ops->attention(r->stream, &(sac_attention_args){
                                             .o = q,
                                             .q = q,
                                             .kv = kv,
                                             .segment_start = r->s->segment_start,
                                             .n_segments = r->n_tiles,
                                             .n_heads = c->n_heads,
                                             .scale = scale,
                                         }));
    return add(r, h, n, q, &w->o, w->o_bias, w->scale1);
}

static sac_status feed_forward(const run *r, const sac_clip_layer *w) {
    const sac_tower_config *c = r->c;
    sac_mat h = tile_rows(r, SAC_CLIP_H, c->hidden), n = tile_rows(r, SAC_CLIP_NORM, c->hidden);
    sac_mat mlp = tile_rows(r, SAC_CLIP_MLP, c->intermediate);
    SAC_TRY(norm(r, n, h, w->ln2_w, w->ln2_b));
    SAC_TRY(linear(r, mlp, n, &w->fc1, w->fc1_bias, c->act, false));
    return add(r, h, n, mlp, &w->fc2, w->fc2_bias, w->scale2);
}

static sac_status run_layer(const run *r, const sac_clip_layer *w, float *class_first, float *class_last) {
    SAC_TRY(attend(r, w, class_first, class_last));
    return feed_forward(r, w);
}

static run run_of_rows(const sac_tower_run *call, int64_t rows, int n_segments) {
    run r = run_of(call, n_segments);
    r.rows = rows;
    return r;
}

sac_status sac_clip_attend(const sac_tower_run *call, const sac_clip_layer *w, int64_t rows, int n_segments) {
    const run r = run_of_rows(call, rows, n_segments);
    return attend(&r, w, NULL, NULL);
}

sac_status sac_clip_feed_forward(const sac_tower_run *call, const sac_clip_layer *w, int64_t rows) {
    const run r = run_of_rows(call, rows, 0);
    return feed_forward(&r, w);
}

/* Copies hidden state `state` into its columns of the features, where it is one of the chosen ones. */
static sac_status keep_features(const run *r, int state, sac_mat features) {
    const sac_tower_config *c = r->c;
    int tokens = r->tokens, kept = sac_clip_kept(c), drop = tokens - kept;
    sac_mat h = tile_rows(r, SAC_CLIP_H, c->hidden);
    for (int f = 0; f < c->n_feature_layers; f++) {
        if (c->feature_layer[f] != state) continue;
        sac_mat y = features;
        y.cols = c->hidden;
        y.data = (uint8_t *)features.data + sac_dtype_row_bytes(features.dtype, (int64_t)f * c->hidden);
        if (r->s->on_device) {
            SAC_TRY(
                r->ops->gather_rows(r->stream, &(sac_gather_rows_args){y, h, r->s->at[SAC_CLIP_KEPT], NULL}));
            continue;
        }
        for (int64_t t = 0; t < r->n_tiles; t++)
            for (int i = 0; i < kept; i++)
                memcpy(sac_mat_row_f32(y, t * kept + i), sac_mat_row_f32(h, t * tokens + drop + i),
                       (size_t)c->hidden * sizeof(float));
    }
    return SAC_OK;
}

/* Layers that run: those after the last feature are not needed. */
static int depth(const sac_tower_config *c) {
    int last = 0;
    for (int f = 0; f < c->n_feature_layers; f++)
        if (c->feature_layer[f] > last) last = c->feature_layer[f];
    return last;
}

static sac_status run_layers(const run *r, sac_mat features) {
    int last = depth(r->c) - 1;
    for (int i = 0; i <= last; i++) {
        SAC_TRY(run_layer(r, sac_clip_layer_of(r->t, i), i == 0 ? r->s->class_first : NULL,
                          i == last ? r->s->class_last : NULL));
        if (i == last && r->w->final_w) {
            sac_mat h = tile_rows(r, SAC_CLIP_H, r->c->hidden);
            SAC_TRY(r->ops->layernorm(
                r->stream, &(sac_layernorm_args){h, h, r->w->final_w, r->w->final_b, r->c->norm_eps}));
        }
        SAC_TRY(keep_features(r, i + 1, features));
    }
    return SAC_OK;
}

/* It looks at whole pictures: every segment is one. */
static inline bool are_pictures(const sac_tower_config *c, const sac_patch_rows *in) {
    int n_patches = sac_clip_patches(c);
    for (int i = 0; i <= in->n_segments; i++)
        if (in->segment_start[i] != i * n_patches) return false;
    return true;
}

sac_status sac_clip_encode(const sac_tower_run *call, const sac_patch_rows *in, sac_mat features) {
    run r = run_of(call, in->n_segments);
    assert(in->n_segments > 0 && in->n_segments <= r.s->max_segments && are_pictures(r.c, in));
    assert(features.rows == (int64_t)in->n_segments * sac_clip_kept(r.c));
    SAC_TRY(embed(&r, in));
    SAC_TRY(keep_features(&r, 0, features));
    return run_layers(&r, features);
}

/* ---------------------------------------------------------------- the table */

sac_status sac_clip_plan(const sac_tower_config *c, int width, int height, int frames, sac_tower_plan *p,
                         sac_error *err) {
    if (width != c->image_size || height != c->image_size || frames != 1)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "%d frames of %d x %d pixels together: this vision tower takes single pictures of %d x %d",
            frames, width, height, c->image_size, c->image_size);
    int grid = sac_clip_grid(c);
    *p = (sac_tower_plan){.patches = {1, grid, grid},
                          .n_patches = (int64_t)grid * grid,
                          .n_inside = sac_clip_tokens(c),
                          .n_features = sac_clip_kept(c),
                          .n_segments = 1,
                          .most_segments = 1};
    return SAC_OK;
}

int sac_clip_symbols(const sac_tower_config *c, sac_shape_symbol out[SAC_TOWER_MAX_SYMBOLS]) {
    const sac_shape_symbol all[] = {{"t_hidden", c->hidden},
                                    {"t_intermediate", c->intermediate},
                                    {"channels", 3},
                                    {"patch", c->patch_size},
                                    {"grid", sac_clip_grid(c)}};
    memcpy(out, all, sizeof all);
    return (int)SAC_COUNT(all);
}

static const sac_weight_slot slots[] = {
    SAC_CLIP_PART(patch_embed, true), SAC_CLIP_PART(class_embed, false), SAC_CLIP_PART(pos_embed, false),
    SAC_CLIP_PART(pre_ln_w, false),   SAC_CLIP_PART(pre_ln_b, false),    SAC_CLIP_LAYER_SLOTS,
};

const sac_tower_kind sac_tower_clip = {
    .name = "clip",
    .model_type = "clip_vision_model",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_clip_weights),
    .layer_bytes = sizeof(sac_clip_layer),
    .has_class = true,
    .plan = sac_clip_plan,
    .symbols = sac_clip_symbols,
    .place = sac_clip_place,
    .take = sac_clip_take,
    .encode = sac_clip_encode,
};
