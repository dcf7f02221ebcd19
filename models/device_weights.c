#include "device_weights.h"

#include <stdlib.h>
#include <string.h>

static sac_status place_adapted(sac_placer *p, sac_adapted_layer *l) {
    sac_low_rank *parts[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    for (size_t i = 0; i < SAC_COUNT(parts); i++) {
        if (!parts[i]->a.tensor.data) continue;
        SAC_TRY(sac_place_weight(p, &parts[i]->a));
        SAC_TRY(sac_place_weight(p, &parts[i]->b));
    }
    return SAC_OK;
}

static sac_status place_linear(sac_placer *p, const sac_linear_shape *s, sac_linear_layer *l) {
    sac_weight *matrices[] = {&l->qkv, &l->z, &l->a, &l->b, &l->out};
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(sac_place_weight(p, matrices[i]));
    SAC_TRY(sac_place_vector(p, &l->conv, s->conv_width * sac_linear_mixed(s)));
    SAC_TRY(sac_place_vector(p, &l->a_log, s->n_heads));
    SAC_TRY(sac_place_vector(p, &l->dt_bias, s->n_heads));
    return sac_place_vector(p, &l->norm, s->value_dim);
}

static sac_status place_latent(sac_placer *p, const sac_latent_shape *s, sac_latent_layer *l) {
    SAC_TRY(sac_place_weight(p, &l->q_a));
    SAC_TRY(sac_place_weight(p, &l->kv_a));
    SAC_TRY(sac_place_vector(p, &l->q_a_bias, s->q_rank));
    SAC_TRY(sac_place_vector(p, &l->q_a_norm, s->q_rank));
    SAC_TRY(sac_place_vector(p, &l->kv_a_bias, sac_latent_width(s)));
    return sac_place_vector(p, &l->kv_a_norm, s->kv_rank);
}

static sac_status place_layer(sac_placer *p, const sac_decoder_config *c, sac_decoder_layer *l) {
    int64_t q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
    sac_weight *matrices[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(sac_place_weight(p, matrices[i]));
    SAC_TRY(sac_place_vector(p, &l->attn_norm, c->hidden));
    SAC_TRY(sac_place_vector(p, &l->mlp_norm, c->hidden));
    SAC_TRY(sac_place_vector(p, &l->attn_post_norm, c->hidden));
    SAC_TRY(sac_place_vector(p, &l->mlp_post_norm, c->hidden));
    SAC_TRY(sac_place_vector(p, &l->q_bias, c->gated_attention ? 2 * q : q));
    SAC_TRY(place_linear(p, &c->linear, &l->linear));
    SAC_TRY(place_latent(p, &c->latent, &l->latent));
    SAC_TRY(sac_place_vector(p, &l->k_bias, kv));
    SAC_TRY(sac_place_vector(p, &l->v_bias, kv));
    SAC_TRY(sac_place_vector(p, &l->q_norm, c->whole_qk_norm ? q : c->head_dim));
    SAC_TRY(sac_place_vector(p, &l->k_norm, c->whole_qk_norm ? kv : c->head_dim));
    return sac_place_vector(p, &l->o_bias, c->hidden);
}

/* Matrices of a kind one behind the other, at the even distances that expert_linear needs. */
static sac_status place_experts(sac_placer *p, sac_device_decoder *out, int layer) {
    const sac_decoder_config *c = &out->decoder.config;
    sac_decoder_layer *l = &out->decoder.layers[layer];
    if (!l->experts) return SAC_OK;
    sac_expert *to = out->experts + (l->experts - out->experts);
    if (p->stream->device->kind != SAC_DEVICE_CPU && to->gate.format != SAC_WEIGHT_FLOATS)
        return sac_fail(p->err, SAC_UNSUPPORTED, "%s has no kernels for experts in %s: run on the CPU",
                        p->stream->device->name, sac_weight_name(&to->gate));
    SAC_TRY(sac_place_weight(p, &l->router));
    SAC_TRY(sac_place_vector(p, &l->router_bias, c->experts.n));
    SAC_TRY(sac_place_weight(p, &l->shared_router));
    for (int e = 0; e < c->experts.n; e++) SAC_TRY(sac_place_weight(p, &to[e].gate));
    for (int e = 0; e < c->experts.n; e++) SAC_TRY(sac_place_weight(p, &to[e].up));
    for (int e = 0; e < c->experts.n; e++) SAC_TRY(sac_place_weight(p, &to[e].down));
    return SAC_OK;
}

static sac_status place_decoder(sac_placer *p, sac_device_decoder *out, sac_load_progress progress,
                                void *ctx) {
    sac_decoder *d = &out->decoder;
    bool shared_head = d->head.tensor.data == d->embed.tensor.data;
    SAC_TRY(sac_place_weight(p, &d->embed));
    if (shared_head)
        d->head = d->embed;
    else
        SAC_TRY(sac_place_weight(p, &d->head));
    SAC_TRY(sac_place_vector(p, &d->final_norm, d->config.hidden));
    for (int i = 0; i < d->config.n_layers; i++) {
        if (progress && p->arena.base) progress(ctx, i, d->config.n_layers);
        SAC_TRY(place_layer(p, &d->config, &d->layers[i]));
        SAC_TRY(place_experts(p, out, i));
        for (int k = 0; k < d->n_adapters; k++)
            SAC_TRY(place_adapted(p, &out->adapted[i * d->n_adapters + k]));
    }
    return SAC_OK;
}

static sac_status copy_adapted(const sac_decoder *from, sac_device_decoder *out, sac_error *err) {
    const int n_layers = from->config.n_layers, n = from->n_adapters;
    out->adapted = calloc((size_t)n_layers * (size_t)n, sizeof *out->adapted);
    if (!out->adapted) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d adapters", n);
    for (int i = 0; i < n_layers; i++) {
        sac_adapted_layer *to = out->adapted + i * n;
        memcpy(to, from->layers[i].adapted, (size_t)n * sizeof *to);
        out->decoder.layers[i].adapted = to;
    }
    return SAC_OK;
}

static sac_status copy_experts(const sac_decoder *from, sac_device_decoder *out, sac_error *err) {
    const size_t n = (size_t)from->config.experts.n, n_all = sac_decoder_n_experts(&from->config);
    if (!n_all) return SAC_OK;
    out->experts = calloc(n_all, sizeof *out->experts);
    if (!out->experts) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu experts", n_all);
    sac_expert *next = out->experts;
    for (int i = 0; i < from->config.n_layers; i++) {
        if (!from->layers[i].experts) continue;
        memcpy(next, from->layers[i].experts, n * sizeof *next);
        out->decoder.layers[i].experts = next;
        next += n;
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
    SAC_TRY(copy_experts(from, out, err));
    return from->n_adapters ? copy_adapted(from, out, err) : SAC_OK;
}

/* Whether a matrix of the decoder is in this type. */
static bool has_matrix(const sac_decoder *d, sac_dtype t) {
    bool has = d->embed.tensor.dtype == t || d->head.tensor.dtype == t;
    for (int i = 0; i < d->config.n_layers; i++) {
        const sac_decoder_layer *l = &d->layers[i];
        const sac_weight *matrices[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down, &l->linear.qkv, &l->linear.out};
        for (size_t k = 0; k < SAC_COUNT(matrices); k++) has = has || matrices[k]->tensor.dtype == t;
        has = has || (l->experts && l->experts->gate.tensor.dtype == t);
    }
    return has;
}

sac_dtype sac_device_activations(const sac_loaded_model *m) {
    if (m->dtype == SAC_DTYPE_F32 || m->dtype == SAC_DTYPE_F16) return m->dtype;
    const sac_decoder *d = &m->decoder; /* blocks take either type, what is stored in 16 bits its own */
    return has_matrix(d, SAC_DTYPE_F16) && !has_matrix(d, SAC_DTYPE_BF16) ? SAC_DTYPE_F16 : SAC_DTYPE_BF16;
}

/* A device has expert_linear for floats only. */
static sac_status check_experts(const sac_decoder *d, sac_error *err) {
    for (int i = 0; i < d->config.n_layers; i++)
        for (int e = 0; d->layers[i].experts && e < d->config.experts.n; e++) {
            const sac_expert *x = &d->layers[i].experts[e];
            const sac_weight *parts[] = {&x->gate, &x->up, &x->down};
            for (size_t k = 0; k < SAC_COUNT(parts); k++)
                if (parts[k]->format != SAC_WEIGHT_FLOATS)
                    return sac_fail(err, SAC_UNSUPPORTED,
                                    "experts in %s are multiplied on the CPU only (layer %d): leave out --device, or give the "
                                    "model in 16 bits",
                                    sac_dtype_name(parts[k]->tensor.dtype), i);
        }
    return SAC_OK;
}

sac_status sac_decoder_to_device(const sac_loaded_model *m, sac_dtype activations, const sac_stream *stream,
                                 sac_device_decoder *out, sac_load_progress progress, void *ctx,
                                 sac_error *err) {
    sac_placer p = {.arena = sac_arena_measure(),
                    .stream = stream,
                    .activations = activations,
                    .rounds_f32 = true,
                    .err = err};
    SAC_TRY(check_experts(&m->decoder, err));
    SAC_TRY(copy_decoder(&m->decoder, out, err));
    SAC_TRY(place_decoder(&p, out, NULL, NULL));
    out->n_bytes = p.arena.used_bytes;
    SAC_TRY(stream->device->alloc(stream->device, out->n_bytes, &out->block, err));
    p.arena = sac_arena_over(out->block, out->n_bytes);
    SAC_TRY(place_decoder(&p, out, progress, ctx));
    return stream->device->stream_sync(stream, err);
}

void sac_device_decoder_free(sac_device_decoder *d, const sac_device *device) {
    if (d->block) device->free(device, d->block);
    free(d->decoder.layers);
    free(d->adapted);
    free(d->experts);
    *d = (sac_device_decoder){0};
}

/* ---------------------------------------------------------------- the tower */

/* The structs of tower and merger a second time, still pointing to the host's weights. */
static sac_status copy_tower(const sac_loaded_model *m, sac_device_tower *out, sac_error *err) {
    const sac_tower_kind *kind = m->tower.config.kind;
    size_t layers = (size_t)m->tower.config.n_layers * kind->layer_bytes;
    size_t deep = (size_t)m->merger.n_deep * m->merger.kind->layer_bytes;
    *out = (sac_device_tower){.tower = m->tower, .merger = m->merger, .image_newline = m->image_newline};
    out->tower.weights = out->own[0] = malloc(kind->weights_bytes);
    out->tower.layers = out->own[1] = malloc(layers);
    out->merger.weights = out->own[2] = malloc(m->merger.kind->weights_bytes);
    out->merger.layers = out->own[3] = malloc(deep + 1); /* often none */
    if (!out->own[0] || !out->own[1] || !out->own[2] || !out->own[3])
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the vision tower");
    memcpy(out->own[0], m->tower.weights, kind->weights_bytes);
    memcpy(out->own[1], m->tower.layers, layers);
    memcpy(out->own[2], m->merger.weights, m->merger.kind->weights_bytes);
    if (deep) memcpy(out->own[3], m->merger.layers, deep);
    return SAC_OK;
}

static sac_status place_tower(sac_placer *p, sac_device_tower *t) {
    SAC_TRY(t->tower.config.kind->place(&t->tower, p));
    SAC_TRY(t->merger.kind->place(&t->merger, p));
    return sac_place_vector(p, &t->image_newline, t->merger.out);
}

/* What it takes with these activations. */
static sac_status measure_tower(sac_placer *p, sac_device_tower *t, sac_dtype activations) {
    t->activations = p->activations = activations;
    p->arena = sac_arena_measure();
    sac_status st = place_tower(p, t);
    t->n_bytes = p->arena.used_bytes;
    return st;
}

sac_status sac_tower_to_device(const sac_loaded_model *m, sac_dtype activations, const sac_stream *stream,
                               sac_device_tower *out, sac_error *err) {
    const sac_dtype tries[] = {activations, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    sac_placer p = {.stream = stream, .err = err};
    *out = (sac_device_tower){0};
    SAC_TRY(copy_tower(m, out, err));
    sac_status st = SAC_UNSUPPORTED;
    for (size_t i = 0; i < SAC_COUNT(tries) && st == SAC_UNSUPPORTED; i++)
        if (tries[i] != SAC_DTYPE_F32)
            st = measure_tower(&p, out, tries[i]); /* a device's tower has 16 bits */
    if (st == SAC_UNSUPPORTED) return SAC_OK;
    if (st == SAC_OK) st = stream->device->alloc(stream->device, out->n_bytes, &out->block, err);
    if (st != SAC_OK) return st;
    p.arena = sac_arena_over(out->block, out->n_bytes);
    SAC_TRY(place_tower(&p, out));
    return stream->device->stream_sync(stream, err);
}

void sac_device_tower_free(sac_device_tower *t, const sac_device *device) {
    if (t->block) device->free(device, t->block);
    for (size_t i = 0; i < SAC_COUNT(t->own); i++) free(t->own[i]);
    *t = (sac_device_tower){0};
}
