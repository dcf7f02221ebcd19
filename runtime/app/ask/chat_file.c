/* chat_file.c - see chat_file.h. */
#define _GNU_SOURCE
#include "chat_file.h"
#include "chat_base64.h"
#include "draft.h"
#include "frames.h"
#include "hash.h"
#include "input.h"
#include "json.h"
#include "output.h"
#include "report_value.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EMBEDDED_MAX_BYTES ((size_t)32 << 20)

static const char *const type_names[] = {
    [SAC_PART_TEXT] = "text",
    [SAC_PART_IMAGE] = "image",
    [SAC_PART_VIDEO] = "video",
    [SAC_PART_FRAMES] = "frames",
};

/* ---------------------------------------------------------------- what a file holds */

static sac_status hash_file(sac_sha256 *h, const char *path, sac_error *err) {
    static const size_t n_block = 1 << 16;
    FILE *f;
    SAC_TRY(input_open(&f, path, false, err));
    char *block = malloc(n_block);
    for (size_t n; block && (n = fread(block, 1, n_block, f)) > 0;) sac_sha256_update(h, block, n);
    sac_status st = !block      ? sac_fail_no_memory(err)
                    : ferror(f) ? sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno))
                                : SAC_OK;
    free(block);
    fclose(f);
    return st;
}

static sac_status hash_frames(sac_sha256 *h, const sac_part *p, sac_error *err) {
    for (size_t i = 0; i < p->n_frames; i++) {
        const sac_frame *f = &p->frames[i];
        char time[40];
        int n = snprintf(time, sizeof time, "%.9g", f->time_s);
        const char *slash = strrchr(f->path, '/'),
                   *name = slash ? slash + 1 : f->path; /* wherever it is seen from */
        sac_sha256_update(h, name, strlen(name) + 1);
        sac_sha256_update(h, time, (size_t)n + 1);
        SAC_TRY(hash_file(h, f->path, err));
    }
    return SAC_OK;
}

static sac_status identify(const sac_part *p, char hex[65], sac_error *err) {
    sac_sha256 *h;
    uint8_t hash[32];
    SAC_TRY(sac_sha256_open(&h, err));
    sac_status st = p->kind == SAC_PART_FRAMES ? hash_frames(h, p, err) : hash_file(h, p->path, err);
    sac_sha256_finish(h, hash);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    return st;
}

/* ---------------------------------------------------------------- saving */

static json_t *sampling_as_json(const sac_video_options *v) {
    json_t *o = json_object();
    int bad = !o;
    if (v->fps > 0) bad |= json_object_set_new(o, "fps", json_real(v->fps));
    if (v->num_frames) bad |= json_object_set_new(o, "num-frames", json_integer(v->num_frames));
    if (v->max_frames) bad |= json_object_set_new(o, "max-frames", json_integer(v->max_frames));
    if (v->max_pixels) bad |= json_object_set_new(o, "max-pixels", json_integer(v->max_pixels));
    if (v->no_rotate) bad |= json_object_set_new(o, "no-rotate", json_true());
    if (v->key_frames) bad |= json_object_set_new(o, "key-frames", json_true());
    if (!bad) return o;
    json_decref(o);
    return NULL;
}

/* NULL without memory. One that is not there (any more) is seen from the working directory. */
static char *absolute(const char *path) {
    char *full = realpath(path, NULL), *here = NULL;
    if (full || path[0] == '/') return full ? full : strdup(path);
    here = getcwd(NULL, 0);
    if (here && asprintf(&full, "%s/%s", here, path) < 0) full = NULL;
    free(here);
    return full;
}

static sac_status file_as_json(json_t *o, const sac_part *p, sac_error *err) {
    char hex[65], *path = absolute(p->path);
    json_t *file = path ? json_string(path) : NULL;
    sac_status st = SAC_OK;
    if (path && !file)
        st = sac_fail(err, SAC_UNSUPPORTED, "%s: its name is no UTF-8, which a file of JSON cannot hold",
                      path);
    else if (!file || json_object_set_new(o, "file", file))
        st = sac_fail_no_memory(err);
    free(path);
    if (st != SAC_OK) return st;
    if (access(p->path, F_OK)) {
        int why = errno;
        fputs("saccade: ", stderr);
        output_note(p->path, 4096);
        fprintf(stderr, ": %s; it is saved by its name alone\n", strerror(why));
        return SAC_OK;
    }
    SAC_TRY(identify(p, hex, err));
    return json_object_set_new(o, "sha256", json_string(hex)) ? sac_fail_no_memory(err) : SAC_OK;
}

/* What came through a pipe goes with the conversation. */
static sac_status bytes_as_json(json_t *o, const sac_part *p, sac_error *err) {
    if (p->n_bytes > EMBEDDED_MAX_BYTES)
        return sac_fail(
            err, SAC_TOO_LONG,
            "what came through a pipe has %zu bytes, more than %zu are not saved: give it as a file",
            p->n_bytes, EMBEDDED_MAX_BYTES);
    char *text = chat_base64_write(p->bytes, p->n_bytes);
    int bad = !text || json_object_set_new(o, "base64", json_string(text));
    free(text);
    return bad ? sac_fail_no_memory(err) : SAC_OK;
}

static sac_status media_as_json(json_t **out, const sac_part *p, sac_error *err) {
    json_t *o = json_pack("{s:s}", "type", type_names[p->kind]), *sampling;
    sac_status st = !o        ? sac_fail_no_memory(err)
                    : p->path ? file_as_json(o, p, err)
                              : bytes_as_json(o, p, err);
    if (st == SAC_OK && p->kind != SAC_PART_IMAGE) {
        sampling = sampling_as_json(&p->video);
        if (!sampling || json_object_set_new(o, "sampling", sampling)) st = sac_fail_no_memory(err);
    }
    *out = st == SAC_OK ? o : NULL;
    if (st != SAC_OK) json_decref(o);
    return st;
}

static sac_status part_as_json(json_t **out, const sac_part *p, sac_error *err) {
    *out = NULL;
    if (p->kind != SAC_PART_TEXT) return media_as_json(out, p, err);
    *out = json_pack("{s:s, s:o}", "type", "text", "text", report_text(p->text));
    return *out ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status message_as_json(json_t *list, const sac_message *m, sac_error *err) {
    json_t *parts = json_array(), *part;
    sac_status st = parts ? SAC_OK : sac_fail_no_memory(err);
    for (size_t i = 0; st == SAC_OK && i < m->n_parts; i++) {
        st = part_as_json(&part, &m->parts[i], err);
        if (st == SAC_OK && json_array_append_new(parts, part)) st = sac_fail_no_memory(err);
    }
    if (st != SAC_OK)
        json_decref(parts);
    else if (json_array_append_new(list, json_pack("{s:s, s:o}", "role", m->role, "content", parts)))
        st = sac_fail_no_memory(err);
    return st;
}

/* A slip of the pen must not cost a picture. */
static sac_status check_target(const char *path, sac_error *err) {
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size == 0) return SAC_OK;
    FILE *f = fopen(path, "re");
    int first = f ? fgetc(f) : '[';
    if (f) fclose(f);
    if (first == '[') return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s: is there and is no saved conversation; give another name",
                    path);
}

sac_status chat_file_save(const conversation *c, const char *path, sac_error *err) {
    draft d;
    SAC_TRY(check_target(path, err));
    json_t *messages = json_array();
    sac_status st = messages ? SAC_OK : sac_fail_no_memory(err);
    for (size_t i = 0; st == SAC_OK && i < c->n_messages; i++)
        st = message_as_json(messages, &c->messages[i], err);
    if (st == SAC_OK) st = draft_open(&d, path, err);
    if (st == SAC_OK) {
        bool made = json_dumpf(messages, d.f, JSON_INDENT(2)) == 0 && fputc('\n', d.f) != EOF;
        if (made || ferror(d.f)) {
            st = draft_close(&d, err);
        } else {
            draft_abandon(&d);
            st = sac_fail_no_memory(err);
        }
    }
    json_decref(messages);
    return st;
}

/* ---------------------------------------------------------------- loading */

static sac_status only_keys(const json_t *o, const char *const *keys, sac_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key)) i++;
        if (!keys[i])
            return sac_fail(err, SAC_BAD_FILE, "\"%.60s\" is not known in a saved conversation", key);
    }
    return SAC_OK;
}

static sac_status read_sampling(const json_t *part, settings *s, sac_error *err) {
    static const char *const keys[] = {"fps", "num-frames", "max-frames", "max-pixels", "no-rotate", "key-frames", NULL};
    const json_t *o = NULL;
    SAC_TRY(sac_json_get_object(part, "sampling", &o, err));
    if (!o) return SAC_OK;
    SAC_TRY(only_keys(o, keys, err));
    for (int i = 0; keys[i]; i++) {
        const json_t *value = json_object_get(o, keys[i]);
        char *text = value && !json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
        if (!value) continue;
        sac_status st = text ? settings_set(s, settings_find(keys[i]), text, ORIGIN_COMMAND_LINE, err)
                             : sac_fail(err, SAC_BAD_FILE, "expected a number");
        free(text);
        if (st != SAC_OK) return sac_fail_prefix(err, SAC_BAD_FILE, "\"%s\"", keys[i]);
    }
    return SAC_OK;
}

static sac_status read_embedded(conversation *c, const char *base64, media_kind kind, const settings *s,
                                sac_error *err) {
    size_t n_bytes = 0;
    uint8_t *bytes = kind == MEDIA_FRAMES ? NULL : chat_base64_read(base64, &n_bytes);
    if (!bytes || !n_bytes) {
        free(bytes);
        return sac_fail(err, SAC_BAD_FILE, "\"base64\" is none, or of frames");
    }
    return conversation_add_bytes(c, kind, bytes, n_bytes, s, err);
}

static sac_status read_file(conversation *c, const char *file, const char *sha256, media_kind kind,
                            const settings *s, sac_error *err) {
    char hex[65];
    media_item item = {.kind = kind, .path = (char *)file};
    if (access(file, R_OK))
        return sac_fail(err, SAC_NOT_FOUND, "%s: %s; a saved conversation looks for it there", file,
                        strerror(errno));
    if (input_is_stream(file)) /* which nobody may ever write to */
        return sac_fail(err, SAC_BAD_FILE, "%s: not a regular file", file);
    SAC_TRY(conversation_add_media(c, &item, s, err));
    if (!sha256) return SAC_OK;
    const sac_message *m = &c->messages[c->n_messages - 1];
    SAC_TRY(identify(&m->parts[m->n_parts - 1], hex, err));
    if (!strcmp(hex, sha256)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%s: is not what it was when the conversation was saved", file);
}

static sac_status read_media(conversation *c, const json_t *part, media_kind kind, sac_error *err) {
    static const char *const keys[] = {"type", "file", "sha256", "base64", "sampling", NULL};
    const char *file = NULL, *sha256 = NULL, *base64 = NULL;
    settings s;
    SAC_TRY(only_keys(part, keys, err));
    SAC_TRY(sac_json_get_string(part, "file", &file, err));
    SAC_TRY(sac_json_get_string(part, "sha256", &sha256, err));
    SAC_TRY(sac_json_get_string(part, "base64", &base64, err));
    if (base64 ? file || sha256 : !file || !*file)
        return sac_fail(err, SAC_BAD_FILE, "either \"file\" or \"base64\" belongs in a picture or video");
    settings_init(&s);
    sac_status st = read_sampling(part, &s, err);
    if (st == SAC_OK)
        st = base64 ? read_embedded(c, base64, kind, &s, err) : read_file(c, file, sha256, kind, &s, err);
    settings_free(&s);
    return st;
}

static sac_status read_part(conversation *c, const json_t *part, sac_error *err) {
    static const char *const keys[] = {"type", "text", NULL};
    const char *type = NULL, *text = NULL;
    if (!json_is_object(part)) return sac_fail(err, SAC_BAD_FILE, "\"content\" is no list of objects");
    SAC_TRY(sac_json_get_string(part, "type", &type, err));
    if (type && !strcmp(type, "image")) return read_media(c, part, MEDIA_IMAGE, err);
    if (type && !strcmp(type, "video")) return read_media(c, part, MEDIA_VIDEO, err);
    if (type && !strcmp(type, "frames")) return read_media(c, part, MEDIA_FRAMES, err);
    if (!type || strcmp(type, "text"))
        return sac_fail(err, SAC_BAD_FILE, "\"type\": expected text, image, video or frames, found '%.40s'",
                        type ? type : "");
    SAC_TRY(only_keys(part, keys, err));
    SAC_TRY(sac_json_get_string(part, "text", &text, err));
    return text ? conversation_add_text(c, text, strlen(text), err)
                : sac_fail(err, SAC_BAD_FILE, "\"text\" is missing");
}

/* The role that may stand there; the first message may be the system's, too. */
static const char *role_of(const conversation *c, const char *found) {
    size_t n = c->n_messages;
    if (n == 0 && !strcmp(found, "system")) return "system";
    return n && !strcmp(c->messages[n - 1].role, "user") ? "assistant" : "user";
}

static sac_status read_message(conversation *c, const json_t *m, sac_error *err) {
    static const char *const keys[] = {"role", "content", NULL};
    const char *role = NULL;
    const json_t *content = NULL;
    if (!json_is_object(m)) return sac_fail(err, SAC_BAD_FILE, "it is no object");
    SAC_TRY(only_keys(m, keys, err));
    SAC_TRY(sac_json_get_string(m, "role", &role, err));
    SAC_TRY(sac_json_get_array(m, "content", &content, err));
    if (!role || !content) return sac_fail(err, SAC_BAD_FILE, "\"role\" or \"content\" is missing");
    const char *expected = role_of(c, role);
    if (strcmp(role, expected))
        return sac_fail(err, SAC_BAD_FILE, "\"role\" is '%.40s' where '%s' belongs", role, expected);
    SAC_TRY(conversation_begin(c, expected, err));
    for (size_t i = 0; i < json_array_size(content); i++)
        SAC_TRY(read_part(c, json_array_get(content, i), err));
    const sac_message *read = &c->messages[c->n_messages - 1];
    bool ends_in_text = read->n_parts && read->parts[read->n_parts - 1].kind == SAC_PART_TEXT;
    return ends_in_text ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"content\" does not end in a text");
}

static sac_status read_messages(conversation *c, const json_t *list, sac_error *err) {
    if (!json_is_array(list)) return sac_fail(err, SAC_BAD_FILE, "no list of messages, as /save writes it");
    for (size_t i = 0; i < json_array_size(list); i++) {
        sac_status st = read_message(c, json_array_get(list, i), err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "message %zu", i + 1);
    }
    if (c->n_messages && !strcmp(c->messages[c->n_messages - 1].role, "user"))
        return sac_fail(err, SAC_BAD_FILE, "the last question has no answer");
    return SAC_OK;
}

sac_status chat_file_load(conversation *c, const char *path, sac_error *err) {
    char *text;
    json_t *list = NULL;
    *c = (conversation){0};
    SAC_TRY(input_read(&text, path, CHAT_FILE_MAX_BYTES, err));
    sac_status st = sac_json_parse(&list, text, strlen(text), err);
    free(text);
    if (st == SAC_OK) st = read_messages(c, list, err);
    json_decref(list);
    if (st == SAC_OK) return SAC_OK;
    conversation_free(c);
    return sac_fail_prefix(err, st, "%s", path);
}
