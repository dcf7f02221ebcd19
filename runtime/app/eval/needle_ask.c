#define _GNU_SOURCE
#include "needle_ask.h"
#include "method_record.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* What the turns of a row leave. */
typedef struct answers {
    json_t *responses, *scores;
    double sum, prefill, decode, select, attend;
    method_summary did;
    sac_result last;
} answers;

/* ---------------------------------------------------------------- a message */

static sac_status add_medium(conversation *c, const char *folder, const char *name, const settings *s,
                             sac_error *err) {
    const char *ending = strrchr(name, '.');
    bool is_video =
        ending && (!strcmp(ending, ".mp4") || !strcmp(ending, ".mkv") || !strcmp(ending, ".webm"));
    media_item item = {.kind = is_video ? MEDIA_VIDEO : MEDIA_IMAGE, .path = run_files_path(folder, name)};
    if (!item.path) return sac_fail_no_memory(err);
    sac_status st = conversation_add_media(c, &item, s, err);
    free(item.path);
    return st;
}

static size_t count_marks(const char *text) {
    size_t n = 0;
    for (; (text = strstr(text, "<image>")); text += strlen("<image>")) n++;
    return n;
}

/* Media that no mark stands for come first, the others where their marks are. */
static sac_status add_input(run *r, conversation *c, const needle_row *row, const needle_turn *t,
                            const char *folder, sac_error *err) {
    size_t n = t == row->turns ? json_array_size(row->media) : 0, marks = count_marks(t->input), next = 0;
    const char *text = t->input;
    while (next + marks < n)
        SAC_TRY(add_medium(c, folder, json_string_value(json_array_get(row->media, next++)), r->s, err));
    for (const char *mark; next < n && (mark = strstr(text, "<image>")); text = mark + strlen("<image>")) {
        if (mark > text) SAC_TRY(conversation_add_text(c, text, (size_t)(mark - text), err));
        SAC_TRY(add_medium(c, folder, json_string_value(json_array_get(row->media, next++)), r->s, err));
    }
    if (*text) SAC_TRY(conversation_add_text(c, text, strlen(text), err));
    return *t->behind ? conversation_add_text(c, t->behind, strlen(t->behind), err) : SAC_OK;
}

/* ---------------------------------------------------------------- a row */

static sac_status ask_turn(run *r, conversation *c, const needle_row *row, size_t i, const char *folder,
                           answers *out, sac_error *err) {
    const needle_turn *t = &row->turns[i];
    answer a = {.quiet = true};
    if (i == 0 && r->s->system) SAC_TRY(conversation_add_message(c, "system", r->s->system, err));
    SAC_TRY(conversation_begin(c, "user", err));
    SAC_TRY(add_input(r, c, row, t, folder, err));
    sac_session_reset_stats(r->session);
    sac_status st = run_answer(r, c, &a, &out->last, err);
    if (st == SAC_OK) {
        double score = needle_score(row->metric, a.text ? a.text : "", t->outputs);
        out->sum += score;
        out->prefill += out->last.seconds.prefill;
        out->decode += out->last.seconds.decode;
        method_summary_read(r->session, &r->info, &out->did);
        out->select += out->did.select_seconds;
        out->attend += out->did.attend_seconds;
        if (json_array_append_new(out->responses, report_text(a.text ? a.text : "")) ||
            json_array_append_new(out->scores, json_real(score)))
            st = sac_fail_no_memory(err);
    }
    if (st == SAC_OK && i + 1 < row->n_turns)
        st = conversation_add_message(c, "assistant", a.text ? a.text : "", err);
    answer_free(&a);
    return st;
}

static json_t *answer_record(const run *r, const needle_row *row, const answers *a) {
    return json_pack("{s:s, s:O, s:O, s:f, s:I, s:I, s:o, s:{s:f, s:f, s:f, s:f}}", "id", row->id,
                     "responses", a->responses, "scores", a->scores, "score", a->sum / (double)row->n_turns,
                     "prompt_tokens", (json_int_t)a->last.n_prompt_tokens, "answer_tokens",
                     (json_int_t)a->last.n_tokens, "methods", method_record(r->session, &a->did), "seconds",
                     "prefill", a->prefill, "decode", a->decode, "select", a->select, "attend", a->attend);
}

sac_status needle_ask(run *r, const needle_row *row, const char *folder, json_t **record, sac_error *err) {
    conversation c = {0};
    answers a = {.responses = json_array(), .scores = json_array()};
    int64_t most = r->sampling.max_tokens;
    if (row->max_tokens && !settings_given(r->s, offsetof(settings, max_tokens)))
        r->sampling.max_tokens = (int)row->max_tokens;
    sac_session_reset(r->session);
    sac_status st = a.responses && a.scores ? SAC_OK : sac_fail_no_memory(err);
    for (size_t i = 0; i < row->n_turns && st == SAC_OK; i++) st = ask_turn(r, &c, row, i, folder, &a, err);
    *record = NULL;
    if (st == SAC_OK && !(*record = answer_record(r, row, &a))) st = sac_fail_no_memory(err);
    r->sampling.max_tokens = (int)most;
    conversation_free(&c);
    json_decref(a.responses);
    json_decref(a.scores);
    if (st == SAC_OK || st == SAC_CANCELLED || st == SAC_NO_MEMORY || st == SAC_DEVICE) return st;
    *record = json_pack("{s:s, s:{s:s, s:o}}", "id", row->id, "error", "status", sac_status_name(st), "text",
                        report_text(err->text));
    return *record ? SAC_OK : sac_fail_no_memory(err);
}
