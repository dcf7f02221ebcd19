#define _GNU_SOURCE
#include "eval_header.h"
#include "eval_file.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *describe_set(const eval_set *set, const char *path) {
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, set->fingerprint);
    return json_pack("{s:o, s:s, s:I, s:I}", "path", report_text(path), "fingerprint", fingerprint, "videos",
                     (json_int_t)set->n_videos, "questions", (json_int_t)set->n_questions);
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
    if (eval_fingerprint(r->model_path, fingerprint, err) != SAC_OK) return NULL;
    gmtime_r(&now, &utc);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *j =
        json_pack("{s:i, s:s, s:s, s:o, s:s, s:s, s:b, s:b, s:o?, s:o, s:s, s:o}", "saccade_eval",
                  EVAL_FORMAT, "version", SAC_VERSION, "started", started, "set",
                  describe_set(t->set, set_path), "prompt", eval_prompt_name(t->prompt), "answer",
                  eval_prompt_is_open(t->prompt) ? "text" : "letter", "subtitles", t->subtitles != NULL,
                  "reuse", t->reuse, "system", r->s->system ? report_text(r->s->system) : NULL, "model",
                  describe_model(r, fingerprint), "machine", r->info.cpu, "settings", report_settings(r));
    if (!j) app_fail_no_memory(err);
    return j;
}

/* ---------------------------------------------------------------- comparing */

typedef struct comparison {
    char path[200];
    char *what;
    size_t n_bytes;
} comparison;

static void print_difference(comparison *c, const json_t *there, const json_t *now) {
    char *a = there ? json_dumps(there, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    char *b = now ? json_dumps(now, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    snprintf(c->what, c->n_bytes, "%s is %.60s there and %.60s now", c->path, a ? a : "not given",
             b ? b : "not given");
    free(a);
    free(b);
}

static bool makes_no_difference(const char *path) {
    return !strcmp(path, "started") || !strcmp(path, "set.path") || !strcmp(path, "model.path");
}

static bool differs(comparison *c, const json_t *there, const json_t *now);

/* Keys of one that the other has not, or has otherwise. */
static bool keys_differ(comparison *c, const json_t *there, const json_t *now, const json_t *keys) {
    const char *key;
    json_t *value;
    size_t n = strlen(c->path);
    json_object_foreach((json_t *)keys, key, value) {
        snprintf(c->path + n, sizeof c->path - n, "%s%s", n ? "." : "", key);
        if (differs(c, json_object_get(there, key), json_object_get(now, key))) return true;
        c->path[n] = 0;
    }
    return false;
}

static bool differs(comparison *c, const json_t *there, const json_t *now) {
    if (makes_no_difference(c->path)) return false;
    if (json_is_object(there) && json_is_object(now))
        return keys_differ(c, there, now, now) || keys_differ(c, there, now, there);
    if (there && now && json_equal(there, now)) return false;
    print_difference(c, there, now);
    return true;
}

bool eval_header_differs(const json_t *there, const json_t *now, char *what, size_t n_bytes) {
    comparison c = {.what = what, .n_bytes = n_bytes};
    return differs(&c, there, now);
}
