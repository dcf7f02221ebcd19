#include "decoder_batch.h"
#include "decoder_run.h"

#include <string.h>

void sac_decoder_batch_take(sac_decoder_batch *b, const sac_decoder *d, int64_t capacity,
                            const sac_device *device, sac_arena *arena) {
    const sac_decoder_config *c = &d->config;
    size_t n = (size_t)capacity;
    *b = (sac_decoder_batch){
        .capacity = capacity, .device = device, .dtype = device ? d->embed.dtype : SAC_DTYPE_F32};
    b->hidden = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->hidden));
    b->norm = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->hidden));
    b->queries = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, q_cols(c)));
    b->k = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, kv_cols(c)));
    b->v = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, kv_cols(c)));
    b->gate = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->intermediate));
    b->up = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->intermediate));
    b->logits = sac_arena_take(arena, n * (size_t)c->vocab * sizeof(float));
    if (!device) return;
    b->ids = sac_arena_take(arena, n * sizeof *b->ids);
    b->qkv = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, q_cols(c) + 2 * kv_cols(c)));
    b->gate_up = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, 2 * c->intermediate));
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

static sac_mat rows(const run *r, void *data, int64_t cols) {
    return (sac_mat){data, r->n, cols, cols, r->b->dtype};
}

static sac_status product(const run *r, sac_mat y, sac_mat x, const sac_tensor *w, const float *bias,
                          bool accumulate) {
    return r->ops->linear(r->stream, &(sac_linear_args){.y = y,
                                                        .x = x,
                                                        .w = *w,
                                                        .bias = bias,
                                                        .accumulate = accumulate,
                                                        .fast = r->states[0]->fast,
                                                        .steady = true});
}

/* ---------------------------------------------------------------- weights side by side */

/* Matrices of one type and width that lie behind one another, as a device has them, are one: of a few rows
 * one product of it costs less than one of each. */
static bool join(sac_tensor *all, const sac_tensor *next) {
    size_t n_bytes = (size_t)all->dim[0] * sac_dtype_row_bytes(all->dtype, all->dim[1]);
    if (next->dtype != all->dtype || next->dim[1] != all->dim[1]) return false;
    if ((const uint8_t *)all->data + n_bytes != next->data) return false;
    all->dim[0] += next->dim[0];
    return true;
}

/* Likewise their biases: all behind one another, or none. */
static bool joins_qkv(const sac_decoder_layer *w, sac_tensor *all) {
    *all = w->q;
    if (!join(all, &w->k) || !join(all, &w->v)) return false;
    if (!w->q_bias) return !w->k_bias && !w->v_bias;
    return w->q_bias + w->q.dim[0] == w->k_bias && w->k_bias + w->k.dim[0] == w->v_bias;
}

static sac_mat columns(sac_mat m, int64_t first, int64_t n) {
    m.data = (uint8_t *)m.data + sac_dtype_row_bytes(m.dtype, first);
    m.cols = n;
    return m;
}

static sac_status project(const run *r, const sac_decoder_layer *w, sac_mat norm, sac_mat *q, sac_mat *k,
                          sac_mat *v) {
    const sac_decoder_config *c = &r->d->config;
    int64_t n_q = q_cols(c), n_kv = kv_cols(c);
    sac_tensor all;
    if (r->b->qkv && joins_qkv(w, &all)) {
        sac_mat qkv = rows(r, r->b->qkv, n_q + 2 * n_kv);
        *q = columns(qkv, 0, n_q), *k = columns(qkv, n_q, n_kv), *v = columns(qkv, n_q + n_kv, n_kv);
        return product(r, qkv, norm, &all, w->q_bias, false);
    }
    *q = rows(r, r->b->queries, n_q), *k = rows(r, r->b->k, n_kv), *v = rows(r, r->b->v, n_kv);
    SAC_TRY(product(r, *q, norm, &w->q, w->q_bias, false));
    SAC_TRY(product(r, *k, norm, &w->k, w->k_bias, false));
    return product(r, *v, norm, &w->v, w->v_bias, false);
}

static sac_status gate_and_up(const run *r, const sac_decoder_layer *w, sac_mat norm, sac_mat *gate,
                              sac_mat *up) {
    int64_t n = r->d->config.intermediate;
    sac_tensor all = w->gate;
    if (r->b->gate_up && join(&all, &w->up)) {
        sac_mat both = rows(r, r->b->gate_up, 2 * n);
        *gate = columns(both, 0, n), *up = columns(both, n, n);
        return product(r, both, norm, &all, NULL, false);
    }
    *gate = rows(r, r->b->gate, n), *up = rows(r, r->b->up, n);
    SAC_TRY(product(r, *gate, norm, &w->gate, NULL, false));
    return product(r, *up, norm, &w->up, NULL, false);
}

/* silu(gate) * up of the normalised rows, to *gate. */
static sac_status open_gate(const run *r, const sac_decoder_layer *w, sac_mat h, sac_mat *gate) {
    const sac_decoder_config *c = &r->d->config;
    sac_mat norm = rows(r, r->b->norm, c->hidden), up;
    if (r->b->device) {
        *gate = rows(r, r->b->gate, c->intermediate);
        sac_status st = r->ops->gate_up_step(
            r->stream, &(sac_gate_up_step_args){*gate, h, w->mlp_norm, c->rms_eps, w->gate, w->up});
        if (st != SAC_UNSUPPORTED) return st;
    }
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->mlp_norm, c->rms_eps}));
    SAC_TRY(gate_and_up(r, w, norm, gate, &up));
    return r->ops->swiglu(r->stream, &(sac_swiglu_args){*gate, *gate, up});
}

/* ---------------------------------------------------------------- a layer */

static sac_status attend(const run *r, int layer) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = rows(r, r->b->hidden, c->hidden), norm = rows(r, r->b->norm, c->hidden), q, k, v;
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, w->attn_norm, c->rms_eps}));
    SAC_TRY(project(r, w, norm, &q, &k, &v));
    SAC_TRY(sac_decoder_step_attend(r->d, r->states, r->n, r->ops, r->stream, layer, q, k, v));
    return product(r, h, q, &w->o, w->o_bias, true);
}

static sac_status mix(const run *r, int layer) {
    const sac_decoder_config *c = &r->d->config;
    const sac_decoder_layer *w = &r->d->layers[layer];
    sac_mat h = rows(r, r->b->hidden, c->hidden), gate;
    SAC_TRY(open_gate(r, w, h, &gate));
    return product(r, h, gate, &w->down, NULL, true);
}

static sac_status step(const run *r, const int32_t *ids, sac_error *err) {
    const sac_decoder_config *c = &r->d->config;
    sac_mat h = rows(r, r->b->hidden, c->hidden), norm = rows(r, r->b->norm, c->hidden);
    if (r->b->device) SAC_TRY(r->b->device->upload(r->stream, r->b->ids, ids, (size_t)r->n * sizeof *ids));
    SAC_TRY(r->ops->embed(r->stream, &(sac_embed_args){h, r->d->embed, r->b->device ? r->b->ids : ids}));
    for (int64_t i = 0; i < r->n; i++)
        SAC_TRY(sac_decoder_step_start(r->d, r->states[i], r->ops, r->stream, sac_mat_rows(h, i, 1), err));
    for (int layer = 0; layer < c->n_layers; layer++) {
        SAC_TRY(attend(r, layer));
        SAC_TRY(mix(r, layer));
    }
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){norm, h, r->d->final_norm, c->rms_eps}));
    return product(r, sac_mat_f32(r->b->logits, r->n, c->vocab), norm, &r->d->head, NULL, false);
}

static sac_status hand_out_logits(const run *r, sac_error *err) {
    size_t vocab = (size_t)r->d->config.vocab, n_bytes = vocab * sizeof(float);
    const sac_device *device = r->b->device;
    for (size_t i = 0; i < (size_t)r->n; i++)
        if (device)
            SAC_TRY(device->download(r->stream, r->states[i]->logits, r->b->logits + i * vocab, n_bytes));
        else
            memcpy(r->states[i]->logits, r->b->logits + i * vocab, n_bytes);
    return device ? device->stream_sync(r->stream, err) : SAC_OK;
}

sac_status sac_decoder_batch_step(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops,
                                  const sac_stream *stream, sac_decoder_state *const *states,
                                  const int32_t *ids, int64_t n, sac_error *err) {
    run r = {d, b, ops, stream, states, n};
    sac_status st = step(&r, ids, err);
    if (st == SAC_OK) st = hand_out_logits(&r, err);
    if (st == SAC_OK) {
        for (int64_t i = 0; i < n; i++) sac_decoder_step_finish(states[i]);
        return SAC_OK;
    }
    st = sac_decoder_explain(&(decoder_run){.d = d, .s = states[0], .ops = ops, .stream = stream}, st, err);
    /* what is queued may still write rows of sessions that begin again on streams of their own */
    if (b->device) b->device->stream_sync(stream, NULL);
    for (int64_t i = 0; i < n; i++) sac_decoder_step_undo(states[i]);
    return st;
}
