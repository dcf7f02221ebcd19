#define _GNU_SOURCE
#include "conversation.h"
#include "frames.h"
#include "input.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_MAX_BYTES ((size_t)1 << 30)

sac_status conversation_begin(conversation *c, const char *role, sac_error *err) {
    sac_message *messages = realloc(c->messages, (c->n_messages + 1) * sizeof *messages);
    if (!messages) return sac_fail_no_memory(err);
    c->messages = messages;
    messages[c->n_messages++] = (sac_message){.role = role};
    return SAC_OK;
}

/* Room for one more part of the last message; zeroed. */
static sac_part *add_part(conversation *c) {
    sac_message *m = &c->messages[c->n_messages - 1];
    sac_part *parts = realloc((sac_part *)m->parts, (m->n_parts + 1) * sizeof *parts);
    if (!parts) return NULL;
    m->parts = parts;
    parts[m->n_parts] = (sac_part){0};
    return &parts[m->n_parts++];
}

sac_status conversation_add_text(conversation *c, const char *text, size_t n_bytes, sac_error *err) {
    sac_part *p = add_part(c);
    if (!p || !(p->text = strndup(text, n_bytes))) return sac_fail_no_memory(err);
    return SAC_OK;
}

static sac_video_options video_options(const settings *s) {
    return (sac_video_options){.fps = s->fps,
                               .num_frames = (int)s->num_frames,
                               .max_frames = (int)s->max_frames,
                               .max_pixels = s->max_pixels,
                               .no_rotate = s->no_rotate,
                               .key_frames = s->key_frames};
}

sac_status conversation_add_media(conversation *c, const media_item *item, const settings *s,
                                  sac_error *err) {
    if (item->bytes) {
        void *bytes = malloc(item->n_bytes);
        if (!bytes) return sac_fail_no_memory(err);
        memcpy(bytes, item->bytes, item->n_bytes);
        return conversation_add_bytes(c, item->kind, bytes, item->n_bytes, s, err);
    }
    struct stat st;
    if (item->kind != MEDIA_FRAMES && stat(item->path, &st) == 0 && S_ISDIR(st.st_mode))
        return sac_fail(err, SAC_BAD_FILE, "%s: a folder: --frames shows the pictures in it as a video", item->path);
    sac_part *p = add_part(c);
    if (!p || !(p->path = strdup(item->path))) return sac_fail_no_memory(err);
    p->kind = item->kind == MEDIA_IMAGE   ? SAC_PART_IMAGE
              : item->kind == MEDIA_VIDEO ? SAC_PART_VIDEO
                                          : SAC_PART_FRAMES;
    p->video = video_options(s);
    if (item->kind != MEDIA_FRAMES) return SAC_OK;
    frame_list list;
    SAC_TRY(frame_list_read(&list, item->path, err));
    p->frames = list.items;
    p->n_frames = list.n;
    return SAC_OK;
}

sac_status conversation_add_bytes(conversation *c, media_kind kind, void *bytes, size_t n_bytes,
                                  const settings *s, sac_error *err) {
    sac_part *p = add_part(c);
    if (!p) {
        free(bytes);
        return sac_fail_no_memory(err);
    }
    p->kind = kind == MEDIA_IMAGE ? SAC_PART_IMAGE : SAC_PART_VIDEO;
    p->bytes = bytes;
    p->n_bytes = n_bytes;
    p->video = video_options(s);
    return SAC_OK;
}

sac_status conversation_add_pixels(conversation *c, const sac_pixels *pixels, const settings *s, sac_error *err) {
    sac_part *p = add_part(c);
    if (!p) {
        free((void *)pixels->rgb);
        free((void *)pixels->time_s);
        return sac_fail_no_memory(err);
    }
    p->kind = SAC_PART_PIXELS;
    p->pixels = *pixels;
    p->video = (sac_video_options){.max_frames = (int)s->max_frames, .max_pixels = s->max_pixels};
    return SAC_OK;
}

sac_status conversation_add_message(conversation *c, const char *role, const char *text, sac_error *err) {
    SAC_TRY(conversation_begin(c, role, err));
    return conversation_add_text(c, text, strlen(text), err);
}

sac_status conversation_ask(conversation *c, const settings *s, const media_list *media, const char *question,
                            sac_error *err) {
    SAC_TRY(conversation_begin(c, "user", err));
    for (size_t i = 0; i < media->n; i++) SAC_TRY(conversation_add_media(c, &media->items[i], s, err));
    return conversation_add_text(c, question, strlen(question), err);
}

static void free_part(const sac_part *p) {
    frame_list frames = {(sac_frame *)p->frames, p->n_frames};
    frame_list_free(&frames);
    free((void *)p->bytes);
    free((void *)p->pixels.rgb);
    free((void *)p->pixels.time_s);
    free((char *)p->text);
    free((char *)p->path);
}

void conversation_cut(conversation *c, size_t n) {
    while (c->n_messages > n) {
        sac_message *m = &c->messages[--c->n_messages];
        for (size_t i = 0; i < m->n_parts; i++) free_part(&m->parts[i]);
        free((sac_part *)m->parts);
    }
}

void conversation_free(conversation *c) {
    conversation_cut(c, 0);
    free(c->messages);
    *c = (conversation){0};
}

static sac_status check(const media_item *item, sac_error *err) {
    if (item->bytes || access(item->path, R_OK) == 0) return SAC_OK;
    int why = errno;
    if (strstr(item->path, "://"))
        return sac_fail(err, SAC_NOT_FOUND, "%s: addresses are not fetched here; download it and give the file",
                        item->path);
    return sac_fail(err, SAC_NOT_FOUND, "%s: %s", item->path, strerror(why));
}

sac_status media_list_check(const media_list *media, sac_error *err) {
    for (size_t i = 0; i < media->n; i++) SAC_TRY(check(&media->items[i], err));
    return SAC_OK;
}

sac_status media_list_take(media_list *out, const media_list *media, sac_error *err) {
    *out = (media_list){0};
    bool was_stdin = false;
    for (size_t i = 0; i < media->n; i++) {
        SAC_TRY(media_list_add_copy(out, &media->items[i], err));
        media_item *item = &out->items[i];
        bool is_stdin = !strcmp(item->path, "-");
        if (is_stdin && was_stdin)
            return sac_fail(err, SAC_BAD_ARGUMENT, "standard input can be one picture or video only");
        was_stdin = was_stdin || is_stdin;
        if (item->kind != MEDIA_FRAMES && input_is_stream(item->path))
            SAC_TRY(input_read_bytes(&item->bytes, &item->n_bytes, item->path, PIPE_MAX_BYTES, err));
        SAC_TRY(check(item, err));
    }
    return SAC_OK;
}
