/* caption_resume.c - the journal of a shard taken up again.
 *
 * Where the input is listed as it was, a record's place is the one that it names. Where it is listed otherwise (files came
 * to a folder, a tar that was missing is there, --limit is another), items are found by their id: what has a caption and
 * looks the same keeps it, what failed and looks the same keeps its error, all else is done. The journal is then written
 * anew, so that its header and its places are those of the listing it has now. */
#define _GNU_SOURCE
#include "caption_records.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ignored[] = {
    "started", "machine", "settings.threads", "model.path", "model.mmproj.path", "sources", "limit", NULL};

typedef struct resumed {
    caption_records *r;
    bool relisted; /* the journal was begun with another listing */
    const caption_item **
        *by_id; /* [source][item] in order of id, once an item is looked for; NULL = not yet */
} resumed;

/* ---------------------------------------------------------------- the header */

static sac_status check_sources(resumed *u, const json_t *there, sac_error *err) {
    const caption_records *r = u->r;
    const json_t *now = json_object_get(r->header, "sources");
    size_t n = json_array_size(now);
    if (json_array_size(there) != n)
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: begun with %zu sources, now there are %zu; give another --out",
                        r->journals[0].path, json_array_size(there), n);
    for (size_t i = 0; i < n; i++) {
        const char *a = json_string_value(json_object_get(json_array_get(there, i), "name")),
                   *b = json_string_value(json_object_get(json_array_get(now, i), "name"));
        if (!a || !b || strcmp(a, b))
            return sac_fail(err, SAC_BAD_CONFIG,
                            "%s: source %zu was '%.80s' and is '%.80s' now; give another --out",
                            r->journals[0].path, i, a ? a : "?", b ? b : "?");
    }
    u->relisted = !json_equal(there, now);
    return SAC_OK;
}

static sac_status check_header(resumed *u, const json_t *line, sac_error *err) {
    char what[200];
    caption_records *r = u->r;
    const char *path = r->journals[0].path;
    if (json_integer_value(json_object_get(line, "saccade_caption")) != CAPTION_FORMAT)
        return sac_fail(err, SAC_BAD_FILE,
                        "%s:1: not the header of a job of this version; give another --out", path);
    if (journal_header_differs(line, r->header, ignored, what, sizeof what))
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: begun with other settings or input: %s; give these, or another --out", path,
                        what);
    SAC_TRY(check_sources(u, json_object_get(line, "sources"), err));
    u->relisted |= json_integer_value(json_object_get(line, "limit")) !=
                   json_integer_value(json_object_get(r->header, "limit"));
    json_t *started = json_object_get(line, "started");
    return started && json_object_set(r->header, "started", started) ? sac_fail_no_memory(err) : SAC_OK;
}

/* ---------------------------------------------------------------- items by id */

static int by_id(const void *a, const void *b) {
    return strcmp((*(const caption_item *const *)a)->id, (*(const caption_item *const *)b)->id);
}

/* SIZE_MAX = there is none. */
static sac_status find_item(resumed *u, size_t source, const char *id, size_t *index, sac_error *err) {
    const caption_source *s = &u->r->input->sources[source];
    if (!u->by_id && !(u->by_id = calloc(u->r->n_sources, sizeof *u->by_id))) return sac_fail_no_memory(err);
    const caption_item **sorted = u->by_id[source];
    if (!sorted) {
        sorted = u->by_id[source] = malloc((s->n_items + 1) * sizeof *sorted);
        if (!sorted) return sac_fail_no_memory(err);
        for (size_t i = 0; i < s->n_items; i++) sorted[i] = &s->items[i];
        qsort(sorted, s->n_items, sizeof *sorted, by_id);
    }
    const caption_item key = {.id = (char *)id}, *wanted = &key;
    const caption_item **found = bsearch(&wanted, sorted, s->n_items, sizeof *sorted, by_id);
    *index = found ? (size_t)(*found - s->items) : SIZE_MAX;
    return SAC_OK;
}

static bool looks_the_same(const caption_item *item, const json_t *record) {
    char now[17];
    const char *seen = json_string_value(json_object_get(record, CAPTION_SEEN_KEY));
    snprintf(now, sizeof now, "%016" PRIx64, item->seen);
    return seen && !strcmp(seen, now);
}

/* A caption without its item: work that would be lost. */
static sac_status refuse_loss(const resumed *u, size_t source, const char *id, bool is_there,
                              sac_error *err) {
    const caption_source *s = &u->r->input->sources[source];
    const char *path = u->r->journals[0].path;
    if (s->broken)
        return sac_fail(err, SAC_IO,
                        "%s: %.200s; it has captions in %s: run again when it is there and whole", s->path,
                        s->items[s->n_items - 1].error, path);
    return sac_fail(
        err, SAC_BAD_CONFIG,
        "%s: the input has changed: '%.200s' of '%.80s' has a caption and is %s; give the input (and "
        "--limit) as it was, or another --out",
        path, id, s->name, is_there ? "another now" : "not there now");
}

/* ---------------------------------------------------------------- records */

/* The place of a record, or NULL where it is of no use any more. */
static sac_status find_place(resumed *u, const journal_line *line, caption_place **place, sac_error *err) {
    const caption_records *r = u->r;
    const json_t *from = json_object_get(line->json, "source");
    const char *id = json_string_value(json_object_get(line->json, "id"));
    uint16_t state = caption_state_of(line->json);
    size_t source = 0, index = SIZE_MAX;
    bool known = id && state && caption_is_whole_number(from, r->n_sources);
    *place = NULL;
    if (known) source = (size_t)json_integer_value(from);
    if (known && !u->relisted) {
        *place = caption_find_place(r, line->json, &source, &index);
        known = *place && !strcmp(id, r->input->sources[source].items[index].id);
    }
    if (!known || !r->places[source])
        return sac_fail(err, SAC_BAD_FILE,
                        "%s:%zu: not the record of an item of this input; give another --out",
                        r->journals[0].path, line->number);
    if (!u->relisted) return SAC_OK;
    SAC_TRY(find_item(u, source, id, &index, err));
    bool is_there = index != SIZE_MAX;
    if (is_there && looks_the_same(&r->input->sources[source].items[index], line->json))
        *place = &r->places[source][index];
    else if (state == 1)
        return refuse_loss(u, source, id, is_there, err);
    return SAC_OK;
}

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    resumed *u = ctx;
    if (line->number == 1) return check_header(u, line->json, err);
    caption_place *p;
    SAC_TRY(find_place(u, line, &p, err));
    uint16_t state = caption_state_of(line->json);
    if (!p || (state == 2 && u->r->retry)) return SAC_OK;
    caption_count(u->r, p, -1); /* a later record of the same item counts: an error that was done again */
    *p = (caption_place){line->at, (uint32_t)line->n_bytes, state, 0};
    caption_count(u->r, p, 1);
    return SAC_OK;
}

/* ---------------------------------------------------------------- the journal under a new listing */

static sac_status move_record(caption_records *r, size_t source, size_t index, journal_file *to,
                              sac_error *err) {
    char *text;
    size_t n;
    caption_place *p = &r->places[source][index];
    SAC_TRY(caption_records_read(r, source, index, &text, &n, err));
    json_t *record = json_loadb(text, n, 0, NULL);
    free(text);
    bool bad = !record || json_object_set_new(record, "index", json_integer((json_int_t)index));
    sac_status st = bad ? sac_fail_no_memory(err) : journal_write(to, record, 9, &p->at, &n, err);
    p->n_bytes = (uint32_t)n;
    json_decref(record);
    return st;
}

static sac_status write_anew(caption_records *r, sac_error *err) {
    journal_file next;
    sac_error at_close;
    sac_status st = journal_replacement(&r->journals[0], &next, err);
    if (st == SAC_OK) st = journal_write(&next, r->header, 17, NULL, NULL, err);
    for (size_t s = 0; s < r->n_sources; s++)
        for (size_t i = 0; r->places[s] && i < r->n_items[s] && st == SAC_OK; i++)
            if (r->places[s][i].state) st = move_record(r, s, i, &next, err);
    if (st == SAC_OK) return journal_replace(&r->journals[0], &next, err);
    journal_close(&next, &at_close);
    return st;
}

static sac_status take_up(resumed *u, const char *folder, sac_error *err) {
    caption_records *r = u->r;
    r->journals = calloc(1, sizeof *r->journals);
    char *path = run_files_path(folder, "journal.jsonl");
    sac_status st = r->journals && path ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        r->n_journals = 1;
        st = journal_open(&r->journals[0], path, JOURNAL_WRITE, on_line, u, err);
    }
    free(path);
    if (st == SAC_OK && !r->journals[0].n_lines)
        st = journal_write(&r->journals[0], r->header, 17, NULL, NULL, err);
    return st == SAC_OK && u->relisted ? write_anew(r, err) : st;
}

sac_status caption_records_open(caption_records *r, const char *folder, json_t *header,
                                const caption_input *input, const caption_shard *shard, bool retry,
                                sac_error *err) {
    *r = (caption_records){.input = input, .shard = shard, .header = header, .retry = retry};
    resumed u = {.r = r};
    SAC_TRY(caption_take_room(r, input->n_sources, err));
    for (size_t i = 0; i < input->n_sources; i++)
        if (input->sources[i].listed) SAC_TRY(caption_take_places(r, i, input->sources[i].n_items, err));
    sac_status st = take_up(&u, folder, err);
    if (st == SAC_OK) run_files_sync_folder(folder);
    for (size_t i = 0; u.by_id && i < r->n_sources; i++) free(u.by_id[i]);
    free(u.by_id);
    return st;
}
