#include "device_weights.h"

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

sac_status sac_loaded_model_to_device(sac_loaded_model *m, const sac_stream *stream, void **block,
                                      size_t *n_bytes, sac_load_progress progress, void *ctx,
                                      sac_error *err) {
    visit v = {.arena = sac_arena_measure(), .stream = stream, .dtype = m->decoder.embed.dtype, .err = err};
    *block = NULL;
    if (v.dtype != SAC_DTYPE_F32 && v.dtype != SAC_DTYPE_F16 && v.dtype != SAC_DTYPE_BF16)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "weights in %s: a device takes f32, f16 or bf16; run on the CPU",
                        sac_dtype_name(v.dtype));
    SAC_TRY(move_decoder(&v, &m->decoder, NULL, NULL));
    *n_bytes = v.arena.used_bytes;
    SAC_TRY(stream->device->alloc(stream->device, *n_bytes, block, err));
    v.arena = sac_arena_over(*block, *n_bytes);
    SAC_TRY(move_decoder(&v, &m->decoder, progress, ctx));
    return stream->device->stream_sync(stream, err);
}
