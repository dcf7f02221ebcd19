#define _GNU_SOURCE
#include "caption_records.h"
#include "caption_seen.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sac_status caption_take_room(caption_records *r, size_t n_sources, sac_error *err) {
    r->n_sources = n_sources;
    r->places = calloc(n_sources, sizeof *r->places);
    r->n_items = calloc(n_sources, sizeof *r->n_items);
    return r->places && r->n_items ? SAC_OK : sac_fail_no_memory(err);
}

sac_status caption_take_places(caption_records *r, size_t source, size_t n_items, sac_error *err) {
    r->n_items[source] = n_items;
    r->places[source] = calloc(n_items ? n_items : 1, sizeof **r->places);
    return r->places[source] ? SAC_OK : sac_fail_no_memory(err);
}

void caption_count(caption_records *r, const caption_place *p, int by) {
    if (p->state == 1) r->n_captions += by;
    if (p->state == 2) r->n_errors += by;
}

bool caption_is_whole_number(const json_t *v, size_t below) {
    return json_is_integer(v) && json_integer_value(v) >= 0 && (uint64_t)json_integer_value(v) < below;
}

uint16_t caption_state_of(const json_t *line) {
    if (json_is_object(json_object_get(line, "error"))) return 2;
    return json_is_string(json_object_get(line, "caption")) ? 1 : 0;
}

bool caption_is_away(const json_t *line) {
    return caption_state_of(line) == 1 && json_is_string(json_object_get(line, "source")) &&
           json_is_string(json_object_get(line, "id"));
}

caption_place *caption_find_place(const caption_records *r, const json_t *line, size_t *source,
                                  size_t *index) {
    const json_t *s = json_object_get(line, "source"), *i = json_object_get(line, "index");
    if (!caption_is_whole_number(s, r->n_sources)) return NULL;
    *source = (size_t)json_integer_value(s);
    if (!r->places[*source] || !caption_is_whole_number(i, r->n_items[*source])) return NULL;
    *index = (size_t)json_integer_value(i);
    return &r->places[*source][*index];
}

/* What the item was known by goes into the line: CAPTION_SEEN_KEY. */
sac_status caption_records_add(caption_records *r, size_t source, size_t index, const json_t *record,
                               uint64_t content, sac_error *err) {
    caption_place *p = &r->places[source][index];
    char seen[CAPTION_SEEN_BYTES];
    int64_t at;
    size_t n;
    caption_seen_text(&r->input->sources[source].items[index], content, seen);
    json_t *line = json_copy((json_t *)record);
    sac_status st = line && !json_object_set_new(line, CAPTION_SEEN_KEY, json_string(seen))
                        ? journal_write(&r->journals[0], line, 9, &at, &n, err)
                        : sac_fail_no_memory(err);
    json_decref(line);
    if (st != SAC_OK) return st;
    caption_count(r, p, -1);
    *p = (caption_place){at, (uint32_t)n, caption_state_of(record), 0};
    caption_count(r, p, 1);
    return SAC_OK;
}

sac_status caption_records_read(const caption_records *r, size_t source, size_t index, char **text,
                                size_t *n_bytes, sac_error *err) {
    return caption_records_read_at(r, &r->places[source][index], text, n_bytes, err);
}

sac_status caption_records_read_at(const caption_records *r, const caption_place *p, char **text,
                                   size_t *n_bytes, sac_error *err) {
    const journal_file *j = &r->journals[p->shard];
    *text = malloc((size_t)p->n_bytes + 1);
    if (!*text) return sac_fail_no_memory(err);
    for (*n_bytes = 0; *n_bytes < p->n_bytes;) {
        ssize_t got =
            pread(j->fd, *text + *n_bytes, p->n_bytes - *n_bytes, (off_t)(p->at + (int64_t)*n_bytes));
        if (got <= 0) {
            free(*text);
            *text = NULL;
            return sac_fail(err, SAC_IO, "%s: cannot be read: %s", j->path,
                            got ? strerror(errno) : "it has become shorter");
        }
        *n_bytes += (size_t)got;
    }
    (*text)[*n_bytes] = 0;
    return SAC_OK;
}

sac_status caption_records_close(caption_records *r, sac_error *err) {
    sac_status st = SAC_OK;
    sac_error at_close;
    for (size_t i = 0; i < r->n_journals; i++) {
        if (journal_close(&r->journals[i], &at_close) == SAC_OK || st != SAC_OK) continue;
        *err = at_close;
        st = err->status;
    }
    for (size_t i = 0; r->places && i < r->n_sources; i++) free(r->places[i]);
    free(r->places);
    free(r->n_items);
    free(r->journals);
    json_decref(r->header);
    *r = (caption_records){0};
    return st;
}
