#include "vit.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokens a tile inside the tower: the class token and the patches. */
static int tile_tokens(const sac_vit_config *c) {
    return sac_vit_grid(c) * sac_vit_grid(c) + 1;
}
static int patch_cols(const sac_vit_config *c) {
    return 3 * c->patch_size * c->patch_size;
}
/* The same in a device's weights. */
static int aligned_patch_cols(const sac_vit_config *c) {
    return (patch_cols(c) + SAC_VIT_ALIGN - 1) / SAC_VIT_ALIGN * SAC_VIT_ALIGN;
}

static size_t floats(int64_t rows, int64_t cols) {
    return (size_t)rows * (size_t)cols * sizeof(float);
}

size_t sac_vit_state_bytes(const sac_vit_config *c, int max_tiles) {
    int64_t rows = (int64_t)max_tiles * tile_tokens(c);
    return sac_arena_block_bytes(floats(rows, aligned_patch_cols(c))) +
           2 * sac_arena_block_bytes(floats(rows, c->hidden)) +
           sac_arena_block_bytes(floats(rows, 3 * (int64_t)c->hidden)) +
           sac_arena_block_bytes(floats(rows, c->intermediate));
}

static bool take(sac_vit_state *s, const sac_vit_config *c, sac_arena *arena) {
    int64_t rows = (int64_t)s->max_tiles * tile_tokens(c);
    size_t n = (size_t)rows;
    s->patches = sac_arena_take(arena, n * sac_dtype_row_bytes(s->dtype, aligned_patch_cols(c)));
    s->h = sac_arena_take(arena, n * sac_dtype_row_bytes(s->dtype, c->hidden));
    s->norm = sac_arena_take(arena, n * sac_dtype_row_bytes(s->dtype, c->hidden));
    s->qkv = sac_arena_take(arena, n * sac_dtype_row_bytes(s->dtype, 3 * (int64_t)c->hidden));
    s->mlp = sac_arena_take(arena, n * sac_dtype_row_bytes(s->dtype, c->intermediate));
    return s->patches && s->h && s->norm && s->qkv && s->mlp;
}

sac_status sac_vit_state_init(sac_vit_state *s, const sac_vit_config *c, int max_tiles, sac_arena *arena,
                              sac_error *err) {
    *s = (sac_vit_state){.max_tiles = max_tiles, .dtype = SAC_DTYPE_F32};
    if (!take(s, c, arena))
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the vision tower");
    return SAC_OK;
}

sac_status sac_vit_state_init_device(sac_vit_state *s, const sac_vit_config *c, int max_tiles, sac_dtype t,
                                     const sac_stream *stream, sac_arena *arena, sac_error *err) {
    int tokens = tile_tokens(c), drop = c->keep_class ? 0 : 1, kept = tokens - drop;
    *s = (sac_vit_state){.max_tiles = max_tiles, .dtype = t};
    take(s, c, arena);
    s->start_of = sac_arena_take(arena, (size_t)max_tiles * (size_t)tokens * sizeof(int32_t));
    s->kept_of = sac_arena_take(arena, (size_t)max_tiles * (size_t)kept * sizeof(int32_t));
    if (!arena->base) return SAC_OK;
    int32_t *map = malloc((size_t)max_tiles * (size_t)tokens * sizeof *map);
    if (!map || !s->kept_of) {
        free(map);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the vision tower");
    }
    const sac_device *d = stream->device;
    for (int i = 0; i < max_tiles * tokens; i++) map[i] = i % tokens;
    /* what the columns of patches that weigh nothing hold must be numbers */
    sac_status st = d->zero(stream, s->patches,
                            (size_t)(max_tiles * tokens) * sac_dtype_row_bytes(t, aligned_patch_cols(c)));
    if (st == SAC_OK)
        st = d->upload(stream, s->start_of, map, (size_t)max_tiles * (size_t)tokens * sizeof *map);
    for (int i = 0; i < max_tiles * kept; i++) map[i] = i / kept * tokens + drop + i % kept;
    if (st == SAC_OK) st = d->upload(stream, s->kept_of, map, (size_t)max_tiles * (size_t)kept * sizeof *map);
    free(map);
    return st == SAC_OK ? SAC_OK : sac_fail(err, st, "%s: a copy failed", d->name);
}

typedef struct run {
    const sac_vit *v;
    sac_vit_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
    int64_t first, n_tiles, rows; /* tiles [first, first + n_tiles) of the state's; rows of them */
} run;

static run run_of(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                  int64_t first, int64_t n_tiles) {
    return (run){v, s, ops, stream, first, n_tiles, n_tiles * tile_tokens(&v->config)};
}

static sac_status linear(const run *r, sac_mat y, sac_mat x, const sac_tensor *w, const float *bias,
                         sac_activation act, bool accumulate) {
    return r->ops->linear(
        r->stream,
        &(sac_linear_args){
            .y = y, .x = x, .w = *w, .bias = bias, .act = act, .accumulate = accumulate, .fast = r->s->fast});
}

static sac_status norm(const run *r, sac_mat y, sac_mat x, const float *w, const float *b) {
    return r->ops->layernorm(r->stream, &(sac_layernorm_args){y, x, w, b, r->v->config.layer_norm_eps});
}

static sac_mat mat(const run *r, void *data, int64_t rows, int64_t cols) {
    return (sac_mat){data, rows, cols, cols, r->s->dtype};
}
/* The rows of this run's tiles, of what has `cols` for each. */
static sac_mat tile_rows(const run *r, void *data, int64_t cols) {
    int64_t first = r->first * tile_tokens(&r->v->config);
    return sac_mat_rows(mat(r, data, first + r->rows, cols), first, r->rows);
}

/* [class; patches] + positions of a tile: on a device the rows begin as what is added. */
static sac_status add_positions(const run *r, sac_mat h, sac_mat patches, int64_t t) {
    int n_patches = tile_tokens(&r->v->config) - 1, hidden = r->v->config.hidden;
    bool begun = r->s->start_of != NULL;
    float *first = sac_mat_row_f32(h, t * (n_patches + 1));
    if (!begun) memcpy(first, r->v->class_embed, (size_t)hidden * sizeof(float));
    SAC_TRY(linear(r, sac_mat_rows(h, t * (n_patches + 1) + 1, n_patches),
                   sac_mat_rows(patches, t * n_patches, n_patches), &r->v->patch_embed, NULL, SAC_ACT_NONE,
                   begun));
    int64_t n = (int64_t)(n_patches + 1) * hidden;
    for (int64_t i = 0; i < n && !begun; i++) first[i] += r->v->pos_embed[i];
    return SAC_OK;
}

/* h = pre_ln([class; patches] + positions) for every tile. */
static sac_status embed(const run *r, const uint8_t *tiles, const float mean[3], const float std[3]) {
    const sac_vit_config *c = &r->v->config;
    int n_patches = tile_tokens(c) - 1, hidden = c->hidden;
    sac_mat patches = mat(r, r->s->patches, r->n_tiles * n_patches, r->v->patch_embed.dim[1]);
    sac_mat h = mat(r, r->s->h, r->rows, hidden), pixels = patches;
    pixels.cols = patch_cols(c);
    SAC_TRY(r->ops->patchify(r->stream, &(sac_patchify_args){.y = pixels,
                                                             .tiles = tiles,
                                                             .n_tiles = r->n_tiles,
                                                             .size = c->image_size,
                                                             .patch = c->patch_size,
                                                             .mean = {mean[0], mean[1], mean[2]},
                                                             .std = {std[0], std[1], std[2]}}));
    if (r->s->start_of)
        SAC_TRY(r->ops->gather_rows(
            r->stream,
            &(sac_gather_rows_args){h, mat(r, (void *)(uintptr_t)r->v->start_rows, n_patches + 1, hidden),
                                    r->s->start_of, NULL}));
    for (int64_t t = 0; t < r->n_tiles; t++) SAC_TRY(add_positions(r, h, patches, t));
    return norm(r, h, h, r->v->pre_ln_w, r->v->pre_ln_b);
}

/* What the class token of each tile looks at, out[tiles][tokens]; it is a tile's first, and sees all. */
static sac_status sum_class_attention(const run *r, sac_mat q, const sac_kv_view *kv, float scale,
                                      float *out) {
    int tokens = tile_tokens(&r->v->config);
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
                                                                         .n_heads = r->v->config.n_heads,
                                                                         .scale = scale}));
    }
    return SAC_OK;
}

/* Norm, then q, k and v: three matrices, or side by side in one. */
static sac_status project_qkv(const run *r, const sac_vit_layer *w, sac_mat qkv[3]) {
    int hidden = r->v->config.hidden;
    sac_mat h = tile_rows(r, r->s->h, hidden), n = tile_rows(r, r->s->norm, hidden);
    SAC_TRY(norm(r, n, h, w->ln1_w, w->ln1_b));
    if (w->qkv.data) {
        sac_mat all = tile_rows(r, r->s->qkv, 3 * (int64_t)hidden);
        for (int i = 0; i < 3; i++) {
            qkv[i] = all;
            qkv[i].cols = hidden;
            qkv[i].data = (uint8_t *)all.data + sac_dtype_row_bytes(all.dtype, (int64_t)i * hidden);
        }
        return linear(r, all, n, &w->qkv, w->qkv_bias, SAC_ACT_NONE, false);
    }
    sac_mat all = tile_rows(r, r->s->qkv, 3 * (int64_t)hidden);
    all.cols = all.stride = hidden;
    for (int i = 0; i < 3; i++) qkv[i] = sac_mat_rows(all, i * r->rows, r->rows);
    SAC_TRY(linear(r, qkv[0], n, &w->q, w->q_bias, SAC_ACT_NONE, false));
    SAC_TRY(linear(r, qkv[1], n, &w->k, w->k_bias, SAC_ACT_NONE, false));
    return linear(r, qkv[2], n, &w->v, w->v_bias, SAC_ACT_NONE, false);
}

static sac_status run_layer(const run *r, const sac_vit_layer *w, float *class_first, float *class_last) {
    const sac_vit_config *c = &r->v->config;
    int hidden = c->hidden, tokens = tile_tokens(c);
    sac_mat h = tile_rows(r, r->s->h, hidden), n = tile_rows(r, r->s->norm, hidden);
    sac_mat qkv[3];
    SAC_TRY(project_qkv(r, w, qkv));
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
                                             .n_q = tokens,
                                             .n_kv = tokens,
                                             .n_batch = r->n_tiles,
                                             .batch_rows = tokens,
                                             .n_heads = c->n_heads,
                                             .scale = scale,
                                         }));
    SAC_TRY(linear(r, h, q, &w->o, w->o_bias, SAC_ACT_NONE, true));
    sac_mat mlp = tile_rows(r, r->s->mlp, c->intermediate);
    SAC_TRY(norm(r, n, h, w->ln2_w, w->ln2_b));
    SAC_TRY(linear(r, mlp, n, &w->fc1, w->fc1_bias, c->act, false));
    return linear(r, h, mlp, &w->fc2, w->fc2_bias, SAC_ACT_NONE, true);
}

/* Copies hidden state `state` into its columns of the features, where it is one of the chosen ones. */
static sac_status keep_features(const run *r, int state, sac_mat features) {
    const sac_vit_config *c = &r->v->config;
    int tokens = tile_tokens(c), drop = c->keep_class ? 0 : 1, kept = tokens - drop;
    sac_mat h = tile_rows(r, r->s->h, c->hidden);
    features = sac_mat_rows(features, r->first * kept, r->n_tiles * kept);
    for (int f = 0; f < c->n_feature_layers; f++) {
        if (c->feature_layer[f] != state) continue;
        sac_mat y = features;
        y.cols = c->hidden;
        y.data = (uint8_t *)features.data + sac_dtype_row_bytes(features.dtype, (int64_t)f * c->hidden);
        if (r->s->kept_of) {
            SAC_TRY(r->ops->gather_rows(r->stream, &(sac_gather_rows_args){y, h, r->s->kept_of, NULL}));
            continue;
        }
        for (int64_t t = 0; t < r->n_tiles; t++)
            for (int i = 0; i < kept; i++)
                memcpy(sac_mat_row_f32(y, t * kept + i), sac_mat_row_f32(h, t * tokens + drop + i),
                       (size_t)c->hidden * sizeof(float));
    }
    return SAC_OK;
}

int sac_vit_depth(const sac_vit_config *c) {
    int last = 0;
    for (int f = 0; f < c->n_feature_layers; f++)
        if (c->feature_layer[f] > last) last = c->feature_layer[f];
    return last;
}

static sac_status run_layers(const run *r, int from, int to, sac_mat features) {
    const sac_vit_state *s = r->s;
    int last = sac_vit_depth(&r->v->config) - 1;
    for (int i = from; i < to; i++) {
        SAC_TRY(
            run_layer(r, &r->v->layers[i], i == 0 ? s->class_first : NULL, i == last ? s->class_last : NULL));
        SAC_TRY(keep_features(r, i + 1, features));
    }
    return SAC_OK;
}

sac_status sac_vit_begin(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                         const uint8_t *tiles, int n_tiles, const float mean[3], const float std[3],
                         int n_layers, sac_mat features) {
    assert(n_tiles > 0 && n_tiles <= s->max_tiles &&
           features.rows == (int64_t)n_tiles * sac_vit_rows(&v->config));
    run r = run_of(v, s, ops, stream, 0, n_tiles);
    SAC_TRY(embed(&r, tiles, mean, std));
    SAC_TRY(keep_features(&r, 0, features));
    return run_layers(&r, 0, n_layers, features);
}

sac_status sac_vit_end(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                       int first_tile, int n_tiles, int n_layers, sac_mat features) {
    assert(first_tile >= 0 && first_tile + n_tiles <= s->max_tiles && !s->class_first);
    run r = run_of(v, s, ops, stream, first_tile, n_tiles);
    return run_layers(&r, n_layers, sac_vit_depth(&v->config), features);
}

sac_status sac_vit_forward(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                           const uint8_t *tiles, int n_tiles, const float mean[3], const float std[3],
                           sac_mat features) {
    return sac_vit_begin(v, s, ops, stream, tiles, n_tiles, mean, std, sac_vit_depth(&v->config), features);
}
