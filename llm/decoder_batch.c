#include "decoder_batch.h"

#include <string.h>

static int64_t q_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_heads * c->head_dim;
}
static int64_t kv_cols(const sac_decoder_config *c) {
    return (int64_t)c->n_kv_heads * c->head_dim;
}

void sac_decoder_batch_take(sac_decoder_batch *b, const sac_decoder *d, int64_t capacity, sac_arena *arena) {
    const sac_decoder_config *c = &d->config;
    size_t row = (size_t)capacity * sizeof(float);
    *b = (sac_decoder_batch){.capacity = capacity};
    b->hidden = sac_arena_take(arena, row * (size_t)c->hidden);
    b->norm = sac_arena_take(arena, row * (size_t)c->hidden);
    b->queries = sac_arena_take(arena, row * (size_t)q_cols(c));
    b->k = sac_arena_take(arena, row * (size_t)kv_cols(c));
    b->v = sac_arena_take(arena, row * (size_t)kv_cols(c));
    b->gate = sac_arena_take(arena, row * (size_t)c->intermediate);
    b->up = sac_arena_take(arena, row * (size_t)c->intermediate);
    b->logits = sac_arena_take(arena, row * (size_t)c->vocab);
}

bool sac_decoder_can_batch(const sac_decoder_state *s) {
    return !s->decode.policy->rebuild;
}

/* A step under way. */
typedef struct run {
    const sac_decoder *d;
    sac_decoder_batch *b;
    const sac_ops *ops;
    const sac_stream *stream;
    sac_decoder_state *const *states;
    int64_t n;
} run;

static sac_status linear(const run *r, sac_mat y, sac_mat x, const sac_tensor *w, const float *bias,
                         bool accumulate) {
    return r->ops->linear(
        r->stream,
        &(sac_linear_args){
            .y = y, .x = x, .w = *w, .bias = bias, .accumulate = accumulate, .fast = r->states[0]->fast});
}

static sac_status attend(const run *r, int layer, sac_mat q) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = sac_mat_f32(r->b->hidden, r->n, c->hidden), norm = sac_mat_f32(r->b->norm, r->n, c->hidden);
    sac_mat k = sac_mat_f32(r->b->k, r->n, kv_cols(c)), v = sac_mat_f32(r->b->v, r->n, kv_cols(c));
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->attn_norm, c->rms_eps}));
    SAC_TRY(linear(r, q, norm, &w->q, w->q_bias, false));
    SAC_TRY(linear(r, k, norm, &w->k, w->k_bias, false));
    SAC_TRY(linear(r, v, norm, &w->v, w->v_bias, false));
    for (int64_t i = 0; i < r->n; i++)
        SAC_TRY(sac_decoder_step_attend(r->d, r->states[i], r->ops, r->stream, layer, sac_mat_rows(q, i, 1),
                                        sac_mat_rows(k, i, 1), sac_mat_rows(v, i, 1)));
    return linear(r, h, q, &w->o, w->o_bias, true);
}

static sac_status mix(const run *r, int layer) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = sac_mat_f32(r->b->hidden, r->n, c->hidden), norm = sac_mat_f32(r->b->norm, r->n, c->hidden);
    sac_mat gate = sac_mat_f32(r->b->gate, r->n, c->intermediate);
    sac_mat up = sac_mat_f32(r->b->up, r->n, c->intermediate);
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->mlp_norm, c->rms_eps}));
    SAC_TRY(linear(r, gate, norm, &w->gate, NULL, false));
    SAC_TRY(linear(r, up, norm, &w->up, NULL, false));
    SAC_TRY(r->ops->swiglu(r->stream, &(sac_swiglu_args){gate, gate, up}));
    return linear(r, h, gate, &w->down, NULL, true);
}

static sac_status step(const run *r, const int32_t *ids, sac_error *err) {
    const sac_decoder_config *c = &r->d->config;
    sac_mat h = sac_mat_f32(r->b->hidden, r->n, c->hidden), norm = sac_mat_f32(r->b->norm, r->n, c->hidden);
    sac_mat q = sac_mat_f32(r->b->queries, r->n, q_cols(c));
    SAC_TRY(r->ops->embed(r->stream, &(sac_embed_args){h, r->d->embed, ids}));
    for (int64_t i = 0; i < r->n; i++)
        SAC_TRY(sac_decoder_step_start(r->d, r->states[i], r->ops, r->stream, sac_mat_rows(h, i, 1), err));
    for (int layer = 0; layer < c->n_layers; layer++) {
        SAC_TRY(attend(r, layer, q));
        SAC_TRY(mix(r, layer));
    }
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, r->d->final_norm, c->rms_eps}));
    return linear(r, sac_mat_f32(r->b->logits, r->n, c->vocab), norm, &r->d->head, NULL, false);
}

sac_status sac_decoder_batch_step(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops,
                                  const sac_stream *stream, sac_decoder_state *const *states,
                                  const int32_t *ids, int64_t n, sac_error *err) {
    run r = {d, b, ops, stream, states, n};
    sac_status st = step(&r, ids, err);
    size_t vocab = (size_t)d->config.vocab;
    for (int64_t i = 0; i < n; i++) {
        if (st != SAC_OK) {
            sac_decoder_step_undo(states[i]);
            continue;
        }
        memcpy(states[i]->logits, b->logits + (size_t)i * vocab, vocab * sizeof(float));
        sac_decoder_step_finish(states[i]);
    }
    return st;
}
