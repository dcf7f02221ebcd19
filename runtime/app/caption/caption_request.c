#define _GNU_SOURCE
#include "caption_request.h"
#include "caption_seen.h"
#include "caption_table.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- conversations */

static sac_status begin(caption_request *q, const caption_how *how, sac_error *err) {
    if (how->s->system) SAC_TRY(conversation_add_message(&q->c, "system", how->s->system, err));
    return conversation_begin(&q->c, "user", err);
}

static sac_status ask(caption_request *q, const caption_how *how, caption_media media, const char *own,
                      sac_error *err) {
    const char *text = own                      ? own
                       : how->s->ask            ? how->s->ask
                       : media == CAPTION_VIDEO ? "Describe the video."
                                                : "Describe the image.";
    q->media = media == CAPTION_VIDEO ? "video" : "image";
    return conversation_add_text(&q->c, text, strlen(text), err);
}

static sac_status read_file_item(caption_reader *r, const caption_source *s, const caption_item *item,
                                 caption_request *q, sac_error *err) {
    char *path = caption_item_path(s, item);
    if (!path) return sac_fail_no_memory(err);
    caption_media media = caption_media_of_path(path);
    q->content = caption_content_hash(path); /* first: a file that is replaced meanwhile is then done again */
    sac_status st = begin(q, r->how, err);
    if (st == SAC_OK)
        st = caption_request_add_file(q, r->how, media == CAPTION_VIDEO ? MEDIA_VIDEO : MEDIA_IMAGE, path,
                                      err);
    free(path);
    return st == SAC_OK ? ask(q, r->how, media, NULL, err) : st;
}

/* ---------------------------------------------------------------- lines */

sac_status caption_read_line(caption_reader *r, const caption_source *s, const caption_item *item,
                             json_t **line, sac_error *err) {
    size_t n = (size_t)item->n_bytes, got = 0;
    if (r->lines_fd < 0) r->lines_fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (r->lines_fd < 0) return sac_fail(err, SAC_IO, "%s: %s", s->path, strerror(errno));
    char *text = malloc(n + 1);
    if (!text) return sac_fail_no_memory(err);
    while (got < n) {
        ssize_t more = pread(r->lines_fd, text + got, n - got, (off_t)(item->at + (int64_t)got));
        if (more <= 0) break;
        got += (size_t)more;
    }
    char *why;
    *line = got == n ? caption_row_json(s, r->in->kind, text, n, &why) : NULL;
    if (got == n && !*line) free(why);
    free(text);
    return json_is_object(*line) ? SAC_OK
                                 : sac_fail(err, SAC_IO, "%s: has changed while it was worked on", s->path);
}

char *caption_path_beside(const char *manifest, const char *name) {
    const char *slash = strrchr(manifest, '/');
    char *path;
    if (*name == '/' || !slash) return strdup(name);
    return asprintf(&path, "%.*s/%s", (int)(slash - manifest), manifest, name) < 0 ? NULL : path;
}

/* "FILE", or a list of them; relative to the manifest's folder. */
static sac_status add_files(caption_request *q, const caption_how *how, const char *manifest, media_kind kind,
                            const json_t *value, sac_error *err) {
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    if (!n) return sac_fail(err, SAC_BAD_FILE, "expected the name of a file, found an empty list");
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        if (!name || !*name)
            return sac_fail(err, SAC_BAD_FILE, "expected the name of a file, or a list of names");
        char *path = caption_path_beside(manifest, name);
        if (!path) return sac_fail_no_memory(err);
        sac_status st = caption_request_add_file(q, how, kind, path, err);
        free(path);
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

static sac_status add_frames(caption_request *q, const caption_how *how, const char *manifest,
                             const json_t *value, sac_error *err) {
    const char *name = json_string_value(value);
    if (!name)
        return sac_fail(err, SAC_BAD_FILE,
                        "frames: expected a folder or a list, as --frames of 'ask' takes them");
    char *path = caption_path_beside(manifest, name);
    if (!path) return sac_fail_no_memory(err);
    sac_status st =
        conversation_add_media(&q->c, &(media_item){.kind = MEDIA_FRAMES, .path = path}, how->s, err);
    free(path);
    return st;
}

static sac_status read_manifest_line(caption_reader *r, const caption_source *s, const json_t *line,
                                     caption_request *q, sac_error *err) {
    const json_t *image = json_object_get(line, "image"), *video = json_object_get(line, "video"),
                 *frames = json_object_get(line, "frames"), *prompt = json_object_get(line, "prompt"),
                 *image_id = json_object_get(line, "image_id");
    if (!image && !video && !frames)
        return sac_fail(err, SAC_BAD_FILE,
                        "expected \"image\", \"video\" or \"frames\" with the name of a file");
    if (prompt && !json_is_string(prompt)) return sac_fail(err, SAC_BAD_FILE, "prompt: expected a text");
    if (image_id && !json_is_integer(image_id) && !json_is_string(image_id))
        return sac_fail(err, SAC_BAD_FILE, "image_id: expected a whole number or a text");
    if (image_id && !(q->extra = json_pack("{s:O}", "image_id", image_id))) return sac_fail_no_memory(err);
    SAC_TRY(begin(q, r->how, err));
    if (image) SAC_TRY(add_files(q, r->how, s->path, MEDIA_IMAGE, image, err));
    if (video) SAC_TRY(add_files(q, r->how, s->path, MEDIA_VIDEO, video, err));
    if (frames) SAC_TRY(add_frames(q, r->how, s->path, frames, err));
    return ask(q, r->how, image ? CAPTION_IMAGE : CAPTION_VIDEO, json_string_value(prompt), err);
}

static sac_status read_from_lines(caption_reader *r, const caption_source *s, const caption_item *item,
                                  caption_request *q, sac_error *err) {
    json_t *line = NULL;
    sac_status st = caption_read_line(r, s, item, &line, err);
    if (st == SAC_OK)
        st = r->in->kind == CAPTION_REQUESTS ? caption_request_openai(q, r->how, line, err)
                                             : read_manifest_line(r, s, line, q, err);
    json_decref(line);
    return st;
}

/* ---------------------------------------------------------------- tars */

/* Forward to a member. Opened again for a place that lies behind. */
sac_status caption_find_member(caption_reader *r, size_t source, const caption_item *item, sac_error *err) {
    const caption_source *s = &r->in->sources[source];
    if (!r->tar || r->tar_source != source || r->member.number >= item->at) {
        caption_tar_close(r->tar);
        r->member = (caption_member){.number = -1};
        r->tar_source = source;
        SAC_TRY(caption_tar_open(&r->tar, s->path, err));
    }
    bool more = true;
    while (more && r->member.number < item->at) SAC_TRY(caption_tar_next(r->tar, &r->member, &more, err));
    return more && r->member.n_bytes == item->n_bytes
               ? SAC_OK
               : sac_fail(err, SAC_IO, "%s: has changed while it was worked on", s->path);
}

static sac_status read_from_tar(caption_reader *r, size_t source, const caption_item *item,
                                caption_request *q, sac_error *err) {
    size_t n_key, n;
    uint8_t *bytes;
    SAC_TRY(caption_find_member(r, source, item, err));
    const char *ending = caption_tar_key(r->member.name, &n_key);
    caption_media media = ending ? caption_media_of(ending) : CAPTION_NO_MEDIA;
    q->extra = json_pack("{s:s, s:s}", "__key__", item->id, "__url__", r->in->sources[source].name);
    if (!q->extra)
        return sac_fail(err, SAC_BAD_FILE, "%s: its name is not UTF-8", r->in->sources[source].path);
    SAC_TRY(caption_tar_read(r->tar, &bytes, &n, err));
    q->n_bytes += n;
    sac_status st = begin(q, r->how, err);
    if (st != SAC_OK) {
        free(bytes);
        return st;
    }
    SAC_TRY(conversation_add_bytes(&q->c, media == CAPTION_VIDEO ? MEDIA_VIDEO : MEDIA_IMAGE, bytes, n,
                                   r->how->s, err));
    return ask(q, r->how, media, NULL, err);
}

/* ---------------------------------------------------------------- the reader */

void caption_reader_init(caption_reader *r, const caption_input *in, const caption_how *how) {
    *r = (caption_reader){.in = in, .how = how, .lines_fd = -1};
}

void caption_reader_close(caption_reader *r) {
    caption_tar_close(r->tar);
    if (r->lines_fd >= 0) close(r->lines_fd);
    r->tar = NULL;
    r->lines_fd = -1;
}

void caption_request_read(caption_reader *r, size_t source, size_t index, caption_request *q) {
    const caption_source *s = &r->in->sources[source];
    const caption_item *item = &s->items[index];
    *q = (caption_request){.source = source, .index = index, .sampling = *r->how->sampling};
    if (item->error)
        q->status = sac_fail(&q->err, SAC_BAD_FILE, "%s", item->error);
    else if (r->in->kind == CAPTION_FOLDER || r->in->kind == CAPTION_FILES)
        q->status = read_file_item(r, s, item, q, &q->err);
    else if (r->in->kind == CAPTION_TAR)
        q->status = read_from_tar(r, source, item, q, &q->err);
    else
        q->status = read_from_lines(r, s, item, q, &q->err);
}

void caption_request_free(caption_request *q) {
    conversation_free(&q->c);
    for (size_t i = 0; q->stop && q->stop[i]; i++) free(q->stop[i]);
    free(q->stop);
    json_decref(q->extra);
    *q = (caption_request){0};
}
