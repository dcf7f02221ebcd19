#define _GNU_SOURCE
#include "eval_media.h"
#include "base64.h"
#include "eval_stretch.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- files */

/* A folder of frames may have the name of its video. */
static bool is_there(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && !S_ISDIR(s.st_mode) && access(path, R_OK) == 0;
}

/* FOLDER/name, with one of the endings; NULL: none is there (*failed: no memory). */
static char *try_name(const char *folder, const char *name, bool is_video, bool *failed) {
    static const char *const pictures[] = {"", ".jpg", ".png", ".jpeg", ".JPG", ".webp", NULL};
    static const char *const videos[] = {"", ".mp4", ".mkv", ".webm", ".avi", ".mov", ".MP4", NULL};
    for (const char *const *e = is_video ? videos : pictures; *e; e++) {
        char *path;
        if (asprintf(&path, "%s/%s%s", folder, name, *e) < 0) {
            *failed = true;
            return NULL;
        }
        if (is_there(path)) return path;
        free(path);
    }
    return NULL;
}

sac_status eval_media_find(const char *folder, const eval_medium *m, char **out, sac_error *err) {
    const char *slash = strrchr(m->path, '/');
    bool failed = false;
    *out = try_name(folder, m->path, m->is_video, &failed);
    if (!*out && slash && !failed) *out = try_name(folder, slash + 1, m->is_video, &failed);
    if (failed) return sac_fail_no_memory(err);
    return *out ? SAC_OK : sac_fail(err, SAC_NOT_FOUND, "%s/%s: no such file", folder, m->path);
}

sac_status eval_media_bytes(const eval_medium *m, uint8_t **bytes, size_t *n_bytes, sac_error *err) {
    size_t n = strlen(m->base64);
    *bytes = malloc(3 * (n / 4 + 1));
    if (!*bytes) return sac_fail_no_memory(err);
    if (sac_base64_decode(m->base64, n, *bytes, n_bytes)) return SAC_OK;
    free(*bytes);
    *bytes = NULL;
    return sac_fail(err, SAC_BAD_FILE, "the picture is no base64");
}

/* ---------------------------------------------------------------- messages */

static sac_status add_medium(conversation *c, const char *folder, const eval_medium *m, const settings *s,
                             const sac_model *model, sac_error *err) {
    if (m->base64) {
        uint8_t *bytes;
        size_t n;
        SAC_TRY(eval_media_bytes(m, &bytes, &n, err));
        return conversation_add_bytes(c, MEDIA_IMAGE, bytes, n, s, err);
    }
    char *path;
    SAC_TRY(eval_media_find(folder, m, &path, err));
    media_item file = {.kind = m->is_video ? MEDIA_VIDEO : MEDIA_IMAGE, .path = path};
    sac_status st = m->end_s > m->start_s ? eval_stretch_add(c, path, m->start_s, m->end_s, s, model, err)
                                          : conversation_add_media(c, &file, s, err);
    free(path);
    return st;
}

/* "<image K>" at p: its number, and where it ends; 0 = something else. */
static size_t mark_at(const char *p, const char **end) {
    if (strncmp(p, "<image ", 7) || p[7] < '1' || p[7] > '9' || p[8] != '>') return 0;
    *end = p + 9;
    return (size_t)(p[7] - '0');
}

static sac_status add_text(conversation *c, const char *text, const char *end, sac_error *err) {
    return end > text ? conversation_add_text(c, text, (size_t)(end - text), err) : SAC_OK;
}

static sac_status add_marked(conversation *c, const char *folder, const eval_item *item, const char *text,
                             const settings *s, const sac_model *model, sac_error *err) {
    const char *end, *done = text;
    for (size_t k = 1; k <= item->n_media; k++) { /* those that no mark stands for come first */
        char mark[16];
        snprintf(mark, sizeof mark, "<image %zu>", k);
        if (!strstr(text, mark)) SAC_TRY(add_medium(c, folder, &item->media[k - 1], s, model, err));
    }
    for (const char *p = text; *p; p++) {
        size_t k = mark_at(p, &end);
        if (!k || k > item->n_media) continue;
        SAC_TRY(add_text(c, done, p, err));
        SAC_TRY(add_medium(c, folder, &item->media[k - 1], s, model, err));
        done = end;
        p = end - 1;
    }
    return add_text(c, done, done + strlen(done), err);
}

sac_status eval_media_add(conversation *c, const char *folder, const eval_item *item, const char *text,
                          const settings *s, const sac_model *model, sac_error *err) {
    if (item->marks) return add_marked(c, folder, item, text, s, model, err);
    if (item->subtitles && item->n_media == 1) {
        char *path;
        SAC_TRY(eval_media_find(folder, &item->media[0], &path, err));
        sac_status st = eval_stretch_add_between(c, path, item->subtitles, s, model, err);
        free(path);
        return st == SAC_OK ? conversation_add_text(c, text, strlen(text), err) : st;
    }
    for (size_t i = 0; i < item->n_media; i++) SAC_TRY(add_medium(c, folder, &item->media[i], s, model, err));
    return conversation_add_text(c, text, strlen(text), err);
}
