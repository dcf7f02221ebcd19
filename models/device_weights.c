#include "device_weights.h"

#include <stdlib.h>
#include <string.h>

/* Visits every place that points to weights of the decoder, with the bytes behind it. Without an arena's base
 * the visit only counts. */
typedef struct visit {
    sac_arena arena; /* over the device's block, or measuring */
    const sac_stream *stream;
    sac_dtype dtype;
    sac_error *err;
} visit;

static sac_status move(visit *v, const void **at, size_t n_bytes) {
    if (!*at) return SAC_OK;
    void *to = sac_arena_take(&v->arena, n_bytes);
    if (!v->arena.base) return SAC_OK;
    if (!to) return sac_fail(v->err, SAC_INTERNAL, "the device's block is too small for the weights");
    sac_status st = v->stream->device->upload(v->stream, to, *at, n_bytes);
    if (st != SAC_OK) return sac_fail(v->err, st, "weights cannot be copied to %s", v->stream->device->name);
    *at = to;
    return SAC_OK;
}

static sac_status move_matrix(visit *v, sac_tensor *t) {
    if (!t->data) return SAC_OK;
    if (t->dtype != v->dtype)
        return sac_fail(
            v->err, SAC_UNSUPPORTED,
            "weights in %s and %s: on a device all must be of one type, f32, f16 or bf16; run on the CPU",
            sac_dtype_name(v->dtype), sac_dtype_name(t->dtype));
    return move(v, &t->data, (size_t)t->dim[0] * sac_dtype_row_bytes(t->dtype, t->dim[1]));
}

static sac_status move_vector(visit *v, const float **at, int64_t n) {
    const void *p = *at;
    SAC_TRY(move(v, &p, (size_t)n * sizeof(float)));
    *at = p;
    return SAC_OK;
}

static sac_status move_layer(visit *v, const sac_decoder_config *c, sac_decoder_layer *l) {
    int64_t q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
    sac_tensor *matrices[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(move_matrix(v, matrices[i]));
    SAC_TRY(move_vector(v, &l->attn_norm, c->hidden));
    SAC_TRY(move_vector(v, &l->mlp_norm, c->hidden));
    SAC_TRY(move_vector(v, &l->q_bias, q));
    SAC_TRY(move_vector(v, &l->k_bias, kv));
    SAC_TRY(move_vector(v, &l->v_bias, kv));
    return move_vector(v, &l->o_bias, c->hidden);
}

static sac_status move_decoder(visit *v, sac_decoder *d, sac_load_progress progress, void *ctx) {
    bool shared_head = d->head.data == d->embed.data;
    SAC_TRY(move_matrix(v, &d->embed));
    if (shared_head)
        d->head = d->embed;
    else
        SAC_TRY(move_matrix(v, &d->head));
    SAC_TRY(move_vector(v, &d->final_norm, d->config.hidden));
    for (int i = 0; i < d->config.n_layers; i++) {
        if (progress && v->arena.base) progress(ctx, i, d->config.n_layers);
        SAC_TRY(move_layer(v, &d->config, &d->layers[i]));
    }
    return SAC_OK;
}

/* A copy that still points to the host's weights. */
static sac_status copy_decoder(const sac_decoder *from, sac_device_decoder *out, sac_error *err) {
    size_t n_bytes = (size_t)from->config.n_layers * sizeof *out->decoder.layers;
    *out = (sac_device_decoder){.decoder = *from};
    out->decoder.layers = malloc(n_bytes);
    if (!out->decoder.layers)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for %d layers", from->config.n_layers);
    memcpy(out->decoder.layers, from->layers, n_bytes);
    return SAC_OK;
}

sac_status sac_decoder_to_device(const sac_loaded_model *m, const sac_stream *stream, sac_device_decoder *out,
                                 sac_load_progress progress, void *ctx, sac_error *err) {
    visit v = {.arena = sac_arena_measure(), .stream = stream, .dtype = m->decoder.embed.dtype, .err = err};
    SAC_TRY(copy_decoder(&m->decoder, out, err));
    if (v.dtype != SAC_DTYPE_F32 && v.dtype != SAC_DTYPE_F16 && v.dtype != SAC_DTYPE_BF16)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "weights in %s: a device takes f32, f16 or bf16; run on the CPU",
                        sac_dtype_name(v.dtype));
    SAC_TRY(move_decoder(&v, &out->decoder, NULL, NULL));
    out->n_bytes = v.arena.used_bytes;
    SAC_TRY(stream->device->alloc(stream->device, out->n_bytes, &out->block, err));
    v.arena = sac_arena_over(out->block, out->n_bytes);
    SAC_TRY(move_decoder(&v, &out->decoder, progress, ctx));
    return stream->device->stream_sync(stream, err);
}

void sac_device_decoder_free(sac_device_decoder *d, const sac_device *device) {
    if (d->block) device->free(device, d->block);
    free(d->decoder.layers);
    *d = (sac_device_decoder){0};
}

/* ---------------------------------------------------------------- the tower */

/* Three equal parts behind one another; *at is then the first. NULL where one is missing. */
static sac_status move_three(visit *v, const void **at, const void *const parts[3], size_t part_bytes) {
    *at = NULL;
    if (!parts[0] || !parts[1] || !parts[2]) return SAC_OK;
    uint8_t *to = sac_arena_take(&v->arena, 3 * part_bytes);
    if (!v->arena.base) return SAC_OK;
    if (!to) return sac_fail(v->err, SAC_INTERNAL, "the device's block is too small for the weights");
    for (int i = 0; i < 3; i++)
        if (v->stream->device->upload(v->stream, to + (size_t)i * part_bytes, parts[i], part_bytes) != SAC_OK)
            return sac_fail(v->err, SAC_DEVICE, "weights cannot be copied to %s", v->stream->device->name);
    *at = to;
    return SAC_OK;
}

/* q, k and v as one matrix, for one product in place of three small ones; as they are where one
 * has no bias. */
static sac_status move_qkv(visit *v, const sac_vit_config *c, sac_vit_layer *l) {
    const void *matrices[] = {l->q.data, l->k.data, l->v.data}, *bias = NULL;
    const void *biases[] = {l->q_bias, l->k_bias, l->v_bias};
    sac_tensor *apart[] = {&l->q, &l->k, &l->v};
    const float **bias_apart[] = {&l->q_bias, &l->k_bias, &l->v_bias};
    bool same_type = l->q.dtype == v->dtype && l->k.dtype == v->dtype && l->v.dtype == v->dtype;
    if (same_type && !l->q_bias == !l->k_bias && !l->q_bias == !l->v_bias) {
        l->qkv = (sac_tensor){NULL, v->dtype, 2, {3 * (int64_t)c->hidden, c->hidden}};
        SAC_TRY(move_three(v, &l->qkv.data, matrices,
                           (size_t)c->hidden * sac_dtype_row_bytes(v->dtype, c->hidden)));
        SAC_TRY(move_three(v, &bias, biases, (size_t)c->hidden * sizeof(float)));
        l->qkv_bias = bias;
        return SAC_OK;
    }
    for (size_t i = 0; i < SAC_COUNT(apart); i++) SAC_TRY(move_matrix(v, apart[i]));
    for (size_t i = 0; i < SAC_COUNT(apart); i++) SAC_TRY(move_vector(v, bias_apart[i], c->hidden));
    return SAC_OK;
}

static sac_status move_tower_layer(visit *v, const sac_vit_config *c, sac_vit_layer *l) {
    sac_tensor *matrices[] = {&l->o, &l->fc1, &l->fc2};
    const float **vectors[] = {&l->ln1_w, &l->ln1_b, &l->ln2_w, &l->ln2_b, &l->o_bias, &l->fc2_bias};
    SAC_TRY(move_qkv(v, c, l));
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(move_matrix(v, matrices[i]));
    for (size_t i = 0; i < SAC_COUNT(vectors); i++) SAC_TRY(move_vector(v, vectors[i], c->hidden));
    return move_vector(v, &l->fc1_bias, c->intermediate);
}

/* Rows of 588 halves are not aligned, and the library has no fast kernel for them: zeros behind each. */
static sac_status move_patch_embed(visit *v, sac_tensor *w) {
    int64_t cols = (w->dim[1] + SAC_VIT_ALIGN - 1) / SAC_VIT_ALIGN * SAC_VIT_ALIGN;
    size_t row = sac_dtype_row_bytes(v->dtype, w->dim[1]), aligned = sac_dtype_row_bytes(v->dtype, cols);
    uint8_t *rows = calloc((size_t)w->dim[0], aligned);
    if (!rows) return sac_fail(v->err, SAC_NO_MEMORY, "no memory for the vision tower");
    for (int64_t i = 0; i < w->dim[0]; i++)
        memcpy(rows + (size_t)i * aligned, (const uint8_t *)w->data + (size_t)i * row, row);
    sac_tensor padded = {rows, v->dtype, 2, {w->dim[0], cols}};
    sac_status st = move_matrix(v, &padded);
    if (st == SAC_OK && v->arena.base) {
        *w = padded;
        st = v->stream->device->stream_sync(v->stream, v->err);
    }
    free(rows);
    return st;
}

/* Positions in the matrices' type, the class added to the first. */
static sac_status move_start_rows(visit *v, sac_vit *t) {
    const sac_vit_config *c = &t->config;
    size_t n = (size_t)(sac_vit_grid(c) * sac_vit_grid(c) + 1) * (size_t)c->hidden;
    uint16_t *rows = malloc(n * sizeof *rows);
    if (!rows) return sac_fail(v->err, SAC_NO_MEMORY, "no memory for the vision tower");
    for (size_t i = 0; i < n; i++) {
        float f = t->pos_embed[i] + (i < (size_t)c->hidden ? t->class_embed[i] : 0.0f);
        rows[i] = v->dtype == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
    }
    t->start_rows = rows;
    sac_status st = move(v, &t->start_rows, n * sizeof *rows);
    if (st == SAC_OK && v->arena.base) st = v->stream->device->stream_sync(v->stream, v->err);
    free(rows);
    return st;
}

static sac_status move_tower(visit *v, sac_vit *t, sac_projector *p) {
    const sac_vit_config *c = &t->config;
    SAC_TRY(move_patch_embed(v, &t->patch_embed));
    SAC_TRY(move_start_rows(v, t));
    SAC_TRY(move_vector(v, &t->pre_ln_w, c->hidden));
    SAC_TRY(move_vector(v, &t->pre_ln_b, c->hidden));
    for (int i = 0; i < c->n_layers; i++) SAC_TRY(move_tower_layer(v, c, &t->layers[i]));
    SAC_TRY(move_matrix(v, &p->fc1));
    SAC_TRY(move_matrix(v, &p->fc2));
    SAC_TRY(move_vector(v, &p->fc1_bias, p->hidden));
    return move_vector(v, &p->fc2_bias, p->out);
}

sac_status sac_tower_to_device(const sac_loaded_model *m, const sac_stream *stream, sac_device_tower *tower,
                               sac_error *err) {
    visit v = {.arena = sac_arena_measure(), .stream = stream, .dtype = m->vit.patch_embed.dtype};
    *tower = (sac_device_tower){.vit = m->vit, .projector = m->projector};
    if (v.dtype != SAC_DTYPE_F16 && v.dtype != SAC_DTYPE_BF16) return SAC_OK;
    size_t n_bytes = (size_t)m->vit.config.n_layers * sizeof *tower->vit.layers;
    tower->vit.layers = malloc(n_bytes);
    if (!tower->vit.layers) return sac_fail(err, SAC_NO_MEMORY, "no memory for the vision tower");
    memcpy(tower->vit.layers, m->vit.layers, n_bytes);
    sac_status st = move_tower(&v, &tower->vit, &tower->projector);
    if (st == SAC_UNSUPPORTED) return SAC_OK; /* types that differ: the tower runs on the host */
    tower->n_bytes = v.arena.used_bytes;
    v.err = err;
    if (st == SAC_OK) st = stream->device->alloc(stream->device, tower->n_bytes, &tower->block, err);
    if (st != SAC_OK) return st;
    v.arena = sac_arena_over(tower->block, tower->n_bytes);
    SAC_TRY(move_tower(&v, &tower->vit, &tower->projector));
    return stream->device->stream_sync(stream, err);
}
