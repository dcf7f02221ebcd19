#define _GNU_SOURCE
#include "caption_records.h"
#include "caption_shard.h"
#include "hash.h"
#include "run_files.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const resume_ignored[] = {"started",    "machine", "settings.threads",
                                             "model.path", "sources", NULL};
static const char *const merge_ignored[] = {"started", "machine", "settings.threads", "model.path", "shard",
                                            "sources", NULL};

static sac_status take_room(caption_records *r, size_t n_sources, sac_error *err) {
    r->n_sources = n_sources;
    r->places = calloc(n_sources, sizeof *r->places);
    r->n_items = calloc(n_sources, sizeof *r->n_items);
    return r->places && r->n_items ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status take_places(caption_records *r, size_t source, size_t n_items, sac_error *err) {
    r->n_items[source] = n_items;
    r->places[source] = calloc(n_items ? n_items : 1, sizeof **r->places);
    return r->places[source] ? SAC_OK : sac_fail_no_memory(err);
}

static void count(caption_records *r, const caption_place *p, int by) {
    if (p->state == 1) r->n_captions += by;
    if (p->state == 2) r->n_errors += by;
}

static bool is_whole_number(const json_t *v, size_t below) {
    return json_is_integer(v) && json_integer_value(v) >= 0 && (uint64_t)json_integer_value(v) < below;
}

/* 0 = the line is no record. */
static uint16_t state_of(const json_t *line) {
    if (json_is_object(json_object_get(line, "error"))) return 2;
    return json_is_string(json_object_get(line, "caption")) ? 1 : 0;
}

/* The place that a record names, or NULL. */
static caption_place *find_place(const caption_records *r, const json_t *line, size_t *source,
                                 size_t *index) {
    const json_t *s = json_object_get(line, "source"), *i = json_object_get(line, "index");
    if (!is_whole_number(s, r->n_sources)) return NULL;
    *source = (size_t)json_integer_value(s);
    if (!r->places[*source] || !is_whole_number(i, r->n_items[*source])) return NULL;
    *index = (size_t)json_integer_value(i);
    return &r->places[*source][*index];
}

/* ---------------------------------------------------------------- one shard, going on */

static sac_status check_sources(const caption_records *r, const json_t *there, const char *path,
                                sac_error *err) {
    const json_t *now = json_object_get(r->header, "sources");
    size_t n = json_array_size(now);
    if (json_array_size(there) != n)
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: begun with %zu sources, now there are %zu; give another --out", path,
                        json_array_size(there), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *a = json_array_get(there, i), *b = json_array_get(now, i);
        const char *name = json_string_value(json_object_get(b, "name"));
        json_int_t had = json_integer_value(json_object_get(a, "items")),
                   has = json_integer_value(json_object_get(b, "items"));
        if (json_equal(a, b)) continue;
        if (had != has)
            return sac_fail(err, SAC_BAD_CONFIG,
                            "%s: the input has changed: '%.80s' had %lld items and has %lld now; give "
                            "another --out",
                            path, name, (long long)had, (long long)has);
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: the input has changed: '%.80s' holds other files or lines than it did; give "
                        "another --out",
                        path, name);
    }
    return SAC_OK;
}

static sac_status check_header(caption_records *r, const json_t *line, sac_error *err) {
    char what[200];
    const char *path = r->journals[0].path;
    if (json_integer_value(json_object_get(line, "saccade_caption")) != CAPTION_FORMAT)
        return sac_fail(err, SAC_BAD_FILE,
                        "%s:1: not the header of a job of this version; give another --out", path);
    if (journal_header_differs(line, r->header, resume_ignored, what, sizeof what))
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: begun with other settings or input: %s; give these, or another --out", path,
                        what);
    SAC_TRY(check_sources(r, json_object_get(line, "sources"), path, err));
    json_t *started = json_object_get(line, "started");
    return started && json_object_set(r->header, "started", started) ? sac_fail_no_memory(err) : SAC_OK;
}

static sac_status on_resumed(void *ctx, const journal_line *line, sac_error *err) {
    caption_records *r = ctx;
    if (line->number == 1) return check_header(r, line->json, err);
    size_t source, index;
    caption_place *p = find_place(r, line->json, &source, &index);
    uint16_t state = state_of(line->json);
    const char *id = json_string_value(json_object_get(line->json, "id"));
    if (!p || !state || !id || strcmp(id, r->input->sources[source].items[index].id))
        return sac_fail(err, SAC_BAD_FILE,
                        "%s:%zu: not the record of an item of this input; give another --out",
                        r->journals[0].path, line->number);
    if (state == 2 && r->retry) return SAC_OK;
    count(r, p, -1); /* a later record of the same item counts: an error that was done again */
    *p = (caption_place){line->at, (uint32_t)line->n_bytes, state, 0};
    count(r, p, 1);
    return SAC_OK;
}

sac_status caption_records_open(caption_records *r, const char *folder, json_t *header,
                                const caption_input *input, const caption_shard *shard, bool retry,
                                sac_error *err) {
    *r = (caption_records){.input = input, .shard = shard, .header = header, .retry = retry};
    SAC_TRY(take_room(r, input->n_sources, err));
    for (size_t i = 0; i < input->n_sources; i++)
        if (input->sources[i].listed) SAC_TRY(take_places(r, i, input->sources[i].n_items, err));
    r->journals = calloc(1, sizeof *r->journals);
    char *path = run_files_path(folder, "journal.jsonl");
    sac_status st = r->journals && path ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        r->n_journals = 1;
        st = journal_open(&r->journals[0], path, JOURNAL_WRITE, on_resumed, r, err);
    }
    free(path);
    if (st == SAC_OK && !r->journals[0].n_lines)
        st = journal_write(&r->journals[0], header, 17, NULL, NULL, err);
    if (st == SAC_OK) run_files_sync_folder(folder);
    return st;
}

sac_status caption_records_add(caption_records *r, size_t source, size_t index, const json_t *record,
                               sac_error *err) {
    caption_place *p = &r->places[source][index];
    int64_t at;
    size_t n;
    SAC_TRY(journal_write(&r->journals[0], record, 9, &at, &n, err));
    count(r, p, -1);
    *p = (caption_place){at, (uint32_t)n, state_of(record), 0};
    count(r, p, 1);
    return SAC_OK;
}

sac_status caption_records_read(const caption_records *r, size_t source, size_t index, char **text,
                                size_t *n_bytes, sac_error *err) {
    const caption_place *p = &r->places[source][index];
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

static sac_status add_error(const caption_records *r, size_t source, size_t index, json_t *errors,
                            sac_error *err) {
    char *text;
    size_t n;
    SAC_TRY(caption_records_read(r, source, index, &text, &n, err));
    json_t *record = json_loadb(text, n, 0, NULL), *error = json_object_get(record, "error"),
           *first = json_object_get(error, "text");
    const char *kind = json_string_value(json_object_get(error, "status"));
    json_t *same = json_object_get(errors, kind ? kind : "");
    json_int_t n_items = 1 + json_integer_value(json_object_get(same, "items"));
    int bad = 0;
    if (same)
        bad = json_object_set_new(same, "items", json_integer(n_items));
    else if (kind && first)
        bad = json_object_set_new(errors, kind, json_pack("{s:I, s:O}", "items", n_items, "first", first));
    json_decref(record);
    free(text);
    return bad ? sac_fail_no_memory(err) : SAC_OK;
}

sac_status caption_records_errors(const caption_records *r, json_t **errors, sac_error *err) {
    sac_status st = (*errors = json_object()) ? SAC_OK : sac_fail_no_memory(err);
    for (size_t s = 0; s < r->n_sources; s++)
        for (size_t i = 0; r->places[s] && i < r->n_items[s] && st == SAC_OK; i++)
            if (r->places[s][i].state == 2) st = add_error(r, s, i, *errors, err);
    return st;
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

/* ---------------------------------------------------------------- all shards, merged */

typedef struct merger {
    caption_records *r;
    const char *folder;
    bool by_source;
    caption_shard shard; /* whose journal is read */
    uint64_t **ids;      /* [source][item] hash of the id that a record gave, to be folded in order */
    uint64_t *want;      /* [source] that the folded hash must give */
    char path[4200];
} merger;

/* "2, 5-7": numbers of the shards for which there is no folder. */
static void list_missing(const bool *there, size_t n, char *text, size_t n_bytes) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        if (there[i]) continue;
        size_t last = i;
        while (last + 1 < n && !there[last + 1]) last++;
        if (used + 40 > n_bytes) return;
        used += (size_t)snprintf(text + used, n_bytes - used, last > i ? "%s%zu-%zu" : "%s%zu",
                                 used ? "," : "", i, last);
        i = last;
    }
}

/* How many shards the job in the folder has; all must be there, and of one job. */
static sac_status find_shards(const char *folder, size_t *n_shards, sac_error *err) {
    DIR *d = opendir(folder);
    if (!d) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", folder, strerror(errno));
    sac_status st = SAC_OK;
    bool *there = NULL;
    *n_shards = 0;
    caption_shard s;
    for (struct dirent *e; st == SAC_OK && (e = readdir(d));) {
        if (!caption_shard_parse_folder(e->d_name, &s) || s.count < 1 || s.count > CAPTION_SHARDS_MAX ||
            s.index >= s.count)
            continue;
        if (!there && !(there = calloc((size_t)s.count, sizeof *there))) st = sac_fail_no_memory(err);
        if (st == SAC_OK && *n_shards && *n_shards != (size_t)s.count)
            st = sac_fail(err, SAC_BAD_CONFIG,
                          "%s: holds shards of %zu and of %" PRId64 "; keep one job in a folder", folder,
                          *n_shards, s.count);
        if (st != SAC_OK) break;
        *n_shards = (size_t)s.count;
        there[s.index] = true;
    }
    closedir(d);
    char missing[200];
    if (st == SAC_OK && !*n_shards)
        st = sac_fail(err, SAC_NOT_FOUND, "%s: holds no shards of a caption job", folder);
    if (st == SAC_OK) {
        list_missing(there, *n_shards, missing, sizeof missing);
        if (*missing)
            st = sac_fail(err, SAC_BAD_FILE, "%s: shards that were never begun, of %zu: %s", folder,
                          *n_shards, missing);
    }
    free(there);
    return st;
}

/* What a shard says about a source must be what others said. */
static sac_status learn_source(merger *m, size_t i, const json_t *source, sac_error *err) {
    const json_t *items = json_object_get(source, "items");
    const char *hash = json_string_value(json_object_get(source, "ids"));
    if (!items) return SAC_OK; /* not its own */
    uint64_t want = hash ? strtoull(hash, NULL, 16) : 0;
    if (!hash || !is_whole_number(items, CAPTION_ITEMS_MAX + 1))
        return sac_fail(err, SAC_BAD_FILE, "%s:1: sources[%zu]: expected \"items\" and \"ids\"", m->path, i);
    size_t n = (size_t)json_integer_value(items);
    if (m->r->places[i]) {
        if (m->r->n_items[i] == n && m->want[i] == want) return SAC_OK;
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: this shard found other items in source %zu than those before it; the input has "
                        "changed between them",
                        m->path, i);
    }
    SAC_TRY(take_places(m->r, i, n, err));
    m->want[i] = want;
    m->ids[i] = calloc(n ? n : 1, sizeof **m->ids);
    return m->ids[i] ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status learn_sources(merger *m, const json_t *header, sac_error *err) {
    caption_records *r = m->r;
    const json_t *sources = json_object_get(header, "sources"),
                 *first = json_object_get(r->header, "sources");
    size_t n = json_array_size(sources);
    if (!r->places) {
        SAC_TRY(take_room(r, n, err));
        m->ids = calloc(n + 1, sizeof *m->ids);
        m->want = calloc(n + 1, sizeof *m->want);
        if (!m->ids || !m->want) return sac_fail_no_memory(err);
    }
    for (size_t i = 0; i < n || i < r->n_sources; i++) {
        const json_t *one = json_array_get(sources, i);
        if (!one ||
            !json_equal(json_object_get(one, "name"), json_object_get(json_array_get(first, i), "name")))
            return sac_fail(err, SAC_BAD_CONFIG, "%s: source %zu is another than in the shards before it",
                            m->path, i);
        SAC_TRY(learn_source(m, i, one, err));
    }
    return SAC_OK;
}

static sac_status on_merged_header(merger *m, json_t *line, sac_error *err) {
    char what[200];
    caption_records *r = m->r;
    if (json_integer_value(json_object_get(line, "saccade_caption")) != CAPTION_FORMAT)
        return sac_fail(err, SAC_BAD_FILE, "%s:1: not the header of a job of this version", m->path);
    const json_t *shard = json_object_get(line, "shard");
    if (json_integer_value(json_array_get(shard, 0)) != m->shard.index ||
        json_integer_value(json_array_get(shard, 1)) != m->shard.count)
        return sac_fail(err, SAC_BAD_CONFIG, "%s:1: the journal of another shard", m->path);
    if (!r->header) {
        r->header = json_incref(line);
        m->by_source = json_is_true(json_object_get(line, "by_source"));
    } else if (journal_header_differs(r->header, line, merge_ignored, what, sizeof what)) {
        return sac_fail(err, SAC_BAD_CONFIG, "%s: another job than shard 0: %s", m->path, what);
    }
    return learn_sources(m, line, err);
}

static sac_status on_merged(void *ctx, const journal_line *line, sac_error *err) {
    merger *m = ctx;
    if (line->number == 1) return on_merged_header(m, line->json, err);
    size_t source, index;
    caption_place *p = find_place(m->r, line->json, &source, &index);
    const char *id = json_string_value(json_object_get(line->json, "id"));
    uint16_t state = state_of(line->json);
    if (!p || !id || !state)
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: not the record of an item of this job", m->path,
                        line->number);
    if (!caption_is_mine(&m->shard, m->by_source, source, id))
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: an item of another shard", m->path, line->number);
    if (p->state == 1 || (p->state == 2 && p->shard != (uint32_t)m->shard.index))
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: a second record of item %zu of source %zu", m->path,
                        line->number, index, source);
    count(m->r, p, -1); /* an error that was done again */
    *p = (caption_place){line->at, (uint32_t)line->n_bytes, state, (uint32_t)m->shard.index};
    count(m->r, p, 1);
    m->ids[source][index] = sac_hash_quick(0, id, strlen(id) + 1);
    return SAC_OK;
}

static sac_status prove_source(const merger *m, size_t source, sac_error *err) {
    const caption_records *r = m->r;
    const char *name = json_string_value(
        json_object_get(json_array_get(json_object_get(r->header, "sources"), source), "name"));
    size_t missing = 0, first = 0;
    uint64_t h = 0;
    if (!r->places[source])
        return sac_fail(err, SAC_BAD_FILE, "%s: source '%.80s' was listed by no shard", m->folder,
                        name ? name : "");
    for (size_t i = 0; i < r->n_items[source]; i++) {
        if (!r->places[source][i].state && !missing++) first = i;
        h = sac_hash_quick(h, &m->ids[source][i], sizeof m->ids[source][i]);
    }
    if (missing)
        return sac_fail(err, SAC_BAD_FILE,
                        "%s: %zu of %zu items of '%.80s' have no record yet, the first is item %zu; run the "
                        "shards again, they go on where they were",
                        m->folder, missing, r->n_items[source], name ? name : "", first);
    return h == m->want[source]
               ? SAC_OK
               : sac_fail(err, SAC_BAD_FILE, "%s: the ids of '%.80s' are not those that were listed",
                          m->folder, name ? name : "");
}

sac_status caption_records_merge(caption_records *r, const char *folder, sac_error *err) {
    *r = (caption_records){0};
    merger m = {.r = r, .folder = folder};
    size_t n = 0;
    SAC_TRY(find_shards(folder, &n, err));
    if (!(r->journals = calloc(n, sizeof *r->journals))) return sac_fail_no_memory(err);
    sac_status st = SAC_OK;
    for (size_t i = 0; i < n && st == SAC_OK; i++) {
        char name[60];
        m.shard = (caption_shard){.index = (int64_t)i, .count = (int64_t)n};
        caption_shard_folder(&m.shard, name, sizeof name);
        snprintf(m.path, sizeof m.path, "%s/%s/journal.jsonl", folder, name);
        r->n_journals = i + 1;
        st = journal_open(&r->journals[i], m.path, JOURNAL_READ, on_merged, &m, err);
        if (st == SAC_OK && !r->journals[i].n_lines)
            st = sac_fail(err, SAC_BAD_FILE, "%s: is empty; run shard %zu again", m.path, i);
    }
    for (size_t i = 0; i < r->n_sources && st == SAC_OK; i++) st = prove_source(&m, i, err);
    for (size_t i = 0; m.ids && i < r->n_sources; i++) free(m.ids[i]);
    free(m.ids);
    free(m.want);
    return st;
}
