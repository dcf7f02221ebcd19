#include "visual_rows.h"

#include <string.h>

sac_mat sac_visual_run(const sac_session *s, const sac_media *m, int64_t token, int64_t n) {
    int64_t each = m->block_tokens, inside = token % each, left = each - inside;
    return sac_decoder_hidden(&s->decoder, m->spans[token / each].first + inside, left < n ? left : n);
}

static size_t row_bytes(const sac_session *s) {
    return sac_dtype_row_bytes(s->decoder.dtype, s->decoder.shape.hidden);
}

static int64_t n_tokens(const sac_media *m) {
    return m->n_blocks * m->block_tokens;
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
    size_t n_bytes = (size_t)to.rows * row_bytes(s);
    round_rows(to.dtype, rows, (size_t)(to.rows * to.cols));
    if (sac_model_on_device(s->model))
        return s->model->device.upload(&s->device_stream, to.data, rows, n_bytes);
    memcpy(to.data, rows, n_bytes);
    return SAC_OK;
}

sac_status sac_visual_write_tokens(const sac_session *s, const sac_media *m, int64_t token, int64_t n,
                                   float *rows) {
    for (int64_t at = 0; at < n;) {
        sac_mat run = sac_visual_run(s, m, token + at, n - at);
        SAC_TRY(sac_visual_write(s, run, rows + at * run.cols));
        at += run.rows;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- where the decoder runs */

static sac_status copy(const sac_session *s, void *to, const void *from, size_t n_bytes) {
    if (sac_model_on_device(s->model)) return s->model->device.copy(&s->device_stream, to, from, n_bytes);
    memcpy(to, from, n_bytes);
    return SAC_OK;
}

sac_status sac_visual_copy_tokens(const sac_session *s, const sac_media *m, int64_t token, int64_t n,
                                  const void *rows) {
    for (int64_t at = 0; at < n;) {
        sac_mat run = sac_visual_run(s, m, token + at, n - at);
        const uint8_t *from = (const uint8_t *)rows + (size_t)at * row_bytes(s);
        SAC_TRY(copy(s, run.data, from, (size_t)run.rows * row_bytes(s)));
        at += run.rows;
    }
    return SAC_OK;
}

static sac_status copy_all_to(const sac_session *s, const sac_media *m, void *rows) {
    for (int64_t at = 0, n = n_tokens(m); at < n;) {
        sac_mat run = sac_visual_run(s, m, at, n - at);
        uint8_t *to = (uint8_t *)rows + (size_t)at * row_bytes(s);
        SAC_TRY(copy(s, to, run.data, (size_t)run.rows * row_bytes(s)));
        at += run.rows;
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
    sac_status st = sac_visual_copy_tokens(s, m, 0, n_tokens(m), e->rows);
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
