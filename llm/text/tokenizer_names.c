/* tokenizer_names.c - see tokenizer_names.h. */
#include "tokenizer_names.h"

#include <string.h>

/* Keys that every tokenizer class has, in transformers' order. */
static const char *const usual[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

typedef struct finder {
    sac_token_names *out;
    const sac_tokenizer_json *files;
} finder;

const char *sac_usual_token_key(size_t i) {
    return i < SAC_COUNT(usual) ? usual[i] : NULL;
}

const char *sac_token_content(const json_t *json) {
    return json_string_value(json_is_object(json) ? json_object_get(json, "content") : json);
}

static void add_name(json_t *names, const json_t *v) {
    const char *text = sac_token_content(v);
    if (text) json_object_set_new(names, text, json_true());
}

bool sac_is_usual_token_key(const char *key) {
    for (size_t i = 0; i < SAC_COUNT(usual); i++)
        if (strcmp(key, usual[i]) == 0) return true;
    return false;
}

/* "image_token" and the like, which a class of its own may have. */
static bool is_own(const char *key) {
    size_t n = strlen(key);
    return !sac_is_usual_token_key(key) && n >= 6 && strcmp(key + n - 6, "_token") == 0;
}

/* Keeps the place of a key that comes again. A token of special_tokens_map.json is a control token. */
static sac_status name_token(finder *l, const char *key, const json_t *v, bool of_map, sac_error *err) {
    if (json_is_null(v)) {
        json_object_del(l->out->named, key);
        return SAC_OK;
    }
    if (!sac_token_content(v))
        return sac_fail(err, SAC_BAD_FILE,
                        "\"%.60s\" must be the text of a token, or an object with \"content\"", key);
    json_t *copy = json_deep_copy(v);
    if (copy && of_map && json_is_object(copy)) json_object_set_new(copy, "special", json_true());
    if (json_object_set_new(l->out->named, key, copy) != 0)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the names of tokens");
    return SAC_OK;
}

/* Keys of one file: the usual ones, in their order, or a class's own: with a text, or with an object. */
static sac_status name_usual(finder *l, const json_t *object, bool of_map, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(usual); i++) {
        const json_t *v = json_object_get(object, usual[i]);
        if (v) SAC_TRY(name_token(l, usual[i], v, of_map, err));
    }
    return SAC_OK;
}

static sac_status name_own(finder *l, const json_t *object, bool texts, bool objects, bool of_map,
                           sac_error *err) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        bool wanted = (texts && json_is_string(v)) || (objects && json_is_object(v) && sac_token_content(v));
        if (wanted && is_own(key)) SAC_TRY(name_token(l, key, v, of_map, err));
    }
    return SAC_OK;
}

/* "extra_special_tokens" as an object names tokens too. */
static sac_status name_extra(finder *l, const json_t *v, bool of_map, sac_error *err) {
    const char *key;
    json_t *token;
    if (!json_is_object(v)) return SAC_OK;
    json_object_foreach((json_t *)(uintptr_t)v, key, token) SAC_TRY(name_token(l, key, token, of_map, err));
    return SAC_OK;
}

/* special_tokens_map.json, where it is looked at. */
static const json_t *map_of(const finder *l) {
    return json_object_get(l->files->config, "added_tokens_decoder") ? NULL : l->files->map;
}

static sac_status check_extra(const json_t *v, sac_error *err) {
    if (!v || json_is_null(v) || json_is_array(v) || json_is_object(v)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"extra_special_tokens\" and \"additional_special_tokens\" must be lists");
}

/* Which list counts where several files and both keys have one. */
static sac_status find_extra(finder *l, sac_error *err) {
    const json_t *config = l->files->config, *map = map_of(l);
    const json_t *list = json_object_get(config, "extra_special_tokens"),
                 *old = json_object_get(config, "additional_special_tokens"),
                 *of_map = json_object_get(map, "extra_special_tokens"),
                 *old_of_map = json_object_get(map, "additional_special_tokens");
    const json_t *all[] = {list, old, of_map, old_of_map};
    for (size_t i = 0; i < SAC_COUNT(all); i++) SAC_TRY(check_extra(all[i], err));
    if (old && json_array_size(list) + json_object_size(list) == 0) {
        list = old;
        old = NULL;
    }
    if (json_is_object(list) || json_is_object(of_map)) list = NULL;
    if (old_of_map) old = old_of_map;
    l->out->listed = json_is_array(list) ? json_copy((json_t *)(uintptr_t)list) : json_array();
    if (!l->out->listed ||
        (json_is_array(of_map) && json_array_extend(l->out->listed, (json_t *)(uintptr_t)of_map) != 0))
        return sac_fail(err, SAC_NO_MEMORY, "no memory for added tokens");
    bool is_said = list || json_is_array(of_map);
    const json_t *extra = is_said ? l->out->listed : old;
    l->out->extra = json_is_array(extra) ? json_incref((json_t *)(uintptr_t)extra) : NULL;
    return SAC_OK;
}

/* Which of added_tokens.json are control tokens: those that the usual keys and the list name, where
 * tokenizer_config.json does so by a text. */
static void find_special(finder *l) {
    const json_t *config = l->files->config, *map = map_of(l);
    for (size_t i = 0; i < SAC_COUNT(usual); i++) {
        const json_t *of_map = json_object_get(map, usual[i]), *v = json_object_get(config, usual[i]);
        if (of_map || json_is_string(v)) add_name(l->out->special, of_map ? of_map : v);
    }
    size_t n_of_map = json_array_size(json_object_get(map, "extra_special_tokens"));
    for (size_t i = 0, n = json_array_size(l->out->listed); i < n; i++) {
        const json_t *v = json_array_get(l->out->listed, i);
        if (json_is_string(v) || i + n_of_map >= n) add_name(l->out->special, v);
    }
}

/* Defaults of a class stand where a file does not say the key, null counting as said. */
static sac_status name_defaults(finder *l, sac_error *err) {
    static const char end[] = "<|endoftext|>";
    static const char *const of_class[][6][2] = {
        [SAC_CLASS_LLAMA] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
        [SAC_CLASS_QWEN2] = {{"eos_token", end}, {"unk_token", end}, {"pad_token", end}},
        [SAC_CLASS_QWEN3_5] = {{"eos_token", end}, {"unk_token", end}, {"pad_token", end}},
        [SAC_CLASS_GEMMA] = {{"bos_token", "<bos>"},
                             {"eos_token", "<eos>"},
                             {"unk_token", "<unk>"},
                             {"pad_token", "<pad>"},
                             {"mask_token", "<mask>"}},
        [SAC_CLASS_GPT2] = {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}},
        [SAC_CLASS_GPT_NEOX] = {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}, {"pad_token", "<|padding|>"}}};
    if (l->files->kind == SAC_CLASS_FILE) return SAC_OK;
    for (const char *const(*row)[2] = of_class[l->files->kind]; (*row)[0]; row++) {
        if (json_object_get(l->files->config, (*row)[0]) || json_object_get(map_of(l), (*row)[0])) continue;
        if (json_object_set_new(l->out->named, (*row)[0], json_string((*row)[1])) != 0)
            return sac_fail(err, SAC_NO_MEMORY, "no memory for the names of tokens");
    }
    return SAC_OK;
}

static sac_status find_names(finder *l, sac_error *err) {
    const json_t *config = l->files->config, *map = map_of(l);
    sac_status st = name_usual(l, config, false, err);
    if (st == SAC_OK) st = name_own(l, config, false, true, false, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    st = name_usual(l, map, true, err);
    if (st == SAC_OK) st = name_own(l, map, true, true, true, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "special_tokens_map.json");
    st = name_own(l, config, true, false, false, err);
    if (st == SAC_OK) st = name_extra(l, json_object_get(config, "extra_special_tokens"), false, err);
    if (st == SAC_OK) st = find_extra(l, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    st = name_extra(l, json_object_get(map, "extra_special_tokens"), true, err);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "special_tokens_map.json");
}

static sac_status find(finder *l, sac_error *err) {
    const char *key;
    json_t *v;
    SAC_TRY(find_names(l, err));
    find_special(l);
    SAC_TRY(name_defaults(l, err));
    json_object_foreach(l->out->named, key, v) add_name(l->out->texts, v);
    return SAC_OK;
}

sac_status sac_token_names_find(sac_token_names *out, const sac_tokenizer_json *files, sac_error *err) {
    *out = (sac_token_names){.named = json_object(), .texts = json_object(), .special = json_object()};
    if (!out->named || !out->texts || !out->special)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the names of tokens");
    return find(&(finder){out, files}, err);
}

void sac_token_names_free(sac_token_names *n) {
    json_decref(n->named);
    json_decref(n->texts);
    json_decref(n->special);
    json_decref(n->listed);
    json_decref(n->extra);
}
