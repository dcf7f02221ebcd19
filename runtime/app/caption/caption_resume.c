/* caption_resume.c - the journal of a shard taken up again.
 *
 * Where the input is listed as it was, a record's place is the one that it names. Where it is listed otherwise (files came
 * to a folder or left it, a tar that was missing is there, --limit is another), items are found by the name of their source
 * and their id: what looks the same keeps its caption or its error, all else is done. A caption without its item is kept
 * aside ("away"): the item may come back. The journal is then written anew, so that its header and its places are those of
 * the listing it has now. */
#define _GNU_SOURCE
#include "caption_records.h"
#include "caption_seen.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ignored[] = {"started",    "machine",           "settings.threads",
                                      "model.path", "model.mmproj.path", "sources",
                                      "limit",      "by_source",         NULL};

typedef struct resumed {
    caption_records *r;
    bool relisted;   /* the journal was begun with another listing */
    json_t *sources; /* of the journal's header */
    const caption_item **
        *by_id;          /* [source][item] in order of id, once an item is looked for; NULL = not yet */
    caption_place *away; /* [r->n_away], where it is relisted */
} resumed;

/* ---------------------------------------------------------------- the header */

static const char *name_at(const json_t *sources, size_t i) {
    return json_string_value(json_object_get(json_array_get(sources, i), "name"));
}

/* SIZE_MAX = not among those of today. Patterns of tars give them in order, so that most are found where they were. */
static size_t find_source(const json_t *now, const char *name, size_t likely) {
    const char *there = name_at(now, likely);
    if (!name) return SIZE_MAX;
    if (there && !strcmp(there, name)) return likely;
    for (size_t i = 0; i < json_array_size(now); i++)
        if ((there = name_at(now, i)) && !strcmp(there, name)) return i;
    return SIZE_MAX;
}

static sac_status check_sources(resumed *u, json_t *there, sac_error *err) {
    const json_t *now = json_object_get(u->r->header, "sources");
    const char *a = name_at(there, 0), *b = name_at(now, 0);
    u->sources = json_incref(there);
    u->relisted = !json_equal(there, now);
    for (size_t i = 0; i < json_array_size(there); i++)
        if (find_source(now, name_at(there, i), i) != SIZE_MAX) return SAC_OK;
    return sac_fail(err, SAC_BAD_CONFIG,
                    "%s: begun with another input: '%.80s' is no part of this one, which begins with "
                    "'%.80s'; give another "
                    "--out",
                    u->r->journals[0].path, a ? a : "?", b ? b : "?");
}

static sac_status check_header(resumed *u, json_t *line, sac_error *err) {
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
    u->relisted |= json_is_true(json_object_get(line, "by_source")) != r->input->by_source;
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

/* A tar that cannot be read now is expected back; results without its captions would not be what was asked for. */
static sac_status refuse_loss(const resumed *u, size_t source, sac_error *err) {
    const caption_source *s = &u->r->input->sources[source];
    return sac_fail(
        err, SAC_IO,
        "%s: %.200s; it has captions in %s: run again when it is there and whole, or leave it out", s->path,
        s->items[s->n_items - 1].error, u->r->journals[0].path);
}

/* ---------------------------------------------------------------- records */

static sac_status refuse_line(const resumed *u, const journal_line *line, sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "%s:%zu: not the record of an item of this input; give another --out",
                    u->r->journals[0].path, line->number);
}

static sac_status keep_aside(resumed *u, const journal_line *line, sac_error *err) {
    size_t n = (size_t)u->r->n_away;
    if (u->relisted && (n & (n - 1)) == 0) { /* the room is the next power of two */
        caption_place *more = realloc(u->away, (n ? 2 * n : 1) * sizeof *more);
        if (!more) return sac_fail_no_memory(err);
        u->away = more;
    }
    if (u->relisted) u->away[n] = (caption_place){line->at, (uint32_t)line->n_bytes, 1, 0};
    u->r->n_away++;
    return SAC_OK;
}

/* Under the listing that the journal was begun with. */
static sac_status find_as_listed(resumed *u, const journal_line *line, caption_place **place,
                                 sac_error *err) {
    const caption_records *r = u->r;
    const char *id = json_string_value(json_object_get(line->json, "id"));
    size_t source, index;
    if (caption_is_away(line->json)) return keep_aside(u, line, err);
    *place = caption_find_place(r, line->json, &source, &index);
    if (!*place || !id || !caption_state_of(line->json) ||
        strcmp(id, r->input->sources[source].items[index].id))
        return refuse_line(u, line, err);
    return SAC_OK;
}

static sac_status find_relisted(resumed *u, const journal_line *line, caption_place **place, sac_error *err) {
    const caption_records *r = u->r;
    const json_t *from = json_object_get(line->json, "source");
    const char *id = json_string_value(json_object_get(line->json, "id")), *name = json_string_value(from);
    uint16_t state = caption_state_of(line->json);
    size_t n = json_array_size(u->sources), index = SIZE_MAX, at = 0;
    if (!id || !state || (!name && !caption_is_whole_number(from, n))) return refuse_line(u, line, err);
    if (!name) name = name_at(u->sources, at = (size_t)json_integer_value(from));
    size_t source = find_source(json_object_get(r->header, "sources"), name, at);
    bool mine =
        source != SIZE_MAX && r->places[source] && caption_is_mine(r->shard, r->input->by_source, source, id);
    if (mine) SAC_TRY(find_item(u, source, id, &index, err));
    const caption_source *s = mine ? &r->input->sources[source] : NULL;
    if (index != SIZE_MAX && caption_looks_the_same(s, &s->items[index], line->json)) {
        *place = &r->places[source][index];
        return SAC_OK;
    }
    if (state == 2) return SAC_OK; /* what failed and is another now is done again */
    return s && s->broken && index == SIZE_MAX ? refuse_loss(u, source, err) : keep_aside(u, line, err);
}

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    resumed *u = ctx;
    if (line->number == 1) return check_header(u, line->json, err);
    caption_place *p = NULL;
    SAC_TRY(u->relisted ? find_relisted(u, line, &p, err) : find_as_listed(u, line, &p, err));
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
    bool bad = !record || json_object_set_new(record, "source", json_integer((json_int_t)source)) ||
               json_object_set_new(record, "index", json_integer((json_int_t)index));
    sac_status st = bad ? sac_fail_no_memory(err) : journal_write(to, record, 9, &p->at, &n, err);
    p->n_bytes = (uint32_t)n;
    json_decref(record);
    return st;
}

/* The name of its source stays with it: sources may come in another order. */
static sac_status move_away(const resumed *u, const caption_place *p, journal_file *to, sac_error *err) {
    char *text;
    size_t n;
    SAC_TRY(caption_records_read_at(u->r, p, &text, &n, err));
    json_t *record = json_loadb(text, n, 0, NULL);
    free(text);
    const json_t *from = json_object_get(record, "source");
    const char *name = json_is_integer(from) ? name_at(u->sources, (size_t)json_integer_value(from)) : NULL;
    bool bad = !record || (name && json_object_set_new(record, "source", json_string(name))) ||
               json_object_set_new(record, "index", json_null()); /* keys stay in their order */
    sac_status st = bad ? sac_fail_no_memory(err) : journal_write(to, record, 9, NULL, NULL, err);
    json_decref(record);
    return st;
}

static sac_status write_anew(const resumed *u, sac_error *err) {
    caption_records *r = u->r;
    journal_file next;
    sac_error at_close;
    sac_status st = journal_replacement(&r->journals[0], &next, err);
    if (st == SAC_OK) st = journal_write(&next, r->header, 17, NULL, NULL, err);
    for (size_t s = 0; s < r->n_sources; s++)
        for (size_t i = 0; r->places[s] && i < r->n_items[s] && st == SAC_OK; i++)
            if (r->places[s][i].state) st = move_record(r, s, i, &next, err);
    for (int64_t i = 0; i < r->n_away && st == SAC_OK; i++) st = move_away(u, &u->away[i], &next, err);
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
    return st == SAC_OK && u->relisted ? write_anew(u, err) : st;
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
    free(u.away);
    json_decref(u.sources);
    return st;
}
