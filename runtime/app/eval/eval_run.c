#define _GNU_SOURCE
#include "eval_run.h"
#include "eval_cut.h"
#include "eval_media.h"
#include "eval_subtitles.h"
#include "method_record.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A video while its questions are asked. */
typedef struct source {
    sac_status status; /* of finding the video and its subtitles */
    sac_error err;
    media_item item;
    char *subtitles; /* as the prompt has them; NULL = without */
    size_t n_subtitles;
} source;

typedef struct runner {
    run *r;
    const eval_task *t;
    sac_error *err; /* of what ends the run */
} runner;

/* ---------------------------------------------------------------- records */

const char *eval_record_response(const json_t *record) {
    return json_string_value(json_object_get(record, "response"));
}

const char *eval_record_error(const json_t *record) {
    return json_string_value(json_object_get(json_object_get(record, "error"), "text"));
}

static json_t *error_record(const eval_question *q, sac_status st, const sac_error *err) {
    return json_pack("{s:s, s:{s:s, s:o}}", "question_id", q->id, "error", "status", sac_status_name(st),
                     "text", report_text(err->text));
}

/* Microseconds are enough. */
static double micro(double seconds) {
    return round(1e6 * seconds) / 1e6;
}

static json_t *seconds_of(const sac_result *r, const method_summary *did) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "media", micro(r->seconds.media), "vision",
                     micro(r->seconds.vision), "prefill", micro(r->seconds.prefill), "decode",
                     micro(r->seconds.decode), "total", micro(r->seconds.total), "select",
                     micro(did->select_seconds), "attend", micro(did->attend_seconds));
}

static json_t *answer_record(const run *u, const eval_question *q, const source *v, const answer *a,
                             const sac_result *r) {
    const sac_media_report *m = r->n_media ? &r->media[0] : NULL;
    method_summary did;
    method_summary_read(u->session, &u->info, &did);
    return json_pack("{s:s, s:o, s:s, s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "question_id", q->id,
                     "response", report_text(a->text), "finish", r->finish_reason, "frames",
                     m ? m->n_frames : 0, "rule", report_text(m ? m->rule : ""), "subtitles",
                     (json_int_t)v->n_subtitles, "prompt_tokens", (json_int_t)r->n_prompt_tokens,
                     "visual_tokens", (json_int_t)r->n_visual_tokens, "reused_tokens",
                     (json_int_t)r->n_reused_tokens, "answer_tokens", (json_int_t)r->n_tokens, "methods",
                     method_record(u->session, &did), "seconds", seconds_of(r, &did));
}

/* ---------------------------------------------------------------- a video */

static sac_status find_video(const char *folder, const char *file, char **path, sac_error *err) {
    static const char *const endings[] = {".mp4", ".mkv", ".webm", ".MP4"};
    for (size_t i = 0; i < SAC_COUNT(endings); i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", file, endings[i]);
        if (!(*path = run_files_path(folder, name))) return sac_fail_no_memory(err);
        if (access(*path, R_OK) == 0) return SAC_OK;
        bool absent = errno == ENOENT;
        if (!absent) sac_fail(err, SAC_IO, "%s: %s", *path, strerror(errno));
        free(*path);
        *path = NULL;
        if (!absent) return err->status;
    }
    return sac_fail(err, SAC_NOT_FOUND, "%s/%s.mp4 (or .mkv, .webm): no such file", folder, file);
}

/* item: of another benchmark than Video-MME, which has its media with it; NULL = the source's video. */
static sac_status ask_conversation(runner *u, conversation *c, const source *v, const eval_item *item,
                                   const char *text, sac_error *err) {
    const settings *s = u->r->s;
    if (s->system) SAC_TRY(conversation_add_message(c, "system", s->system, err));
    SAC_TRY(conversation_begin(c, "user", err));
    if (item) return eval_media_add(c, u->t->videos, item, text, s, u->r->model, err);
    SAC_TRY(conversation_add_media(c, &v->item, s, err));
    return conversation_add_text(c, text, strlen(text), err);
}

/* The times of the frames are known once the prompt is measured, before anything is decoded. */
static sac_status choose_subtitles(runner *u, source *v, const eval_subtitles *list, sac_error *err) {
    conversation c = {0};
    const sac_media_report *media;
    size_t n_ids;
    sac_status st = ask_conversation(u, &c, v, NULL, "", err);
    if (st == SAC_OK) st = sac_session_prompt(u->r->session, c.messages, c.n_messages, NULL, 0, &n_ids, err);
    if (st == SAC_OK && sac_session_media(u->r->session, &media) == 1) {
        size_t n = (size_t)media->n_frames;
        v->subtitles = u->t->prompt == EVAL_PROMPT_LMMS
                           ? eval_subtitles_lmms(list, media->time_s, n, media->source_fps, &v->n_subtitles)
                           : eval_subtitles_official(list, media->time_s, n, &v->n_subtitles);
        if (!v->subtitles) st = sac_fail_no_memory(err);
    }
    conversation_free(&c);
    return st;
}

/* A video without a file of subtitles is asked without; lmms-eval says so in the prompt. */
static sac_status find_subtitles(runner *u, source *v, const char *file, sac_error *err) {
    char name[256];
    snprintf(name, sizeof name, "%s.srt", file);
    char *path = run_files_path(u->t->subtitles, name);
    if (!path) return sac_fail_no_memory(err);
    eval_subtitles list;
    sac_status st = eval_subtitles_read(&list, path, err);
    free(path);
    if (st == SAC_OK) st = choose_subtitles(u, v, &list, err);
    eval_subtitles_free(&list);
    if (st != SAC_NOT_FOUND) return st;
    if (u->t->prompt != EVAL_PROMPT_LMMS) return SAC_OK;
    v->subtitles = strdup("No subtitles available");
    return v->subtitles ? SAC_OK : sac_fail_no_memory(err);
}

static void open_source(runner *u, source *v, const eval_video *video) {
    *v = (source){.item = {.kind = MEDIA_VIDEO}};
    v->status = find_video(u->t->videos, video->file, &v->item.path, &v->err);
    if (v->status == SAC_OK && u->t->subtitles) v->status = find_subtitles(u, v, video->file, &v->err);
}

static void close_source(source *v) {
    free(v->item.path);
    free(v->subtitles);
}

/* ---------------------------------------------------------------- a question */

static bool ends_the_run(sac_status st) {
    return st == SAC_CANCELLED || st == SAC_NO_MEMORY || st == SAC_DEVICE;
}

/* What a question of a benchmark says of its own answer, unless the command says otherwise. */
static void choose_answer(sac_sampling *to, const settings *s, const eval_item *item) {
    size_t n = 0;
    if (item->max_tokens && !settings_given(s, offsetof(settings, max_tokens)))
        to->max_tokens = item->max_tokens;
    while (n < EVAL_STOPS_MAX && item->stops[n]) n++;
    if (n && !to->n_stop) {
        to->stop = item->stops;
        to->n_stop = n;
    }
}

static sac_status answer_text(runner *u, const source *v, const eval_question *q, const char *text, answer *a,
                              sac_result *result, sac_error *err) {
    conversation c = {0};
    sac_status st = SAC_OK;
    if (q->item && q->item->raw && !u->r->s->system)
        return run_answer_text(u->r, text, strlen(text), a, result, err);
    st = ask_conversation(u, &c, v, q->item, text, err);
    if (st == SAC_OK) st = run_answer(u->r, &c, a, result, err);
    conversation_free(&c);
    return st;
}

static sac_status ask(runner *u, const source *v, const eval_question *q, json_t **record, sac_error *err) {
    answer a = {.quiet = true};
    sac_result result;
    int64_t left_out = 0;
    const sac_sampling sampling = u->r->sampling;
    char *text = eval_prompt_text(u->t->prompt, q, v->subtitles, u->t->own_prompt);
    if (!u->t->reuse) sac_session_reset(u->r->session);
    if (q->item) choose_answer(&u->r->sampling, u->r->s, q->item);
    sac_status st = text ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK && q->item && q->item->may_cut && !q->item->n_media) {
        char *whole = text;
        st = eval_cut_middle(u->r, whole, q->item->raw && !u->r->s->system, &text, &left_out, err);
        free(whole);
    }
    sac_session_reset_stats(u->r->session);
    if (st == SAC_OK) st = answer_text(u, v, q, text, &a, &result, err);
    if (st == SAC_OK && !(*record = answer_record(u->r, q, v, &a, &result))) st = sac_fail_no_memory(err);
    if (st == SAC_OK && left_out && json_object_set_new(*record, "left_out_tokens", json_integer(left_out)))
        st = sac_fail_no_memory(err);
    if (st == SAC_OK && isfinite(a.margin) && json_object_set_new(*record, "margin", json_real(micro(a.margin))))
        st = sac_fail_no_memory(err);
    u->r->sampling = sampling;
    answer_free(&a);
    free(text);
    return st;
}

static sac_status make_record(runner *u, const source *v, const eval_question *q, json_t **record) {
    sac_error err = v->err;
    sac_status st = v->status;
    if (st == SAC_OK) st = ask(u, v, q, record, &err);
    if (st == SAC_OK) return SAC_OK;
    if (ends_the_run(st)) {
        *u->err = err;
        return st;
    }
    *record = error_record(q, st, &err);
    return *record ? SAC_OK : sac_fail_no_memory(u->err);
}

/* ---------------------------------------------------------------- the set */

static size_t first_of(const eval_part *part, const eval_video *v) {
    return part->end && part->from > v->first ? part->from : v->first;
}

static size_t end_of(const eval_part *part, const eval_video *v) {
    size_t end = v->first + v->n_questions;
    return part->end && part->end < end ? part->end : end;
}

int64_t eval_run_missing(const eval_set *set, const eval_part *part, json_t *const *records) {
    int64_t n = 0;
    for (size_t i = part->first; i < part->first + part->n; i++)
        for (size_t at = first_of(part, &set->videos[i]); at < end_of(part, &set->videos[i]); at++)
            n += !records[at];
    return n;
}

static sac_status ask_all(runner *u, const eval_part *part, json_t **records, eval_record_fn done, void *ctx,
                          progress *line) {
    const eval_set *set = u->t->set;
    int64_t n = eval_run_missing(set, part, records), k = 0;
    sac_status st = SAC_OK;
    if (u->t->title) progress_update(line, u->t->title, 0, n);
    for (size_t i = part->first; i < part->first + part->n && st == SAC_OK; i++) {
        const eval_video *video = &set->videos[i];
        bool opened = false;
        source v = {0};
        for (size_t at = first_of(part, video); at < end_of(part, video) && st == SAC_OK; at++) {
            if (records[at]) continue;
            if (!opened && !set->bench) open_source(u, &v, video);
            opened = true;
            st = make_record(u, &v, &video->questions[at - video->first], &records[at]);
            if (st == SAC_OK && done) st = done(ctx, at, records[at], u->err);
            if (u->t->title) progress_update(line, u->t->title, ++k, n);
        }
        close_source(&v);
    }
    return st;
}

sac_status eval_run(run *r, const eval_task *t, const eval_part *part, json_t **records, eval_record_fn done,
                    void *ctx, sac_error *err) {
    const eval_part all = {.n = t->set->n_videos};
    runner u = {.r = r, .t = t, .err = err};
    progress line;
    bool was_on = r->progress.on;
    r->progress.on = false; /* one line: that of the set */
    progress_init(&line, r->s->quiet);
    sac_status st = ask_all(&u, part ? part : &all, records, done, ctx, &line);
    progress_clear(&line);
    r->progress.on = was_on;
    return st;
}
