/* tokenizer_load_added.c - added tokens, from every file of a folder that may hold them, as transformers 5 collects
 * them: those of tokenizer.json; then, by rising id, "added_tokens_decoder" of tokenizer_config.json, or without
 * that key added_tokens.json with those of tokenizer.json; then what "bos_token", "pad_token" and other keys of
 * that kind name, and "extra_special_tokens" or "additional_special_tokens" (special_tokens_map.json holds such keys
 * as well, and is looked at where tokenizer_config.json has no "added_tokens_decoder").
 *
 * A file may say an id, but as with `tokenizers` the text decides: it is the model's token if there is such a one,
 * otherwise the next free id. A token that comes again takes the new flags, and stays a control token. */
#include "tokenizer_impl.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

/* Keys that every tokenizer class has, in transformers' order. */
static const char *const usual[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

typedef struct loader {
    sac_tokenizer *t;
    const sac_tokenizer_json *files;
    int32_t n_model, next_id;
    int32_t *place; /* [n_places] by id: index in t->added + 1, or 0 */
    size_t n_places;
    json_t *named;   /* {"bos_token": text or object, ...} */
    json_t *names;   /* the texts of those as keys */
    json_t *special; /* the texts of the usual ones and of `listed` as keys */
    json_t *listed;  /* "extra_special_tokens" */
    json_t *extra;   /* that, or "additional_special_tokens": texts and objects; or NULL */
} loader;

/* ---------------------------------------------------------------- one token */

static sac_status set_place(loader *l, int32_t id, size_t place, sac_error *err) {
    if ((size_t)id >= l->n_places) {
        size_t n = 2 * (size_t)id + 64;
        int32_t *p = realloc(l->place, n * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu added tokens", n);
        memset(p + l->n_places, 0, (n - l->n_places) * sizeof *p);
        l->place = p;
        l->n_places = n;
    }
    l->place[id] = (int32_t)place + 1;
    return SAC_OK;
}

static bool is_added(const loader *l, const char *text) {
    int32_t id = sac_vocab_find(&l->t->vocab, text, strlen(text));
    return id >= 0 && (l->t->vocab.token[id].flags & SAC_VOCAB_ADDED);
}

static sac_status put_token(loader *l, const char *text, sac_added_token token, sac_error *err) {
    sac_tokenizer *t = l->t;
    size_t n_bytes = strlen(text);
    if (n_bytes == 0) return SAC_OK;
    token.id = sac_vocab_find(&t->vocab, text, n_bytes);
    if (token.id >= 0 && (t->vocab.token[token.id].flags & SAC_VOCAB_ADDED)) {
        sac_added_token *old = &t->added.token[l->place[token.id] - 1];
        token.special |= old->special;
        token.was_normalized = old->normalized || old->was_normalized;
        *old = token;
        sac_added_token_flag(t, old);
        return SAC_OK;
    }
    if (token.id < 0) {
        if (l->next_id < l->n_model) l->next_id = l->n_model;
        token.id = l->next_id;
        SAC_TRY(sac_vocab_add_indexed(&t->vocab, token.id, text, n_bytes, 0, err));
    }
    if (token.id >= l->next_id) l->next_id = token.id + 1;
    SAC_TRY(set_place(l, token.id, t->added.n, err));
    return sac_added_tokens_add(t, token, err);
}

/* {"content": "<x>", "lstrip": false, ...} */
static sac_status read_token(const json_t *json, const char **text, sac_added_token *token, sac_error *err) {
    *token = (sac_added_token){0};
    *text = NULL;
    if (!json_is_object(json)) return sac_fail(err, SAC_BAD_FILE, "must be an object");
    SAC_TRY(sac_json_get_string(json, "content", text, err));
    SAC_TRY(sac_json_get_bool(json, "special", &token->special, err));
    token->normalized = !token->special;
    SAC_TRY(sac_json_get_bool(json, "normalized", &token->normalized, err));
    SAC_TRY(sac_json_get_bool(json, "single_word", &token->single_word, err));
    SAC_TRY(sac_json_get_bool(json, "lstrip", &token->lstrip, err));
    SAC_TRY(sac_json_get_bool(json, "rstrip", &token->rstrip, err));
    return *text ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"content\" is missing");
}

/* The same, or a text, which is a control token then. */
static sac_status read_text_or_token(const json_t *json, const char **text, sac_added_token *token,
                                     sac_error *err) {
    if (!json_is_string(json)) return read_token(json, text, token, err);
    *token = (sac_added_token){.special = true};
    *text = json_string_value(json);
    return SAC_OK;
}

static const char *content_of(const json_t *json) {
    return json_string_value(json_is_object(json) ? json_object_get(json, "content") : json);
}

/* What a key names is a control token whatever its flags say. */
static sac_status put_named(loader *l, const char *text, sac_added_token token, sac_error *err) {
    token.special |= json_object_get(l->names, text) != NULL;
    return put_token(l, text, token, err);
}

/* ---------------------------------------------------------------- tokenizer.json */

static sac_status put_of_tokenizer(loader *l, sac_error *err) {
    const json_t *list = l->files->added_tokens;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text;
        sac_added_token token;
        sac_status st = read_token(json_array_get(list, i), &text, &token, err);
        if (st == SAC_OK && is_added(l, text))
            st = sac_fail(err, SAC_BAD_FILE, "\"%.60s\" is there twice", text);
        if (st == SAC_OK) st = put_token(l, text, token, err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "added_tokens[%zu]", i);
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- tokens with ids */

typedef struct indexed {
    int64_t id;
    size_t order;
    const char *text;
    sac_added_token token;
} indexed;

static int by_id(const void *x, const void *y) {
    const indexed *a = x, *b = y;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* "added_tokens_decoder": {"32000": {...}} */
static sac_status read_decoder(indexed *list, size_t *n, const json_t *decoder, sac_error *err) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)decoder, key, v) {
        indexed *x = &list[*n];
        char *end;
        long long id = strtoll(key, &end, 10);
        if (!*key || *end || id < 0 || id >= SAC_MAX_TOKENS_OF_VOCAB)
            return sac_fail(err, SAC_BAD_FILE,
                            "tokenizer_config.json: added_tokens_decoder: \"%.40s\" is no id", key);
        sac_status st = read_token(v, &x->text, &x->token, err);
        if (st != SAC_OK)
            return sac_fail_prefix(err, st, "tokenizer_config.json: added_tokens_decoder[%.20s]", key);
        x->id = id;
        x->order = (*n)++;
    }
    return SAC_OK;
}

/* added_tokens.json: {"<x>": 32000} */
static sac_status read_added_file(loader *l, indexed *list, size_t *n, sac_error *err) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)l->files->added_file, key, v) {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= SAC_MAX_TOKENS_OF_VOCAB)
            return sac_fail(err, SAC_BAD_FILE, "added_tokens.json: \"%.60s\" must have an id from 0 to %d",
                            key, (int)SAC_MAX_TOKENS_OF_VOCAB - 1);
        bool is_special = json_object_get(l->special, key) != NULL;
        list[*n] = (indexed){
            .id = id, .order = *n, .text = key, .token = {.special = is_special, .normalized = !is_special}};
        ++*n;
    }
    return SAC_OK;
}

static sac_status read_tokenizer_again(loader *l, indexed *list, size_t *n, sac_error *err) {
    const json_t *tokens = l->files->added_tokens;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *json = json_array_get(tokens, i);
        indexed *x = &list[*n];
        sac_status st = read_token(json, &x->text, &x->token, err);
        if (st == SAC_OK) st = sac_json_get_int(json, "id", 0, SAC_MAX_TOKENS_OF_VOCAB - 1, &x->id, err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "added_tokens[%zu]", i);
        x->order = (*n)++;
    }
    return SAC_OK;
}

static void add_name(json_t *names, const json_t *v) {
    const char *text = content_of(v);
    if (text) json_object_set_new(names, text, json_true());
}

static sac_status read_indexed(loader *l, indexed *list, size_t *n, sac_error *err) {
    const json_t *decoder = NULL;
    if (l->files->config)
        SAC_TRY(sac_json_get_object(l->files->config, "added_tokens_decoder", &decoder, err));
    if (decoder) return read_decoder(list, n, decoder, err);
    SAC_TRY(read_added_file(l, list, n, err));
    return read_tokenizer_again(l, list, n, err);
}

static sac_status put_indexed(loader *l, sac_error *err) {
    const sac_tokenizer_json *f = l->files;
    size_t n = 0, most = json_object_size(json_object_get(f->config, "added_tokens_decoder")) +
                         json_object_size(f->added_file) + json_array_size(f->added_tokens);
    indexed *list = calloc(most + 1, sizeof *list);
    if (!list) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu added tokens", most);
    sac_status st = read_indexed(l, list, &n, err);
    if (st == SAC_OK) qsort(list, n, sizeof *list, by_id);
    for (size_t i = 0; st == SAC_OK && i < n; i++)
        if (i + 1 == n || list[i + 1].id != list[i].id) st = put_named(l, list[i].text, list[i].token, err);
    free(list);
    return st;
}

/* ---------------------------------------------------------------- tokens that keys name */

static bool is_usual(const char *key) {
    for (size_t i = 0; i < SAC_COUNT(usual); i++)
        if (strcmp(key, usual[i]) == 0) return true;
    return false;
}

/* "image_token" and the like, which a class of its own may have. */
static bool is_own(const char *key) {
    size_t n = strlen(key);
    return !is_usual(key) && n >= 6 && strcmp(key + n - 6, "_token") == 0;
}

/* Keeps the place of a key that comes again. A token of special_tokens_map.json is a control token. */
static sac_status name_token(loader *l, const char *key, const json_t *v, bool of_map, sac_error *err) {
    if (json_is_null(v)) {
        json_object_del(l->named, key);
        return SAC_OK;
    }
    if (!content_of(v))
        return sac_fail(err, SAC_BAD_FILE,
                        "\"%.60s\" must be the text of a token, or an object with \"content\"", key);
    json_t *copy = json_deep_copy(v);
    if (copy && of_map && json_is_object(copy)) json_object_set_new(copy, "special", json_true());
    if (json_object_set_new(l->named, key, copy) != 0)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the names of tokens");
    return SAC_OK;
}

/* Keys of one file: the usual ones, in their order, or a class's own: with a text, or with an object. */
static sac_status name_usual(loader *l, const json_t *object, bool of_map, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(usual); i++) {
        const json_t *v = json_object_get(object, usual[i]);
        if (v) SAC_TRY(name_token(l, usual[i], v, of_map, err));
    }
    return SAC_OK;
}

static sac_status name_own(loader *l, const json_t *object, bool texts, bool objects, bool of_map,
                           sac_error *err) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        bool wanted = (texts && json_is_string(v)) || (objects && json_is_object(v) && content_of(v));
        if (wanted && is_own(key)) SAC_TRY(name_token(l, key, v, of_map, err));
    }
    return SAC_OK;
}

/* "extra_special_tokens" as an object names tokens too. */
static sac_status name_extra(loader *l, const json_t *v, bool of_map, sac_error *err) {
    const char *key;
    json_t *token;
    if (!json_is_object(v)) return SAC_OK;
    json_object_foreach((json_t *)(uintptr_t)v, key, token) SAC_TRY(name_token(l, key, token, of_map, err));
    return SAC_OK;
}

/* special_tokens_map.json, where it is looked at. */
static const json_t *map_of(const loader *l) {
    return json_object_get(l->files->config, "added_tokens_decoder") ? NULL : l->files->map;
}

static sac_status check_extra(const json_t *v, sac_error *err) {
    if (!v || json_is_null(v) || json_is_array(v) || json_is_object(v)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"extra_special_tokens\" and \"additional_special_tokens\" must be lists");
}

/* Which list counts where several files and both keys have one. */
static sac_status find_extra(loader *l, sac_error *err) {
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
    l->listed = json_is_array(list) ? json_copy((json_t *)(uintptr_t)list) : json_array();
    if (!l->listed ||
        (json_is_array(of_map) && json_array_extend(l->listed, (json_t *)(uintptr_t)of_map) != 0))
        return sac_fail(err, SAC_NO_MEMORY, "no memory for added tokens");
    bool is_said = list || json_is_array(of_map);
    const json_t *extra = is_said ? l->listed : old;
    l->extra = json_is_array(extra) ? json_incref((json_t *)(uintptr_t)extra) : NULL;
    return SAC_OK;
}

/* Which of added_tokens.json are control tokens: those that the usual keys and the list name, where
 * tokenizer_config.json does so by a text. */
static void find_special(loader *l) {
    const json_t *config = l->files->config, *map = map_of(l);
    for (size_t i = 0; i < SAC_COUNT(usual); i++) {
        const json_t *of_map = json_object_get(map, usual[i]), *v = json_object_get(config, usual[i]);
        if (of_map || json_is_string(v)) add_name(l->special, of_map ? of_map : v);
    }
    size_t n_of_map = json_array_size(json_object_get(map, "extra_special_tokens"));
    for (size_t i = 0, n = json_array_size(l->listed); i < n; i++) {
        const json_t *v = json_array_get(l->listed, i);
        if (json_is_string(v) || i + n_of_map >= n) add_name(l->special, v);
    }
}

/* Defaults of a class stand where a file does not say the key, null counting as said. */
static sac_status name_defaults(loader *l, sac_error *err) {
    static const char *const of_llama[][2] = {
        {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    static const char *const of_qwen2[][2] = {
        {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
    sac_tokenizer_class kind = l->files->kind;
    if (kind == SAC_CLASS_FILE) return SAC_OK;
    for (size_t i = 0; i < 3; i++) {
        const char *const *row = kind == SAC_CLASS_LLAMA ? of_llama[i] : of_qwen2[i];
        if (json_object_get(l->files->config, row[0]) || json_object_get(map_of(l), row[0])) continue;
        if (json_object_set_new(l->named, row[0], json_string(row[1])) != 0)
            return sac_fail(err, SAC_NO_MEMORY, "no memory for the names of tokens");
    }
    return SAC_OK;
}

static sac_status find_names(loader *l, sac_error *err) {
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

/* Whether the same text, or text with the same flags, has been seen; it has now. */
static bool is_seen(json_t *seen, const json_t *v) {
    char *key = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    bool is = key && json_object_get(seen, key);
    if (key && !is) json_object_set_new(seen, key, json_true());
    free(key);
    return is;
}

/* Those of the list that no file with ids has, each once; all are looked at before the first is added. */
static sac_status put_missing(loader *l, const json_t *list, sac_error *err) {
    size_t n = 0, most = json_array_size(list);
    const json_t **missing = calloc(most + 1, sizeof *missing);
    json_t *seen = json_object();
    if (!missing || !seen) {
        free(missing);
        json_decref(seen);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu added tokens", most);
    }
    for (size_t i = 0; i < most; i++) {
        const json_t *v = json_array_get(list, i);
        const char *text = content_of(v);
        if ((!text || !is_added(l, text)) && !is_seen(seen, v)) missing[n++] = v;
    }
    json_decref(seen);
    sac_status st = SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < n; i++) {
        const char *text;
        sac_added_token token;
        st = read_text_or_token(missing[i], &text, &token, err);
        if (st == SAC_OK) st = put_named(l, text, token, err);
    }
    free(missing);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "special tokens");
}

static sac_status put_all_named(loader *l, sac_error *err) {
    json_t *list = json_array(), *v;
    const char *key;
    for (size_t i = 0; i < SAC_COUNT(usual); i++)
        if ((v = json_object_get(l->named, usual[i]))) json_array_append(list, v);
    json_object_foreach(l->named, key, v) if (!is_usual(key)) json_array_append(list, v);
    if (l->extra) json_array_extend(list, l->extra);
    sac_status st =
        list ? put_missing(l, list, err) : sac_fail(err, SAC_NO_MEMORY, "no memory for added tokens");
    json_decref(list);
    return st;
}

/* Qwen2Tokenizer adds all that keys name once more at its end, without their flags. */
static sac_status put_plain(loader *l, sac_error *err) {
    const char *key;
    json_t *v;
    const sac_added_token plain = {.special = true};
    json_object_foreach(l->names, key, v) SAC_TRY(put_token(l, key, plain, err));
    for (size_t i = 0; i < json_array_size(l->extra); i++)
        SAC_TRY(put_token(l, content_of(json_array_get(l->extra, i)), plain, err));
    return SAC_OK;
}

static int32_t id_of(const loader *l, const char *key) {
    const char *text = content_of(json_object_get(l->named, key));
    return text ? sac_vocab_find(&l->t->vocab, text, strlen(text)) : -1;
}

static sac_status load(loader *l, sac_error *err) {
    const char *key;
    json_t *v;
    SAC_TRY(find_names(l, err));
    find_special(l);
    SAC_TRY(name_defaults(l, err));
    json_object_foreach(l->named, key, v) add_name(l->names, v);
    if (l->files->kind == SAC_CLASS_FILE) SAC_TRY(put_of_tokenizer(l, err));
    SAC_TRY(put_indexed(l, err));
    SAC_TRY(put_all_named(l, err));
    if (l->files->kind == SAC_CLASS_QWEN2) SAC_TRY(put_plain(l, err));
    l->t->bos = id_of(l, "bos_token");
    l->t->eos = id_of(l, "eos_token");
    return SAC_OK;
}

sac_status sac_load_added(sac_tokenizer *t, const sac_tokenizer_json *files, sac_error *err) {
    loader l = {.t = t, .files = files, .n_model = t->vocab.n_tokens};
    l.named = json_object();
    l.names = json_object();
    l.special = json_object();
    sac_status st = l.named && l.names && l.special
                        ? load(&l, err)
                        : sac_fail(err, SAC_NO_MEMORY, "no memory for added tokens");
    free(l.place);
    json_decref(l.named);
    json_decref(l.names);
    json_decref(l.special);
    json_decref(l.listed);
    json_decref(l.extra);
    return st;
}
