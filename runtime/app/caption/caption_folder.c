/* caption_folder.c - the pictures and videos of a folder and of the folders in it, in order of path. */
#define _GNU_SOURCE
#include "caption_list.h"
#include "caption_seen.h"
#include "report_value.h"
#include "status.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int by_id(const void *a, const void *b) {
    return strcmp(((const caption_item *)a)->id, ((const caption_item *)b)->id);
}

/* What a file that is left out is counted under: its ending in small letters. */
static void ending_of(const char *name, char ending[16]) {
    const char *dot = strrchr(name, '.');
    size_t n = dot ? strlen(dot + 1) : 0;
    snprintf(ending, 16, "%s", n ? "other" : "no ending");
    for (size_t i = 0; i < n; i++)
        if (n > 8 || !isascii(dot[1 + i]) || !isalnum((unsigned char)dot[1 + i])) return;
    for (size_t i = 0; i < n; i++) ending[i] = (char)tolower((unsigned char)dot[1 + i]);
    if (n) ending[n] = 0;
}

sac_status caption_skip(caption_source *s, const char *name, const char *path, sac_error *err) {
    enum { KINDS_MAX = 100 };
    char ending[16];
    if (name[0] == '.') return SAC_OK;
    if (!s->skipped && !(s->skipped = json_object())) return sac_fail_no_memory(err);
    if (!s->skipped_files && !(s->skipped_files = json_array())) return sac_fail_no_memory(err);
    if (json_array_size(s->skipped_files) < CAPTION_SKIPPED_MAX &&
        json_array_append_new(s->skipped_files, report_text(path)))
        return sac_fail_no_memory(err);
    ending_of(name, ending);
    json_t *n = json_object_get(s->skipped, ending);
    if (!n && json_object_size(s->skipped) >= KINDS_MAX)
        n = json_object_get(s->skipped, strcpy(ending, "other"));
    return json_object_set_new(s->skipped, ending, json_integer(json_integer_value(n) + 1))
               ? sac_fail_no_memory(err)
               : SAC_OK;
}

/* Pictures that cannot be read are what somebody meant. */
static sac_status refuse_empty(const caption_source *s, sac_error *err) {
    static const char *const pictures[] = {"heic", "heif", "avif", "tif", "tiff",
                                           "jp2",  "jxl",  "dng",  "cr2", "nef"};
    json_int_t n = 0, of_all = 0;
    const char *which = NULL, *ending;
    json_t *count;
    json_object_foreach(s->skipped, ending, count) of_all += json_integer_value(count);
    for (size_t i = 0; i < SAC_COUNT(pictures); i++) {
        json_int_t these = json_integer_value(json_object_get(s->skipped, pictures[i]));
        if (these > n) n = these, which = pictures[i];
    }
    if (which)
        return sac_fail(
            err, SAC_BAD_FILE,
            "%s: no pictures or videos that can be read: %lld of its %lld files are .%s; convert them to "
            "PNG, JPEG or WebP",
            s->path, (long long)n, (long long)of_all, which);
    return sac_fail(err, SAC_BAD_FILE, "%s: no pictures or videos in this folder", s->path);
}

static int64_t mtime_of(const FTSENT *e) {
    struct stat info = {0}; /* of a link's own file; a job may not have it now */
    if (e->fts_info == FTS_F) info = *e->fts_statp;
    if (e->fts_info != FTS_F && stat(e->fts_path, &info)) return 0;
    return caption_mtime_ns(&info);
}

/* Links to files are followed, links to folders are not (they may lead in a circle). */
static sac_status add_entry(caption_source *s, FTS *walk, FTSENT *e, size_t root, sac_error *err) {
    const char *below = e->fts_path + root;
    below += *below == '/';
    switch (e->fts_info) {
    case FTS_D:
        if (e->fts_level > 0 && e->fts_name[0] == '.') fts_set(walk, e, FTS_SKIP);
        return SAC_OK;
    case FTS_F:
    case FTS_SL:
        if (caption_media_of_path(e->fts_name) == CAPTION_NO_MEDIA)
            return caption_skip(s, e->fts_name, below, err);
        SAC_TRY(
            caption_add(s, below, strlen(below), 0, e->fts_info == FTS_F ? e->fts_statp->st_size : 0, err));
        s->items[s->n_items - 1].mtime_ns = mtime_of(e);
        if (!strcmp(s->items[s->n_items - 1].id, below)) return SAC_OK;
        return caption_spoil(s, NULL, err, "its name is not a text (UTF-8 without control characters)");
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        if (e->fts_level == 0) return sac_fail(err, SAC_IO, "%s: %s", s->path, strerror(e->fts_errno));
        SAC_TRY(caption_add(s, below, strlen(below), 0, 0, err));
        return caption_spoil(s, NULL, err, "%s", strerror(e->fts_errno));
    default: return SAC_OK;
    }
}

sac_status caption_list_folder(caption_source *s, sac_error *err) {
    char *roots[] = {s->path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, by_name);
    if (!walk) return sac_fail(err, SAC_IO, "%s: %s", s->path, strerror(errno));
    sac_status st = SAC_OK;
    FTSENT *e;
    while (st == SAC_OK && (errno = 0, e = fts_read(walk))) st = add_entry(s, walk, e, strlen(s->path), err);
    if (st == SAC_OK && errno) st = sac_fail(err, SAC_IO, "%s: %s", s->path, strerror(errno));
    fts_close(walk);
    if (st == SAC_OK && !s->n_items) st = refuse_empty(s, err);
    if (st == SAC_OK) qsort(s->items, s->n_items, sizeof *s->items, by_id); /* "a-b" stands before "a/b" */
    return st;
}
