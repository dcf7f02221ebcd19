#define _GNU_SOURCE
#include "prompt_list.h"

#include "input.h"
#include "status.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)256 << 20)
#define NO_PROMPT  "Describe this." /* of a manifest that leaves the question to --ask */

static const struct {
    const char *key;
    media_kind kind;
} media_keys[] = {{"image", MEDIA_IMAGE}, {"video", MEDIA_VIDEO}, {"frames", MEDIA_FRAMES}};

typedef struct reader {
    prompt_list *list;
    const char *path;
    const settings *s;
    sac_error *err;
} reader;

static sac_status refuse(const reader *r, const prompt_line *line, const char *why, const char *what) {
    return sac_fail(r->err, SAC_BAD_FILE, "%.200s: %s%.60s", line->name, why, what);
}

static sac_status add_medium(const reader *r, prompt_line *line, media_kind kind, const char *file) {
    char *path = NULL;
    const char *slash = file[0] == '/' ? NULL : strrchr(r->path, '/');
    if (asprintf(&path, "%.*s%s", slash ? (int)(slash - r->path + 1) : 0, r->path, file) < 0) return sac_fail_no_memory(r->err);
    const media_item item = {.kind = kind, .path = path};
    const media_list one = {.items = (media_item *)(uintptr_t)&item, .n = 1};
    sac_status st = media_list_check(&one, r->err);
    if (st == SAC_OK) st = conversation_add_media(&line->talk, &item, r->s, r->err);
    free(path);
    return st == SAC_OK ? st : sac_fail_prefix(r->err, st, "%.200s", line->name);
}

static sac_status add_media(const reader *r, prompt_line *line, const json_t *v, media_kind kind, const char *key) {
    const size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *file = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(file)) return refuse(r, line, "expected a file's name, or a list of names, in ", key);
        SAC_TRY(add_medium(r, line, kind, json_string_value(file)));
    }
    return SAC_OK;
}

static sac_status get_text(const reader *r, const prompt_line *line, const json_t *o, const char *key, const char **out) {
    const json_t *v = json_object_get(o, key);
    *out = json_string_value(v);
    return !v || json_is_null(v) || *out ? SAC_OK : refuse(r, line, "expected a text in ", key);
}

static sac_status read_talk(const reader *r, prompt_line *line, const json_t *o, const char *prompt, const char *answer) {
    SAC_TRY(conversation_begin(&line->talk, "user", r->err));
    for (size_t i = 0; i < SAC_COUNT(media_keys); i++) {
        const json_t *v = json_object_get(o, media_keys[i].key);
        if (v && !json_is_null(v)) SAC_TRY(add_media(r, line, v, media_keys[i].kind, media_keys[i].key));
    }
    if (!prompt && !line->talk.messages[0].n_parts)
        return refuse(r, line, "expected \"image\", \"video\", \"frames\", \"prompt\" or \"text\"", "");
    if (!prompt) prompt = NO_PROMPT;
    SAC_TRY(conversation_add_text(&line->talk, prompt, strlen(prompt), r->err));
    return answer ? conversation_add_message(&line->talk, "assistant", answer, r->err) : SAC_OK;
}

/* What is not read is said, so that nothing is calibrated without it unawares. */
static sac_status check_keys(const reader *r, const prompt_line *line, json_t *o) {
    static const char *const known[] = {"image", "video", "frames", "prompt", "answer", "text", "id", "image_id"};
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v) {
        bool is_known = false;
        for (size_t i = 0; i < SAC_COUNT(known); i++) is_known |= strcmp(key, known[i]) == 0;
        if (!is_known) return refuse(r, line, "a key that is not known here: ", key);
    }
    return SAC_OK;
}

static bool has_media(const json_t *o) {
    for (size_t i = 0; i < SAC_COUNT(media_keys); i++) {
        const json_t *v = json_object_get(o, media_keys[i].key);
        if (v && !json_is_null(v)) return true;
    }
    return false;
}

static sac_status read_object(const reader *r, prompt_line *line, json_t *o) {
    const char *text, *prompt, *answer;
    SAC_TRY(check_keys(r, line, o));
    SAC_TRY(get_text(r, line, o, "text", &text));
    SAC_TRY(get_text(r, line, o, "prompt", &prompt));
    SAC_TRY(get_text(r, line, o, "answer", &answer));
    if (!text) return read_talk(r, line, o, prompt, answer);
    if (prompt || answer || has_media(o)) return refuse(r, line, "\"text\" stands alone, without prompt, answer, pictures or videos", "");
    line->text = strdup(text);
    return line->text ? SAC_OK : sac_fail_no_memory(r->err);
}

static sac_status read_json(const reader *r, prompt_line *line, const char *text, size_t n) {
    json_error_t why;
    json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    sac_status st = o ? read_object(r, line, o) : refuse(r, line, "is no JSON: ", why.text);
    json_decref(o);
    return st;
}

static sac_status read_line(reader *r, const char *text, size_t n, size_t number) {
    prompt_list *l = r->list;
    prompt_line *grown = realloc(l->lines, (l->n + 1) * sizeof *grown);
    if (!grown) return sac_fail_no_memory(r->err);
    l->lines = grown;
    prompt_line *line = &l->lines[l->n++];
    *line = (prompt_line){0};
    if (asprintf(&line->name, "%s:%zu", r->path, number) < 0) {
        line->name = NULL;
        return sac_fail_no_memory(r->err);
    }
    if (text[0] == '{') return read_json(r, line, text, n);
    line->text = strndup(text, n);
    return line->text ? SAC_OK : sac_fail_no_memory(r->err);
}

static sac_status read_lines(reader *r, const char *text) {
    size_t number = 1;
    for (const char *at = text; *at; number++) {
        const size_t all = strcspn(at, "\n"), n = all && at[all - 1] == '\r' ? all - 1 : all;
        const size_t blanks = strspn(at, " \t\r"); /* which a line of JSON may begin with */
        const bool is_full = r->s->limit && r->list->n == (size_t)r->s->limit, is_json = at[blanks] == '{';
        if (blanks < n && !is_full) SAC_TRY(read_line(r, is_json ? at + blanks : at, is_json ? n - blanks : n, number));
        at += all + (at[all] == '\n');
    }
    return r->list->n ? SAC_OK : sac_fail(r->err, SAC_BAD_FILE, "%.250s: no line with a prompt", r->path);
}

sac_status prompt_list_read(prompt_list *l, const char *path, const settings *s, sac_error *err) {
    reader r = {.list = l, .path = path, .s = s, .err = err};
    char *text;
    *l = (prompt_list){0};
    SAC_TRY(input_read(&text, path, MOST_BYTES, err));
    sac_status st = read_lines(&r, text);
    free(text);
    SAC_TRY(st);
    l->prompts = calloc(l->n, sizeof *l->prompts);
    if (!l->prompts) return sac_fail_no_memory(err);
    for (size_t i = 0; i < l->n; i++) {
        prompt_line *line = &l->lines[i];
        l->prompts[i].name = line->name;
        if (line->text)
            l->prompts[i].input = (sac_input){.text = line->text, .n_text_bytes = strlen(line->text)};
        else
            l->prompts[i].input = (sac_input){.messages = line->talk.messages, .n_messages = line->talk.n_messages};
    }
    return SAC_OK;
}

void prompt_list_free(prompt_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        conversation_free(&l->lines[i].talk);
        free(l->lines[i].text);
        free(l->lines[i].name);
    }
    free(l->lines);
    free(l->prompts);
    *l = (prompt_list){0};
}
