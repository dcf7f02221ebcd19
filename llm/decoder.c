/* decoder.c - embeddings in, logits out. */
#include "decoder_run.h"
#include "decoder_told.h"

#include <string.h>

sac_block_rows sac_decoder_rows(const decoder_run *r, int64_t first, int64_t n) {
    const sac_decoder_state *s = r->s;
    const sac_decoder_config *c = &r->d->config;
    return (sac_block_rows){.ops = r->ops,
                            .stream = r->stream,
                            .shape = decoder_block_shape(c),
                            .hidden = decoder_hidden_rows(r, first, n),
                            .q = decoder_as(decoder_query_rows(r, first, n), s->dtype),
                            .k = decoder_mat(r, s->k, n, decoder_kv_cols(c)),
                            .v = decoder_mat(r, s->v, n, decoder_kv_cols(c)),
                            .query_gate = decoder_gate_rows(r, first, n),
                            .wide = decoder_mat(r, s->wide, n, 2 * decoder_q_cols(c)),
                            .norm = decoder_mat(r, s->norm, n, c->hidden),
                            .gate = decoder_mat(r, s->gate, n, sac_decoder_mlp_width(c)),
                            .up = decoder_mat(r, s->up, n, sac_decoder_mlp_width(c)),
                            .experts = s->experts,
                            .linear = s->linear,
                            .fast = s->fast,
                            .adapter = s->adapter,
                            .low = decoder_mat(r, s->low, n, r->d->most_rank)};
}

/* Logits of hidden rows [first, first + n), at most a chunk, to where ops write. */
static sac_status project_logits(const decoder_run *r, int64_t first, int64_t n, float *out) {
    sac_block_rows rows = sac_decoder_rows(r, first, n);
    return sac_block_head(&rows, r->d->final_norm, &r->d->head, sac_mat_f32(out, n, r->d->config.vocab));
}

sac_status sac_decoder_fetch_logits(const decoder_run *r, int64_t row, float *out) {
    sac_decoder_state *s = r->s;
    SAC_TRY(sac_stream_use(r->stream)); /* a callback may have been in between */
    SAC_TRY(project_logits(r, row, 1, s->device ? s->device_logits : out));
    if (s->device) {
        SAC_TRY(
            s->device->download(r->stream, out, s->device_logits, decoder_floats(1, r->d->config.vocab)));
        SAC_TRY(s->device->stream_sync(r->stream, NULL));
    }
    sac_decoder_end_logits(r->d, out, r->d->config.vocab);
    return SAC_OK;
}

sac_status sac_decoder_step_logits(const decoder_run *r, int64_t row) {
    sac_decoder_state *s = r->s;
    s->told = (sac_token_told){0};
    if (!sac_decoder_may_tell(r->d, s)) return sac_decoder_fetch_logits(r, row, s->logits);
    SAC_TRY(sac_stream_use(r->stream)); /* a callback may have been in between */
    SAC_TRY(project_logits(r, row, 1, s->device_logits));
    return sac_decoder_hand_out(&(decoder_told_rows){.d = r->d,
                                                     .ops = r->ops,
                                                     .stream = r->stream,
                                                     .states = &r->s,
                                                     .n = 1,
                                                     .logits = s->device_logits,
                                                     .room = &s->told_room},
                                NULL);
}

sac_status sac_decoder_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                              const sac_stream *stream, int64_t first, int64_t n, float *out) {
    decoder_run r = {d, s, ops, stream};
    for (int64_t i = 0; i < n && s->device; i++)
        SAC_TRY(sac_decoder_fetch_logits(&r, first + i, out + i * d->config.vocab));
    for (int64_t i = 0; i < n && !s->device; i += s->chunk)
        SAC_TRY(project_logits(&r, first + i, decoder_min(n - i, s->chunk), out + i * d->config.vocab));
    if (!s->device) sac_decoder_end_logits(d, out, n * d->config.vocab);
    return SAC_OK;
}

sac_status sac_decoder_last_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                   const sac_stream *stream) {
    decoder_run r = {d, s, ops, stream};
    s->told = (sac_token_told){0};
    return sac_decoder_fetch_logits(&r, s->last_row, s->logits);
}

/* In place: wide values grow over narrow ones that lie at the end. */
static void widen(float *out, int64_t n, sac_dtype t) {
    const char *narrow = (const char *)out + (size_t)n * sizeof(uint16_t);
    uint16_t h;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&h, narrow + (size_t)i * sizeof h, sizeof h);
        out[i] = t == SAC_DTYPE_BF16 ? sac_bf16_to_f32(h) : sac_f16_to_f32(h);
    }
}

sac_status sac_decoder_last_hidden(const sac_decoder *d, sac_decoder_state *s, const sac_stream *stream, float *out) {
    const int64_t n = d->config.hidden;
    const size_t bytes = sac_dtype_row_bytes(s->dtype, n);
    char *to = (char *)out + (s->dtype == SAC_DTYPE_F32 ? 0 : (size_t)n * sizeof(uint16_t));
    if (s->device) {
        SAC_TRY(s->device->download(stream, to, s->norm, bytes));
        SAC_TRY(s->device->stream_sync(stream, NULL));
    } else {
        memcpy(to, s->norm, bytes);
    }
    if (s->dtype != SAC_DTYPE_F32) widen(out, n, s->dtype);
    return SAC_OK;
}

sac_status sac_decoder_embed(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                             const sac_stream *stream, int64_t first, int64_t n, const int32_t *ids) {
    decoder_run r = {d, s, ops, stream};
    for (int64_t i = 0; i < n; i += s->chunk) {
        int64_t rows = decoder_min(n - i, s->chunk);
        SAC_TRY(decoder_upload(&r, s->device_ids, ids + i, (size_t)rows * sizeof *ids));
        SAC_TRY(decoder_embed(d, ops, stream, decoder_hidden_rows(&r, first + i, rows),
                              s->device ? s->device_ids : ids + i));
    }
    return SAC_OK;
}

sac_mat sac_decoder_hidden(const sac_decoder_state *s, int64_t first, int64_t n) {
    int64_t cols = s->shape.hidden;
    return sac_mat_rows((sac_mat){s->hidden, s->n_ctx, cols, cols, s->dtype}, first - s->first_row, n);
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
