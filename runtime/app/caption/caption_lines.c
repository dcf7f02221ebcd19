/* caption_lines.c - a file with an item a line: a manifest, or OpenAI's batch requests. Only where each line
 * lies is kept; it is read again when its turn comes. */
#define _GNU_SOURCE
#include "caption_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *id_of(const json_t *line, caption_kind kind) {
    static const char *const keys[] = {"id", "image", "video", "frames"};
    if (kind == CAPTION_REQUESTS) return json_string_value(json_object_get(line, "custom_id"));
    const char *id = NULL;
    for (size_t i = 0; !id && i < APP_COUNT(keys); i++) {
        const json_t *v = json_object_get(line, keys[i]);
        if (json_is_array(v)) v = json_array_get(v, 0);
        id = json_string_value(v);
    }
    return id;
}

/* An absolute path is no name for a result. */
static const char *without_root(const char *id) {
    while (*id == '/' || (id[0] == '.' && id[1] == '/')) id += *id == '/' ? 1 : 2;
    return id;
}

static sac_status add_line(caption_source *s, caption_kind kind, const char *text, size_t n, int64_t at,
                           size_t number, sac_error *err) {
    char place[400];
    json_error_t e;
    json_t *line = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    const char *id = json_is_object(line) ? id_of(line, kind) : NULL;
    snprintf(place, sizeof place, "%.300s:%zu", s->name, number);
    const char *name = !id ? place : kind == CAPTION_REQUESTS ? id : without_root(id);
    sac_status st = caption_add(s, name, strlen(name), at, (int64_t)n, err);
    if (st == SAC_OK && !line)
        st = json_error_code(&e) == json_error_out_of_memory
                 ? app_fail_no_memory(err)
                 : caption_spoil(s, place, err, "not JSON: %s", e.text);
    if (st == SAC_OK && !id)
        st = caption_spoil(s, place, err,
                           kind == CAPTION_REQUESTS
                               ? "expected an object with \"custom_id\" and \"body\""
                               : "expected an object with \"image\", \"video\" or \"frames\"");
    if (st == SAC_OK) /* what is asked may stand in the line: a changed line is another job */
        s->content_hash = caption_hash(s->content_hash, text, n);
    json_decref(line);
    return st;
}

sac_status caption_list_lines(caption_source *s, caption_kind kind, sac_error *err) {
    FILE *f = fopen(s->path, "rb");
    if (!f) return app_fail(err, SAC_NOT_FOUND, "%s: %s", s->path, strerror(errno));
    s->any_name = kind == CAPTION_REQUESTS;
    char *line = NULL;
    size_t room = 0, number = 0;
    int64_t at = 0;
    sac_status st = SAC_OK;
    for (ssize_t n; st == SAC_OK && (n = getline(&line, &room, f)) >= 0; at += n) {
        size_t used = (size_t)n, start = number++ || n < 3 || memcmp(line, "\xef\xbb\xbf", 3) ? 0 : 3;
        while (used > start && strchr("\r\n \t", line[used - 1])) used--;
        if (used == start) continue;
        if (used > CAPTION_LINE_MAX_BYTES)
            st = app_fail(err, SAC_BAD_FILE, "%s:%zu: a line of more than %zu bytes", s->path, number,
                          CAPTION_LINE_MAX_BYTES);
        else
            st = add_line(s, kind, line + start, used - start, at + (int64_t)start, number, err);
    }
    free(line);
    if (st == SAC_OK && ferror(f)) st = app_fail(err, SAC_IO, "%s: %s", s->path, strerror(errno));
    fclose(f);
    if (st == SAC_OK && !s->n_items) st = app_fail(err, SAC_BAD_FILE, "%s: holds no line", s->path);
    return st;
}
