/* caption_list.c - lists the items of a source by the file that knows its kind, and sees to it that each has a name
 * of its own. */
#define _GNU_SOURCE
#include "caption_list.h"
#include "hash.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---------------------------------------------------------------- ids given twice */

static int by_id(const void *a, const void *b) {
    const caption_item *x = *(const caption_item *const *)a, *y = *(const caption_item *const *)b;
    int order = strcmp(x->id, y->id);
    return order ? order : x < y ? -1 : x > y;
}

/* The first of a name is the item; those after it are errors, under names that nobody else has. */
static sac_status spoil_repeated(caption_source *s, sac_error *err) {
    caption_item **sorted = malloc((s->n_items + 1) * sizeof *sorted);
    if (!sorted) return sac_fail_no_memory(err);
    for (size_t i = 0; i < s->n_items; i++) sorted[i] = &s->items[i];
    qsort(sorted, s->n_items, sizeof *sorted, by_id);
    sac_status st = SAC_OK;
    for (size_t i = 1, first = 0; st == SAC_OK && i < s->n_items; i++) {
        if (strcmp(sorted[first]->id, sorted[i]->id)) {
            first = i;
            continue;
        }
        char *own = NULL, *why = NULL; /* a line feed is in no name */
        if (asprintf(&own, "%s\\x0a%zu", sorted[i]->id, (size_t)(sorted[i] - s->items)) < 0) own = NULL;
        if (asprintf(&why, "this name came before, as item %zu", (size_t)(sorted[first] - s->items)) < 0)
            why = NULL;
        if (!own || !why) {
            st = sac_fail_no_memory(err);
            free(own);
            free(why);
            continue;
        }
        free(sorted[i]->error);
        sorted[i]->error = why;
        free(sorted[i]->id);
        sorted[i]->id = own;
    }
    free(sorted);
    return st;
}

/* ---------------------------------------------------------------- listing */

static sac_status list_source(caption_input *in, caption_source *s, size_t limit, sac_error *err) {
    sac_status st = in->kind == CAPTION_FOLDER  ? caption_list_folder(s, err)
                    : in->kind == CAPTION_FILES ? caption_list_files(s, err)
                    : in->kind == CAPTION_TAR   ? caption_list_tar(s, err)
                                                : caption_list_lines(s, in->kind, err);
    if (st == SAC_OK) st = spoil_repeated(s, err);
    if (st != SAC_OK) return st;
    for (size_t i = limit; i < s->n_items; i++) {
        free(s->items[i].id);
        free(s->items[i].error);
        free(s->items[i].path);
    }
    if (s->n_items > limit) { /* what a broken tar has lost is behind the limit, as its error is */
        s->n_items = limit;
        s->broken = false;
    }
    for (size_t i = 0; i < s->n_items; i++) {
        caption_item *item = &s->items[i];
        uint64_t id = sac_hash_quick(0, item->id, strlen(item->id) + 1);
        item->seen = sac_hash_quick(item->seen, &id, sizeof id);
        item->seen = sac_hash_quick(item->seen, &item->n_bytes, sizeof item->n_bytes);
        s->ids_hash = sac_hash_quick(s->ids_hash, &id, sizeof id);
        s->content_hash = sac_hash_quick(s->content_hash, &id, sizeof id);
        s->content_hash = sac_hash_quick(s->content_hash, &item->n_bytes, sizeof item->n_bytes);
        s->content_hash = sac_hash_quick(s->content_hash, &item->mtime_ns, sizeof item->mtime_ns);
    }
    s->listed = true;
    return SAC_OK;
}

/* One that is missing is an error item; a pattern that meets no file at all is no input. */
static sac_status check_any_tar(const caption_input *in, sac_error *err) {
    struct stat st;
    for (size_t i = 0; i < in->n_sources; i++)
        if (!stat(in->sources[i].path, &st) || (errno != ENOENT && errno != ENOTDIR)) return SAC_OK;
    if (in->n_sources == 1) return sac_fail(err, SAC_NOT_FOUND, "%s: no such file", in->sources[0].path);
    return sac_fail(err, SAC_NOT_FOUND, "no such file: %s, nor any other of the %zu to %s",
                    in->sources[0].path, in->n_sources, in->sources[in->n_sources - 1].path);
}

static bool splits_sources(caption_kind kind, size_t n_sources, const caption_shard *shard) {
    return kind == CAPTION_TAR && (int64_t)n_sources >= shard->count;
}

sac_status caption_input_list(caption_input *in, const caption_shard *shard, size_t limit, sac_error *err) {
    bool by_source = in->by_source = splits_sources(in->kind, in->n_sources, shard);
    size_t left = limit ? limit : SIZE_MAX;
    if (in->kind == CAPTION_TAR) SAC_TRY(check_any_tar(in, err));
    for (size_t i = 0; i < in->n_sources; i++) {
        /* which items are the first `limit` is known only when those before them were counted */
        if (by_source && !limit && !caption_is_mine(shard, true, i, "")) continue;
        if (left) SAC_TRY(list_source(in, &in->sources[i], left, err));
        in->sources[i].listed = true;
        left -= limit ? in->sources[i].n_items : 0;
    }
    return SAC_OK;
}
