/* tokenizer_load_added.c - added tokens, from every file of a folder that may hold them, as transformers 5 collects
 * them: those of tokenizer.json; then, by rising id, "added_tokens_decoder" of tokenizer_config.json, or without
 * that key added_tokens.json with those of tokenizer.json; then what "bos_token", "pad_token" and other keys of
 * that kind name, and "extra_special_tokens" or "additional_special_tokens" (special_tokens_map.json holds such keys
 * as well, and is looked at where tokenizer_config.json has no "added_tokens_decoder").
 *
 * A file may say an id, but as with `tokenizers` the text decides: it is the model's token if there is such a one,
 * otherwise the next free id. A token that comes again takes the new flags, and stays a control token. */
#include "json.h"
#include "tokenizer_impl.h"
#include "tokenizer_names.h"

#include <stdlib.h>
#include <string.h>

typedef struct loader {
    sac_tokenizer *t;
    const sac_tokenizer_json *files;
    int32_t n_model, next_id;
    int32_t *place; /* [n_places] by id: index in t->added + 1, or 0 */
    size_t n_places;
    sac_token_names names;
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

/* What a key names is a control token whatever its flags say. */
static sac_status put_named(loader *l, const char *text, sac_added_token token, sac_error *err) {
    token.special |= json_object_get(l->names.texts, text) != NULL;
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
        bool is_special = json_object_get(l->names.special, key) != NULL;
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
        const char *text = sac_token_content(v);
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
    for (size_t i = 0; (key = sac_usual_token_key(i)); i++)
        if ((v = json_object_get(l->names.named, key))) json_array_append(list, v);
    json_object_foreach(l->names.named, key, v) if (!sac_is_usual_token_key(key)) json_array_append(list, v);
    if (l->names.extra) json_array_extend(list, l->names.extra);
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
    json_object_foreach(l->names.texts, key, v) SAC_TRY(put_token(l, key, plain, err));
    for (size_t i = 0; i < json_array_size(l->names.extra); i++)
        SAC_TRY(put_token(l, sac_token_content(json_array_get(l->names.extra, i)), plain, err));
    return SAC_OK;
}

static int32_t id_of(const loader *l, const char *key) {
    const char *text = sac_token_content(json_object_get(l->names.named, key));
    return text ? sac_vocab_find(&l->t->vocab, text, strlen(text)) : -1;
}

static sac_status load(loader *l, sac_error *err) {
    SAC_TRY(sac_token_names_find(&l->names, l->files, err));
    if (l->files->kind == SAC_CLASS_FILE) SAC_TRY(put_of_tokenizer(l, err));
    SAC_TRY(put_indexed(l, err));
    SAC_TRY(put_all_named(l, err));
    if (l->files->kind == SAC_CLASS_QWEN2 || l->files->kind == SAC_CLASS_QWEN3_5) SAC_TRY(put_plain(l, err));
    l->t->bos = id_of(l, "bos_token");
    l->t->eos = id_of(l, "eos_token");
    return SAC_OK;
}

sac_status sac_load_added(sac_tokenizer *t, const sac_tokenizer_json *files, sac_error *err) {
    loader l = {.t = t, .files = files, .n_model = t->vocab.n_tokens};
    sac_status st = load(&l, err);
    free(l.place);
    sac_token_names_free(&l.names);
    return st;
}
