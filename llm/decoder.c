/* decoder.c - embeddings in, logits out, and a step. */
#include "decoder_batch.h"
#include "decoder_run.h"

#include <assert.h>
#include <string.h>

/* Logits of hidden rows [first, first + n), at most a chunk, to device memory. */
static sac_status project_logits(const decoder_run *r, int64_t first, int64_t n, float *out) {
    const sac_decoder_config *c = &r->d->config;
    sac_mat norm = mat(r, r->s->norm, n, c->hidden);
    SAC_TRY(r->ops->rmsnorm(
        r->stream, &(sac_rmsnorm_args){norm, hidden_rows(r, first, n), r->d->final_norm, c->rms_eps}));
    return linear(r, sac_mat_f32(out, n, c->vocab), norm, &r->d->head, NULL, false);
}

/* Logits of one hidden row on the host. */
static sac_status fetch_logits(const decoder_run *r, int64_t row, float *out) {
    sac_decoder_state *s = r->s;
    SAC_TRY(sac_stream_use(r->stream)); /* a callback may have been in between */
    SAC_TRY(project_logits(r, row, 1, s->device ? s->device_logits : out));
    if (!s->device) return SAC_OK;
    SAC_TRY(s->device->download(r->stream, out, s->device_logits, floats(1, r->d->config.vocab)));
    return s->device->stream_sync(r->stream, NULL);
}

sac_status sac_decoder_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                              const sac_stream *stream, int64_t first, int64_t n, float *out) {
    decoder_run r = {d, s, ops, stream};
    for (int64_t i = 0; i < n && s->device; i++)
        SAC_TRY(fetch_logits(&r, first + i, out + i * d->config.vocab));
    for (int64_t i = 0; i < n && !s->device; i += s->chunk)
        SAC_TRY(project_logits(&r, first + i, min_rows(n - i, s->chunk), out + i * d->config.vocab));
    return SAC_OK;
}

sac_status sac_decoder_last_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                   const sac_stream *stream) {
    decoder_run r = {d, s, ops, stream};
    return fetch_logits(&r, s->last_row, s->logits);
}

sac_status sac_decoder_embed(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                             const sac_stream *stream, int64_t first, int64_t n, const int32_t *ids) {
    decoder_run r = {d, s, ops, stream};
    for (int64_t i = 0; i < n; i += s->chunk) {
        int64_t rows = min_rows(n - i, s->chunk);
        SAC_TRY(upload(&r, s->device_ids, ids + i, (size_t)rows * sizeof *ids));
        SAC_TRY(ops->embed(stream, &(sac_embed_args){hidden_rows(&r, first + i, rows), d->embed,
                                                     s->device ? s->device_ids : ids + i}));
    }
    return SAC_OK;
}

/* Rows are rounded to the device's type in place: each is at most as wide afterwards as before. */
static void round_rows(sac_dtype t, float *rows, size_t n) {
    uint16_t *to = (uint16_t *)(void *)rows;
    if (t == SAC_DTYPE_F32) return;
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, rows + i, sizeof f);
        uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
        memcpy(to + i, &h, sizeof h);
    }
}

sac_status sac_decoder_load_rows(const sac_decoder *d, sac_decoder_state *s, const sac_stream *stream,
                                 int64_t first, int64_t n) {
    if (!s->device) return SAC_OK;
    decoder_run r = {d, s, NULL, stream};
    float *from = s->embeddings + first * d->config.hidden;
    round_rows(s->dtype, from, (size_t)(n * d->config.hidden));
    return upload(&r, hidden_rows(&r, first, n).data, from,
                  (size_t)n * sac_dtype_row_bytes(s->dtype, d->config.hidden));
}

/* What a step at `past` needs of tables, on a device for some steps to come: an upload costs it as much for
 * one row as for these. `n_before`: rows computed again that stand before the step's own. */
enum { STEPS_AHEAD = 64 };

static sac_status prepare_step_rotations(const decoder_run *r, int64_t past) {
    const sac_decoder_state *s = r->s;
    bool ahead = s->device && s->rope.scaling != SAC_ROPE_DYNAMIC && s->n_cos_sin <= past;
    return sac_decoder_prepare_rotations(r, past, ahead ? min_rows(past + STEPS_AHEAD, s->n_ctx) : past + 1);
}

static sac_status prepare_step_positions(const decoder_run *r, int64_t past, int64_t n_before) {
    sac_decoder_state *s = r->s;
    s->positions[past + n_before] = (int32_t)past;
    if (!s->device || n_before > 0) {
        s->n_positions = 0;
        return sac_decoder_upload_positions(r, past, n_before + 1);
    }
    if (past < s->n_positions) return SAC_OK;
    int64_t end = min_rows(past + STEPS_AHEAD, s->n_ctx);
    for (int64_t i = past; i < end; i++) s->positions[i] = (int32_t)i;
    SAC_TRY(sac_decoder_upload_positions(r, past, end - past));
    s->n_positions = end;
    return SAC_OK;
}

/* Attention of a step whose keys and values are stored. */
sac_status sac_decoder_attend_step(const decoder_run *r, const sac_layer_attention *a) {
    sac_decoder_state *s = r->s;
    const sac_kv_packing *packing = s->cache.choice.format->packing;
    int64_t left = a->kv.n_rows;
    if (packing) {
        SAC_TRY(packing->attend(s->cache.packing, a, &left));
    } else {
        SAC_TRY(sac_decode_attend(&s->decode, a, s->mass));
        if (s->decode.policy->settle) SAC_TRY(s->decode.policy->settle(s->decode.state, a, &left));
    }
    s->cache.layer_rows[a->layer] = left;
    return SAC_OK;
}

static sac_status step_layer(const decoder_run *r, int layer, int64_t first, int64_t n, int64_t n_seen) {
    int64_t past;
    sac_kv_view kv = sac_kv_cache_begin_layer(&r->s->cache, layer, n, true, &past);
    SAC_TRY(sac_decoder_project_qkv(r, layer, first, n, false, &kv, past));
    sac_layer_attention a = sac_decoder_layer_attention(r, layer, first, n, kv, past, n_seen);
    SAC_TRY(sac_decoder_attend_step(r, &a));
    return sac_decoder_project_out(r, layer, first, n);
}

/* Tokens that are computed again stand before the step's own. */
static sac_status step(const decoder_run *r, int64_t past, int32_t id) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t n = 0;
    SAC_TRY(sac_stream_use(r->stream));
    SAC_TRY(prepare_step_rotations(r, past));
    if (decode->rebuild)
        SAC_TRY(decode->rebuild(s->decode.state, r->ops, r->stream, hidden_rows(r, past, s->n_spare),
                                s->positions + past, &n));
    sac_mat own = hidden_rows(r, past + n, 1);
    SAC_TRY(prepare_step_positions(r, past, n));
    if (s->device) *s->step_id = id;
    SAC_TRY(r->ops->embed(r->stream, &(sac_embed_args){own, r->d->embed, s->device ? s->step_id : &id}));
    if (decode->inputs) SAC_TRY(decode->inputs(s->decode.state, r->ops, r->stream, own, past));
    for (int layer = 0; layer < s->shape.n_layers; layer++)
        SAC_TRY(step_layer(r, layer, past, n + 1, past + 1));
    s->last_row = past + n;
    s->cache.n_rows = past + 1;
    return fetch_logits(r, s->last_row, s->logits);
}

static sac_status check_room(const sac_decoder_state *s, sac_error *err) {
    if (s->cache.n_rows < s->n_ctx) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
}

sac_status sac_decoder_step(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                            const sac_stream *stream, int64_t past, int32_t id, sac_error *err) {
    decoder_run r = {d, s, ops, stream};
    assert(past == s->cache.n_rows);
    SAC_TRY(check_room(s, err));
    sac_status st = step(&r, past, id);
    if (st == SAC_OK) return st;
    sac_decoder_cut_back(s, past);
    return sac_decoder_explain(&r, st, err);
}

/* ---------------------------------------------------------------- a step in parts */

sac_status sac_decoder_step_start(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                  const sac_stream *stream, sac_mat x, sac_error *err) {
    decoder_run r = {d, s, ops, stream};
    int64_t past = s->cache.n_rows;
    SAC_TRY(check_room(s, err));
    SAC_TRY(prepare_step_rotations(&r, past));
    SAC_TRY(prepare_step_positions(&r, past, 0));
    if (!s->decode.policy->inputs) return SAC_OK;
    return s->decode.policy->inputs(s->decode.state, ops, stream, x, past);
}

void sac_decoder_step_finish(sac_decoder_state *s) {
    s->last_row = s->cache.n_rows++;
}

void sac_decoder_step_undo(sac_decoder_state *s) {
    sac_decoder_cut_back(s, s->cache.n_rows);
}
