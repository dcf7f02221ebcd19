#define _GNU_SOURCE
#include "eval_header.h"
#include "eval_bench.h"
#include "journal.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *describe_set(const eval_set *set,
                            const char *path) { /* "videomme" is not said: headers of old have no name */
    char fingerprint[17], subtitles[17];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, set->fingerprint);
    snprintf(subtitles, sizeof subtitles, "%016" PRIx64, set->subtitles);
    return json_pack("{s:s*, s:o, s:s, s:s*, s:I, s:I}", "name", set->bench ? set->bench->name : NULL, "path",
                     report_text(path), "fingerprint", fingerprint, "subtitles", set->subtitles ? subtitles : NULL,
                     "videos", (json_int_t)set->n_videos, "questions", (json_int_t)set->n_questions);
}

/* What a frame is to the model goes with it: side of the picture, tokens. */
static json_t *describe_model(const run *r, const char *fingerprint) {
    json_t *j = report_model(r);
    bool ok = j && !json_object_set_new(j, "fingerprint", json_string(fingerprint)) &&
              !json_object_set_new(j, "processor", report_text(r->info.processor)) &&
              !json_object_set_new(j, "image_size", json_integer(r->info.image_size)) &&
              !json_object_set_new(j, "tokens_per_frame", json_integer(r->info.tokens_per_frame));
    if (ok) return j;
    json_decref(j);
    return NULL;
}

json_t *eval_header(const run *r, const eval_task *t, const char *set_path, sac_error *err) {
    char fingerprint[17], started[32];
    time_t now = time(NULL);
    struct tm utc;
    if (run_files_fingerprint(r->model_path, fingerprint, err) != SAC_OK) return NULL;
    gmtime_r(&now, &utc);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *j = json_pack(
        "{s:i, s:s, s:s, s:o, s:s, s:s, s:b, s:b, s:o?, s:o, s:s, s:o}", "saccade_eval", EVAL_FORMAT,
        "version", SAC_VERSION, "started", started, "set", describe_set(t->set, set_path), "prompt",
        t->own_prompt ? t->own_prompt : eval_prompt_name(t->prompt), "answer",
        eval_prompt_is_open(t->prompt) || t->set->bench ? "text" : "letter", "subtitles",
        t->subtitles != NULL, "reuse", t->reuse, "system", r->s->system ? report_text(r->s->system) : NULL,
        "model", describe_model(r, fingerprint), "machine", r->info.cpu, "settings", report_settings(r));
    if (!j) sac_fail_no_memory(err);
    return j;
}

bool eval_header_differs(const json_t *there, const json_t *now, char *what, size_t n_bytes) {
    /* the set's fingerprint is of the whole file: fewer or more of its questions are a matter of --limit */
    static const char *const ignored[] = {"started",    "set.path",          "set.videos", "set.questions",
                                          "model.path", "model.mmproj.path", NULL};
    return journal_header_differs(there, now, ignored, what, n_bytes);
}
