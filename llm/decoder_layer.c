/* decoder_layer.c - the linear parts of a layer, and what its attention is told. */
#include "decoder_run.h"

#include <math.h>

/* The following for one row in one go, where the device has a kernel for it. */
static sac_status project_one(const decoder_run *r, const sac_decoder_layer *w, int64_t row,
                              const sac_kv_view *kv, int64_t at) {
    return r->ops->qkv_step(r->stream, &(sac_qkv_step_args){.q = query_rows(r, row, 1),
                                                            .x = hidden_rows(r, row, 1),
                                                            .norm = w->attn_norm,
                                                            .eps = r->d->config.rms_eps,
                                                            .wq = w->q,
                                                            .wk = w->k,
                                                            .wv = w->v,
                                                            .q_bias = w->q_bias,
                                                            .k_bias = w->k_bias,
                                                            .v_bias = w->v_bias,
                                                            .rotation = rotation(r),
                                                            .pos = r->s->device_positions + row,
                                                            .kv = *kv,
                                                            .first = at,
                                                            .n_heads = r->d->config.n_heads});
}

sac_status sac_decoder_project_qkv(const decoder_run *r, int layer, int64_t first, int64_t n, bool q_later,
                                   const sac_kv_view *kv, int64_t at) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat norm = mat(r, r->s->norm, n, c->hidden), q = query_rows(r, first, n);
    sac_mat k = mat(r, r->s->k, n, kv_cols(c)), v = mat(r, r->s->v, n, kv_cols(c));
    if (r->s->device && n == 1 && !q_later) {
        sac_status st = project_one(r, w, first, kv, at);
        if (st != SAC_UNSUPPORTED) return st;
    }
    SAC_TRY(r->ops->rmsnorm(r->stream,
                            &(sac_rmsnorm_args){norm, hidden_rows(r, first, n), w->attn_norm, c->rms_eps}));
    if (!q_later) SAC_TRY(linear(r, q, norm, &w->q, w->q_bias, false));
    SAC_TRY(linear(r, k, norm, &w->k, w->k_bias, false));
    SAC_TRY(linear(r, v, norm, &w->v, w->v_bias, false));
    if (!q_later) SAC_TRY(rotate(r, q, c->n_heads, first));
    SAC_TRY(rotate(r, k, c->n_kv_heads, first));
    return r->ops->kv_store(r->stream, &(sac_kv_store_args){*kv, k, v, at});
}

sac_status sac_decoder_mlp(const decoder_run *r, int layer, int64_t first, int64_t n) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = hidden_rows(r, first, n), norm = mat(r, r->s->norm, n, c->hidden);
    sac_mat gate = mat(r, r->s->gate, n, c->intermediate), up = mat(r, r->s->up, n, c->intermediate);
    sac_status st = SAC_UNSUPPORTED;
    if (r->s->device && n == 1)
        st = r->ops->gate_up_step(r->stream,
                                  &(sac_gate_up_step_args){gate, h, w->mlp_norm, c->rms_eps, w->gate, w->up});
    if (st == SAC_UNSUPPORTED) {
        SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->mlp_norm, c->rms_eps}));
        SAC_TRY(linear(r, gate, norm, &w->gate, NULL, false));
        SAC_TRY(linear(r, up, norm, &w->up, NULL, false));
        SAC_TRY(r->ops->swiglu(r->stream, &(sac_swiglu_args){gate, gate, up}));
    } else if (st != SAC_OK) {
        return st;
    }
    return linear(r, h, gate, &w->down, NULL, true);
}

sac_status sac_decoder_project_out(const decoder_run *r, int layer, int64_t first, int64_t n) {
    const sac_decoder_layer *w = &r->d->layers[layer];
    SAC_TRY(linear(r, hidden_rows(r, first, n), query_rows(r, first, n), &w->o, w->o_bias, true));
    return sac_decoder_mlp(r, layer, first, n);
}

sac_layer_attention sac_decoder_layer_attention(const decoder_run *r, int layer, int64_t first, int64_t n,
                                                sac_kv_view kv, int64_t past, int64_t n_seen) {
    sac_decoder_state *s = r->s;
    return (sac_layer_attention){
        .ops = r->ops,
        .stream = r->stream,
        .shape = &s->shape,
        .layer = layer,
        .q = query_rows(r, first, n),
        .kv = kv,
        .past = past,
        .position = s->positions + first,
        .n_before = first, /* a call's hidden rows begin at its first token's number */
        .n_seen = n_seen,
        .scale = 1.0f / sqrtf((float)s->shape.head_dim),
        .rotation = rotation(r),
        .visual = s->visual,
        .n_visual = s->n_visual,
        .window_sums = s->window_sums.window ? &s->window_sums : NULL,
        .observer = s->observer,
        .stats = &s->stats[layer],
    };
}

sac_status sac_decoder_prepare_rotations(const decoder_run *r, int64_t past, int64_t n_total) {
    sac_decoder_state *s = r->s;
    int64_t first = s->rope.scaling == SAC_ROPE_DYNAMIC ? past : s->n_cos_sin;
    if (first >= n_total) return SAC_OK;
    sac_rope_fill(&s->rope, first, n_total - first, n_total, s->cos_sin);
    s->n_cos_sin = n_total;
    size_t row = (size_t)s->rope.rot_dim;
    return upload(r, s->device_cos_sin + (size_t)first * row, s->cos_sin + (size_t)first * row,
                  (size_t)(n_total - first) * row * sizeof(float));
}

sac_status sac_decoder_upload_positions(const decoder_run *r, int64_t first, int64_t n) {
    return upload(r, r->s->device_positions + first, r->s->positions + first, (size_t)n * sizeof(int32_t));
}

sac_status sac_decoder_explain(const decoder_run *r, sac_status st, sac_error *err) {
    if (!r->s->device) return st;
    if (st == SAC_UNSUPPORTED)
        return sac_fail(err, st, "%s has no kernel for this model's types or sizes: run on the CPU",
                        r->s->device->name);
    if (st != SAC_DEVICE) return st;
    sac_status sync = r->s->device->stream_sync(r->stream, err); /* says what went wrong */
    return sync == SAC_OK ? sac_fail(err, st, "%s refused a kernel or a copy", r->s->device->name) : sync;
}
