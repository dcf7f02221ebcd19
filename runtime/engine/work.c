#include "work.h"

#include "append.h"
#include "beginnings.h"
#include "call.h"
#include "clock.h"
#include "decoder_pass.h"
#include "mask_call.h"
#include "media_reduce.h"
#include "pages.h"
#include "workspace.h"

#include <string.h>

/* ---------------------------------------------------------------- tokens and their rows */

/* A user's last message with nothing in it is a slip: what a model says to it is about nothing. */
static sac_status check_question(const sac_input *in, sac_error *err) {
    const sac_message *last = in->n_messages ? &in->messages[in->n_messages - 1] : NULL;
    if (!last || !last->role || strcmp(last->role, "user")) return SAC_OK; /* others are judged elsewhere */
    for (size_t i = 0; i < last->n_parts; i++) {
        const sac_part *p = &last->parts[i];
        if (p->kind != SAC_PART_TEXT || (p->text && p->text[strspn(p->text, " \t\r\n")])) return SAC_OK;
    }
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    "no question: the last message has neither a text nor a picture or video");
}

static sac_status build(sac_work *w, sac_error *err) {
    sac_session *s = w->s;
    const sac_input *in = &w->input;
    if (in->messages || (!in->text && !in->ids)) {
        SAC_TRY(check_question(in, err));
        int64_t media_ns = sac_now_ns();
        SAC_TRY(sac_media_prepare(s, in->messages, in->n_messages, err));
        w->result.seconds.media = sac_seconds_since(media_ns);
        return sac_prompt_build(s, in->messages, in->n_messages, &w->prompt, err);
    }
    sac_media_release(s);
    if (in->text) return sac_prompt_of_text(s, in->text, in->n_text_bytes, &w->prompt, err);
    return sac_prompt_of_tokens(s, in->ids, in->n_ids, &w->prompt, err);
}

/* Where visual tokens stand, for methods that treat them apart. */
static void find_visual(sac_session *s) {
    s->decoder.n_visual = 0;
    s->decoder.visual = s->visual;
    for (int k = 0; k < s->n_spans; k++)
        if (s->spans[k].n) s->visual[s->decoder.n_visual++] = (sac_visual_span){s->spans[k].first, s->spans[k].n};
}

static sac_status place(sac_work *w, sac_error *err) {
    SAC_TRY(sac_prompt_place(w->s, &w->prompt, err));
    find_visual(w->s);
    w->is_placed = true;
    return SAC_OK;
}

/* Pictures that go together are opened within the first piece, which is not the tower's time. Each piece of a video reads its frames, and on a
 * device the tower's time is not all of this call's. */
static sac_status encode_batch(sac_work *w, sac_error *err) {
    sac_media_work *e = &w->encoding;
    const int64_t start_ns = sac_now_ns(), before = e->n_done;
    const double vision_before = e->vision_seconds;
    SAC_TRY(sac_media_work_next(e, err));
    const double whole = sac_seconds_since(start_ns), tower = e->vision_seconds - vision_before;
    sac_pace_measure(&w->pace, SAC_PACE_TOWER, (double)((e->n_done - before) * e->m->tower.n_patches),
                     e->m->content == SAC_PART_IMAGE ? tower : whole);
    return SAC_OK;
}

static void count_encoding(sac_work *w) {
    w->result.seconds.media += w->encoding.media_seconds;
    w->result.seconds.vision += w->encoding.vision_seconds;
}

/* Whether the piece is left to be tried again. */
static bool may_wait(const sac_work *w, sac_status st) {
    return sac_session_is_waiting(w->s, st) && !w->is_whole;
}

/* For all its rows at once: what has begun then waits for nothing. Where others may have its beginning it is placed before, as their
 * pages are not asked for; otherwise nothing that is held is lost before there is memory. */
static sac_status make_room(sac_work *w, sac_error *err) {
    if (w->is_placed) sac_beginnings_withdraw(w->s); /* who was parked meanwhile and had nothing for the host has offered them */
    if (!w->is_placed && sac_beginnings_may_share(w->s)) SAC_TRY(place(w, err));
    SAC_TRY(sac_beginnings_share(w->s, &w->prompt, err));
    const sac_status st = sac_session_take_room(w->s, w->prompt.n_tokens + 1, err);
    if (st != SAC_OK) return may_wait(w, st) ? SAC_OK : st;
    if (!w->is_placed) SAC_TRY(place(w, err));
    SAC_TRY(sac_beginnings_take(w->s, &w->prompt, err));
    w->stage = sac_store_walk_begin(&w->walk, w->s, &w->prompt) ? SAC_WORK_FIND : SAC_WORK_TEXT;
    return SAC_OK;
}

/* The next video of which it is not known what stays is for the tower; when there is none, all rows have their places. */
static sac_status go_on_to_choices(sac_work *w, sac_error *err) {
    const sac_session *s = w->s;
    w->stage = SAC_WORK_CHOOSE;
    while (w->medium < s->n_media && !sac_media_is_undecided(&s->media[w->medium])) w->medium++;
    if (w->medium < s->n_media) return SAC_OK;
    w->medium = 0;
    w->stage = SAC_WORK_ROOM;
    return make_room(w, err);
}

static sac_status measure(sac_work *w, sac_error *err) {
    SAC_TRY(build(w, err));
    return go_on_to_choices(w, err);
}

static sac_status choose(sac_work *w, sac_error *err) {
    sac_media_work *e = &w->encoding;
    if (!w->s->workspace) SAC_TRY(sac_session_borrow(w->s, SAC_FOR_PROMPT, err));
    SAC_TRY(sac_media_work_is_done(e) ? sac_media_work_begin_choice(e, w->s, w->medium, err) : encode_batch(w, err));
    if (!sac_media_work_is_done(e)) return SAC_OK;
    count_encoding(w);
    w->medium++;
    return go_on_to_choices(w, err);
}

static sac_status find(sac_work *w, sac_error *err) {
    bool done;
    SAC_TRY(sac_session_check_cancel(w->s, err));
    SAC_TRY(sac_store_walk_next(&w->walk, w->s, &w->prompt, &done, err));
    if (done) w->stage = SAC_WORK_TEXT;
    return SAC_OK;
}

/* All rows have their embeddings. */
static sac_status begin_prefill(sac_work *w, sac_error *err) {
    sac_session *s = w->s;
    int64_t past = w->prompt.n_reused;
    w->prefill_ns = sac_now_ns();
    SAC_TRY(sac_prefill_work_begin(&w->prefill, sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s),
                                   sac_decoder_stream(s), past, w->prompt.n_tokens - past,
                                   w->all_logits ? w->prompt.n_tokens - past : 1, err));
    w->stage = SAC_WORK_PREFILL;
    return SAC_OK;
}

/* The next medium whose tokens are not all in the cache is for the tower; when there is none, the prefill. */
static sac_status go_on_to_media(sac_work *w, sac_error *err) {
    const sac_session *s = w->s;
    w->stage = SAC_WORK_MEDIA;
    while (w->medium < s->n_media && sac_prompt_media_end(s, w->medium) <= w->prompt.n_reused) w->medium++;
    return w->medium < s->n_media ? SAC_OK : begin_prefill(w, err);
}

/* Text between the spans becomes embeddings, run by run. */
static sac_status embed_text(sac_work *w, sac_error *err) {
    sac_session *s = w->s;
    int64_t at = w->prompt.n_reused, n = w->prompt.n_tokens;
    if (!s->workspace) SAC_TRY(sac_session_borrow(s, SAC_FOR_PROMPT, err));
    for (int k = 0; k <= s->n_spans; k++) {
        int64_t end = k < s->n_spans ? s->spans[k].first : n;
        if (end > at)
            SAC_TRY(sac_decoder_embed(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s),
                                      sac_decoder_stream(s), at, end - at, s->ids + at));
        int64_t after = k < s->n_spans ? end + s->spans[k].n : n;
        if (after > at) at = after;
    }
    return go_on_to_media(w, err);
}

/* A batch of it, or what the cache has of it. */
static sac_status encode_medium(sac_work *w, sac_error *err) {
    sac_media_work *e = &w->encoding;
    SAC_TRY(sac_media_work_is_done(e) ? sac_media_work_begin(e, w->s, w->medium, err) : encode_batch(w, err));
    if (!sac_media_work_is_done(e)) return SAC_OK;
    count_encoding(w);
    w->medium += 1 + (size_t)e->n_joined;
    return go_on_to_media(w, err);
}

/* ---------------------------------------------------------------- prefill */

enum { STEPS_A_LAYER = 100 };

/* Before every piece: of a large model a layer of a long prompt takes many seconds. */
static sac_status report_prefill(const sac_work *w, int64_t n_steps, sac_error *err) {
    const sac_events *e = w->s->events;
    SAC_TRY(sac_session_check_cancel(w->s, err));
    if (e && e->progress)
        e->progress(e->ctx, "prefill", n_steps, (int64_t)STEPS_A_LAYER * sac_model_decoder(w->s->model)->config.n_layers);
    return SAC_OK;
}

/* About as many steps as are done: rows before attention are half of a layer, rows behind it the other. Those that passes took are
 * through all layers. */
static int64_t steps_done(const sac_prefill_work *p) {
    const int64_t all = (int64_t)STEPS_A_LAYER * p->d->config.n_layers, passed = p->past - p->began;
    int64_t n = p->n > 0 ? p->n : 1, rows = p->stage == SAC_PREFILL_IN ? p->at : n;
    if (p->stage == SAC_PREFILL_OUT) rows += p->at;
    if (rows > 2 * n) rows = 2 * n;
    const int64_t own = (int64_t)STEPS_A_LAYER * p->layer + STEPS_A_LAYER * rows / (2 * n);
    return passed ? (all * passed + own * n) / (passed + n) : own;
}

static sac_pace_kind prefill_kind(const sac_prefill_work *p) {
    return p->stage == SAC_PREFILL_IN ? SAC_PACE_IN : p->stage == SAC_PREFILL_ATTEND ? SAC_PACE_ATTEND : SAC_PACE_OUT;
}

static sac_status run_measured(sac_work *w, sac_error *err) {
    const sac_prefill_work *p = &w->prefill;
    const double cost = sac_prefill_work_is_typical(p) ? sac_prefill_work_cost(p) : 0;
    const sac_pace_kind kind = prefill_kind(p);
    const int64_t start_ns = sac_now_ns();
    SAC_TRY(sac_prefill_work_next(&w->prefill, err));
    sac_pace_measure(&w->pace, kind, cost, sac_seconds_since(start_ns));
    return SAC_OK;
}

/* Rows are counted as soon as they are there: whoever gives up before the logits leaves them. */
static void end_prefill(sac_work *w) {
    const int64_t past = w->prompt.n_reused, n = w->prompt.n_tokens;
    if (!sac_prefill_work_is_done(&w->prefill)) return;
    if (w->appends)
        sac_append_count(w->s, past, n - past);
    else
        sac_prompt_count_rows(w->s, past, n);
    w->stage = w->all_logits ? SAC_WORK_ALL_LOGITS : SAC_WORK_LOGITS;
}

static sac_status run_piece(sac_work *w, sac_error *err) {
    SAC_TRY(report_prefill(w, steps_done(&w->prefill), err));
    SAC_TRY(run_measured(w, err));
    end_prefill(w);
    return SAC_OK;
}

/* What a piece is on a device is only queued. It waits for all but the last one before it, so that steps of other
 * sessions between two pieces do not stand behind a whole prompt; for that one too where the caller's time is short, as each kernel of
 * a step waits for those of the pieces that are there. */
static sac_status run_paced(sac_work *w, sac_error *err) {
    sac_workspace *space = w->s->workspace;
    const sac_device *d = space->device_stream.device;
    if (!d) return run_piece(w, err);
    const int ahead = w->prefill.most > 0 ? 1 : SAC_PIECES_AHEAD;
    sac_event *before = &space->passed[(w->n_pieces + SAC_PIECES_AHEAD - ahead) % SAC_PIECES_AHEAD],
              *passed = &space->passed[w->n_pieces++ % SAC_PIECES_AHEAD];
    if (d->event_sync(before) != SAC_OK)
        return sac_fail(err, SAC_DEVICE, "%s: a piece of a prompt was not run", d->name);
    SAC_TRY(run_piece(w, err));
    if (d->event_record(&space->device_stream, passed) == SAC_OK) return SAC_OK;
    return sac_fail(err, SAC_DEVICE, "%s: a piece of a prompt was not run", d->name);
}

/* Nobody takes over rows that are appended. */
static sac_status finish_append(sac_work *w) {
    sac_session *s = w->s;
    const bool is_token = w->prompt.n_tokens - w->prompt.n_reused == 1; /* others may follow soon */
    s->has_logits = true;
    sac_work_drop(w);
    if (!is_token) sac_session_trim_packed(s);
    sac_beginnings_offer(s); /* the rows before */
    return SAC_OK;
}

static sac_status finish(sac_work *w, sac_error *err) {
    sac_session *s = w->s;
    SAC_TRY(report_prefill(w, (int64_t)STEPS_A_LAYER * sac_model_decoder(s->model)->config.n_layers, err));
    SAC_TRY(sac_decoder_last_logits(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s),
                                    sac_decoder_stream(s)));
    if (w->appends) return finish_append(w);
    s->has_logits = true;
    if (s->kept_hidden)
        SAC_TRY(sac_decoder_last_hidden(sac_model_decoder(s->model), &s->decoder, sac_decoder_stream(s), s->kept_hidden));
    w->result.seconds.prefill = sac_seconds_since(w->prefill_ns);
    w->result.n_prompt_tokens = w->prompt.n_tokens;
    w->result.n_visual_tokens = w->prompt.n_visual;
    w->result.n_reused_tokens = w->prompt.n_reused;
    w->result.prefill_is_short = s->decoder.prefill.is_short;
    sac_beginnings_offer(s);
    sac_work_drop(w); /* nothing is left of it but the result */
    sac_session_trim_packed(s);
    return SAC_OK;
}

/* ---------------------------------------------------------------- the work */

sac_status sac_work_check_outside(const sac_session *s, sac_error *err) {
    SAC_TRY(sac_mask_check(s->model, err));
    if (!s->work->inside) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "this session is at work: a callback may run other sessions only");
}

void sac_work_begin(sac_work *w, sac_session *s, const sac_input *in, const sac_events *events) {
    sac_work_drop(w);
    *w = (sac_work){.s = s, .input = *in, .stage = SAC_WORK_PLACE, .start_ns = sac_now_ns(), .pace = w->pace};
    s->has_logits = false;
    s->paging.wanted_rows = 0;
    s->decoder.cache.anew = true; /* which rows stay is known when the prompt is */
    sac_call_enter(s, events);
}

void sac_work_begin_append(sac_work *w, sac_session *s, int64_t past, int64_t n_tokens, float *all_logits, const sac_events *events) {
    sac_work_begin(w, s, &(sac_input){0}, events);
    w->stage = SAC_WORK_APPEND;
    w->appends = true;
    s->decoder.cache.anew = false;
    w->prompt.n_reused = past;
    w->prompt.n_tokens = n_tokens;
    w->all_logits = all_logits;
}

/* What is one step of an answer, or a sequence that is run anew, is one piece. */
static sac_status start_append(sac_work *w, sac_error *err) {
    SAC_TRY(sac_session_check_cancel(w->s, err));
    const sac_status st = sac_session_make_room_apart(w->s, w->prompt.n_tokens + w->s->decoder.n_spare, err);
    if (may_wait(w, st)) return SAC_OK;
    SAC_TRY(st);
    if (!sac_append_is_cut(w)) {
        SAC_TRY(sac_append_whole(w->s, w->prompt.n_reused, w->prompt.n_tokens - w->prompt.n_reused, w->all_logits, err));
        return finish_append(w);
    }
    SAC_TRY(sac_append_embed(w, err));
    return begin_prefill(w, err);
}

static sac_status make_logits(sac_work *w, sac_error *err) {
    SAC_TRY(sac_session_check_cancel(w->s, err));
    SAC_TRY(sac_append_logits(w));
    if (w->n_logits == w->prompt.n_tokens - w->prompt.n_reused) w->stage = SAC_WORK_LOGITS;
    return SAC_OK;
}

static sac_status next(sac_work *w, sac_error *err) {
    switch (w->stage) {
    case SAC_WORK_PLACE: return measure(w, err);
    case SAC_WORK_CHOOSE: return choose(w, err);
    case SAC_WORK_ROOM: return make_room(w, err);
    case SAC_WORK_FIND: return find(w, err);
    case SAC_WORK_TEXT: return embed_text(w, err);
    case SAC_WORK_MEDIA: return encode_medium(w, err);
    case SAC_WORK_PREFILL: return run_paced(w, err);
    case SAC_WORK_LOGITS: return finish(w, err);
    case SAC_WORK_APPEND: return start_append(w, err);
    case SAC_WORK_ALL_LOGITS: return make_logits(w, err);
    case SAC_WORK_DONE: break;
    }
    return SAC_OK;
}

/* Of a work whose piece came out so. */
static sac_status end_one(sac_work *w, sac_status st) {
    const bool appends = w->appends;
    sac_session *s = w->s;
    if (st == SAC_OK) return SAC_OK;
    sac_work_drop(w);
    if (appends) sac_beginnings_offer(s); /* the rows before */
    return st;
}

static sac_status run_one(sac_work *w, sac_error *err) {
    return end_one(w, next(w, err));
}

/* How much the next piece may be. */
static void limit(sac_work *w, double seconds) {
    const bool encodes = w->stage == SAC_WORK_MEDIA || w->stage == SAC_WORK_CHOOSE;
    const sac_pace_kind kind = encodes ? SAC_PACE_TOWER : prefill_kind(&w->prefill);
    const double most = seconds > 0 ? sac_pace_most(&w->pace, kind, seconds) : 0;
    w->encoding.most_patches = encodes ? most : 0;
    w->prefill.most = w->stage == SAC_WORK_PREFILL ? most : 0;
    w->most_head = seconds > 0 ? sac_pace_most(&w->pace, SAC_PACE_HEAD, seconds) : 0;
}

sac_status sac_work_next(sac_work *w, sac_error *err) {
    return sac_work_next_within(w, 0, err);
}

sac_status sac_work_next_within(sac_work *w, double seconds, sac_error *err) {
    limit(w, seconds);
    w->inside = true;
    sac_status st = run_one(w, err);
    w->inside = false;
    return st;
}

int64_t sac_work_pass_rows(const sac_work *w, int64_t most) {
    return w->stage == SAC_WORK_PREFILL && !w->inside ? sac_prefill_pass_rows(&w->prefill, most) : 0;
}

/* Embeddings, positions and rotations were written in the prompt's own stream. What comes after a pass waits for nothing: it is
 * through when the call that it is part of returns. */
static sac_status join_stream(sac_work *w, const sac_stream *stream, sac_error *err) {
    sac_workspace *space = w->s->workspace;
    const sac_device *d = space->device_stream.device;
    if (!d) return SAC_OK;
    sac_event *here = &space->passed[w->n_pieces % SAC_PIECES_AHEAD];
    if (d->event_record(&space->device_stream, here) == SAC_OK && d->event_wait(stream, here) == SAC_OK) return SAC_OK;
    return sac_fail(err, SAC_DEVICE, "%s: a prompt could not join a pass", d->name);
}

sac_status sac_work_enter_pass(sac_work *w, const sac_stream *stream, sac_error *err) {
    w->inside = true;
    sac_status st = report_prefill(w, steps_done(&w->prefill), err);
    if (st == SAC_OK) st = join_stream(w, stream, err);
    st = end_one(w, st);
    w->inside = st == SAC_OK;
    return st;
}

sac_status sac_work_leave_pass(sac_work *w, sac_status st) {
    w->inside = false;
    if (st == SAC_OK) end_prefill(w);
    return end_one(w, st);
}

sac_status sac_work_run(sac_work *w, sac_error *err) {
    sac_status st = SAC_OK;
    limit(w, 0);
    w->inside = w->is_whole = true;
    while (st == SAC_OK && !sac_work_is_done(w)) st = run_one(w, err);
    w->inside = false;
    return st;
}

double sac_work_cost(const sac_work *w) {
    return w->stage == SAC_WORK_PREFILL ? sac_prefill_work_cost(&w->prefill) : 0;
}

double sac_work_left(const sac_work *w) {
    switch (w->stage) {
    case SAC_WORK_PLACE: return -1;
    case SAC_WORK_CHOOSE:
    case SAC_WORK_ROOM:
    case SAC_WORK_FIND:
    case SAC_WORK_TEXT:
    case SAC_WORK_APPEND:
    case SAC_WORK_MEDIA: return (double)(w->prompt.n_tokens - w->prompt.n_reused);
    case SAC_WORK_PREFILL: return sac_prefill_work_left(&w->prefill);
    case SAC_WORK_LOGITS:
    case SAC_WORK_ALL_LOGITS:
    case SAC_WORK_DONE: break;
    }
    return 0;
}

void sac_work_drop(sac_work *w) {
    if (sac_work_is_done(w)) return;
    sac_media_work_drop(&w->encoding);
    if (w->stage == SAC_WORK_PREFILL) sac_prefill_work_drop(&w->prefill);
    if (w->stage == SAC_WORK_ROOM && w->is_placed) sac_beginnings_offer(w->s); /* the rows that it has kept */
    w->stage = SAC_WORK_DONE;
    w->s->decoder.cache.anew = false;
    sac_media_close(w->s);
    sac_session_give_back(w->s);
    sac_call_leave(w->s);
}
