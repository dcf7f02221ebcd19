#include "caption_each.h"
#include "caption_seen.h"
#include "run_files.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- files */

sac_status caption_file_open(draft *d, const char *folder, const char *name, sac_error *err) {
    char *path = run_files_path(folder, name);
    *d = (draft){0};
    sac_status st = path ? draft_open(d, path, err) : sac_fail_no_memory(err);
    free(path);
    return st;
}

sac_status caption_file_write(draft *d, const void *bytes, size_t n_bytes, sac_error *err) {
    if (fwrite(bytes, 1, n_bytes, d->f) == n_bytes) return SAC_OK;
    return sac_fail(err, SAC_IO, "%s: cannot be written: %s", d->path, strerror(errno));
}

sac_status caption_file_close(draft *d, sac_status st, sac_error *err) {
    if (st == SAC_OK) return draft_close(d, err);
    draft_abandon(d);
    return st;
}

/* ---------------------------------------------------------------- records in order */

/* The record without what only the journal needs; text: as it stands in the journal, to free, or the same shorter. */
static sac_status for_results(json_t *json, char **text, size_t *n, sac_error *err) {
    if (json_object_del(json, CAPTION_SEEN_KEY)) return SAC_OK;
    char *shorter = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!shorter) return sac_fail_no_memory(err);
    free(*text);
    *text = shorter;
    *n = strlen(shorter);
    return SAC_OK;
}

sac_status caption_each(const caption_records *r, size_t source, caption_each_fn fn, void *ctx,
                        sac_error *err) {
    sac_status st = SAC_OK;
    for (size_t i = 0; r->places[source] && i < r->n_items[source] && st == SAC_OK; i++) {
        if (!r->places[source][i].state) continue;
        char *text;
        size_t n;
        SAC_TRY(caption_records_read(r, source, i, &text, &n, err));
        json_t *json = json_loadb(text, n, 0, NULL);
        st = json ? for_results(json, &text, &n, err)
                  : sac_fail(err, SAC_IO,
                             "a record changed while it was read; is another program writing the journal?");
        if (st == SAC_OK) st = fn(ctx, source, json, text, n, err);
        json_decref(json);
        free(text);
    }
    return st;
}

const char *caption_source_name(const caption_records *r, size_t source) {
    const json_t *sources = json_object_get(r->header, "sources");
    const char *name = json_string_value(json_object_get(json_array_get(sources, source), "name"));
    return name ? name : "captions";
}
