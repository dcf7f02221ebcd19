#define _GNU_SOURCE
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void settings_init(settings *s) {
    memset(s, 0, sizeof *s);
    s->vision_cache_mib = 256;
    s->prompt_tokens = 512;
    s->gen_tokens = 128;
    s->length = 2048;
    s->samples = 20;
    s->tail = 256;
    s->repeat = 3;
    s->lose = 0.5;
    s->minutes = 20;
    s->test_share = 0.5;
    s->batch = 8;
    s->port = 8000;
    s->slots = 4;
    s->cache_memory_mib = 512;
    s->cache_disk_mib = 16384;
    s->queue = 256;
    s->pass_rows = -1;
    s->connections = 1024;
    s->body_mib = 256;
    s->bodies_mib = 1024;
    s->uploads_mib = 16384;
    s->media_mib = 2048;
    s->decoded_mib = 1024;
    s->picture_pixels = 64000000;
    s->media_items = 64;
    s->video_seconds = 86400;
    s->decode_seconds = 60;
    s->request_seconds = 600;
    s->receive_seconds = 30;
    s->heartbeat_seconds = 10;
    s->drain_seconds = 60;
}

static void text_list_clear(text_list *list) {
    for (size_t i = 0; i < list->n; i++) free(list->items[i]);
    free(list->items);
    *list = (text_list){0};
}

void media_list_drop(media_list *list, size_t i) {
    free(list->items[i].path);
    free(list->items[i].bytes);
    memmove(list->items + i, list->items + i + 1, (--list->n - i) * sizeof *list->items);
}

void media_list_clear(media_list *list) {
    while (list->n) media_list_drop(list, list->n - 1);
    free(list->items);
    *list = (media_list){0};
}

void settings_free(settings *s) {
    for (size_t i = 0; i < settings_n; i++) {
        void *field = (char *)s + settings_table[i].offset;
        if (settings_table[i].kind == SETTING_TEXT) free(*(char **)field);
        if (settings_table[i].kind == SETTING_TEXTS) text_list_clear(field);
    }
    media_list_clear(&s->media);
    memset(s, 0, sizeof *s);
}

const setting *settings_find(const char *name) {
    for (size_t i = 0; i < settings_n; i++) {
        const char *a = settings_table[i].name, *b = name;
        while (*a && (*a == *b || (*a == '-' && *b == '_'))) a++, b++;
        if (!*a && !*b) return &settings_table[i];
    }
    return NULL;
}

sac_status settings_check_folder(const char *option, const char *path, sac_error *err) {
    struct stat st;
    if (stat(path, &st)) return sac_fail(err, SAC_NOT_FOUND, "%s %s: %s", option, path, strerror(errno));
    return S_ISDIR(st.st_mode) ? SAC_OK
                               : sac_fail(err, SAC_BAD_ARGUMENT, "%s %s: not a folder", option, path);
}

bool settings_given(const settings *s, size_t offset) {
    for (size_t i = 0; i < settings_n; i++)
        if (settings_table[i].kind != SETTING_MEDIA && settings_table[i].offset == offset && s->origin[i] != ORIGIN_DEFAULT)
            return true;
    return false;
}

sac_status settings_refuse_given(const settings *s, const size_t *offsets, size_t n, const char *why, sac_error *err) {
    for (size_t i = 0; i < settings_n; i++)
        for (size_t k = 0; s->origin[i] == ORIGIN_COMMAND_LINE && k < n; k++)
            if (settings_table[i].offset == offsets[k])
                return sac_fail(err, SAC_BAD_ARGUMENT, "--%s %s", settings_table[i].name, why);
    return SAC_OK;
}

sac_status media_list_add(media_list *list, media_kind kind, const char *path, sac_error *err) {
    if (!*path) return sac_fail(err, SAC_BAD_ARGUMENT, "expected the name of a file, found nothing");
    media_item *items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items) return sac_fail_no_memory(err);
    list->items = items;
    char *copy = strdup(path);
    if (!copy) return sac_fail_no_memory(err);
    items[list->n++] = (media_item){.kind = kind, .path = copy};
    return SAC_OK;
}

sac_status media_list_add_copy(media_list *list, const media_item *item, sac_error *err) {
    SAC_TRY(media_list_add(list, item->kind, item->path, err));
    media_item *copy = &list->items[list->n - 1];
    if (item->bytes && !(copy->bytes = malloc(item->n_bytes + 1))) {
        media_list_drop(list, list->n - 1);
        return sac_fail_no_memory(err);
    }
    if (item->bytes) memcpy(copy->bytes, item->bytes, item->n_bytes);
    copy->n_bytes = item->n_bytes;
    return SAC_OK;
}

static sac_status text_list_add(text_list *list, const char *text, sac_error *err) {
    char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items) return sac_fail_no_memory(err);
    list->items = items;
    char *copy = strdup(text);
    if (!copy) return sac_fail_no_memory(err);
    items[list->n++] = copy;
    return SAC_OK;
}

/* strto* accept leading space, "0x10", "nan" and a sign where none belongs; settings do not. */
static bool looks_like_number(const char *text, const char *allowed) {
    return *text && strspn(text, allowed) == strlen(text);
}

static sac_status parse_int(const setting *row, const char *text, int64_t *value, sac_error *err) {
    char *end = NULL;
    errno = 0;
    long long v = looks_like_number(text, "+-0123456789") ? strtoll(text, &end, 10) : 0;
    if (!end || *end) return sac_fail(err, SAC_BAD_ARGUMENT, "expected a whole number, found '%.60s'", text);
    if (errno || (double)v < row->min || (double)v > row->max)
        return sac_fail(err, SAC_BAD_ARGUMENT, "expected a number from %.0f to %.0f, found %.60s", row->min,
                        row->max, text);
    *value = v;
    return SAC_OK;
}

static sac_status parse_seed(const char *text, uint64_t *value, sac_error *err) {
    char *end = NULL;
    errno = 0;
    unsigned long long v = looks_like_number(text, "0123456789") ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno)
        return sac_fail(err, SAC_BAD_ARGUMENT, "expected a whole number from 0 to %llu, found '%.60s'",
                        (unsigned long long)UINT64_MAX, text);
    *value = v;
    return SAC_OK;
}

static sac_status parse_real(const setting *row, const char *text, double *value, sac_error *err) {
    char *end = NULL;
    double v = looks_like_number(text, "+-.eE0123456789") ? strtod(text, &end) : 0;
    if (!end || *end) return sac_fail(err, SAC_BAD_ARGUMENT, "expected a number, found '%.60s'", text);
    if (!(v >= row->min && v <= row->max))
        return sac_fail(err, SAC_BAD_ARGUMENT, "expected a number from %g to %g, found %.60s", row->min,
                        row->max, text);
    *value = v;
    return SAC_OK;
}

static sac_status store_text(char **field, const char *text, sac_error *err) {
    char *copy = strdup(text);
    if (!copy) return sac_fail_no_memory(err);
    free(*field);
    *field = copy;
    return SAC_OK;
}

sac_status settings_set(settings *s, const setting *row, const char *text, setting_origin origin,
                        sac_error *err) {
    setting_origin *had = &s->origin[row - settings_table];
    bool store = *had <= origin, first = *had < origin;
    void *field = (char *)s + row->offset;
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    switch (row->kind) {
    case SETTING_FLAG:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return sac_fail(err, SAC_BAD_ARGUMENT, "expected true or false, found '%.60s'", text);
        if (store) *(bool *)field = text[0] == 't';
        break;
    case SETTING_INT:
        SAC_TRY(parse_int(row, text, &i, err));
        if (store) *(int64_t *)field = i;
        break;
    case SETTING_SEED:
        SAC_TRY(parse_seed(text, &u, err));
        if (store) *(uint64_t *)field = u;
        break;
    case SETTING_REAL:
        SAC_TRY(parse_real(row, text, &d, err));
        if (store) *(double *)field = d;
        break;
    case SETTING_TEXT:
        if (!*text && (!strncmp(row->value, "DIR", 3) || !strncmp(row->value, "FILE", 4)))
            return sac_fail(err, SAC_BAD_ARGUMENT, "expected the name of a %s, found nothing",
                            row->value[0] == 'D' ? "folder" : "file");
        if (store) SAC_TRY(store_text(field, text, err));
        break;
    case SETTING_TEXTS:
        if (!*text) return sac_fail(err, SAC_BAD_ARGUMENT, "expected a text, found an empty one");
        if (store && first) text_list_clear(field);
        if (store) SAC_TRY(text_list_add(field, text, err));
        break;
    case SETTING_MEDIA: SAC_TRY(media_list_add(&s->media, (media_kind)row->offset, text, err)); break;
    }
    if (store) *had = origin;
    return SAC_OK;
}

sac_status settings_copy_row(settings *to, const settings *from, const setting *row, sac_error *err) {
    void *field = (char *)to + row->offset;
    const void *other = (const char *)from + row->offset;
    to->origin[row - settings_table] = from->origin[row - settings_table];
    switch (row->kind) {
    case SETTING_FLAG: *(bool *)field = *(const bool *)other; break;
    case SETTING_INT:
    case SETTING_SEED: memcpy(field, other, sizeof(int64_t)); break;
    case SETTING_REAL: *(double *)field = *(const double *)other; break;
    case SETTING_TEXT: {
        const char *text = *(char *const *)other;
        if (text) return store_text(field, text, err);
        free(*(char **)field);
        *(char **)field = NULL;
        break;
    }
    case SETTING_TEXTS: {
        const text_list *list = other;
        text_list_clear(field);
        for (size_t i = 0; i < list->n; i++) SAC_TRY(text_list_add(field, list->items[i], err));
        break;
    }
    case SETTING_MEDIA: break;
    }
    return SAC_OK;
}

sac_status settings_copy(settings *to, const settings *from, sac_error *err) {
    settings_init(to);
    for (size_t i = 0; i < settings_n; i++) SAC_TRY(settings_copy_row(to, from, &settings_table[i], err));
    return SAC_OK;
}
