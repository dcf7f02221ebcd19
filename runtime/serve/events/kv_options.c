#include "kv_options.h"

#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

static sac_status wrong(sac_error *err, const char *key, const char *what) {
    return sac_fail(err, SAC_BAD_ARGUMENT, "--kv-events-config: '%.60s' must be %s", key, what);
}

static sac_status read_text(char to[256], const json_t *value, const char *key, sac_error *err) {
    if (!json_is_string(value) || json_string_length(value) > 255) return wrong(err, key, "a text of at most 255 bytes");
    memcpy(to, json_string_value(value), json_string_length(value) + 1);
    return SAC_OK;
}

static sac_status read_count(int64_t *to, const json_t *value, const char *key, int64_t least, sac_error *err) {
    *to = json_integer_value(value);
    if (json_is_integer(value) && *to >= least && *to <= 100000000) return SAC_OK;
    return wrong(err, key, least ? "an integer from 1 to 100000000" : "an integer from 0 to 100000000");
}

/* "zmq", or "null", which publishes nothing. */
static sac_status read_choice(bool *is_first, const json_t *value, const char *key, const char *first, const char *second, sac_error *err) {
    const char *text = json_string_value(value);
    *is_first = text && !strcmp(text, first);
    if (*is_first || (text && !strcmp(text, second))) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "--kv-events-config: '%s' must be \"%s\" or \"%s\"", key, first, second);
}

static sac_status read_key(serve_kv_options *o, bool *publishes, const char *key, const json_t *value, sac_error *err) {
    int64_t n = 0;
    if (!strcmp(key, "enable_kv_cache_events")) {
        o->enabled = json_is_true(value);
        return json_is_boolean(value) ? SAC_OK : wrong(err, key, "true or false");
    }
    if (!strcmp(key, "publisher")) return read_choice(publishes, value, key, "zmq", "null", err);
    if (!strcmp(key, "encoding")) {
        bool arrays;
        SAC_TRY(read_choice(&arrays, value, key, "array", "map", err));
        o->as_maps = !arrays;
        return SAC_OK;
    }
    if (!strcmp(key, "endpoint")) return read_text(o->endpoint, value, key, err);
    if (!strcmp(key, "replay_endpoint")) return read_text(o->replay_endpoint, value, key, err);
    if (!strcmp(key, "topic")) return read_text(o->topic, value, key, err);
    const bool is_buffer = !strcmp(key, "buffer_steps"), is_hwm = !strcmp(key, "hwm");
    if (!is_buffer && !is_hwm && strcmp(key, "max_queue_size") != 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--kv-events-config: '%.60s' is not known", key);
    SAC_TRY(read_count(&n, value, key, is_buffer ? 0 : 1, err));
    if (is_hwm) o->hwm = (int)n;
    if (is_buffer) o->buffer_steps = (size_t)n;
    if (!is_buffer && !is_hwm) o->max_queue_size = (size_t)n;
    return SAC_OK;
}

sac_status serve_kv_options_read(serve_kv_options *o, const char *json, sac_error *err) {
    json_error_t e;
    json_t *all = json_loads(json, JSON_REJECT_DUPLICATES, &e), *value;
    const char *key;
    bool publishes = true;
    sac_status st = SAC_OK;
    *o = (serve_kv_options){.endpoint = "tcp://*:5557", .buffer_steps = 10000, .max_queue_size = 100000, .hwm = 100000};
    if (!json_is_object(all)) {
        json_decref(all);
        return sac_fail(err, SAC_BAD_ARGUMENT, "--kv-events-config: a JSON object, as {\"enable_kv_cache_events\": true}: %s", all ? "it is none" : e.text);
    }
    json_object_foreach(all, key, value) {
        if (st == SAC_OK && !json_is_null(value)) st = read_key(o, &publishes, key, value, err);
    }
    json_decref(all);
    o->enabled = o->enabled && publishes;
    if (st == SAC_OK && !o->endpoint[0]) st = wrong(err, "endpoint", "an address, as tcp://*:5557");
    return st;
}
