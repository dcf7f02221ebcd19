/* minicpmv.c - the tower of MiniCPM-V 4.6 (transformers' MiniCPMV4_6VisionModel): SigLIP's layers over pictures of any size, whose
 * rows become a quarter on the way.
 *
 *   h = patches w + b + positions            those of the buckets that a patch's share of either side falls into (idefics3.c)
 *   h += o(attention(ln(h))) within windows of 2 x 2 patches; h = mean of a window + fc2(gelu(fc1(norm(window side by side))))
 *                                            behind layer joins_after, where the model does so
 *   features = final norm (h)
 *
 * A segment holds several pictures (sac_crops), which attend to themselves alone. Patches stand in squares of 2 x 2 row by
 * row, and these, where windows are joined, in squares of 2 x 2 too: whatever is joined stands together. */
#include "clip.h"

#include <string.h>

typedef struct weights {
    sac_weight patch_embed;                /* [hidden][3 * patch * patch] */
    const float *patch_bias, *positions;   /* [hidden], [side^2][hidden] */
    const float *final_w, *final_b;        /* [hidden] */
    sac_clip_layer window;                 /* its attention and ln1 */
    const float *norm_w, *norm_b;          /* [4 * hidden] */
    sac_weight fc1, fc2;                   /* [4 * intermediate][4 * hidden], [hidden][4 * intermediate] */
    const float *fc1_bias, *fc2_bias;
} weights;

/* What follows from the crops at hand. */
typedef struct tables {
    sac_crops crops;
    int n_tiles;
    int n_crops, n_windows; /* of all tiles */
    int32_t *crop, *joined, *window; /* [max_segments + 1] first rows of pictures, before and behind the joining, and of windows */
    int32_t *source; /* [max_rows of a tile][SAC_BLEND_TAPS] rows of the positions, and how much of each */
    float *weight;
} tables;

enum { HOST_TABLES = SAC_CLIP_START, DEVICE_TABLES = SAC_CLIP_KEPT, WINDOW = 4 };

static int64_t max_rows(const sac_tower_state *s) {
    return (int64_t)s->max_segments * WINDOW;
}
static int joined_side(const sac_tower_config *c) { /* patches a side of what stands together */
    return c->joins_after ? 4 : 2;
}

/* ---------------------------------------------------------------- memory */

static bool take_rows(sac_tower_state *s, const sac_tower_config *c, sac_arena *arena) {
    const int64_t cols[] = {[SAC_CLIP_PATCHES] = sac_tower_patch_bytes(c),
                            [SAC_CLIP_H] = c->hidden,
                            [SAC_CLIP_NORM] = c->hidden,
                            [SAC_CLIP_QKV] = 3 * (int64_t)c->hidden,
                            [SAC_CLIP_MLP] = c->intermediate};
    bool ok = true;
    for (size_t i = 0; i < SAC_COUNT(cols); i++) {
        s->at[i] = sac_arena_take(arena, (size_t)max_rows(s) * sac_dtype_row_bytes(s->dtype, cols[i]));
        ok = ok && s->at[i];
    }
    return ok;
}

static size_t tap_bytes(int64_t rows) { /* of either table: both are of four bytes */
    return (size_t)rows * SAC_BLEND_TAPS * sizeof(float);
}

static bool take_taps(const sac_tower_state *s, sac_arena *arena, tables *t) {
    t->source = sac_arena_take(arena, tap_bytes(max_rows(s)));
    t->weight = sac_arena_take(arena, tap_bytes(max_rows(s)));
    return t->source && t->weight;
}

static bool take_host(sac_tower_state *s, sac_arena *host) {
    tables t = {0}, *to = sac_arena_take(host, sizeof t);
    int32_t **const starts[] = {&t.crop, &t.joined, &t.window};
    bool ok = take_taps(s, host, &t);
    for (size_t i = 0; i < SAC_COUNT(starts); i++) {
        *starts[i] = sac_arena_take(host, ((size_t)s->max_segments + 1) * sizeof(int32_t));
        ok = ok && *starts[i];
    }
    s->at[HOST_TABLES] = to;
    if (!to || !ok) return false;
    *to = t;
    return true;
}

/* The device's copy; its struct stays on the host. */
static bool take_device(sac_tower_state *s, sac_arena *arena, sac_arena *host) {
    tables t = {0}, *to = sac_arena_take(host, sizeof t);
    const bool ok = take_taps(s, arena, &t);
    s->at[DEVICE_TABLES] = to;
    if (!to || !ok) return false;
    *to = t;
    return true;
}

static sac_status take(sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream,
                       sac_arena *arena, sac_arena *host, sac_error *err) {
    (void)stream;
    bool ok = take_rows(s, c, arena);
    ok = take_host(s, host) && ok;
    if (s->on_device) ok = take_device(s, arena, host) && ok;
    if (!arena->base || ok) return SAC_OK;
    return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the vision tower");
}

/* ---------------------------------------------------------------- tables */

/* The patch of a picture's grid in row i of it. */
static void place_of(sac_grid g, int side, int i, int *y, int *x) {
    const int area = side * side, block = i / area, square = i % area / WINDOW, inside = i % WINDOW;
    *y = block / (g.w / side) * side + square / (side / 2) * 2 + inside / 2;
    *x = block % (g.w / side) * side + square % (side / 2) * 2 + inside % 2;
}

static void fill_crop(const sac_tower_config *c, sac_grid g, int32_t *source, float *weight) {
    const int side = sac_clip_grid(c);
    for (int i = 0; i < g.h * g.w; i++) {
        int y, x;
        place_of(g, joined_side(c), i, &y, &x);
        const int row = sac_clip_bucket((float)y / (float)g.h, side), column = sac_clip_bucket((float)x / (float)g.w, side);
        for (int k = 0; k < SAC_BLEND_TAPS; k++) {
            source[i * SAC_BLEND_TAPS + k] = row * side + column;
            weight[i * SAC_BLEND_TAPS + k] = k ? 0.0f : 1.0f;
        }
    }
}

static void fill(const sac_tower_config *c, const sac_crops *crops, int n_tiles, tables *t) {
    const int64_t rows = sac_crops_before(crops, crops->n);
    t->n_crops = crops->n * n_tiles;
    t->n_windows = (int)(rows * n_tiles / WINDOW);
    for (int i = 0; i < crops->n; i++) {
        const int64_t at = sac_crops_before(crops, i) * SAC_BLEND_TAPS;
        fill_crop(c, sac_crop(crops, i), t->source + at, t->weight + at);
    }
    for (int i = 0; i <= t->n_crops; i++) {
        t->crop[i] = (int32_t)(i / crops->n * rows + sac_crops_before(crops, i % crops->n));
        t->joined[i] = t->crop[i] / WINDOW;
    }
    for (int i = 0; i <= t->n_windows; i++) t->window[i] = i * WINDOW;
    t->crops = *crops;
    t->n_tiles = n_tiles;
}

static sac_status upload(const sac_tower_run *r, const tables *from, const tables *to) {
    const sac_device *d = r->stream->device;
    const size_t n_bytes = tap_bytes(sac_crops_before(&from->crops, from->crops.n));
    SAC_TRY(d->upload(r->stream, to->source, from->source, n_bytes));
    return d->upload(r->stream, to->weight, from->weight, n_bytes);
}

/* For n tiles of these crops, unless the tables hold them; *where: those that ops read. */
static sac_status prepare(const sac_tower_run *r, const sac_crops *crops, int n, tables *where) {
    const sac_tower_state *s = r->state;
    tables *t = s->at[HOST_TABLES];
    const tables *there = s->on_device ? s->at[DEVICE_TABLES] : t;
    if (t->n_tiles != n || !sac_crops_equal(&t->crops, crops)) {
        fill(&r->tower->config, crops, n, t);
        sac_status st = s->on_device ? upload(r, t, there) : SAC_OK;
        if (st != SAC_OK) t->n_tiles = 0; /* what the device holds is not known */
        SAC_TRY(st);
    }
    *where = *t;
    where->source = there->source;
    where->weight = there->weight;
    return SAC_OK;
}

/* ---------------------------------------------------------------- the way of the rows */

static sac_mat mat(const sac_tower_run *r, int buffer, int64_t rows, int64_t cols) {
    return (sac_mat){r->state->at[buffer], rows, cols, cols, r->state->dtype};
}

static sac_status linear(const sac_tower_run *r, sac_mat y, sac_mat x, const sac_weight *w, const float *bias,
                         sac_activation act, bool accumulate) {
    return r->ops->linear(
        r->stream,
        &(sac_linear_args){
            .y = y, .x = x, .w = *w, .bias = bias, .act = act, .accumulate = accumulate, .fast = r->state->fast});
}

static sac_status norm(const sac_tower_run *r, sac_mat y, sac_mat x, const float *w, const float *b) {
    return r->ops->layernorm(r->stream, &(sac_layernorm_args){y, x, w, b, r->tower->config.norm_eps});
}

static sac_status embed(const sac_tower_run *r, const sac_patch_rows *in, const tables *t, int64_t rows) {
    const sac_tower_config *c = &r->tower->config;
    const weights *w = r->tower->weights;
    const int64_t n_positions = (int64_t)sac_clip_grid(c) * sac_clip_grid(c);
    sac_mat patches = mat(r, SAC_CLIP_PATCHES, rows, sac_tower_patch_bytes(c)), h = mat(r, SAC_CLIP_H, rows, c->hidden);
    SAC_TRY(r->ops->patchify(r->stream, &(sac_patchify_args){.y = patches,
                                                             .pixels = in->pixels,
                                                             .mean = {in->mean[0], in->mean[1], in->mean[2]},
                                                             .std = {in->std[0], in->std[1], in->std[2]}}));
    SAC_TRY(linear(r, h, patches, &w->patch_embed, w->patch_bias, SAC_ACT_NONE, false));
    return r->ops->blend_rows(
        r->stream, &(sac_blend_rows_args){.y = h,
                                          .x = sac_mat_f32((void *)(uintptr_t)w->positions, n_positions, c->hidden),
                                          .source = t->source,
                                          .weight = t->weight,
                                          .n_tiles = t->n_tiles,
                                          .shared = true,
                                          .accumulate = true});
}

/* Each window of rows becomes one. What is joined is normed into the rows of queries and keys, which are free by then. */
static sac_status join_windows(const sac_tower_run *r, const tables *t, int64_t rows) {
    const sac_tower_config *c = &r->tower->config;
    const weights *w = r->tower->weights;
    const int64_t n = rows / WINDOW, joined = (int64_t)WINDOW * c->hidden, inner = (int64_t)WINDOW * c->intermediate;
    sac_mat h = mat(r, SAC_CLIP_H, rows, c->hidden), windows = mat(r, SAC_CLIP_H, n, joined),
            normed = mat(r, SAC_CLIP_QKV, n, joined), mlp = mat(r, SAC_CLIP_MLP, n, inner),
            mean = mat(r, SAC_CLIP_NORM, n, c->hidden), out = mat(r, SAC_CLIP_H, n, c->hidden);
    r->state->segment_start = t->window;
    SAC_TRY(sac_clip_attend(r, &w->window, rows, t->n_windows));
    SAC_TRY(norm(r, normed, windows, w->norm_w, w->norm_b));
    SAC_TRY(r->ops->pool_tokens(r->stream, &(sac_pool_tokens_args){.y = mean, .x = h, .n_tiles = n, .h = 2, .w = 2, .stride = 2}));
    SAC_TRY(linear(r, mlp, normed, &w->fc1, w->fc1_bias, SAC_ACT_GELU_TANH, false));
    SAC_TRY(linear(r, out, mlp, &w->fc2, w->fc2_bias, SAC_ACT_NONE, false));
    return r->ops->scale_add(r->stream, &(sac_scale_add_args){.y = out, .x = mean});
}

static sac_status encode(const sac_tower_run *r, const sac_patch_rows *in, sac_mat features) {
    const sac_tower_config *c = &r->tower->config;
    const weights *w = r->tower->weights;
    const sac_clip_layer *layers = r->tower->layers;
    int64_t rows = in->segment_start[in->n_segments];
    tables t;
    SAC_TRY(prepare(r, &in->crops, in->n_segments, &t));
    SAC_TRY(embed(r, in, &t, rows));
    const int32_t *start = t.crop;
    for (int i = 0; i < c->n_layers; i++) {
        r->state->segment_start = (int32_t *)(uintptr_t)start;
        SAC_TRY(sac_clip_attend(r, &layers[i], rows, t.n_crops));
        SAC_TRY(sac_clip_feed_forward(r, &layers[i], rows));
        if (i + 1 != c->joins_after) continue;
        SAC_TRY(join_windows(r, &t, rows));
        rows /= WINDOW;
        start = t.joined;
    }
    return norm(r, features, mat(r, SAC_CLIP_H, rows, c->hidden), w->final_w, w->final_b);
}

/* ---------------------------------------------------------------- the table */

/* A strip of patches in any shape; what is over whole squares is not counted. */
static sac_status plan(const sac_tower_config *c, int width, int height, int frames, sac_tower_plan *p, sac_error *err) {
    const int side = joined_side(c);
    const int64_t n = (int64_t)(width / c->patch_size) * (height / c->patch_size), squares = n / (side * side);
    if (frames != 1) return sac_fail(err, SAC_UNSUPPORTED, "%d frames together: this vision tower takes single ones", frames);
    const int64_t patches = (squares > 0 ? squares : 1) * side * side;
    *p = (sac_tower_plan){.patches = {1, 2, (int)(patches / 2)},
                          .n_patches = patches,
                          .n_inside = patches,
                          .n_features = c->joins_after ? patches / WINDOW : patches,
                          .n_segments = 1,
                          .most_segments = (int)(patches / WINDOW)};
    return SAC_OK;
}

static sac_status place(sac_tower *t, sac_placer *p) {
    const sac_tower_config *c = &t->config;
    weights *w = t->weights;
    sac_clip_layer *layers = t->layers;
    const int64_t h = c->hidden;
    SAC_TRY(sac_place_rounded(p, &w->patch_embed));
    SAC_TRY(sac_place_vector(p, &w->patch_bias, h));
    SAC_TRY(sac_place_vector(p, &w->positions, (int64_t)sac_clip_grid(c) * sac_clip_grid(c) * h));
    SAC_TRY(sac_place_vector(p, &w->final_w, h));
    SAC_TRY(sac_place_vector(p, &w->final_b, h));
    SAC_TRY(sac_clip_place_layer(p, c, &w->window));
    SAC_TRY(sac_place_vector(p, &w->norm_w, WINDOW * h));
    SAC_TRY(sac_place_vector(p, &w->norm_b, WINDOW * h));
    SAC_TRY(sac_place_weight(p, &w->fc1));
    SAC_TRY(sac_place_weight(p, &w->fc2));
    SAC_TRY(sac_place_vector(p, &w->fc1_bias, WINDOW * (int64_t)c->intermediate));
    SAC_TRY(sac_place_vector(p, &w->fc2_bias, h));
    for (int i = 0; i < c->n_layers; i++) SAC_TRY(sac_clip_place_layer(p, c, &layers[i]));
    return SAC_OK;
}

#define PART(name, field, matrix) { "tower." name, false, matrix, offsetof(weights, field) }
#define WINDOW_PART(field, matrix) PART("window." #field, window.field, matrix)
static const sac_weight_slot slots[] = {
    PART("patch_embed", patch_embed, true),
    PART("patch_bias", patch_bias, false),
    PART("pos_embed", positions, false),
    PART("final_w", final_w, false),
    PART("final_b", final_b, false),
    WINDOW_PART(ln1_w, false),
    WINDOW_PART(ln1_b, false),
    WINDOW_PART(q, true),
    WINDOW_PART(k, true),
    WINDOW_PART(v, true),
    WINDOW_PART(o, true),
    WINDOW_PART(q_bias, false),
    WINDOW_PART(k_bias, false),
    WINDOW_PART(v_bias, false),
    WINDOW_PART(o_bias, false),
    PART("window.norm_w", norm_w, false),
    PART("window.norm_b", norm_b, false),
    PART("window.fc1", fc1, true),
    PART("window.fc1_bias", fc1_bias, false),
    PART("window.fc2", fc2, true),
    PART("window.fc2_bias", fc2_bias, false),
    SAC_CLIP_LAYER_SLOTS,
};

const sac_tower_kind sac_tower_minicpmv = {
    .name = "siglip", /* its tensors are SigLIP's, and the family's own (models/families/minicpmv4_6.yaml) */
    .model_type = "minicpmv4_6_vision",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(weights),
    .layer_bytes = sizeof(sac_clip_layer),
    .plan = plan,
    .symbols = sac_clip_symbols,
    .place = place,
    .take = take,
    .encode = encode,
};
