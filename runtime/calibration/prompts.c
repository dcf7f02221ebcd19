#include "prompts.h"

#include "prefill.h"
#include "work.h"
#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sac_status named(const sac_calibration *c, size_t i, sac_status st, sac_error *err) {
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%.200s", c->prompts[i].name);
}

/* Tokens are placed and, with `embeds`, their rows looked up or encoded; the first layer comes next. Without, the rows are the
 * caller's. */
static sac_status begin(sac_calibration *c, size_t i, bool embeds, sac_error *err) {
    sac_session *s = c->session;
    sac_work *w = s->work;
    sac_session_reset(s);
    sac_work_begin(w, s, &c->prompts[i].input, NULL);
    while (w->stage != SAC_WORK_PREFILL && (embeds || w->stage != SAC_WORK_TEXT)) SAC_TRY(sac_work_next(w, err));
    if (!embeds) {
        SAC_TRY(sac_session_borrow(s, SAC_FOR_PROMPT, err));
        SAC_TRY(sac_prefill_work_begin(&w->prefill, &c->model->loaded.decoder, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s),
                                       0, w->prompt.n_tokens, 1, err));
        w->stage = SAC_WORK_PREFILL;
    }
    w->prefill.n_out = w->prefill.n; /* of the last layer too every row is wanted */
    return SAC_OK;
}

static void copy_rows(float *to, sac_mat from) {
    for (int64_t r = 0; r < from.rows; r++)
        memcpy(to + r * from.cols, sac_mat_row_f32(from, r), (size_t)from.cols * sizeof *to);
}

static sac_status embed(sac_calibration *c, size_t i, sac_error *err) {
    SAC_TRY(begin(c, i, true, err));
    const int64_t n = c->session->work->prefill.n;
    float *grown = realloc(c->rows, (size_t)(c->first[i] + n) * (size_t)c->hidden * sizeof *grown);
    if (!grown) return sac_fail_no_memory(err);
    c->rows = grown;
    c->first[i + 1] = c->first[i] + n;
    copy_rows(c->rows + c->first[i] * c->hidden, sac_decoder_hidden(&c->session->decoder, 0, n));
    return SAC_OK;
}

sac_status sac_calibration_embed(sac_calibration *c, sac_error *err) {
    sac_status st = SAC_OK;
    for (size_t i = 0; i < c->n && st == SAC_OK; i++) {
        sac_calibration_tell(c, "prompts", (int64_t)i, (int64_t)c->n);
        st = named(c, i, embed(c, i, err), err);
        sac_session_reset(c->session);
    }
    return st;
}

static sac_status run_layer(sac_calibration *c, size_t i, int layer, float *out, sac_error *err) {
    sac_decoder_state *d = &c->session->decoder;
    sac_prefill_work *w = &c->session->work->prefill;
    SAC_TRY(begin(c, i, layer < d->n_deep, err)); /* what is added to rows of pictures comes with these */
    const sac_mat h = sac_decoder_hidden(d, 0, w->n);
    if (w->n != c->first[i + 1] - c->first[i])
        return sac_fail(err, SAC_BAD_FILE, "%lld tokens, and %lld before: its files have changed", (long long)w->n,
                        (long long)(c->first[i + 1] - c->first[i]));
    for (int64_t r = 0; r < w->n; r++)
        memcpy(sac_mat_row_f32(h, r), c->rows + (c->first[i] + r) * c->hidden, (size_t)c->hidden * sizeof(float));
    w->layer = layer;
    while (!sac_prefill_work_is_done(w) && w->layer == layer) SAC_TRY(sac_prefill_work_next(w, err));
    if (out) copy_rows(out, h);
    return SAC_OK;
}

sac_status sac_calibration_run_layer(sac_calibration *c, size_t i, int layer, float *out, sac_error *err) {
    const sac_status st = named(c, i, run_layer(c, i, layer, out, err), err);
    sac_session_reset(c->session);
    return st;
}

sac_status sac_calibration_run(sac_calibration *c, size_t i, sac_error *err) {
    sac_status st = begin(c, i, true, err);
    sac_prefill_work *w = &c->session->work->prefill;
    while (st == SAC_OK && !sac_prefill_work_is_done(w)) st = sac_prefill_work_next(w, err);
    sac_session_reset(c->session);
    return named(c, i, st, err);
}

void sac_calibration_note_unseen(sac_calibration *c, const char *name) {
    sac_calibration_report *r = &c->report;
    if (r->n_unseen++ == 0) snprintf(r->first_unseen, sizeof r->first_unseen, "%.120s", name);
}

static int by_name(const void *key, const void *entry) {
    return strcmp(key, ((const sac_tensor_entry *)entry)->name);
}

const sac_tensor_entry *sac_calibration_tensor(const sac_calibration *c, const char *name) {
    const sac_loaded_model *m = &c->model->loaded;
    return bsearch(name, m->tensors, (size_t)m->n_tensors, sizeof *m->tensors, by_name);
}
