/* tokenizer_load.c - reading tokenizer.json.
 *
 * Two of its values are nearly all of the file: the vocabulary and the merges. They go through json_stream
 * straight into the tables (tokenizer_load_model.c); the small values around them are cut out and read with
 * jansson (tokenizer_load_steps.c). Qwen2.5's 7 MB: 46 ms of processor time in all; a tree of the file alone
 * takes cJSON 37, json-c 133 and jansson 204 ms (2-core Xeon, shared; test_tokenizer_vectors --time). */
#include "tokenizer_impl.h"

#include "file_map.h"
#include "json.h"
#include "json_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES   ((size_t)512 << 20)
#define MAX_CONFIG_BYTES ((size_t)16 << 20)

/* Positions of the values of one JSON object. */
typedef struct file_parts {
    sac_text_span added_tokens, normalizer, pre_tokenizer, post_processor, decoder, type, unk_token, unk_id,
        vocab, merges, byte_fallback, fuse_unk, ignore_merges, dropout, prefix, suffix;
} file_parts;

static sac_status keep(sac_json_stream *s, sac_text_span *to, const char *name, sac_error *err) {
    if (to->text) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is there twice", name);
    return sac_json_stream_skip(s, &to->text, &to->n_bytes, err);
}

typedef struct part_name {
    const char *name;
    size_t offset;
} part_name;

static sac_status keep_named(sac_json_stream *s, file_parts *parts, const part_name *names, size_t n_names,
                             const char *key, size_t n_bytes, sac_error *err) {
    for (size_t i = 0; i < n_names; i++)
        if (sac_is_name(key, n_bytes, names[i].name))
            return keep(s, (sac_text_span *)((char *)parts + names[i].offset), names[i].name, err);
    return sac_json_stream_skip(s, NULL, NULL, err);
}

static sac_status walk_model(sac_tokenizer *t, sac_json_stream *s, file_parts *parts, sac_error *err) {
    static const part_name names[] = {
        {"type", offsetof(file_parts, type)},
        {"unk_token", offsetof(file_parts, unk_token)},
        {"unk_id", offsetof(file_parts, unk_id)},
        {"byte_fallback", offsetof(file_parts, byte_fallback)},
        {"fuse_unk", offsetof(file_parts, fuse_unk)},
        {"ignore_merges", offsetof(file_parts, ignore_merges)},
        {"dropout", offsetof(file_parts, dropout)},
        {"continuing_subword_prefix", offsetof(file_parts, prefix)},
        {"end_of_word_suffix", offsetof(file_parts, suffix)},
        {"merges", offsetof(file_parts, merges)},
    };
    SAC_TRY(sac_json_stream_enter(s, '{', err));
    for (bool more;;) {
        const char *key;
        size_t n_bytes;
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(sac_json_stream_key(s, &key, &n_bytes, err));
        if (sac_is_name(key, n_bytes, "vocab")) {
            if (parts->vocab.text) return sac_fail(err, SAC_BAD_FILE, "\"vocab\" is there twice");
            parts->vocab.text = s->at;
            SAC_TRY(sac_load_vocab(t, s, err));
        } else if (sac_is_name(key, n_bytes, "merges") && parts->vocab.text && !parts->merges.text) {
            parts->merges.text = s->at; /* the usual order: read at once, not skipped first */
            SAC_TRY(sac_load_merges(t, s, err));
        } else {
            SAC_TRY(keep_named(s, parts, names, SAC_COUNT(names), key, n_bytes, err));
        }
    }
}

static sac_status walk_file(sac_tokenizer *t, sac_json_stream *s, file_parts *parts, sac_error *err) {
    static const part_name names[] = {
        {"added_tokens", offsetof(file_parts, added_tokens)},
        {"normalizer", offsetof(file_parts, normalizer)},
        {"pre_tokenizer", offsetof(file_parts, pre_tokenizer)},
        {"decoder", offsetof(file_parts, decoder)},
        {"post_processor", offsetof(file_parts, post_processor)},
    };
    bool has_model = false;
    SAC_TRY(sac_json_stream_enter(s, '{', err));
    for (bool more;;) {
        const char *key;
        size_t n_bytes;
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) break;
        SAC_TRY(sac_json_stream_key(s, &key, &n_bytes, err));
        if (!sac_is_name(key, n_bytes, "model")) {
            SAC_TRY(keep_named(s, parts, names, SAC_COUNT(names), key, n_bytes, err));
            continue;
        }
        if (has_model) return sac_fail(err, SAC_BAD_FILE, "\"model\" is there twice");
        has_model = true;
        SAC_TRY(walk_model(t, s, parts, err));
    }
    if (!has_model || !parts->vocab.text) return sac_fail(err, SAC_BAD_FILE, "no \"model\" with a \"vocab\"");
    return sac_json_stream_end(s, err);
}

/* ---- the small values ---- */

/* *out = NULL when the value is absent or null. */
static sac_status parse_part(json_t **out, sac_text_span part, const char *name, sac_error *err) {
    *out = NULL;
    if (!part.text || sac_is_name(part.text, part.n_bytes, "null")) return SAC_OK;
    sac_status st = sac_json_parse(out, part.text, part.n_bytes, err);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "%s", name);
}

static sac_status flag_part(bool *value, sac_text_span part, const char *name, sac_error *err) {
    if (!part.text || sac_is_name(part.text, part.n_bytes, "null")) return SAC_OK;
    if (!sac_is_name(part.text, part.n_bytes, "true") && !sac_is_name(part.text, part.n_bytes, "false"))
        return sac_fail(err, SAC_BAD_FILE, "model.%s must be true or false", name);
    *value = part.text[0] == 't';
    return SAC_OK;
}

/* Absent, null or "" only. */
static sac_status refuse_part(sac_text_span part, const char *name, sac_error *err) {
    if (!part.text || sac_is_name(part.text, part.n_bytes, "null") ||
        sac_is_name(part.text, part.n_bytes, "\"\""))
        return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "model.%s is not supported", name);
}

static sac_status check_type(const sac_tokenizer *t, sac_text_span part, sac_error *err) {
    const char *want = t->model == SAC_MODEL_BPE ? "BPE" : "Unigram";
    json_t *type;
    SAC_TRY(parse_part(&type, part, "model.type", err));
    sac_status st = SAC_OK;
    const char *is_type = type && json_is_string(type) ? json_string_value(type) : NULL;
    if (type && (!is_type || strcmp(is_type, want) != 0))
        st = sac_fail(err, SAC_BAD_FILE, "model type \"%.60s\" is not supported (BPE and Unigram are)",
                      is_type ? is_type : "?");
    json_decref(type);
    return st;
}

static sac_status finish_bpe(sac_tokenizer *t, const file_parts *parts, sac_error *err) {
    sac_bpe *b = &t->bpe;
    b->unk_id = -1;
    SAC_TRY(flag_part(&b->byte_fallback, parts->byte_fallback, "byte_fallback", err));
    SAC_TRY(flag_part(&b->fuse_unk, parts->fuse_unk, "fuse_unk", err));
    SAC_TRY(flag_part(&b->ignore_merges, parts->ignore_merges, "ignore_merges", err));
    SAC_TRY(refuse_part(parts->dropout.text && sac_is_name(parts->dropout.text, parts->dropout.n_bytes, "0.0")
                            ? (sac_text_span){0}
                            : parts->dropout,
                        "dropout", err));
    SAC_TRY(refuse_part(parts->prefix, "continuing_subword_prefix", err));
    SAC_TRY(refuse_part(parts->suffix, "end_of_word_suffix", err));
    if (!parts->merges.text) return sac_fail(err, SAC_BAD_FILE, "model.merges is missing");
    if (parts->merges.n_bytes) { /* it came before the vocabulary */
        sac_json_stream s;
        sac_json_stream_open(&s, parts->merges.text, parts->merges.n_bytes);
        sac_status st = sac_load_merges(t, &s, err);
        sac_json_stream_close(&s);
        SAC_TRY(st);
    }
    json_t *unk;
    SAC_TRY(parse_part(&unk, parts->unk_token, "model.unk_token", err));
    if (unk) {
        b->wants_unk = true;
        if (json_is_string(unk))
            b->unk_id = sac_vocab_find(&t->vocab, json_string_value(unk), json_string_length(unk));
        json_decref(unk);
    }
    return SAC_OK;
}

static sac_status finish_unigram(sac_tokenizer *t, const file_parts *parts, sac_error *err) {
    sac_unigram *u = &t->unigram;
    SAC_TRY(flag_part(&u->byte_fallback, parts->byte_fallback, "byte_fallback", err));
    json_t *unk;
    SAC_TRY(parse_part(&unk, parts->unk_id, "model.unk_id", err));
    u->unk_id = -1;
    if (!unk) return SAC_OK;
    int64_t id = json_is_integer(unk) ? json_integer_value(unk) : -1;
    json_decref(unk);
    if (id < 0 || id >= u->n)
        return sac_fail(err, SAC_BAD_FILE, "model.unk_id must be an id of the %d pieces", (int)u->n);
    u->unk_id = (int32_t)id;
    return SAC_OK;
}

/* The file names an id for each added token, but `tokenizers` goes by the text: an id of the model's
 * vocabulary if it is there, otherwise the next free one. */
static sac_status add_token(sac_tokenizer *t, const json_t *json, int32_t n_model, int32_t *next_id,
                            sac_error *err) {
    sac_added_token token = {.id = -1, .normalized = true};
    const char *text = NULL;
    int64_t id = 0;
    if (!json_is_object(json)) return sac_fail(err, SAC_BAD_FILE, "must be an object");
    SAC_TRY(sac_json_get_int(json, "id", 0, SAC_MAX_TOKENS_OF_VOCAB - 1, &id, err));
    SAC_TRY(sac_json_get_string(json, "content", &text, err));
    SAC_TRY(sac_json_get_bool(json, "special", &token.special, err));
    token.normalized = !token.special;
    SAC_TRY(sac_json_get_bool(json, "normalized", &token.normalized, err));
    SAC_TRY(sac_json_get_bool(json, "single_word", &token.single_word, err));
    SAC_TRY(sac_json_get_bool(json, "lstrip", &token.lstrip, err));
    SAC_TRY(sac_json_get_bool(json, "rstrip", &token.rstrip, err));
    if (!text) return sac_fail(err, SAC_BAD_FILE, "\"content\" is missing");
    size_t n_bytes = strlen(text);
    if (n_bytes == 0) return SAC_OK;
    token.id = sac_vocab_find(&t->vocab, text, n_bytes);
    if (token.id >= 0 && (t->vocab.token[token.id].flags & SAC_VOCAB_ADDED))
        return sac_fail(err, SAC_BAD_FILE, "\"%.60s\" is there twice", text);
    if (token.id < 0) {
        if (*next_id < n_model) *next_id = n_model;
        token.id = *next_id;
        SAC_TRY(sac_vocab_add_indexed(&t->vocab, token.id, text, n_bytes, 0, err));
    }
    if (token.id >= *next_id) *next_id = token.id + 1;
    return sac_added_tokens_add(t, text, n_bytes, token, err);
}

static sac_status read_added_tokens(sac_tokenizer *t, sac_text_span part, sac_error *err) {
    json_t *list;
    SAC_TRY(parse_part(&list, part, "added_tokens", err));
    if (!list) return SAC_OK;
    sac_status st =
        json_is_array(list) ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"added_tokens\" must be an array");
    int32_t n_model = t->vocab.n_tokens, next_id = 0;
    for (size_t i = 0; st == SAC_OK && i < json_array_size(list); i++) {
        st = add_token(t, json_array_get(list, i), n_model, &next_id, err);
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "added_tokens[%zu]", i);
    }
    json_decref(list);
    return st;
}

static sac_status read_steps(sac_tokenizer *t, const file_parts *parts, sac_error *err) {
    static const char *const name[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder"};
    const sac_text_span part[] = {parts->normalizer, parts->pre_tokenizer, parts->post_processor,
                                  parts->decoder};
    for (size_t i = 0; i < SAC_COUNT(part); i++) {
        json_t *json;
        SAC_TRY(parse_part(&json, part[i], name[i], err));
        sac_status st = SAC_OK;
        if (json && i == 0) st = sac_load_normalizer(&t->normalize, json, 0, err);
        if (json && i == 1) st = sac_load_pre_tokenizer(&t->split, json, 0, err);
        if (json && i == 2) st = sac_load_post_processor(t, json, 0, err);
        if (i == 3) st = sac_load_decoder(&t->decoder, json, err);
        json_decref(json);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "%s", name[i]);
    }
    return SAC_OK;
}

static sac_status load(sac_tokenizer *t, const char *text, size_t n_bytes, sac_error *err) {
    file_parts parts = {0};
    sac_json_stream s;
    sac_json_stream_open(&s, text, n_bytes);
    sac_status st = sac_vocab_reserve(&t->vocab, n_bytes / 48, n_bytes / 6, err);
    if (st == SAC_OK) st = walk_file(t, &s, &parts, err);
    sac_json_stream_close(&s);
    SAC_TRY(st);
    SAC_TRY(check_type(t, parts.type, err));
    SAC_TRY(t->model == SAC_MODEL_BPE ? finish_bpe(t, &parts, err) : finish_unigram(t, &parts, err));
    SAC_TRY(read_added_tokens(t, parts.added_tokens, err));
    SAC_TRY(read_steps(t, &parts, err));
    return sac_tokenizer_finish(t, err);
}

sac_status sac_tokenizer_open_json(sac_tokenizer **out, const char *text, size_t n_bytes,
                                   const char *config_json, size_t config_bytes, sac_error *err) {
    *out = NULL;
    if (n_bytes > MAX_FILE_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "%zu bytes are more than the %zu read as a tokenizer", n_bytes,
                        MAX_FILE_BYTES);
    sac_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tokenizer");
    t->bos = t->eos = -1;
    sac_status st = load(t, text, n_bytes, err);
    if (st == SAC_OK && config_json) st = sac_load_tokenizer_config(t, config_json, config_bytes, err);
    if (st == SAC_OK && t->bos < 0 && t->n_before > 0) t->bos = t->before[0];
    if (st != SAC_OK) {
        sac_tokenizer_free(t);
        return st;
    }
    *out = t;
    return SAC_OK;
}

static sac_status read_sibling(char **text, size_t *n_bytes, const char *path, sac_error *err) {
    static const char name[] = "tokenizer_config.json";
    *text = NULL;
    *n_bytes = 0;
    const char *slash = strrchr(path, '/');
    size_t folder_bytes = slash ? (size_t)(slash + 1 - path) : 0;
    char *sibling = malloc(folder_bytes + sizeof name);
    if (!sibling) return sac_fail(err, SAC_NO_MEMORY, "no memory for a path");
    memcpy(sibling, path, folder_bytes);
    memcpy(sibling + folder_bytes, name, sizeof name);
    sac_status st = SAC_OK;
    if (sac_file_exists(sibling)) st = sac_file_read(text, n_bytes, sibling, MAX_CONFIG_BYTES, err);
    free(sibling);
    return st;
}

sac_status sac_tokenizer_open_file(sac_tokenizer **out, const char *path, sac_error *err) {
    *out = NULL;
    sac_file_map map;
    char *config = NULL;
    size_t config_bytes = 0;
    SAC_TRY(sac_file_map_open(&map, path, err));
    sac_status st = read_sibling(&config, &config_bytes, path, err);
    if (st == SAC_OK) {
        const char *text = map.data ? (const char *)map.data : "";
        st = sac_tokenizer_open_json(out, text, map.n_bytes, config, config_bytes, err);
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "%s", path);
    }
    free(config);
    sac_file_unmap(&map);
    return st;
}
