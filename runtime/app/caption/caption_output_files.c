/* caption_output_files.c - results that are many files; and OpenAI's batch results. */
#define _GNU_SOURCE
#include "caption_each.h"
#include "caption_output.h"
#include "run_files.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------- text */

/* Names that are taken: two pictures may differ in their endings only. */
typedef struct names {
    json_t *taken;
    const char *folder;
} names;

/* "a/b.jpg" -> "a/b.txt"; "a/b.jpg.txt" when another item has that name. */
static char *text_name(names *t, const char *id) {
    const char *slash = strrchr(id, '/'), *dot = strrchr(slash ? slash + 1 : id, '.');
    char *name;
    bool has_ending = dot && dot != (slash ? slash + 1 : id);
    if (asprintf(&name, "%.*s.txt", (int)(has_ending ? dot - id : (ptrdiff_t)strlen(id)), id) < 0)
        return NULL;
    while (json_object_get(t->taken, name)) {
        char *longer;
        int made = asprintf(&longer, "%s.txt", strstr(name, id) == name ? name : id);
        free(name);
        if (made < 0) return NULL;
        name = longer;
    }
    if (!json_object_set_new(t->taken, name, json_true())) return name;
    free(name);
    return NULL;
}

/* The folders that a path below `folder` goes through. Ids lead nowhere else (caption_input.c). */
static sac_status make_folders(char *path, size_t n_folder, sac_error *err) {
    for (char *slash = strchr(path + n_folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        sac_status st = run_files_make_folder(path, err);
        *slash = '/';
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

static sac_status on_text(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                          sac_error *err) {
    names *t = ctx;
    const json_t *caption = json_object_get(json, "caption");
    (void)source;
    (void)text;
    (void)n;
    if (!caption) return SAC_OK;
    char *name = text_name(t, json_string_value(json_object_get(json, "id"))),
         *path = name ? run_files_path(t->folder, name) : NULL;
    sac_status st = path ? make_folders(path, strlen(t->folder), err) : sac_fail_no_memory(err);
    FILE *f = st == SAC_OK ? fopen(path, "wb") : NULL;
    if (st == SAC_OK) { /* not synced one by one: the next run, or merge, writes them all again */
        bool ok = f &&
                  fwrite(json_string_value(caption), 1, json_string_length(caption), f) ==
                      json_string_length(caption) &&
                  fputc('\n', f) != EOF;
        int failed = errno;
        ok = (!f || fclose(f) == 0) && ok;
        if (!ok) st = sac_fail(err, SAC_IO, "%.300s: cannot be written: %s", path, strerror(failed));
    }
    free(path);
    free(name);
    return st;
}

sac_status caption_write_text(const caption_records *r, const char *folder, sac_error *err) {
    char *below = run_files_path(folder, "text");
    sac_status st = below ? run_files_make_folder(below, err) : sac_fail_no_memory(err);
    for (size_t s = 0; st == SAC_OK && s < r->n_sources; s++) {
        names t = {.taken = json_object(), .folder = below};
        char *own = r->n_sources > 1 ? run_files_path(below, caption_source_name(r, s)) : NULL;
        if (r->n_sources > 1) { /* keys of one tar may be those of another */
            st = own ? run_files_make_folder(own, err) : sac_fail_no_memory(err);
            t.folder = own;
        }
        if (st == SAC_OK) st = t.taken ? caption_each(r, s, on_text, &t, err) : sac_fail_no_memory(err);
        json_decref(t.taken);
        free(own);
    }
    free(below);
    return st;
}

/* ---------------------------------------------------------------- OpenAI's batch results */

typedef struct batch {
    draft f;
    const char *model;
    json_int_t created;
} batch;

/* When the job was begun: a time that resuming does not change. */
static json_int_t start_of(const json_t *header) {
    const char *started = json_string_value(json_object_get(header, "started"));
    struct tm tm = {0};
    return started && strptime(started, "%Y-%m-%dT%H:%M:%SZ", &tm) ? (json_int_t)timegm(&tm) : 0;
}

static json_t *completion(const batch *b, const json_t *r, const char *request) {
    json_int_t prompt = json_integer_value(json_object_get(r, "prompt_tokens")),
               tokens = json_integer_value(json_object_get(r, "tokens"));
    return json_pack("{s:s, s:s, s:I, s:s, s:[{s:i, s:{s:s, s:O}, s:n, s:O}], s:{s:I, s:I, s:I}}", "id",
                     request, "object", "chat.completion", "created", b->created, "model", b->model,
                     "choices", "index", 0, "message", "role", "assistant", "content",
                     json_object_get(r, "caption"), "logprobs", "finish_reason", json_object_get(r, "finish"),
                     "usage", "prompt_tokens", prompt, "completion_tokens", tokens, "total_tokens",
                     prompt + tokens);
}

static sac_status on_batch(void *ctx, size_t source, const json_t *r, const char *text, size_t n,
                           sac_error *err) {
    batch *b = ctx;
    char request[60], own[60];
    const json_t *e = json_object_get(r, "error");
    json_int_t index = json_integer_value(json_object_get(r, "index"));
    (void)source;
    (void)text;
    (void)n;
    snprintf(request, sizeof request, "chatcmpl-%08" PRIx64, (uint64_t)index);
    snprintf(own, sizeof own, "batch_req_%08" PRIx64, (uint64_t)index);
    json_t *j = e ? json_pack("{s:s, s:O, s:n, s:{s:O, s:O}}", "id", own, "custom_id",
                              json_object_get(r, "id"), "response", "error", "code",
                              json_object_get(e, "status"), "message", json_object_get(e, "text"))
                  : json_pack("{s:s, s:O, s:{s:i, s:s, s:o}, s:n}", "id", own, "custom_id",
                              json_object_get(r, "id"), "response", "status_code", 200, "request_id", request,
                              "body", completion(b, r, request), "error");
    char *line = j ? json_dumps(j, JSON_COMPACT) : NULL;
    sac_status st = line ? caption_file_write(&b->f, line, strlen(line), err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = caption_file_write(&b->f, "\n", 1, err);
    free(line);
    json_decref(j);
    return st;
}

sac_status caption_write_batch(const caption_records *r, const char *folder, sac_error *err) {
    const char *path = json_string_value(json_object_get(json_object_get(r->header, "model"), "path"));
    const char *slash = path ? strrchr(path, '/') : NULL;
    batch b = {.model = slash && slash[1] ? slash + 1 : path ? path : "", .created = start_of(r->header)};
    sac_status st = caption_file_open(&b.f, folder, "batch_output.jsonl", err);
    for (size_t s = 0; st == SAC_OK && s < r->n_sources; s++) st = caption_each(r, s, on_batch, &b, err);
    return caption_file_close(&b.f, st, err);
}
