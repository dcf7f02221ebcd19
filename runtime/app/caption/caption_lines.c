/* caption_lines.c - a file with an item a line: a manifest, OpenAI's batch requests, a list of names; or a row (CSV). Only where each line
 * lies is kept; it is read again when its turn comes. */
#define _GNU_SOURCE
#include "caption_list.h"
#include "caption_table.h"
#include "hash.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *caption_without_root(const char *path) {
    for (;;) {
        if (*path == '/')
            path++;
        else if (!strncmp(path, "./", 2))
            path += 2;
        else if (!strncmp(path, "../", 3))
            path += 3;
        else
            return path;
    }
}

static const char *id_of(const json_t *line, caption_kind kind) {
    static const char *const keys[] = {"image", "video", "frames"};
    if (kind == CAPTION_REQUESTS) return json_string_value(json_object_get(line, "custom_id"));
    const char *id = json_string_value(json_object_get(line, "id"));
    for (size_t i = 0; !id && i < SAC_COUNT(keys); i++) {
        const json_t *v = json_object_get(line, keys[i]);
        if (json_is_array(v)) v = json_array_get(v, 0);
        if (json_is_string(v)) id = caption_without_root(json_string_value(v));
    }
    return id;
}

static sac_status add_line(caption_source *s, caption_kind kind, const char *text, size_t n, int64_t at,
                           size_t number, sac_error *err) {
    char place[400];
    char *why;
    json_t *line = caption_row_json(s, kind, text, n, &why);
    const char *id = json_is_object(line) ? id_of(line, kind) : NULL;
    snprintf(place, sizeof place, "%.300s:%zu", s->name, number);
    const char *name = id ? id : place;
    sac_status st = caption_add(s, name, strlen(name), at, (int64_t)n, err);
    if (!line && !why) st = sac_fail_no_memory(err);
    if (st == SAC_OK && !line) st = caption_spoil(s, place, err, "%s", why);
    if (!line) free(why);
    if (st == SAC_OK && !id)
        st = caption_spoil(s, place, err,
                           kind == CAPTION_REQUESTS
                               ? "expected an object with \"custom_id\" and \"body\""
                               : "expected an object with \"image\", \"video\" or \"frames\"");
    /* what is asked may stand in the line: a changed line is another item. What a row says depends on the header too */
    char *row = kind == CAPTION_CSV && line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (st == SAC_OK && kind == CAPTION_CSV && line && !row) st = sac_fail_no_memory(err);
    if (st == SAC_OK) {
        const char *said = row ? row : text;
        size_t n_said = row ? strlen(row) : n;
        s->content_hash = sac_hash_quick(s->content_hash, said, n_said);
        s->items[s->n_items - 1].seen = sac_hash_quick(0, said, n_said);
    }
    free(row);
    json_decref(line);
    return st;
}

static sac_status list_text(caption_source *s, caption_kind kind, const char *text, size_t n_bytes,
                            sac_error *err) {
    size_t number = 0;
    bool marked = n_bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3), headed = kind != CAPTION_CSV;
    for (size_t at = marked ? 3 : 0, next; at < n_bytes; at = next) {
        const char *stop = memchr(text + at, '\n', n_bytes - at);
        size_t end = stop ? (size_t)(stop - text) : n_bytes;
        if (kind == CAPTION_CSV) end = at + caption_csv_record(text + at, n_bytes - at, s->separator);
        next = end + 1;
        number++;
        const char *blank = kind == CAPTION_CSV ? "\r" : "\r \t"; /* a tab ends a field */
        while (end > at && strchr(blank, text[end - 1]) && text[end - 1]) end--;
        if (end == at) continue;
        if (end - at > CAPTION_LINE_MAX_BYTES)
            return sac_fail(err, SAC_BAD_FILE, "%s:%zu: a line of more than %zu bytes", s->path, number,
                            CAPTION_LINE_MAX_BYTES);
        if (!headed) {
            SAC_TRY(caption_csv_header(s, text + at, end - at, err));
            headed = true;
            continue;
        }
        SAC_TRY(add_line(s, kind, text + at, end - at, (int64_t)at, number, err));
    }
    return s->n_items ? SAC_OK
                      : sac_fail(err, SAC_BAD_FILE, "%s: holds no %s", s->path,
                                 kind == CAPTION_CSV && headed ? "row under its header" : "line");
}

/* Mapped: pictures may travel in the lines, and the file is then larger than memory. */
sac_status caption_list_lines(caption_source *s, caption_kind kind, sac_error *err) {
    struct stat info;
    s->any_name = kind == CAPTION_REQUESTS;
    int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", s->path, strerror(errno));
    if (fstat(fd, &info) || !S_ISREG(info.st_mode) || !info.st_size) {
        close(fd);
        return sac_fail(err, SAC_BAD_FILE, "%s: not a file, or empty", s->path);
    }
    size_t n = (size_t)info.st_size;
    void *text = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    int failed = errno;
    close(fd);
    if (text == MAP_FAILED) return sac_fail(err, SAC_IO, "%s: %s", s->path, strerror(failed));
    sac_status st = list_text(s, kind, text, n, err);
    munmap(text, n);
    return st;
}
