/* tokenizer_load.c - reading tokenizer.json.
 *
 * Two of its values are nearly all of the file: the vocabulary and the merges. They go through json_stream straight
 * into the tables; the small values around them are cut out and read with jansson (tokenizer_load_steps.c).
 * Qwen2.5's 7 MB: 330 ms and 50 MB for a tree of jansson, 45 ms and 14 MB this way (test_tokenizer --time). */
#include "tokenizer_impl.h"

#include "file_map.h"
#include "json.h"
#include "json_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES   ((size_t)512 << 20)
#define MAX_CONFIG_BYTES ((size_t)16 << 20)

typedef struct span {
    const char *text;
    size_t n_bytes;
} span;

/* Positions of the values of one JSON object. */
typedef struct file_parts {
    span added_tokens, normalizer, pre_tokenizer, post_processor, decoder, type, unk_token, unk_id, vocab, merges,
        byte_fallback, fuse_unk, ignore_merges, dropout, prefix, suffix;
} file_parts;

static bool is(const char *key, size_t n_bytes, const char *name) {
    return strlen(name) == n_bytes && memcmp(key, name, n_bytes) == 0;
}

/* ---- the two large values ---- */

static sac_status read_vocab_object(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    const char *text;
    size_t n_bytes;
    int64_t id;
    SAC_TRY(sac_json_stream_enter(s, '{', err));
    for (bool more;;) {
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(sac_json_stream_key(s, &text, &n_bytes, err));
        char copy[64];
        const char *name = text;
        if (text == s->unescaped && n_bytes <= sizeof copy) name = memcpy(copy, text, n_bytes);
        SAC_TRY(sac_json_stream_int(s, &id, err));
        SAC_TRY(sac_vocab_add(&t->vocab, id, name, n_bytes, SAC_VOCAB_MODEL, err));
    }
}

static sac_status read_unigram_piece(sac_tokenizer *t, sac_json_stream *s, size_t *capacity, sac_error *err) {
    sac_unigram *u = &t->unigram;
    const char *text;
    size_t n_bytes;
    bool more, after;
    double score;
    if ((size_t)u->n == *capacity) {
        size_t grown = *capacity ? 2 * *capacity : 4096;
        double *p = realloc(u->score, grown * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu scores", grown);
        u->score = p;
        *capacity = grown;
    }
    SAC_TRY(sac_json_stream_enter(s, '[', err));
    SAC_TRY(sac_json_stream_next(s, &more, err));
    if (!more) return sac_fail(err, SAC_BAD_FILE, "model.vocab: entry %d is not [text, score]", (int)u->n);
    SAC_TRY(sac_json_stream_string(s, &text, &n_bytes, err));
    SAC_TRY(sac_vocab_add(&t->vocab, u->n, text, n_bytes, SAC_VOCAB_MODEL, err));
    SAC_TRY(sac_json_stream_next(s, &more, err));
    if (!more) return sac_fail(err, SAC_BAD_FILE, "model.vocab: entry %d has no score", (int)u->n);
    SAC_TRY(sac_json_stream_float(s, &score, err));
    SAC_TRY(sac_json_stream_next(s, &after, err));
    if (after) return sac_fail(err, SAC_BAD_FILE, "model.vocab: entry %d is not [text, score]", (int)u->n);
    u->score[u->n++] = score;
    return SAC_OK;
}

static sac_status read_vocab_list(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    size_t capacity = 0;
    SAC_TRY(sac_json_stream_enter(s, '[', err));
    for (bool more;;) {
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(read_unigram_piece(t, s, &capacity, err));
    }
}

typedef struct merge_reader {
    sac_tokenizer *t;
    uint32_t rank;
    char both[2 * SAC_MAX_TOKEN_BYTES]; /* left and right, one behind the other */
    int32_t last;                       /* id made by the merge before */
} merge_reader;

/* Merges are mostly written in the order of the ids they make: the next id is tried before the table is asked. */
static int32_t find_merged(merge_reader *m, size_t n_bytes) {
    const sac_vocab *v = &m->t->vocab;
    int32_t guess = m->last + 1;
    if (sac_vocab_has(v, guess) && v->token[guess].n_bytes == n_bytes &&
        memcmp(sac_vocab_text(v, guess), m->both, n_bytes) == 0)
        return guess;
    return sac_vocab_find(v, m->both, n_bytes);
}

static sac_status add_merge(merge_reader *m, size_t left_bytes, size_t n_bytes, sac_error *err) {
    const sac_vocab *v = &m->t->vocab;
    int32_t left = sac_vocab_find(v, m->both, left_bytes);
    int32_t right = sac_vocab_find(v, m->both + left_bytes, n_bytes - left_bytes);
    int32_t merged = left < 0 || right < 0 ? -1 : find_merged(m, n_bytes);
    if (merged < 0) {
        bool missing_left = left < 0, missing_right = !missing_left && right < 0;
        const char *which = m->both + (missing_right ? left_bytes : 0);
        size_t length = missing_left ? left_bytes : missing_right ? n_bytes - left_bytes : n_bytes;
        return sac_fail(err, SAC_BAD_FILE, "merge %u needs the token \"%.*s\", which is not in the vocabulary", m->rank,
                        (int)(length < 80 ? length : 80), which);
    }
    m->last = merged;
    return sac_bpe_add(&m->t->bpe, left, right, m->rank++, merged, err);
}

static sac_status read_merge_string(merge_reader *m, sac_json_stream *s, sac_error *err) {
    const char *text;
    size_t n_bytes;
    SAC_TRY(sac_json_stream_string(s, &text, &n_bytes, err));
    if (n_bytes >= 8 && memcmp(text, "#version", 8) == 0) return SAC_OK;
    const char *space = memchr(text, ' ', n_bytes);
    size_t left = space ? (size_t)(space - text) : 0, right = space ? n_bytes - left - 1 : 0;
    if (!left || !right || left > SAC_MAX_TOKEN_BYTES || right > SAC_MAX_TOKEN_BYTES || memchr(space + 1, ' ', right))
        return sac_fail(err, SAC_BAD_FILE, "merge %u \"%.*s\" is not two tokens with a space between", m->rank,
                        (int)(n_bytes < 80 ? n_bytes : 80), text);
    memcpy(m->both, text, left);
    memcpy(m->both + left, space + 1, right);
    return add_merge(m, left, left + right, err);
}

static sac_status read_merge_pair(merge_reader *m, sac_json_stream *s, sac_error *err) {
    size_t n_parts = 0, n_bytes = 0, left_bytes = 0;
    SAC_TRY(sac_json_stream_enter(s, '[', err));
    for (bool more;; n_parts++) {
        const char *text;
        size_t length;
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) break;
        SAC_TRY(sac_json_stream_string(s, &text, &length, err));
        if (n_parts == 2 || length == 0 || length > SAC_MAX_TOKEN_BYTES)
            return sac_fail(err, SAC_BAD_FILE, "merge %u is not a pair of tokens", m->rank);
        memcpy(m->both + n_bytes, text, length);
        n_bytes += length;
        if (n_parts == 0) left_bytes = length;
    }
    if (n_parts != 2) return sac_fail(err, SAC_BAD_FILE, "merge %u is not a pair of tokens", m->rank);
    return add_merge(m, left_bytes, n_bytes, err);
}

static sac_status read_merges(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    merge_reader *m = malloc(sizeof *m);
    if (!m) return sac_fail(err, SAC_NO_MEMORY, "no memory for merges");
    m->t = t;
    m->rank = 0;
    m->last = -1;
    sac_status st = sac_bpe_reserve(&t->bpe, (size_t)t->vocab.n_tokens, err);
    if (st == SAC_OK) st = sac_json_stream_enter(s, '[', err);
    for (bool more = true; st == SAC_OK;) {
        st = sac_json_stream_next(s, &more, err);
        if (st != SAC_OK || !more) break;
        st = sac_json_stream_peek(s) == SAC_JSON_ARRAY ? read_merge_pair(m, s, err) : read_merge_string(m, s, err);
    }
    free(m);
    return st;
}

/* ---- walking over the file ---- */

static sac_status keep(sac_json_stream *s, span *to, const char *name, sac_error *err) {
    if (to->text) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is there twice", name);
    return sac_json_stream_skip(s, &to->text, &to->n_bytes, err);
}

typedef struct part_name {
    const char *name;
    size_t offset;
} part_name;

static sac_status keep_named(sac_json_stream *s, file_parts *parts, const part_name *names, size_t n_names, const char *key,
                             size_t n_bytes, sac_error *err) {
    for (size_t i = 0; i < n_names; i++)
        if (is(key, n_bytes, names[i].name)) return keep(s, (span *)((char *)parts + names[i].offset), names[i].name, err);
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
        if (is(key, n_bytes, "vocab")) {
            if (parts->vocab.text) return sac_fail(err, SAC_BAD_FILE, "\"vocab\" is there twice");
            sac_json_kind kind = sac_json_stream_peek(s);
            parts->vocab.text = s->at;
            if (kind == SAC_JSON_ARRAY)
                SAC_TRY(read_vocab_list(t, s, err));
            else
                SAC_TRY(read_vocab_object(t, s, err));
            t->model = kind == SAC_JSON_ARRAY ? SAC_MODEL_UNIGRAM : SAC_MODEL_BPE;
        } else if (is(key, n_bytes, "merges") && parts->vocab.text && !parts->merges.text) {
            parts->merges.text = s->at; /* the usual order: read at once, not skipped first */
            SAC_TRY(read_merges(t, s, err));
        } else {
            SAC_TRY(keep_named(s, parts, names, SAC_COUNT(names), key, n_bytes, err));
        }
    }
}

static sac_status walk_file(sac_tokenizer *t, sac_json_stream *s, file_parts *parts, sac_error *err) {
    static const part_name names[] = {
        {"added_tokens", offsetof(file_parts, added_tokens)},     {"normalizer", offsetof(file_parts, normalizer)},
        {"pre_tokenizer", offsetof(file_parts, pre_tokenizer)},   {"decoder", offsetof(file_parts, decoder)},
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
        if (!is(key, n_bytes, "model")) {
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
static sac_status parse_part(json_t **out, span part, const char *name, sac_error *err) {
    *out = NULL;
    if (!part.text || is(part.text, part.n_bytes, "null")) return SAC_OK;
    sac_status st = sac_json_parse(out, part.text, part.n_bytes, err);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "%s", name);
}

static sac_status flag_part(bool *value, span part, const char *name, sac_error *err) {
    if (!part.text || is(part.text, part.n_bytes, "null")) return SAC_OK;
    if (!is(part.text, part.n_bytes, "true") && !is(part.text, part.n_bytes, "false"))
        return sac_fail(err, SAC_BAD_FILE, "model.%s must be true or false", name);
    *value = part.text[0] == 't';
    return SAC_OK;
}

/* Absent, null or "" only. */
static sac_status refuse_part(span part, const char *name, sac_error *err) {
    if (!part.text || is(part.text, part.n_bytes, "null") || is(part.text, part.n_bytes, "\"\"")) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "model.%s is not supported", name);
}

static sac_status check_type(const sac_tokenizer *t, span part, sac_error *err) {
    const char *want = t->model == SAC_MODEL_BPE ? "BPE" : "Unigram";
    json_t *type;
    SAC_TRY(parse_part(&type, part, "model.type", err));
    sac_status st = SAC_OK;
    const char *is_type = type && json_is_string(type) ? json_string_value(type) : NULL;
    if (type && (!is_type || strcmp(is_type, want) != 0))
        st = sac_fail(err, SAC_BAD_FILE, "model type \"%.60s\" is not supported (BPE and Unigram are)", is_type ? is_type : "?");
    json_decref(type);
    return st;
}

static sac_status finish_bpe(sac_tokenizer *t, const file_parts *parts, sac_error *err) {
    sac_bpe *b = &t->bpe;
    b->unk_id = -1;
    SAC_TRY(flag_part(&b->byte_fallback, parts->byte_fallback, "byte_fallback", err));
    SAC_TRY(flag_part(&b->fuse_unk, parts->fuse_unk, "fuse_unk", err));
    SAC_TRY(flag_part(&b->ignore_merges, parts->ignore_merges, "ignore_merges", err));
    SAC_TRY(refuse_part(parts->dropout.text && is(parts->dropout.text, parts->dropout.n_bytes, "0.0") ? (span){0} : parts->dropout,
                        "dropout", err));
    SAC_TRY(refuse_part(parts->prefix, "continuing_subword_prefix", err));
    SAC_TRY(refuse_part(parts->suffix, "end_of_word_suffix", err));
    if (!parts->merges.text) return sac_fail(err, SAC_BAD_FILE, "model.merges is missing");
    if (parts->merges.n_bytes) { /* it came before the vocabulary */
        sac_json_stream s;
        sac_json_stream_open(&s, parts->merges.text, parts->merges.n_bytes);
        sac_status st = read_merges(t, &s, err);
        sac_json_stream_close(&s);
        SAC_TRY(st);
    }
    json_t *unk;
    SAC_TRY(parse_part(&unk, parts->unk_token, "model.unk_token", err));
    if (unk) {
        b->wants_unk = true;
        if (json_is_string(unk)) b->unk_id = sac_vocab_find(&t->vocab, json_string_value(unk), json_string_length(unk));
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
    if (id < 0 || id >= u->n) return sac_fail(err, SAC_BAD_FILE, "model.unk_id must be an id of the %d pieces", (int)u->n);
    u->unk_id = (int32_t)id;
    return SAC_OK;
}

/* The file names an id for each added token, but `tokenizers` goes by the text: an id of the model's vocabulary if
 * it is there, otherwise the next free one. */
static sac_status add_token(sac_tokenizer *t, const json_t *json, int32_t n_model, int32_t *next_id, sac_error *err) {
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
        SAC_TRY(sac_vocab_add(&t->vocab, token.id, text, n_bytes, 0, err));
    }
    if (token.id >= *next_id) *next_id = token.id + 1;
    return sac_added_tokens_add(t, text, n_bytes, token, err);
}

static sac_status read_added_tokens(sac_tokenizer *t, span part, sac_error *err) {
    json_t *list;
    SAC_TRY(parse_part(&list, part, "added_tokens", err));
    if (!list) return SAC_OK;
    sac_status st = json_is_array(list) ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"added_tokens\" must be an array");
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
    const span part[] = {parts->normalizer, parts->pre_tokenizer, parts->post_processor, parts->decoder};
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

/* "bos_token": "<s>" or {"content": "<s>", ...}. A config that does not fit is only a missing hint. */
static int32_t named_token(const sac_tokenizer *t, const json_t *config, const char *key) {
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    return json_is_string(v) ? sac_vocab_find(&t->vocab, json_string_value(v), json_string_length(v)) : -1;
}

static sac_status read_config(sac_tokenizer *t, const char *text, size_t n_bytes, sac_error *err) {
    json_t *config;
    sac_status st = sac_json_parse(&config, text, n_bytes, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "tokenizer_config.json");
    t->bos = named_token(t, config, "bos_token");
    t->eos = named_token(t, config, "eos_token");
    json_decref(config);
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

sac_status sac_tokenizer_open_json(sac_tokenizer **out, const char *text, size_t n_bytes, const char *config_json,
                                   size_t config_bytes, sac_error *err) {
    *out = NULL;
    if (n_bytes > MAX_FILE_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "%zu bytes are more than the %zu read as a tokenizer", n_bytes, MAX_FILE_BYTES);
    sac_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tokenizer");
    t->bos = t->eos = -1;
    sac_status st = load(t, text, n_bytes, err);
    if (st == SAC_OK && config_json) st = read_config(t, config_json, config_bytes, err);
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
