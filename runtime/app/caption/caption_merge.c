/* caption_merge.c - the journals of all shards of a job, read as one and proved whole. */
#define _GNU_SOURCE
#include "caption_records.h"
#include "caption_shard.h"
#include "hash.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const merge_ignored[] = {"started",           "machine", "settings.threads", "model.path",
                                            "model.mmproj.path", "shard",   "sources",          NULL};

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
    if (!hash || !caption_is_whole_number(items, CAPTION_ITEMS_MAX + 1))
        return sac_fail(err, SAC_BAD_FILE, "%s:1: sources[%zu]: expected \"items\" and \"ids\"", m->path, i);
    size_t n = (size_t)json_integer_value(items);
    if (m->r->places[i]) {
        if (m->r->n_items[i] == n && m->want[i] == want) return SAC_OK;
        return sac_fail(err, SAC_BAD_CONFIG,
                        "%s: this shard found other items in source %zu than those before it; the input has "
                        "changed between them: run all shards again, they go on where they were",
                        m->path, i);
    }
    SAC_TRY(caption_take_places(m->r, i, n, err));
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
        SAC_TRY(caption_take_room(r, n, err));
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
    if (caption_is_away(line->json)) return SAC_OK;
    size_t source, index;
    caption_place *p = caption_find_place(m->r, line->json, &source, &index);
    const char *id = json_string_value(json_object_get(line->json, "id"));
    uint16_t state = caption_state_of(line->json);
    if (!p || !id || !state)
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: not the record of an item of this job", m->path,
                        line->number);
    if (!caption_is_mine(&m->shard, m->by_source, source, id))
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: an item of another shard", m->path, line->number);
    if (p->state == 1 || (p->state == 2 && p->shard != (uint32_t)m->shard.index))
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: a second record of item %zu of source %zu", m->path,
                        line->number, index, source);
    caption_count(m->r, p, -1); /* an error that was done again */
    *p = (caption_place){line->at, (uint32_t)line->n_bytes, state, (uint32_t)m->shard.index};
    caption_count(m->r, p, 1);
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
