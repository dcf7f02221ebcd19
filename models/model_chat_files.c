/* model_chat_files.c - the chat templates of a Hugging Face folder, and the special tokens that they may name, from
 * the files that transformers takes them from. */
#define _DEFAULT_SOURCE
#include "file_map.h"
#include "model_load.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES 4096

sac_status sac_load_json(json_t **out, const char *folder, const char *name, sac_error *err) {
    char path[PATH_BYTES];
    *out = NULL;
    SAC_TRY(sac_path_join(path, sizeof path, folder, name, err));
    if (!sac_file_exists(path)) return SAC_OK;
    SAC_TRY(sac_json_parse_file(out, path, err));
    if (json_is_object(*out)) return SAC_OK;
    json_decref(*out);
    *out = NULL;
    return sac_fail(err, SAC_BAD_FILE, "%s: not a JSON object", path);
}

/* ---- templates ---- */

typedef struct template_search {
    const char *folder;
    sac_chat_templates *out;
    sac_error *err;
} template_search;

static sac_status add_file(const template_search *s, const char *name, const char *path) {
    char *text;
    size_t n_bytes;
    SAC_TRY(sac_file_read(&text, &n_bytes, path, SAC_CHAT_TEMPLATE_MAX_BYTES, s->err));
    sac_status st = sac_chat_templates_add(s->out, name, path, text, n_bytes, s->err);
    free(text);
    return st;
}

/* additional_chat_templates/NAME.jinja */
static sac_status add_more_files(const template_search *s) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    SAC_TRY(sac_path_join(folder, sizeof folder, s->folder, "additional_chat_templates", s->err));
    DIR *d = opendir(folder);
    sac_status st = SAC_OK;
    for (struct dirent *e; d && st == SAC_OK && (e = readdir(d));) {
        size_t n = strlen(e->d_name), n_end = strlen(".jinja");
        if (n <= n_end || strcmp(e->d_name + n - n_end, ".jinja")) continue;
        st = sac_path_join(path, sizeof path, folder, e->d_name, s->err);
        e->d_name[n - n_end] = 0;
        if (st == SAC_OK) st = add_file(s, e->d_name, path);
    }
    if (d) closedir(d);
    return st;
}

static sac_status add_text(const template_search *s, const char *file, const char *name, const json_t *text) {
    char source[PATH_BYTES + 32];
    if (!json_is_string(text)) return SAC_OK;
    snprintf(source, sizeof source, "%s/%s (chat_template)", s->folder, file);
    return sac_chat_templates_add(s->out, name, source, json_string_value(text),
                                  json_string_length(text), s->err);
}

/* "chat_template" of one of the JSON files: a text, {"name": text, ...} or [{"name", "template"}, ...]. */
static sac_status add_value(const template_search *s, const char *file, const json_t *v) {
    const char *name;
    json_t *text;
    if (json_is_string(v)) return add_text(s, file, "default", v);
    if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, name, text) SAC_TRY(add_text(s, file, name, text));
        return SAC_OK;
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *entry = json_array_get(v, i);
        name = json_string_value(json_object_get(entry, "name"));
        if (name) SAC_TRY(add_text(s, file, name, json_object_get(entry, "template")));
    }
    return SAC_OK;
}

sac_status sac_load_folder_templates(sac_chat_templates *out, const char *folder, sac_error *err) {
    static const char *const files[] = {"chat_template.json", "processor_config.json",
                                        "tokenizer_config.json"};
    const template_search s = {folder, out, err};
    char path[PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, folder, "chat_template.jinja", err));
    if (sac_file_exists(path)) SAC_TRY(add_file(&s, "default", path));
    SAC_TRY(add_more_files(&s));
    for (size_t i = 0; i < SAC_COUNT(files) && sac_chat_templates_count(out) == 0; i++) {
        json_t *object;
        SAC_TRY(sac_load_json(&object, folder, files[i], err));
        sac_status st = add_value(&s, files[i], json_object_get(object, "chat_template"));
        json_decref(object);
        SAC_TRY(st);
    }
    return SAC_OK;
}

/* ---- special tokens ---- */

static bool is_token_key(const char *key) {
    size_t n = strlen(key), n_end = strlen("_token");
    return n > n_end && !strcmp(key + n - n_end, "_token");
}

/* "bos_token": "<s>", or an object with its "content"; null: there is none. */
static sac_status add_token(sac_load_context *l, const char *key, const json_t *v) {
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (json_is_null(v)) v = NULL;
    if (v && !json_is_string(v)) return SAC_OK;
    return sac_chat_templates_set_token(l->m->templates, key, json_string_value(v), l->err);
}

static sac_status add_tokens(sac_load_context *l, const json_t *object, bool all) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (all || is_token_key(key)) SAC_TRY(add_token(l, key, value));
    }
    return SAC_OK;
}

static sac_status forget_tokens(sac_load_context *l) {
    SAC_TRY(sac_chat_templates_set_token(l->m->templates, "bos_token", NULL, l->err));
    return sac_chat_templates_set_token(l->m->templates, "eos_token", NULL, l->err);
}

/* special_tokens_map.json is of older files: transformers reads it where there is no "added_tokens_decoder". */
static sac_status find_tokens(sac_load_context *l) {
    json_t *config, *map = NULL;
    SAC_TRY(sac_load_json(&config, l->text_path, "tokenizer_config.json", l->err));
    sac_status st = SAC_OK;
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    if (class &&
        !strcmp(class, "PreTrainedTokenizerFast")) /* whose begin and end tokens are named, or none */
        st = forget_tokens(l);
    if (st == SAC_OK) st = add_tokens(l, config, false);
    const json_t *extra = json_object_get(config, "extra_special_tokens");
    if (st == SAC_OK && json_is_object(extra)) st = add_tokens(l, extra, true);
    const json_t *own = json_object_get(config, "model_specific_special_tokens");
    if (st == SAC_OK && json_is_object(own)) st = add_tokens(l, own, true);
    if (st == SAC_OK && !json_object_get(config, "added_tokens_decoder"))
        st = sac_load_json(&map, l->text_path, "special_tokens_map.json", l->err);
    if (st == SAC_OK) st = add_tokens(l, map, false);
    json_decref(config);
    json_decref(map);
    return st;
}

/* One that the family's texts have, by the only name that it may have. */
static sac_status check_text_token(const sac_load_context *l, const char *key, const char *usual) {
    const char *text = sac_chat_templates_token(l->m->templates, key);
    if (text && strcmp(text, usual) != 0)
        return sac_fail(l->err, SAC_UNSUPPORTED, "%s/tokenizer_config.json: \"%s\" is \"%.60s\"; only %s is supported",
                        l->text_path, key, text, usual);
    const int32_t id = sac_token_find(l->m->tokenizer, usual, strlen(usual));
    if (id >= 0 && sac_token_is_added(l->m->tokenizer, id)) return SAC_OK;
    return sac_fail(l->err, SAC_BAD_FILE, "%s: its vocabulary has no %stoken \"%.60s\", which stands around pictures under %s",
                    l->text_path, id < 0 ? "" : "added ", usual, l->config.family->name);
}

/* The ids of the tokens around pictures and frames, where the family has them, by the names that tokenizer_config.json
 * gives them, or the family's own. */
sac_status sac_load_media_tokens(sac_load_context *l) {
    const bool fixed = l->config.begin_is_mark;
    const char *mark = l->config.image_mark;
    for (const char *const(*t)[2] = l->config.text_tokens; t && (*t)[0]; t++) SAC_TRY(check_text_token(l, (*t)[0], (*t)[1]));
    const struct {
        const char *key, *usual;
        int32_t *id;
    } tokens[] = {
        {fixed ? "boi_token" : "start_image_token", l->config.media_begin, &l->m->vision_start},
        {fixed ? "eoi_token" : "end_image_token", l->config.media_end, &l->m->vision_end},
    };
    for (size_t i = 0; i < SAC_COUNT(tokens); i++) {
        if (!tokens[i].usual) continue;
        const char *text = sac_chat_templates_token(l->m->templates, tokens[i].key);
        if (!text) text = tokens[i].usual;
        if (fixed && strcmp(text, tokens[i].usual) != 0)
            return sac_fail(l->err, SAC_UNSUPPORTED,
                            "%s/tokenizer_config.json: \"%s\" is \"%.60s\"; only %s is supported", l->text_path,
                            tokens[i].key, text, tokens[i].usual);
        *tokens[i].id = sac_token_find(l->m->tokenizer, text, strlen(text));
        if (*tokens[i].id < 0)
            return sac_fail(
                l->err, SAC_BAD_FILE,
                "%s: its vocabulary has no token \"%.60s\", which stands around pictures under %s",
                l->text_path, text, l->config.family->name);
    }
    if (mark) l->m->image_token = l->m->video_token = sac_token_find(l->m->tokenizer, mark, strlen(mark));
    if (mark && l->m->image_token < 0)
        return sac_fail(l->err, SAC_BAD_FILE, "%s: its vocabulary has no token \"%.60s\", which a picture is under %s",
                        l->text_path, mark, l->config.family->name);
    return l->config.video_mark ? sac_load_placeholders(l) : SAC_OK;
}

/* The family's own, as if they stood in the folder. */
sac_status sac_load_video_chat(sac_load_context *l) {
    const char *text = l->config.video_chat, *const names[] = {SAC_VIDEO_CHAT, "default"};
    const bool has_own = sac_chat_templates_count(l->m->templates) > 0;
    for (size_t i = 0; text && i < (has_own ? 1 : SAC_COUNT(names)); i++)
        SAC_TRY(sac_chat_templates_add(l->m->templates, names[i], l->config.family->name, text, strlen(text),
                                       l->err));
    return SAC_OK;
}

sac_status sac_load_folder_chat(sac_load_context *l) {
    SAC_TRY(sac_load_chat(l));
    SAC_TRY(find_tokens(l));
    SAC_TRY(sac_load_media_tokens(l));
    SAC_TRY(sac_load_folder_templates(l->m->templates, l->text_path, l->err));
    return sac_load_video_chat(l);
}
