#define _GNU_SOURCE
#include "caption_errors.h"
#include "caption_each.h"
#include "run_files.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDS_MAX = 1000 };

typedef struct lister {
    const caption_records *r;
    json_t *kinds;
    draft file;
} lister;

static sac_status count_kind(json_t *kinds, const json_t *error, json_t *id, sac_error *err) {
    const char *kind = json_string_value(json_object_get(error, "status"));
    json_t *first = json_object_get(error, "text"), *same = json_object_get(kinds, kind ? kind : "");
    if (!kind || !first || !id) return SAC_OK;
    if (!same) {
        same = json_pack("{s:i, s:O, s:[]}", "items", 0, "first", first, "ids");
        if (json_object_set_new(kinds, kind, same)) return sac_fail_no_memory(err);
    }
    json_t *ids = json_object_get(same, "ids"), *n = json_object_get(same, "items");
    json_integer_set(n, json_integer_value(n) + 1);
    return json_array_size(ids) < IDS_MAX && json_array_append(ids, id) ? sac_fail_no_memory(err) : SAC_OK;
}

static sac_status on_record(void *ctx, size_t source, const json_t *json, const char *text, size_t n,
                            sac_error *err) {
    lister *l = ctx;
    json_t *error = json_object_get(json, "error"), *id = json_object_get(json, "id");
    (void)text;
    (void)n;
    if (!error) return SAC_OK;
    SAC_TRY(count_kind(l->kinds, error, id, err));
    json_t *row =
        json_pack("{s:s, s:O, s:O}", "source", caption_source_name(l->r, source), "id", id, "error", error);
    char *line = row ? json_dumps(row, JSON_COMPACT) : NULL;
    sac_status st = line ? caption_file_write(&l->file, line, strlen(line), err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = caption_file_write(&l->file, "\n", 1, err);
    json_decref(row);
    free(line);
    return st;
}

static sac_status remove_list(const char *folder, sac_error *err) {
    char *path = run_files_path(folder, CAPTION_ERRORS_FILE);
    if (!path) return sac_fail_no_memory(err);
    unlink(path);
    free(path);
    return SAC_OK;
}

sac_status caption_errors(const caption_records *r, const char *folder, json_t **errors, sac_error *err) {
    lister l = {.r = r, .kinds = *errors = json_object()};
    if (!l.kinds) return sac_fail_no_memory(err);
    if (!r->n_errors) return remove_list(folder, err);
    SAC_TRY(caption_file_open(&l.file, folder, CAPTION_ERRORS_FILE, err));
    sac_status st = SAC_OK;
    for (size_t s = 0; s < r->n_sources && st == SAC_OK; s++) st = caption_each(r, s, on_record, &l, err);
    return caption_file_close(&l.file, st, err);
}
