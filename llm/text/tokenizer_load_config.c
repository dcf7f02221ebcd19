/* tokenizer_load_config.c - the chat template of tokenizer_config.json. */
#include "json_stream.h"
#include "tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

/* Reads one value; *string is its text if it is a string, of_key (of the key `name`) if it is an object. */
typedef struct config_value {
    sac_text_span string; /* JSON text of a string, quotes included */
    sac_text_span of_key, name;
} config_value;

static sac_status read_config_value(sac_json_stream *s, const char *wanted, config_value *v, sac_error *err) {
    *v = (config_value){0};
    sac_json_kind kind = sac_json_stream_peek(s);
    if (kind == SAC_JSON_STRING) return sac_json_stream_skip(s, &v->string.text, &v->string.n_bytes, err);
    if (kind != SAC_JSON_OBJECT) return sac_json_stream_skip(s, NULL, NULL, err);
    SAC_TRY(sac_json_stream_enter(s, '{', err));
    for (bool more;;) {
        const char *key;
        size_t n_bytes;
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(sac_json_stream_key(s, &key, &n_bytes, err));
        sac_text_span *to = sac_is_name(key, n_bytes, wanted)   ? &v->of_key
                            : sac_is_name(key, n_bytes, "name") ? &v->name
                                                                : NULL;
        bool keeps = to && sac_json_stream_peek(s) == SAC_JSON_STRING;
        SAC_TRY(sac_json_stream_skip(s, keeps ? &to->text : NULL, keeps ? &to->n_bytes : NULL, err));
    }
}

/* The string behind a JSON string's text, in fresh memory. */
static sac_status unquote(sac_text_span json, char **out, size_t *n_bytes, sac_error *err) {
    const char *text;
    sac_json_stream s;
    *out = NULL;
    sac_json_stream_open(&s, json.text, json.n_bytes);
    sac_status st = sac_json_stream_string(&s, &text, n_bytes, err);
    if (st == SAC_OK) *out = malloc(*n_bytes + 1);
    if (st == SAC_OK && !*out)
        st = sac_fail(err, SAC_NO_MEMORY, "no memory for a string of %zu bytes", *n_bytes);
    if (st == SAC_OK) {
        memcpy(*out, text, *n_bytes);
        (*out)[*n_bytes] = 0;
    }
    sac_json_stream_close(&s);
    return st;
}

/* "chat_template": "..." or [{"name": "default", "template": "..."}, ...]. */
static sac_status read_template(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    config_value v, best = {0};
    if (sac_json_stream_peek(s) == SAC_JSON_ARRAY) {
        SAC_TRY(sac_json_stream_enter(s, '[', err));
        for (bool more;;) {
            SAC_TRY(sac_json_stream_next(s, &more, err));
            if (!more) break;
            SAC_TRY(read_config_value(s, "template", &v, err));
            bool is_default = v.name.text && sac_is_name(v.name.text, v.name.n_bytes, "\"default\"");
            if (v.of_key.text && (!best.of_key.text || is_default)) best = v;
        }
    } else {
        SAC_TRY(read_config_value(s, "template", &best, err));
    }
    sac_text_span json = best.string.text ? best.string : best.of_key;
    size_t n_bytes;
    if (!json.text || t->chat_template) return SAC_OK;
    return unquote(json, &t->chat_template, &n_bytes, err);
}

static sac_status walk_config(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    SAC_TRY(sac_json_stream_enter(s, '{', err));
    for (bool more;;) {
        const char *key;
        size_t n_bytes;
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return sac_json_stream_end(s, err);
        SAC_TRY(sac_json_stream_key(s, &key, &n_bytes, err));
        if (sac_is_name(key, n_bytes, "chat_template"))
            SAC_TRY(read_template(t, s, err));
        else
            SAC_TRY(sac_json_stream_skip(s, NULL, NULL, err));
    }
}

sac_status sac_load_tokenizer_config(sac_tokenizer *t, const char *text, size_t n_bytes, sac_error *err) {
    sac_json_stream s;
    sac_json_stream_open(&s, text, n_bytes);
    sac_status st = walk_config(t, &s, err);
    sac_json_stream_close(&s);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "tokenizer_config.json");
}
