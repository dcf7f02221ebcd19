#define _GNU_SOURCE
#include "caption_input.h"
#include "hash.h"
#include "intake_media.h"
#include "status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *caption_kind_name(caption_kind kind) {
    static const char *const names[] = {"folder", "manifest", "batch", "webdataset", "files", "csv", "list"};
    return names[kind];
}

caption_media caption_media_of(const char *ending) {
    static const char *const images[] = {"jpg", "jpeg", "png", "webp", "bmp", "gif"};
    static const struct {
        const char *ending, *format;
    } others[] = {{"tif", "TIFF"},      {"tiff", "TIFF"},     {"heic", "HEIC"},     {"heif", "HEIC"},
                  {"hif", "HEIC"},      {"avif", "AVIF"},     {"jp2", "JPEG 2000"}, {"j2k", "JPEG 2000"},
                  {"jpf", "JPEG 2000"}, {"jpx", "JPEG 2000"}, {"jxl", "JPEG XL"}};
    static const char *const videos[] = {"mp4", "mkv", "webm", "mov", "avi", "m4v"};
    for (size_t i = 0; i < SAC_COUNT(images); i++)
        if (!strcasecmp(ending, images[i])) return CAPTION_IMAGE;
    for (size_t i = 0; i < SAC_COUNT(others); i++) /* of libraries that a build may be without */
        if (!strcasecmp(ending, others[i].ending) && intake_can_read(others[i].format)) return CAPTION_IMAGE;
    for (size_t i = 0; i < SAC_COUNT(videos); i++)
        if (!strcasecmp(ending, videos[i])) return CAPTION_VIDEO;
    return CAPTION_NO_MEDIA;
}

caption_media caption_media_of_path(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && *name != '.' ? caption_media_of(dot + 1) : CAPTION_NO_MEDIA;
}

char *caption_item_path(const caption_source *s, const caption_item *item) {
    char *path;
    if (item->path) return strdup(item->path);
    return asprintf(&path, "%s/%s", s->path, item->id) < 0 ? NULL : path;
}

/* ---------------------------------------------------------------- items */

/* Length of the UTF-8 character at p, 0 where there is none. */
static size_t character(const unsigned char *p, size_t n) {
    size_t length = p[0] < 0x80   ? 1
                    : p[0] < 0xc2 ? 0
                    : p[0] < 0xe0 ? 2
                    : p[0] < 0xf0 ? 3
                    : p[0] < 0xf5 ? 4
                                  : 0;
    if (length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0; /* overlong, surrogates */
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return length;
}

static char *make_id(const char *name, size_t n) {
    char *id = malloc(4 * n + 1), *to = id;
    const unsigned char *p = (const unsigned char *)name;
    for (size_t i = 0; id && i < n;) {
        size_t length = p[i] < 0x20 || p[i] == 0x7f ? 0 : character(p + i, n - i);
        if (!length) to += sprintf(to, "\\x%02x", p[i]);
        for (size_t k = 0; k < length; k++) *to++ = (char)p[i + k];
        i += length ? length : 1;
    }
    if (id) *to = 0;
    return id;
}

/* Results are written under names made from ids. */
static const char *refuse_id(const char *id, bool any_name) {
    if (!*id) return "its name is empty";
    if (strlen(id) > CAPTION_ID_MAX_BYTES) return "its name is too long";
    for (const char *part = id; part && !any_name;) {
        size_t n = strcspn(part, "/");
        if (n == 0) return "its name begins or ends with a slash, or has two together";
        if (n > 240) return "a part of its name is too long";
        if ((n == 2 && !memcmp(part, "..", 2)) || (n == 1 && *part == '.'))
            return "its name leads out of the folder";
        part = part[n] ? part + n + 1 : NULL;
    }
    return NULL;
}

sac_status caption_add(caption_source *s, const char *name, size_t n_name, int64_t at, int64_t n_bytes,
                       sac_error *err) {
    if (s->n_items == CAPTION_ITEMS_MAX)
        return sac_fail(err, SAC_BAD_FILE, "%s: more than %zu items", s->path, CAPTION_ITEMS_MAX);
    if ((s->n_items & (s->n_items - 1)) == 0) { /* the room is the next power of two */
        caption_item *items = realloc(s->items, (s->n_items ? 2 * s->n_items : 1) * sizeof *items);
        if (!items) return sac_fail_no_memory(err);
        s->items = items;
    }
    size_t n = n_name < 2 * CAPTION_ID_MAX_BYTES ? n_name : 2 * CAPTION_ID_MAX_BYTES;
    caption_item *item = &s->items[s->n_items];
    *item = (caption_item){.id = make_id(name, n), .at = at, .n_bytes = n_bytes};
    if (!item->id) return sac_fail_no_memory(err);
    s->n_items++;
    const char *why = refuse_id(item->id, s->any_name);
    return why ? caption_spoil(s, NULL, err, "%s", why) : SAC_OK;
}

sac_status caption_spoil(caption_source *s, const char *id, sac_error *err, const char *format, ...) {
    caption_item *item = &s->items[s->n_items - 1];
    if (item->error) return SAC_OK; /* the first reason stays */
    va_list args;
    va_start(args, format);
    int n = vasprintf(&item->error, format, args);
    va_end(args);
    if (n < 0) {
        item->error = NULL;
        return sac_fail_no_memory(err);
    }
    if (!id) return SAC_OK;
    char *own = make_id(id, strlen(id));
    if (!own) return sac_fail_no_memory(err);
    free(item->id);
    item->id = own;
    return SAC_OK;
}

void caption_input_free(caption_input *in) {
    for (size_t i = 0; i < in->n_sources; i++) {
        caption_source *s = &in->sources[i];
        for (size_t k = 0; k < s->n_items; k++) {
            free(s->items[k].id);
            free(s->items[k].error);
            free(s->items[k].path);
        }
        free(s->items);
        json_decref(s->skipped);
        json_decref(s->skipped_files);
        json_decref(s->columns);
        for (size_t k = 0; k < s->n_files; k++) free(s->files[k].path);
        free(s->files);
        free(s->path);
    }
    free(in->sources);
    *in = (caption_input){0};
}

/* ---------------------------------------------------------------- listing */

bool caption_is_mine(const caption_shard *shard, bool by_source, size_t source, const char *id) {
    if (by_source) return (int64_t)(source % (size_t)shard->count) == shard->index;
    uint64_t h = sac_hash_quick(0, id, strlen(id));
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u; /* FNV's low bits alone are not even */
    return (int64_t)((h >> 32) % (uint64_t)shard->count) == shard->index;
}

json_t *caption_input_json(const caption_input *in) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < in->n_sources; i++) {
        const caption_source *s = &in->sources[i];
        char ids[17], content[17];
        snprintf(ids, sizeof ids, "%016" PRIx64, s->ids_hash);
        snprintf(content, sizeof content, "%016" PRIx64, s->content_hash);
        json_t *one = json_pack("{s:s%}", "name", s->name, strlen(s->name));
        if (!one) one = json_pack("{s:s}", "name", "?"); /* no UTF-8 */
        if (one && s->listed)
            json_object_update_new(one, json_pack("{s:I, s:s, s:s}", "items", (json_int_t)s->n_items, "ids",
                                                  ids, "content", content));
        if (!json_array_append_new(list, one)) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}
