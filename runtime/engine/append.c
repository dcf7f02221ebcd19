/* append.c - tokens behind a sequence, in one go and in pieces. */
#include "append.h"

#include "call.h"
#include "clock.h"
#include "pages.h"
#include "renew.h"
#include "workspace.h"

#include <string.h>

typedef struct asker {
    sac_session *s;
    sac_error *err;
} asker;

static sac_status may_go_on(void *ctx, int layer, int n_layers) {
    const asker *a = ctx;
    (void)layer, (void)n_layers;
    return sac_session_check_cancel(a->s, a->err);
}

static sac_status check_all_logits(const sac_session *s, int64_t n, const float *all_logits, sac_error *err) {
    if (!all_logits || n == 1 || !s->decoder.prefill.policy->keep) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "prefill policy %s drops tokens, so not all have logits",
                    s->decoder.prefill.policy->name);
}

void sac_append_count(sac_session *s, int64_t past, int64_t n) {
    const bool few = sac_decoder_is_few(&s->decoder, n);
    if (past == 0) s->begins_few = few;
    if (s->n_prompted == past && (past == 0 || (n > 1 && !few))) s->n_prompted = past + n;
}

/* n tokens as a prompt goes: the prefill policy. */
static sac_status append_prompt(sac_session *s, int64_t past, int64_t n, float *all_logits, sac_error *err) {
    const sac_decoder *d = sac_model_decoder(s->model);
    const sac_ops *ops = sac_decoder_ops(s);
    const sac_stream *stream = sac_decoder_stream(s);
    SAC_TRY(check_all_logits(s, n, all_logits, err));
    SAC_TRY(sac_decoder_embed(d, &s->decoder, ops, stream, past, n, s->ids + past));
    s->decoder.n_visual = 0;
    SAC_TRY(sac_decoder_prefill(d, &s->decoder, ops, stream, past, n, all_logits ? n : 1, may_go_on,
                                &(asker){s, err}, err));
    sac_append_count(s, past, n);
    if (all_logits) SAC_TRY(sac_decoder_logits(d, &s->decoder, ops, stream, past, n, all_logits));
    return sac_decoder_last_logits(d, &s->decoder, ops, stream);
}

/* One token as an answer's go: the decode policy. */
static sac_status append_step(sac_session *s, int64_t past, float *logits, sac_error *err) {
    const sac_decoder *d = sac_model_decoder(s->model);
    SAC_TRY(
        sac_decoder_step(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, s->ids[past], err));
    if (logits) memcpy(logits, s->decoder.logits, (size_t)d->config.vocab * sizeof *logits);
    return SAC_OK;
}

sac_status sac_append_whole(sac_session *s, int64_t past, int64_t n, float *all_logits, sac_error *err) {
    /* What begins a sequence is its prompt, be it one token: methods learn and set their budgets there. */
    bool is_step = n == 1 && past > 0;
    if (sac_decoder_turns_anew(&s->decoder, past + n)) {
        SAC_TRY(check_all_logits(s, n, all_logits, err));
        return sac_renew(s, past + n, n, all_logits, err);
    }
    SAC_TRY(sac_session_borrow(s, is_step ? SAC_FOR_STEP : SAC_FOR_PROMPT, err));
    sac_status st = sac_session_make_room(s, sac_decoder_stream(s), past + n + s->decoder.n_spare, err);
    if (st == SAC_OK) st = is_step ? append_step(s, past, all_logits, err) : append_prompt(s, past, n, all_logits, err);
    sac_session_give_back(s);
    return st;
}

/* ---------------------------------------------------------------- in pieces */

static int64_t n_appended(const sac_work *w) {
    return w->prompt.n_tokens - w->prompt.n_reused;
}

bool sac_append_is_cut(const sac_work *w) {
    return (n_appended(w) > 1 || w->prompt.n_reused == 0) && !sac_decoder_turns_anew(&w->s->decoder, w->prompt.n_tokens);
}

sac_status sac_append_embed(sac_work *w, sac_error *err) {
    sac_session *s = w->s;
    const int64_t past = w->prompt.n_reused, n = n_appended(w);
    SAC_TRY(check_all_logits(s, n, w->all_logits, err));
    SAC_TRY(sac_session_borrow(s, SAC_FOR_PROMPT, err));
    SAC_TRY(sac_session_make_room(s, sac_decoder_stream(s), w->prompt.n_tokens, err));
    s->decoder.n_visual = 0;
    return sac_decoder_embed(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, n,
                             s->ids + past);
}

/* Rows of logits at a time: all, or part of one of the chunks that all are made in. No part has few rows, as these have other bits than
 * many (SAC_LINEAR_FEW_ROWS), unless its chunk has. */
static int64_t rows_of_logits(const sac_work *w, double row_cost) {
    const int64_t least = 2 * SAC_LINEAR_FEW_ROWS, chunk = w->s->decoder.chunk, left = n_appended(w) - w->n_logits;
    if (w->most_head <= 0) return left;
    const int64_t of_chunk = chunk - w->n_logits % chunk < left ? chunk - w->n_logits % chunk : left;
    if (w->most_head >= (double)of_chunk * row_cost) return of_chunk;
    const int64_t most = (int64_t)(w->most_head / row_cost), n = most < least ? least : most;
    return of_chunk - n <= SAC_LINEAR_FEW_ROWS ? of_chunk : n;
}

sac_status sac_append_logits(sac_work *w) {
    sac_session *s = w->s;
    const sac_decoder *d = sac_model_decoder(s->model);
    const double row_cost = (double)d->config.vocab * d->config.hidden;
    const int64_t n = rows_of_logits(w, row_cost), start_ns = sac_now_ns();
    SAC_TRY(sac_decoder_logits(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), w->prompt.n_reused + w->n_logits, n,
                               w->all_logits + w->n_logits * d->config.vocab));
    sac_pace_measure(&w->pace, SAC_PACE_HEAD, (double)n * row_cost, sac_seconds_since(start_ns));
    w->n_logits += n;
    return SAC_OK;
}
