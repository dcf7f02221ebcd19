/* caption_files.c - pictures and videos that were named one by one, or met by patterns, in that order. */
#define _GNU_SOURCE
#include "caption_list.h"
#include "caption_seen.h"
#include "status.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static sac_status add_file(caption_source *s, const char *path, sac_error *err) {
    struct stat info;
    const char *name = caption_without_root(path);
    bool is_there = !stat(path, &info);
    int failed = errno;
    SAC_TRY(caption_add(s, name, strlen(name), 0, is_there ? info.st_size : 0, err));
    caption_item *item = &s->items[s->n_items - 1];
    if (!(item->path = strdup(path))) return sac_fail_no_memory(err);
    if (!is_there) return caption_spoil(s, NULL, err, "%s", strerror(failed));
    item->mtime_ns = caption_mtime_ns(&info);
    return SAC_OK;
}

/* A pattern may meet anything; what was named was checked (caption_open.c). */
sac_status caption_list_files(caption_source *s, sac_error *err) {
    json_t *seen = json_object();
    sac_status st = seen ? SAC_OK : sac_fail_no_memory(err);
    for (size_t i = 0; i < s->n_files && st == SAC_OK; i++) {
        const char *path = s->files[i].path, *slash = strrchr(path, '/');
        if (caption_media_of_path(path) == CAPTION_NO_MEDIA) {
            struct stat info;
            if (!stat(path, &info) && S_ISREG(info.st_mode))
                st = caption_skip(s, slash ? slash + 1 : path, path, err);
            continue;
        }
        /* two patterns may meet the same; a name that is no UTF-8 cannot be a key, and is an item with an error */
        if (json_object_get(seen, path)) continue;
        json_object_set_new(seen, path, json_true());
        st = add_file(s, path, err);
    }
    json_decref(seen);
    if (st == SAC_OK && !s->n_items)
        st = sac_fail(err, SAC_BAD_FILE, "no pictures or videos among these files");
    return st;
}
