#include "visual_rows.h"

#include <string.h>

/* The span that a token of an item stands in whose spans differ in length; *inside: its place there. Where nothing is left out each
 * frame has as many tokens as the others. */
static const sac_prompt_span *find_span(const sac_media *m, int64_t token, int64_t *inside) {
    const sac_prompt_span *span = m->spans;
    if (!m->n_kept) {
        span += token / m->plan.n_tokens * sac_visual_parts(&m->plan);
        token %= m->plan.n_tokens;
    }
    while (token >= span->n) token -= span++->n;
    *inside = token;
    return span;
}

sac_visual_mat sac_visual_run(const sac_session *s, const sac_media *m, int64_t token, int64_t n) {
    const int64_t each = m->block_tokens;
    int64_t inside = each ? token % each : 0;
    const sac_prompt_span *span = m->n_kept || !each ? find_span(m, token, &inside) : &m->spans[token / each];
    int64_t left = span->n - inside, first = span->first + inside, n_run = left < n ? left : n;
    return (sac_visual_mat){sac_decoder_hidden(&s->decoder, first, n_run),
                            sac_decoder_deep(&s->decoder, first, n_run)};
}

/* Both parts of a token's. */
static size_t row_bytes(const sac_session *s) {
    return sac_dtype_row_bytes(s->decoder.dtype, (int64_t)s->decoder.shape.hidden * (1 + s->decoder.n_deep));
}

static size_t mat_bytes(sac_mat m) {
    return m.data ? (size_t)m.rows * sac_dtype_row_bytes(m.dtype, m.cols) : 0;
}

static sac_mat rows_from(sac_mat m, int64_t first, int64_t n) {
    return m.data ? sac_mat_rows(m, first, n) : m;
}

sac_visual_mat sac_visual_buffer(const sac_merger *m, void *buffer, sac_dtype t, int64_t capacity,
                                 int64_t first, int64_t n) {
    const int64_t cols = m->out, deep = cols * m->n_deep;
    sac_mat rows = {buffer, capacity, cols, cols, t};
    sac_mat behind = {deep ? (uint8_t *)buffer + mat_bytes(rows) : NULL, capacity, deep, deep, t};
    return (sac_visual_mat){rows_from(rows, first, n), rows_from(behind, first, n)};
}

/* n tokens in one block of memory, in the decoder's type. */
static sac_visual_mat in_block(const sac_session *s, void *block, int64_t n) {
    return sac_visual_buffer(&s->model->loaded.merger, block, s->decoder.dtype, n, 0, n);
}

static int64_t n_tokens(const sac_media *m) {
    return sac_media_n_tokens(m);
}

/* ---------------------------------------------------------------- from the host */

/* Rows are rounded in place: each is at most as wide afterwards as before. */
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

sac_status sac_visual_write(const sac_session *s, sac_mat to, float *rows) {
    size_t n_bytes = mat_bytes(to);
    if (!n_bytes) return SAC_OK;
    round_rows(to.dtype, rows, (size_t)(to.rows * to.cols));
    if (sac_model_on_device(s->model))
        return s->model->device.upload(&s->device_stream, to.data, rows, n_bytes);
    memcpy(to.data, rows, n_bytes);
    return SAC_OK;
}

sac_status sac_visual_write_tokens(const sac_session *s, const sac_media *m, int64_t token,
                                   sac_visual_mat from) {
    for (int64_t at = 0, n = from.rows.rows; at < n;) {
        sac_visual_mat run = sac_visual_run(s, m, token + at, n - at);
        SAC_TRY(sac_visual_write(s, run.rows, rows_from(from.rows, at, run.rows.rows).data));
        SAC_TRY(sac_visual_write(s, run.deep, rows_from(from.deep, at, run.rows.rows).data));
        at += run.rows.rows;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- where the decoder runs */

static sac_status copy(const sac_session *s, sac_mat to, sac_mat from) {
    if (!to.data) return SAC_OK;
    if (sac_model_on_device(s->model))
        return s->model->device.copy(&s->device_stream, to.data, from.data, mat_bytes(to));
    memcpy(to.data, from.data, mat_bytes(to));
    return SAC_OK;
}

sac_status sac_visual_copy_tokens(const sac_session *s, const sac_media *m, int64_t token,
                                  sac_visual_mat from) {
    for (int64_t at = 0, n = from.rows.rows; at < n;) {
        sac_visual_mat run = sac_visual_run(s, m, token + at, n - at);
        SAC_TRY(copy(s, run.rows, rows_from(from.rows, at, run.rows.rows)));
        SAC_TRY(copy(s, run.deep, rows_from(from.deep, at, run.rows.rows)));
        at += run.rows.rows;
    }
    return SAC_OK;
}

static sac_status copy_all_to(const sac_session *s, const sac_media *m, void *block) {
    const sac_visual_mat to = in_block(s, block, n_tokens(m));
    for (int64_t at = 0, n = n_tokens(m); at < n;) {
        sac_visual_mat run = sac_visual_run(s, m, at, n - at);
        SAC_TRY(copy(s, rows_from(to.rows, at, run.rows.rows), run.rows));
        SAC_TRY(copy(s, rows_from(to.deep, at, run.rows.rows), run.deep));
        at += run.rows.rows;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- the cache */

/* Until the session's copies are made. Other sessions have streams of their own, which know nothing of them. */
static sac_status wait_for_copies(const sac_session *s, sac_status st, sac_error *err) {
    const sac_device *d = &s->model->device;
    if (!sac_model_on_device(s->model)) return st;
    sac_status sync = d->stream_sync(&s->device_stream, err);
    if (sync != SAC_OK || st == SAC_OK) return sync;
    return sac_fail(err, st, "%s refused a copy of visual rows", d->name);
}

sac_status sac_visual_recall(const sac_session *s, const sac_media *m, bool *found, sac_error *err) {
    sac_vision_cache *c = s->model->vision_cache;
    sac_vision_entry *e = sac_vision_cache_find(c, &m->key, (size_t)n_tokens(m) * row_bytes(s));
    *found = e != NULL;
    if (!e) return SAC_OK;
    sac_status st = sac_visual_copy_tokens(s, m, 0, in_block(s, e->rows, n_tokens(m)));
    st = wait_for_copies(s, st, err);
    sac_vision_cache_release(c, e);
    return st;
}

sac_status sac_visual_keep(const sac_session *s, const sac_media *m, sac_error *err) {
    sac_vision_cache *c = s->model->vision_cache;
    sac_vision_entry *e = sac_vision_cache_reserve(c, &m->key, (size_t)n_tokens(m) * row_bytes(s));
    if (!e) return SAC_OK;
    sac_status st = copy_all_to(s, m, e->rows);
    st = wait_for_copies(s, st, err);
    if (st == SAC_OK) sac_vision_cache_publish(c, e);
    sac_vision_cache_release(c, e);
    return st;
}
