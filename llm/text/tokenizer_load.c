/* tokenizer_load.c - reading tokenizer.json.
 *
 * Two of its values are nearly all of the file: the vocabulary and the merges. They go through json_stream
 * straight into the tables (tokenizer_load_model.c); the small values around them are cut out and read with
 * jansson (tokenizer_load_steps.c, tokenizer_load_added.c). Qwen2.5's 7 MB: 46 ms of processor time in all; a tree of the file alone
 * takes cJSON 37, json-c 133 and jansson 204 ms (2-core Xeon, shared; test_tokenizer_vectors --time). */
#define _GNU_SOURCE /* memmem */
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

/* Of those that a class makes anew only the post-processor is the file's, and of GPTNeoXTokenizer not even that. */
static sac_status read_steps(sac_tokenizer *t, const file_parts *parts, sac_tokenizer_class kind, sac_error *err) {
    static const char *const name[] = {"post_processor", "normalizer", "pre_tokenizer", "decoder"};
    const sac_text_span part[] = {parts->post_processor, parts->normalizer, parts->pre_tokenizer,
                                  parts->decoder};
    const size_t n = kind == SAC_CLASS_FILE ? SAC_COUNT(part) : kind == SAC_CLASS_GPT_NEOX ? 0 : 1;
    for (size_t i = 0; i < n; i++) {
        json_t *json;
        SAC_TRY(parse_part(&json, part[i], name[i], err));
        sac_status st = SAC_OK;
        if (json && i == 0) st = sac_load_post_processor(t, json, 0, err);
        if (json && i == 1) st = sac_load_normalizer(&t->normalize, json, 0, err);
        if (json && i == 2) st = sac_load_pre_tokenizer(&t->split, json, 0, err);
        if (i == 3) st = sac_load_decoder(&t->decoder, json, err);
        json_decref(json);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "%s", name[i]);
    }
    return SAC_OK;
}

/* ---- with the files beside it ---- */

static void free_json(sac_tokenizer_json *j) {
    json_decref(j->added_tokens);
    json_decref(j->config);
    json_decref(j->map);
    json_decref(j->added_file);
    json_decref(j->model);
}

static sac_status parse_beside(json_t **out, sac_text_span text, const char *name, sac_error *err) {
    if (!text.text) return SAC_OK;
    sac_status st = sac_json_parse_large(out, text.text, text.n_bytes, err);
    if (st == SAC_OK && !json_is_object(*out)) st = sac_fail(err, SAC_BAD_FILE, "not a JSON object");
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "%s", name);
}

static sac_status parse_small(sac_tokenizer_json *j, const file_parts *parts,
                              const sac_tokenizer_files *files, sac_error *err) {
    SAC_TRY(parse_part(&j->added_tokens, parts->added_tokens, "added_tokens", err));
    if (j->added_tokens && !json_is_array(j->added_tokens))
        return sac_fail(err, SAC_BAD_FILE, "\"added_tokens\" must be an array");
    SAC_TRY(parse_beside(&j->config, files->tokenizer_config, "tokenizer_config.json", err));
    SAC_TRY(parse_beside(&j->map, files->special_tokens_map, "special_tokens_map.json", err));
    SAC_TRY(parse_beside(&j->added_file, files->added_tokens, "added_tokens.json", err));
    return parse_beside(&j->model, files->model_config, "config.json", err);
}

static sac_status load_parts(sac_tokenizer *t, sac_tokenizer_json *j, const file_parts *parts,
                             const sac_tokenizer_files *files, sac_error *err) {
    static const char byte_level[] = "\"ByteLevel\"";
    SAC_TRY(check_type(t, parts->type, err));
    SAC_TRY(t->model == SAC_MODEL_BPE ? finish_bpe(t, parts, err) : finish_unigram(t, parts, err));
    SAC_TRY(parse_small(j, parts, files, err));
    bool has_byte_level =
        memmem(files->tokenizer.text, files->tokenizer.n_bytes, byte_level, sizeof byte_level - 1) != NULL;
    if (files->rule == SAC_TOKENIZER_BY_CLASS)
        SAC_TRY(sac_tokenizer_class_find(&j->kind, t->unknown_class, j, has_byte_level, err));
    SAC_TRY(sac_tokenizer_class_apply(t, j, err));
    SAC_TRY(sac_load_added(t, j, err));
    SAC_TRY(read_steps(t, parts, j->kind, err));
    return sac_tokenizer_finish(t, err);
}

static sac_status load(sac_tokenizer *t, const sac_tokenizer_files *files, sac_error *err) {
    file_parts parts = {0};
    sac_tokenizer_json json = {0};
    sac_json_stream s;
    size_t n_bytes = files->tokenizer.n_bytes;
    sac_json_stream_open(&s, files->tokenizer.text, n_bytes);
    sac_status st = sac_vocab_reserve(&t->vocab, n_bytes / 48, n_bytes / 6, err);
    if (st == SAC_OK) st = walk_file(t, &s, &parts, err);
    sac_json_stream_close(&s);
    if (st == SAC_OK) st = load_parts(t, &json, &parts, files, err);
    free_json(&json);
    return st;
}

sac_status sac_tokenizer_open_files(sac_tokenizer **out, const sac_tokenizer_files *files, sac_error *err) {
    *out = NULL;
    if (files->tokenizer.n_bytes > MAX_FILE_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "%zu bytes are more than the %zu read as a tokenizer",
                        files->tokenizer.n_bytes, MAX_FILE_BYTES);
    sac_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tokenizer");
    t->bos = t->eos = -1;
    sac_text_span config = files->tokenizer_config;
    sac_status st = load(t, files, err);
    if (st == SAC_OK && config.text) st = sac_load_tokenizer_config(t, config.text, config.n_bytes, err);
    if (st == SAC_OK && t->bos < 0 && t->n_before > 0) t->bos = t->before[0];
    if (st != SAC_OK) {
        sac_tokenizer_free(t);
        return st;
    }
    *out = t;
    return SAC_OK;
}

sac_status sac_tokenizer_open_json(sac_tokenizer **out, const char *text, size_t n_bytes,
                                   const char *config_json, size_t config_bytes, sac_error *err) {
    return sac_tokenizer_open_files(
        out,
        &(sac_tokenizer_files){.tokenizer = {text, n_bytes}, .tokenizer_config = {config_json, config_bytes}},
        err);
}

static sac_status read_beside(sac_text_span *out, const char *path, const char *name, sac_error *err) {
    const char *slash = strrchr(path, '/');
    size_t folder_bytes = slash ? (size_t)(slash + 1 - path) : 0, name_bytes = strlen(name) + 1;
    char *beside = malloc(folder_bytes + name_bytes), *text = NULL;
    if (!beside) return sac_fail(err, SAC_NO_MEMORY, "no memory for a path");
    memcpy(beside, path, folder_bytes);
    memcpy(beside + folder_bytes, name, name_bytes);
    sac_status st = SAC_OK;
    if (sac_file_exists(beside)) st = sac_file_read(&text, &out->n_bytes, beside, MAX_CONFIG_BYTES, err);
    out->text = text;
    free(beside);
    return st;
}

sac_status sac_tokenizer_open_file(sac_tokenizer **out, const char *path, sac_tokenizer_rule rule,
                                   sac_error *err) {
    *out = NULL;
    sac_file_map map;
    sac_tokenizer_files files = {.rule = rule};
    sac_text_span *beside[] = {&files.tokenizer_config, &files.special_tokens_map, &files.added_tokens,
                               &files.model_config};
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                        "added_tokens.json", "config.json"};
    SAC_TRY(sac_file_map_open(&map, path, err));
    sac_status st = SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < SAC_COUNT(beside); i++)
        st = read_beside(beside[i], path, names[i], err);
    if (st == SAC_OK) {
        files.tokenizer = (sac_text_span){map.data ? (const char *)map.data : "", map.n_bytes};
        st = sac_tokenizer_open_files(out, &files, err);
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "%s", path);
    }
    for (size_t i = 0; i < SAC_COUNT(beside); i++) free((char *)(uintptr_t)beside[i]->text);
    sac_file_unmap(&map);
    return st;
}
