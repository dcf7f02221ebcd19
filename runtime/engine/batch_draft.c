/* batch_draft.c - who guesses how many, with whom, and what it costs (ahead_gain.h). */
#include "batch_draft.h"

#include "ahead.h"
#include "clock.h"
#include "draft_head.h"
#include "draft_model.h"

#include <string.h>

/* Rows of the batch that no session has are for guesses, of each session at most so many. */
enum { MOST_GUESSES = 7 };

/* The sessions of a pass. */
typedef struct drafters {
    sac_batch *b;
    sac_batch_item *items;
    const size_t *places;
    size_t n;
} drafters;

static sac_session *session_of(const drafters *d, size_t i) {
    return d->items[d->places[i]].session;
}

static bool is_of(const sac_session *s, sac_draft_source from) {
    return s->ahead.draft.method && s->ahead.draft.method->from == from;
}

static int64_t past_of(const sac_session *s) {
    return s->decoder.cache.n_rows;
}

/* How many each may have, which is b->n_guessed until they are made: guesses that cost nothing are. */
static void share_rows(const drafters *d) {
    sac_batch *b = d->b;
    const sac_ahead_shared *pass = &b->passes[d->n];
    const double share_s = sac_ahead_shared_is_known(pass) ? pass->plain_s / (double)d->n : 0;
    int64_t spare = b->rows.capacity - (int64_t)d->n;
    for (size_t i = 0; i < d->n; i++) {
        sac_session *s = session_of(d, i);
        const int most = spare < MOST_GUESSES ? (int)spare : MOST_GUESSES;
        s->ahead.ids[0] = b->ids[i];
        b->making_s[i] = 0;
        b->n_guessed[i] = is_of(s, SAC_DRAFT_OF_TOKENS) ? sac_ahead_guess(s, past_of(s), most)
                                                        : sac_ahead_room_shared(s, past_of(s), most, share_s);
        spare -= b->n_guessed[i];
    }
}

/* ---------------------------------------------------------------- by lanes */

/* Of n lanes, whose sessions are those at `of`. */
static void count_lanes(const drafters *d, const sac_draft_lane *lanes, const size_t *of, size_t n, double seconds) {
    int64_t n_tokens = 0;
    for (size_t k = 0; k < n; k++) n_tokens += lanes[k].n_given - 1 + lanes[k].most;
    for (size_t k = 0; k < n; k++) {
        d->b->n_guessed[of[k]] = lanes[k].n;
        d->b->making_s[of[k]] += seconds * (lanes[k].n_given - 1 + lanes[k].most) / (double)n_tokens;
    }
}

static sac_status guess_sparse(const drafters *d, sac_error *err) {
    sac_batch *b = d->b;
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++) {
        sac_session *s = session_of(d, i);
        if (!is_of(s, SAC_DRAFT_OF_SPARSE) || !b->n_guessed[i]) continue;
        b->lanes[n] = (sac_draft_lane){.s = &s->decoder,
                                       .given = s->ahead.ids,
                                       .n_given = 1,
                                       .vocab = s->decoder.vocab,
                                       .most = b->n_guessed[i],
                                       .out = s->ahead.ids + 1};
        b->lane_of[n++] = i;
    }
    if (!n) return SAC_OK;
    const int64_t start_ns = sac_now_ns();
    SAC_TRY(sac_decoder_draft_together(sac_model_decoder(b->model), &b->rows, &b->ops, &b->stream, b->lanes, (int64_t)n, err));
    count_lanes(d, b->lanes, b->lane_of, n, sac_seconds_since(start_ns));
    return SAC_OK;
}

/* An answer does not fail with its draft: it goes on without. One that was cancelled is found out by its next step. */
static void take_guess(const drafters *d, size_t i, sac_status st, int n, double seconds) {
    if (st != SAC_OK && st != SAC_CANCELLED) session_of(d, i)->ahead.has_failed = true;
    d->b->n_guessed[i] = st == SAC_OK ? n : 0;
    d->b->making_s[i] += seconds;
}

/* One by itself. */
static void guess_alone(const drafters *d, size_t i) {
    sac_session *s = session_of(d, i);
    const int64_t start_ns = sac_now_ns();
    double behind_s = 0;
    sac_error err;
    int n = 0;
    const sac_status st = is_of(s, SAC_DRAFT_OF_MODEL)
                              ? sac_draft_model_guess(s, past_of(s), d->b->n_guessed[i], s->ahead.ids + 1, &n, &behind_s, &err)
                              : sac_draft_head_guess(s, &d->b->ops, &d->b->stream, past_of(s), d->b->n_guessed[i],
                                                     s->ahead.ids + 1, &n, &behind_s, &err);
    take_guess(d, i, st, n, sac_seconds_since(start_ns) - behind_s);
}

/* Lanes of the sessions that a draft model has. */
static size_t ready_lanes(const drafters *d, const sac_model *m) {
    sac_batch *b = d->b;
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++) {
        sac_session *s = session_of(d, i);
        if (!b->n_guessed[i] || !is_of(s, SAC_DRAFT_OF_MODEL) || s->ahead.drafter->model != m) continue;
        const int64_t start_ns = sac_now_ns();
        double behind_s;
        sac_error err;
        sac_draft_lane *lane = &b->lanes[n];
        const sac_status st = sac_draft_model_ready(s, past_of(s), b->n_guessed[i], s->ahead.ids + 1, lane, &behind_s, &err);
        if (st == SAC_OK && !lane->s)
            guess_alone(d, i);
        else if (st == SAC_OK && lane->most)
            b->making_s[i] += sac_seconds_since(start_ns) - behind_s, b->lane_of[n++] = i;
        else
            take_guess(d, i, st, 0, sac_seconds_since(start_ns) - behind_s);
    }
    return n;
}

/* In rows of the draft model's own batch. */
static void guess_by(const drafters *d, sac_batch *its) {
    sac_batch *b = d->b;
    const size_t n = ready_lanes(d, its->model);
    if (!n) return;
    const int64_t start_ns = sac_now_ns();
    sac_error err;
    const sac_status st = sac_decoder_go_on_together(sac_model_decoder(its->model), &its->rows, &its->ops, &its->stream, b->lanes,
                                                     (int64_t)n, &err);
    count_lanes(d, b->lanes, b->lane_of, n, sac_seconds_since(start_ns));
    for (size_t k = 0; k < n; k++) {
        sac_draft_model_ran(session_of(d, b->lane_of[k]), &b->lanes[k]);
        if (st != SAC_OK) take_guess(d, b->lane_of[k], st, 0, 0);
    }
}

static bool has_batch(const sac_batch *b, const sac_session *s) {
    for (size_t k = 0; k < b->n_drafts; k++)
        if (s->ahead.drafter && s->ahead.drafter->model == b->drafts[k]->model) return true;
    return false;
}

/* ---------------------------------------------------------------- all */

sac_status sac_batch_guess(sac_batch *b, sac_batch_item *items, const size_t *places, size_t n, int64_t *n_guessed, sac_error *err) {
    const drafters d = {b, items, places, n};
    share_rows(&d);
    SAC_TRY(guess_sparse(&d, err));
    for (size_t k = 0; k < b->n_drafts; k++) guess_by(&d, b->drafts[k]);
    for (size_t i = 0; i < n; i++) {
        const sac_session *s = session_of(&d, i);
        if (b->n_guessed[i] && (is_of(s, SAC_DRAFT_OF_HEAD) || (is_of(s, SAC_DRAFT_OF_MODEL) && !has_batch(b, s))))
            guess_alone(&d, i);
    }
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        b->first[i] = at;
        memcpy(b->ids + at, session_of(&d, i)->ahead.ids, (size_t)(1 + b->n_guessed[i]) * sizeof *b->ids);
        at += 1 + b->n_guessed[i];
    }
    b->first[n] = at;
    *n_guessed = at - (int64_t)n;
    return SAC_OK;
}

void sac_batch_guessed(sac_batch *b, sac_batch_item *items, const size_t *places, size_t n, double seconds) {
    const drafters d = {b, items, places, n};
    sac_ahead_shared *pass = &b->passes[n];
    int64_t n_dear = 0; /* guesses that are counted: the others are part of what a pass takes */
    for (size_t i = 0; i < n; i++) n_dear += session_of(&d, i)->ahead.draft.adapts ? b->n_guessed[i] : 0;
    n_dear ? sac_ahead_shared_passed(pass) : sac_ahead_shared_plain(pass, seconds);
    const double share_s = pass->plain_s / (double)n, more_s = seconds > pass->plain_s ? seconds - pass->plain_s : 0;
    const bool is_known = n_dear || sac_ahead_shared_is_known(pass);
    for (size_t i = 0; i < n; i++) {
        sac_session *s = session_of(&d, i);
        const double rows_s = n_dear ? more_s * b->n_guessed[i] / (double)n_dear : 0;
        if (s->ahead.draft.adapts && is_known)
            sac_ahead_gain_passed_shared(&s->ahead.gain, b->n_guessed[i], share_s, b->making_s[i] + rows_s);
        sac_ahead_was_run(s, b->n_guessed[i]);
    }
}
