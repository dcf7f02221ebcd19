/* tokenizer_load_steps.c - the small parts of tokenizer.json: normalizer, pre_tokenizer, post_processor,
 * decoder.
 *
 * Each is an object with a "type"; Sequences are flattened. A type, an option or an order that is not handled
 * is an error that names it: a tokenizer that is nearly right gives answers that are quietly worse. */
#include "tokenizer_impl.h"

#include "json.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH   8
#define METASPACE   "\xe2\x96\x81" /* U+2581 */
#define PUNCTUATION "[\\p{P}$+<=>^`|~]"
#define WORDS                                                                                                \
    "[\\w\\x{200C}\\x{200D}]+|[^\\w\\s\\x{200C}\\x{200D}]+" /* in classes: there \w is Unicode's own */

static sac_status type_of(const json_t *json, const char **type, sac_error *err) {
    *type = NULL;
    if (!json_is_object(json)) return sac_fail(err, SAC_BAD_FILE, "must be an object");
    SAC_TRY(sac_json_get_string(json, "type", type, err));
    return *type ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"type\" is missing");
}

static sac_status unknown(const char *type, sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "type \"%.60s\" is not supported", type);
}

static sac_status list_of(const json_t *json, const char *key, int depth, const json_t **list,
                          sac_error *err) {
    if (depth > MAX_DEPTH)
        return sac_fail(err, SAC_BAD_FILE, "Sequences nested more than %d deep", MAX_DEPTH);
    SAC_TRY(sac_json_get_array(json, key, list, err));
    return *list ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", key);
}

/* "pattern": {"String": "x"} or {"Regex": "x"}. */
static sac_status pattern_of(const json_t *json, const char **text, bool *literal, sac_error *err) {
    const json_t *pattern = NULL;
    *text = NULL;
    SAC_TRY(sac_json_get_object(json, "pattern", &pattern, err));
    if (pattern) SAC_TRY(sac_json_get_string(pattern, "String", text, err));
    *literal = *text != NULL;
    if (pattern && !*text) SAC_TRY(sac_json_get_string(pattern, "Regex", text, err));
    return *text ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"pattern\" must have a String or a Regex");
}

static sac_status string_of(const json_t *json, const char *key, const char **text, sac_error *err) {
    *text = NULL;
    SAC_TRY(sac_json_get_string(json, key, text, err));
    return *text ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", key);
}

/* ---- normalizer ---- */

static sac_status load_replace(sac_step *step, const json_t *json, sac_error *err) {
    const char *pattern, *content;
    bool literal;
    step->kind = SAC_STEP_REPLACE;
    SAC_TRY(pattern_of(json, &pattern, &literal, err));
    SAC_TRY(string_of(json, "content", &content, err));
    SAC_TRY(sac_step_set_text(step, content, strlen(content), err));
    return sac_regex_compile(&step->regex, pattern, strlen(pattern), literal, err);
}

static sac_status load_precompiled(sac_steps *steps, const json_t *json, sac_error *err) {
    const char *table = NULL;
    sac_step *step;
    SAC_TRY(sac_json_get_string(json, "precompiled_charsmap", &table, err));
    if (!table || !*table) return SAC_OK; /* SentencePiece's identity */
    SAC_TRY(sac_steps_new(steps, &step, err));
    step->kind = SAC_STEP_PRECOMPILED;
    return sac_charsmap_open(&step->charsmap, table, strlen(table), err);
}

static sac_status load_simple_normalizer(sac_steps *steps, const char *type, const json_t *json,
                                         sac_error *err) {
    static const char *const forms[] = {
        [SAC_NFC] = "NFC", [SAC_NFD] = "NFD", [SAC_NFKC] = "NFKC", [SAC_NFKD] = "NFKD"};
    sac_step *step;
    SAC_TRY(sac_steps_new(steps, &step, err));
    for (size_t i = 0; i < SAC_COUNT(forms); i++) {
        if (strcmp(type, forms[i]) != 0) continue;
        step->kind = SAC_STEP_UNICODE;
        step->form = (sac_unicode_form)i;
        return SAC_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        const char *text;
        step->kind = SAC_STEP_PREPEND;
        SAC_TRY(string_of(json, "prepend", &text, err));
        return sac_step_set_text(step, text, strlen(text), err);
    }
    if (strcmp(type, "Replace") == 0) return load_replace(step, json, err);
    if (strcmp(type, "Strip") == 0) {
        step->kind = SAC_STEP_STRIP;
        step->left = step->right = true;
        SAC_TRY(sac_json_get_bool(json, "strip_left", &step->left, err));
        return sac_json_get_bool(json, "strip_right", &step->right, err);
    }
    return unknown(type, err);
}

sac_status sac_load_normalizer(sac_steps *steps, const json_t *json, int depth, sac_error *err) {
    const char *type;
    SAC_TRY(type_of(json, &type, err));
    if (strcmp(type, "Precompiled") == 0) return load_precompiled(steps, json, err);
    if (strcmp(type, "Sequence") != 0) return load_simple_normalizer(steps, type, json, err);
    const json_t *list;
    SAC_TRY(list_of(json, "normalizers", depth, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        SAC_TRY(sac_load_normalizer(steps, json_array_get(list, i), depth + 1, err));
    return SAC_OK;
}

/* ---- pre_tokenizer ---- */

static sac_status behavior_of(const json_t *json, sac_split_behavior *out, sac_error *err) {
    static const char *const names[] = {
        [SAC_SPLIT_REMOVED] = "Removed",
        [SAC_SPLIT_ISOLATED] = "Isolated",
        [SAC_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SAC_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SAC_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name;
    SAC_TRY(string_of(json, "behavior", &name, err));
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (sac_split_behavior)i;
        return SAC_OK;
    }
    return sac_fail(err, SAC_BAD_FILE, "behavior \"%.40s\" is not supported", name);
}

static sac_status load_split(sac_steps *steps, const json_t *json, sac_error *err) {
    const char *pattern;
    bool literal, invert = false;
    sac_split_behavior behavior;
    SAC_TRY(pattern_of(json, &pattern, &literal, err));
    SAC_TRY(behavior_of(json, &behavior, err));
    SAC_TRY(sac_json_get_bool(json, "invert", &invert, err));
    return sac_steps_add_split(steps, pattern, strlen(pattern), literal, behavior, invert, err);
}

static sac_status load_byte_level(sac_steps *steps, const json_t *json, sac_error *err) {
    bool prefix_space = true, use_regex = true;
    SAC_TRY(sac_json_get_bool(json, "add_prefix_space", &prefix_space, err));
    SAC_TRY(sac_json_get_bool(json, "use_regex", &use_regex, err));
    return sac_steps_add_byte_level(steps, prefix_space, use_regex, err);
}

/* Old files have add_prefix_space instead of prepend_scheme. */
static sac_status scheme_of(const json_t *json, sac_prepend_scheme *out, sac_error *err) {
    bool prefix_space = true;
    const char *scheme = NULL;
    SAC_TRY(sac_json_get_bool(json, "add_prefix_space", &prefix_space, err));
    SAC_TRY(sac_json_get_string(json, "prepend_scheme", &scheme, err));
    *out = prefix_space ? SAC_PREPEND_ALWAYS : SAC_PREPEND_NEVER;
    if (!scheme) return SAC_OK;
    if (strcmp(scheme, "always") == 0)
        *out = SAC_PREPEND_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        *out = SAC_PREPEND_FIRST;
    else if (strcmp(scheme, "never") == 0)
        *out = SAC_PREPEND_NEVER;
    else
        return sac_fail(err, SAC_BAD_FILE, "prepend_scheme \"%.40s\" is not supported", scheme);
    return SAC_OK;
}

static sac_status replacement_of(const json_t *json, const char **text, sac_error *err) {
    *text = METASPACE;
    SAC_TRY(sac_json_get_string(json, "replacement", text, err));
    if (!**text || sac_utf8_length(**text) != strlen(*text))
        return sac_fail(err, SAC_BAD_FILE, "\"replacement\" must be one character");
    return SAC_OK;
}

static sac_status load_metaspace(sac_steps *steps, const json_t *json, sac_error *err) {
    const char *text;
    bool split = true;
    sac_step *step;
    SAC_TRY(replacement_of(json, &text, err));
    SAC_TRY(sac_json_get_bool(json, "split", &split, err));
    SAC_TRY(sac_steps_new(steps, &step, err));
    step->kind = SAC_STEP_METASPACE;
    SAC_TRY(scheme_of(json, &step->scheme, err));
    SAC_TRY(sac_step_set_text(step, text, strlen(text), err));
    if (!split) return SAC_OK;
    return sac_steps_add_split(steps, text, strlen(text), true, SAC_SPLIT_MERGED_WITH_NEXT, false, err);
}

static sac_status load_simple_pre_tokenizer(sac_steps *steps, const char *type, const json_t *json,
                                            sac_error *err) {
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(steps, json, err);
    if (strcmp(type, "Split") == 0) return load_split(steps, json, err);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(steps, json, err);
    if (strcmp(type, "Digits") == 0) {
        bool individual = false;
        SAC_TRY(sac_json_get_bool(json, "individual_digits", &individual, err));
        return sac_steps_add_split(steps, "\\p{N}", 5, false,
                                   individual ? SAC_SPLIT_ISOLATED : SAC_SPLIT_CONTIGUOUS, false, err);
    }
    if (strcmp(type, "Punctuation") == 0) {
        sac_split_behavior behavior = SAC_SPLIT_ISOLATED;
        if (json_object_get(json, "behavior")) SAC_TRY(behavior_of(json, &behavior, err));
        return sac_steps_add_split(steps, PUNCTUATION, strlen(PUNCTUATION), false, behavior, false, err);
    }
    if (strcmp(type, "Whitespace") == 0)
        return sac_steps_add_split(steps, WORDS, strlen(WORDS), false, SAC_SPLIT_REMOVED, true, err);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return sac_steps_add_split(steps, "\\s", 2, false, SAC_SPLIT_REMOVED, false, err);
    return unknown(type, err);
}

sac_status sac_load_pre_tokenizer(sac_steps *steps, const json_t *json, int depth, sac_error *err) {
    const char *type;
    SAC_TRY(type_of(json, &type, err));
    if (strcmp(type, "Sequence") != 0) return load_simple_pre_tokenizer(steps, type, json, err);
    const json_t *list;
    SAC_TRY(list_of(json, "pretokenizers", depth, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        SAC_TRY(sac_load_pre_tokenizer(steps, json_array_get(list, i), depth + 1, err));
    return SAC_OK;
}

/* ---- post_processor ---- */

static sac_status add_template_ids(sac_tokenizer *t, bool behind, const json_t *ids, const char *name,
                                   sac_error *err) {
    int32_t *to = behind ? t->behind : t->before;
    int *n = behind ? &t->n_behind : &t->n_before;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (!sac_vocab_has(&t->vocab, value))
            return sac_fail(err, SAC_BAD_FILE, "special token \"%.60s\" has an id that is no token", name);
        if (*n == SAC_MAX_TEMPLATE)
            return sac_fail(err, SAC_BAD_FILE, "more than %d tokens are added", SAC_MAX_TEMPLATE);
        to[(*n)++] = (int32_t)value;
    }
    return SAC_OK;
}

/* "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}] */
static sac_status load_template(sac_tokenizer *t, const json_t *json, sac_error *err) {
    const json_t *single = NULL, *tokens = NULL;
    bool behind = false;
    SAC_TRY(sac_json_get_array(json, "single", &single, err));
    SAC_TRY(sac_json_get_object(json, "special_tokens", &tokens, err));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *special = NULL, *sequence = NULL, *known = NULL, *ids = NULL,
                     *part = json_array_get(single, i);
        const char *name = NULL;
        if (!json_is_object(part)) return sac_fail(err, SAC_BAD_FILE, "single[%zu] must be an object", i);
        SAC_TRY(sac_json_get_object(part, "Sequence", &sequence, err));
        SAC_TRY(sac_json_get_object(part, "SpecialToken", &special, err));
        if (sequence) {
            if (behind) return sac_fail(err, SAC_BAD_FILE, "the template repeats the text");
            behind = true;
            continue;
        }
        if (!special)
            return sac_fail(err, SAC_BAD_FILE, "single[%zu] is neither Sequence nor SpecialToken", i);
        SAC_TRY(string_of(special, "id", &name, err));
        if (tokens) SAC_TRY(sac_json_get_object(tokens, name, &known, err));
        if (known) SAC_TRY(sac_json_get_array(known, "ids", &ids, err));
        if (!ids) return sac_fail(err, SAC_BAD_FILE, "special token \"%.60s\" is not described", name);
        SAC_TRY(add_template_ids(t, behind, ids, name, err));
    }
    return behind ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "the template leaves the text out");
}

sac_status sac_load_post_processor(sac_tokenizer *t, const json_t *json, int depth, sac_error *err) {
    const char *type;
    SAC_TRY(type_of(json, &type, err));
    if (strcmp(type, "ByteLevel") == 0) return SAC_OK; /* it only trims offsets */
    if (strcmp(type, "TemplateProcessing") == 0) {
        if (t->n_before || t->n_behind) return sac_fail(err, SAC_BAD_FILE, "two templates");
        return load_template(t, json, err);
    }
    if (strcmp(type, "Sequence") != 0) return unknown(type, err);
    const json_t *list;
    SAC_TRY(list_of(json, "processors", depth, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        SAC_TRY(sac_load_post_processor(t, json_array_get(list, i), depth + 1, err));
    return SAC_OK;
}

/* ---- decoder ---- */

static sac_status add_decoder_replace(sac_decoder *d, const char *from, const char *to, bool drop_in_first,
                                      sac_error *err) {
    if (d->n_replaces == SAC_MAX_DECODER_REPLACES)
        return sac_fail(err, SAC_BAD_FILE, "more than %d Replace decoders", SAC_MAX_DECODER_REPLACES);
    size_t from_bytes = strlen(from), to_bytes = strlen(to);
    if (from_bytes == 0 || from_bytes > SAC_MAX_DECODER_TEXT || to_bytes > SAC_MAX_DECODER_TEXT)
        return sac_fail(err, SAC_BAD_FILE, "Replace: texts must have 1 to %d bytes", SAC_MAX_DECODER_TEXT);
    sac_decoder_replace *r = &d->replace[d->n_replaces++];
    memcpy(r->from, from, from_bytes);
    memcpy(r->to, to, to_bytes);
    r->from_bytes = from_bytes;
    r->to_bytes = to_bytes;
    r->drop_in_first = drop_in_first;
    return SAC_OK;
}

typedef struct decoder_state {
    bool fused, stripped;
} decoder_state;

static sac_status load_strip_decoder(sac_decoder *d, const json_t *json, decoder_state *state,
                                     sac_error *err) {
    const char *content;
    int64_t left = 0, right = 0;
    SAC_TRY(string_of(json, "content", &content, err));
    SAC_TRY(sac_json_get_int(json, "start", 0, 1 << 20, &left, err));
    SAC_TRY(sac_json_get_int(json, "stop", 0, 1 << 20, &right, err));
    if (!*content || sac_utf8_length(*content) != strlen(content))
        return sac_fail(err, SAC_BAD_FILE, "Strip: \"content\" must be one character");
    if (state->stripped) return sac_fail(err, SAC_BAD_FILE, "a second Strip is not supported");
    if (state->fused && right)
        return sac_fail(err, SAC_BAD_FILE, "Strip with \"stop\" behind Fuse is not supported");
    if (!state->fused && d->byte_fallback)
        return sac_fail(err, SAC_BAD_FILE, "Strip between ByteFallback and Fuse is not supported");
    state->stripped = true;
    d->strip_tokens = !state->fused;
    d->strip_char = sac_utf8_decode(content);
    d->strip_left = (int)left;
    d->strip_right = (int)right;
    return SAC_OK;
}

static sac_status load_decoder_step(sac_decoder *d, const json_t *json, decoder_state *state, int depth,
                                    sac_error *err) {
    const char *type, *from, *to;
    bool literal;
    SAC_TRY(type_of(json, &type, err));
    if (d->byte_level)
        return sac_fail(err, SAC_BAD_FILE, "\"%.40s\" behind ByteLevel is not supported", type);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list;
        SAC_TRY(list_of(json, "decoders", depth, &list, err));
        for (size_t i = 0; i < json_array_size(list); i++)
            SAC_TRY(load_decoder_step(d, json_array_get(list, i), state, depth + 1, err));
        return SAC_OK;
    }
    if (strcmp(type, "Strip") == 0) return load_strip_decoder(d, json, state, err);
    bool untouched = !state->fused && !state->stripped && !d->byte_fallback;
    if (strcmp(type, "Fuse") == 0) {
        state->fused = true;
        return SAC_OK;
    }
    if (!untouched)
        return sac_fail(err, SAC_BAD_FILE, "\"%.40s\" behind ByteFallback, Fuse or Strip is not supported",
                        type);
    if (strcmp(type, "ByteFallback") == 0) {
        d->byte_fallback = true;
    } else if (strcmp(type, "ByteLevel") == 0) {
        if (d->n_replaces) return sac_fail(err, SAC_BAD_FILE, "ByteLevel behind Replace is not supported");
        d->byte_level = true;
    } else if (strcmp(type, "Replace") == 0) {
        SAC_TRY(pattern_of(json, &from, &literal, err));
        SAC_TRY(string_of(json, "content", &to, err));
        if (!literal) return sac_fail(err, SAC_BAD_FILE, "Replace with a Regex is not supported");
        return add_decoder_replace(d, from, to, false, err);
    } else if (strcmp(type, "Metaspace") == 0) {
        sac_prepend_scheme scheme;
        SAC_TRY(replacement_of(json, &from, err));
        SAC_TRY(scheme_of(json, &scheme, err));
        return add_decoder_replace(d, from, " ", scheme != SAC_PREPEND_NEVER, err);
    } else {
        return unknown(type, err);
    }
    return SAC_OK;
}

sac_status sac_load_decoder(sac_decoder *d, const json_t *json, sac_error *err) {
    decoder_state state = {0};
    d->join_spaces = json == NULL;
    return json ? load_decoder_step(d, json, &state, 0, err) : SAC_OK;
}
