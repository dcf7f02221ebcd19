#include "slot.h"
#include "clock.h"
#include "job_end.h"
#include "metrics.h"
#include "prompt_scores.h"
#include "request.h"
#include "say.h"
#include "slot_events.h"
#include "slot_metrics.h"
#include "status.h"
#include "tokens.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the end of a job */

static void release(serve_slot *slot) {
    serve_answer_free(&slot->answer);
    serve_constraint_free(slot->constraint);
    serve_places_free(slot->places);
    serve_prompt_scores_free(slot->scores);
    slot->constraint = NULL;
    slot->places = NULL;
    slot->scores = NULL;
    if (slot->hidden && slot->session) sac_session_keep_hidden(slot->session, NULL);
    free(slot->hidden);
    slot->hidden = NULL;
    slot->job = NULL;
    slot->decoding = slot->lacks_pages = false;
    atomic_store(&slot->n_rows, 0);
}

static void fail(serve_slot *slot, sac_status st, const sac_error *err) {
    serve_job *j = slot->job;
    serve_slot_note(slot, st == SAC_CANCELLED ? "abort" : "error");
    const bool is_parked = slot->session && sac_session_is_parked(slot->session);
    if (!slot->decoding || is_parked) { /* not all of the prompt is there: nobody is to count on it */
        serve_trace_free(slot->trace);
        slot->trace = NULL;
    }
    if (slot->session) sac_session_end(slot->session, NULL);
    if (slot->session && (is_parked || st == SAC_DEVICE)) sac_session_reset(slot->session); /* rows on the host, or that may be lost, are nobody's any more */
    release(slot);
    serve_job_fail(j, st, err);
}

static void finish(serve_slot *slot) {
    serve_job *j = slot->job;
    serve_slot_count_times(slot);
    if (serve_answer_is_long(&slot->answer) && serve_say(j, &slot->answer)) {
        slot->answer = (serve_answer){0};
        release(slot);
        return;
    }
    serve_answer_finish(&slot->answer);
    release(slot);
    serve_job_end(j, NULL);
}

void serve_slot_give_up(serve_slot *slot, sac_status st, const sac_error *err) {
    fail(slot, st, err);
}

void serve_slot_drop_cancelled(serve_slot *slot) {
    if (slot->job && atomic_load(&slot->job->cancelled)) fail(slot, SAC_CANCELLED, &(sac_error){0});
}

/* ---------------------------------------------------------------- the prompt */

/* Another session in place of this one: the old one goes first, so that a slot never takes two's memory. */
static sac_status change_methods(serve_slot *slot, const serve_methods *methods, sac_error *err) {
    serve_methods had = slot->methods;
    sac_session_free(slot->session);
    slot->session = NULL;
    slot->methods = *methods; /* the session's configuration points into it */
    sac_status st = serve_methods_session(slot->server, &slot->methods, &slot->session, err);
    if (st == SAC_OK) return SAC_OK;
    slot->methods = had;
    serve_methods_session(slot->server, &slot->methods, &slot->session, NULL);
    return st;
}

/* Prompts come one after the other, with all choices of each. */
static sac_input input_of(const serve_request *r, int choice) {
    const serve_prompt *prompt = r->is_chat ? NULL : &r->prompts[choice / r->n_choices];
    if (r->each_alone) {
        const sac_message *m = &r->messages[choice];
        const bool is_text = m->n_parts == 1 && m->parts[0].kind == SAC_PART_TEXT;
        if (is_text) return (sac_input){.text = m->parts[0].text, .n_text_bytes = strlen(m->parts[0].text)};
        return (sac_input){.messages = m, .n_messages = 1};
    }
    if (r->is_chat) return (sac_input){.messages = r->messages, .n_messages = r->n_messages};
    if (prompt->ids) return (sac_input){.ids = prompt->ids, .n_ids = prompt->n};
    return (sac_input){.text = prompt->text, .n_text_bytes = prompt->n};
}

static sac_status set_up(serve_slot *slot, sac_error *err) {
    const serve_request *r = slot->job->request;
    if (!slot->session || !serve_methods_equal(&slot->methods, r->methods))
        SAC_TRY(change_methods(slot, r->methods, err));
    bool observe = slot->places && slot->choice == 0;
    sac_session_observe_kept(slot->session, observe ? serve_slot_on_kept : NULL, slot);
    sac_session_reset_stats(slot->session);
    sac_session_keep_hidden(slot->session, slot->hidden);
    SAC_TRY(sac_session_set_chat(slot->session, &r->chat, err));
    return sac_session_set_adapter(slot->session, r->adapter, err);
}

static sac_status begin_work(serve_slot *slot, sac_error *err) {
    const serve_request *r = slot->job->request;
    sac_sampling sampling = r->sampling;
    sampling.seed = serve_choice_seed(r->sampling.seed, slot->choice % r->n_choices);
    sac_input input = input_of(r, slot->choice);
    return sac_session_begin_work(slot->session, &input, &sampling, &slot->events, err);
}

/* Of a prompt whose tokens are to be scored, before its first choice. */
static sac_status begin_scores(serve_slot *slot, sac_error *err) {
    const serve_request *r = slot->job->request;
    SAC_TRY(serve_prompt_scores_open(&slot->scores, slot->session, slot->server->tokens,
                                     &r->prompts[slot->choice / r->n_choices],
                                     r->score_prompt ? r->sampling.top_logprobs : -1, r->n_choices,
                                     &slot->n_entries, slot->server->n_ctx, err));
    slot->answer.n_prompt_tokens = serve_prompt_scores_n(slot->scores);
    return SAC_OK;
}

/* Of a text, the tokens are not counted yet: four bytes each. */
static double count_behind(const serve_slot *slot) {
    const serve_request *r = slot->job->request;
    double n = 0;
    for (size_t i = (size_t)(slot->choice / r->n_choices) + 1; !r->is_chat && i < r->n_prompts; i++)
        n += (double)r->prompts[i].n / (r->prompts[i].ids ? 1 : 4);
    return n;
}

static void begin_choice(serve_slot *slot, uint64_t ticket, double n_left) {
    const serve_request *r = slot->job->request;
    bool is_first = slot->choice % r->n_choices == 0, scores = (r->score_prompt || r->no_answer) && is_first;
    if (is_first) slot->n_behind = count_behind(slot);
    sac_error err = {0};
    slot->n_tokens = 0;
    slot->decoding = false;
    slot->scored = scores;
    const serve_job *j = slot->job;
    slot->turn = (serve_turn){.ticket = ticket,
                              .group = slot->server->config->shared_priorities ? 0 : j->client,
                              .priority = j->priority,
                              .n_left = n_left + slot->n_behind};
    if (slot->constraint) serve_constraint_restart(slot->constraint);
    sac_status st = set_up(slot, &err);
    if (st == SAC_OK) st = scores ? begin_scores(slot, &err) : begin_work(slot, &err);
    if (st != SAC_OK) fail(slot, st, &err);
}

static bool prepare(serve_slot *slot, serve_problem *p) {
    const serve_request *r = slot->job->request;
    serve_answer_begin(&slot->answer, slot->job);
    if (r->grammar) slot->constraint = serve_constraint_open(slot->server->tokens, r->grammar);
    if (r->embed)
        slot->answer.vector = slot->hidden = calloc((size_t)slot->server->info.hidden, sizeof *slot->hidden);
    if (r->want_places) slot->places = serve_places_open(r->want_place_layers);
    if (slot->answer.failed || (r->grammar && !slot->constraint) || (r->embed && !slot->hidden) || (r->want_places && !slot->places))
        return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
    slot->n_stop_ids = sac_model_stop_ids(slot->server->model, &slot->stop_ids);
    slot->events = serve_slot_events(slot);
    return true;
}

static void take(serve_slot *slot, serve_job *j) {
    slot->job = j;
    slot->choice = 0;
    slot->goes_apart = false;
    slot->n_all = 0;
    slot->n_entries = 0;
    j->started_ns = slot->first_ns = slot->last_ns = sac_now_ns();
    serve_metrics_observe(slot->server->metrics, SERVE_TIME_queue,
                          (double)(j->started_ns - j->arrived_ns) * 1e-9);
}

void serve_slot_begin(serve_slot *slot, serve_job *j, uint64_t ticket, double n_left) {
    serve_problem p = {0};
    take(slot, j);
    if (!prepare(slot, &p)) {
        release(slot);
        serve_job_end(j, &p);
        return;
    }
    serve_trace_free(slot->trace);
    slot->trace = j->trace;
    j->trace = NULL;
    begin_choice(slot, ticket, n_left);
}

static void end_choices(serve_slot *slot, const sac_result *result, int n);
static void finish_choice(serve_slot *slot);

/* Nothing but the prompt is wanted: as many choices of it as were asked for. */
static void end_without_answer(serve_slot *slot, int64_t n_tokens) {
    sac_result result = {.text = "", .finish_reason = "length", .n_prompt_tokens = n_tokens};
    end_choices(slot, &result, slot->job->request->n_choices);
}

/* A stream says them as they come: all at once would hold up the others' steps. */
static void tell_scores(serve_slot *slot, bool done) {
    const serve_request *r = slot->job->request;
    int64_t n_characters;
    if (!r->score_prompt || (!done && !r->stream)) return;
    json_t *entries = serve_prompt_scores_take(slot->scores, &n_characters);
    if (r->stream) serve_answer_prompt_part(&slot->answer, entries);
    if (done) serve_answer_prompt(&slot->answer, r->stream ? NULL : entries, n_characters);
}

static void run_scores(serve_slot *slot, double seconds) {
    sac_error err = {0};
    bool done = false;
    int64_t n = serve_prompt_scores_n(slot->scores);
    sac_status st = serve_prompt_scores_next(slot->scores, seconds, &slot->events, &done, &err);
    slot->turn.n_left = serve_prompt_scores_left(slot->scores) + slot->n_behind;
    slot->lacks_pages = st == SAC_OK && !done && sac_session_lacks(slot->session) > 0;
    if (st == SAC_OK) tell_scores(slot, done);
    if (done) {
        serve_prompt_scores_free(slot->scores);
        slot->scores = NULL;
        if (slot->job->request->no_answer) {
            end_without_answer(slot, n);
            return;
        }
        st = begin_work(slot, &err);
    }
    if (st != SAC_OK) fail(slot, st, &err);
}

static bool is_finite(const float *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i])) return false;
    return true;
}

void serve_slot_run_piece(serve_slot *slot, double seconds) {
    sac_error err = {0};
    bool done;
    if (slot->scores) {
        run_scores(slot, seconds);
        return;
    }
    sac_status st = sac_session_work_within(slot->session, seconds, &done, &err);
    if (st != SAC_OK) {
        fail(slot, st, &err);
        return;
    }
    slot->turn.n_left = sac_session_work_left(slot->session) + slot->n_behind;
    slot->lacks_pages = !done && sac_session_lacks(slot->session) > 0;
    if (done && slot->hidden && !is_finite(slot->hidden, (size_t)slot->server->info.hidden)) {
        st =
            sac_fail(&err, SAC_BAD_FILE, "the model's hidden state is not a number; its file may be damaged");
        fail(slot, st, &err);
        return;
    }
    if (done && slot->hidden) {
        finish_choice(slot); /* what is wanted of the prompt is there */
        return;
    }
    slot->decoding = done;
    if (done) slot->answer.n_prompt_tokens = sac_session_n_tokens(slot->session);
}

bool serve_slot_is_opening(const serve_slot *slot) {
    const bool has_rows = serve_slot_has_prompt(slot) && !slot->scores && fabs(sac_session_work_left(slot->session)) > 0;
    return has_rows && !(sac_session_work_cost(slot->session) > 0);
}

size_t serve_slot_pass_rows(const serve_slot *slot, size_t most) {
    return slot->scores ? 0 : sac_session_pass_rows(slot->session, most);
}

void serve_slot_passed(serve_slot *slot, const sac_batch_prompt *p) {
    if (p->status != SAC_OK)
        fail(slot, p->status, &p->error);
    else
        slot->turn.n_left = sac_session_work_left(slot->session) + slot->n_behind;
}

/* ---------------------------------------------------------------- the answer */

/* n of them, all alike. */
static void end_choices(serve_slot *slot, const sac_result *result, int n) {
    double kept = serve_slot_kept_ratio(slot);
    if (slot->choice == 0 && slot->places)
        slot->answer.places = serve_places_json(slot->places, slot->session);
    serve_slot_count_choice(slot, result, kept);
    for (int i = 0; i < n; i++) serve_answer_choice(&slot->answer, result, kept);
    serve_slot_note(slot, result->finish_reason);
    slot->choice += n;
    if (slot->choice < (int)slot->job->request->n_prompts * slot->job->request->n_choices)
        begin_choice(slot, slot->turn.ticket, 0); /* where rows are kept nearly nothing is left to run */
    else
        finish(slot);
}

static void finish_choice(serve_slot *slot) {
    sac_result result;
    sac_session_end(slot->session, &result);
    if (slot->hidden) result.finish_reason = "stop";
    if (slot->scored) result.n_reused_tokens = 0; /* they were run to be scored */
    end_choices(slot, &result, 1);
}

void serve_slot_stepped(serve_slot *slot, const sac_batch_item *item) {
    atomic_store(&slot->n_rows, sac_session_n_tokens(slot->session));
    slot->lacks_pages = item->status == SAC_NO_MEMORY && sac_session_lacks(slot->session) > 0;
    if (slot->lacks_pages) return;
    if (item->status != SAC_OK)
        fail(slot, item->status, &item->error);
    else if (item->done)
        finish_choice(slot);
}
