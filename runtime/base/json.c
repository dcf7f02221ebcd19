#include "json.h"

#include "file_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INT64_SAFE_DIGITS 18 /* so many digits always fit */

/* The end of the number at `at`; *n_digits counts its digits, 0 when it has a fraction or an exponent. */
static const char *number_end(const char *at, const char *end, size_t *n_digits) {
    bool whole = true;
    *n_digits = 0;
    for (; at < end && *at && strchr("+-.0123456789eE", *at); at++) {
        if (*at >= '0' && *at <= '9') ++*n_digits;
        if (*at == '.' || *at == 'e' || *at == 'E') whole = false;
    }
    if (!whole) *n_digits = 0;
    return at;
}

/* Copies the text with ".0" behind every integer of more than 18 digits; `to` NULL only counts. Text that is no
 * JSON stays none. */
static size_t write_large_as_real(char *to, const char *text, size_t n_bytes) {
    const char *end = text + n_bytes;
    size_t n = 0;
    bool quoted = false;
    for (const char *at = text; at < end;) {
        const char *from = at;
        size_t n_digits = 0;
        if (!quoted && (*at == '-' || (*at >= '0' && *at <= '9'))) {
            at = number_end(at, end, &n_digits);
        } else {
            if (*at == '"') quoted = !quoted;
            at += quoted && *at == '\\' && at + 1 < end ? 2 : 1;
        }
        if (to) memcpy(to + n, from, (size_t)(at - from));
        n += (size_t)(at - from);
        if (n_digits <= INT64_SAFE_DIGITS) continue;
        if (to) memcpy(to + n, ".0", 2);
        n += 2;
    }
    return n;
}

/* Python writes integers of any size ("model_max_length": 1000000000000000019884624838656), jansson takes 64
 * bits: such a number is read as a real. */
static json_t *load_large_integers(const char *text, size_t n_bytes, json_error_t *e) {
    size_t n = write_large_as_real(NULL, text, n_bytes);
    char *copy = malloc(n);
    if (!copy) return NULL; /* e still says what was too big */
    write_large_as_real(copy, text, n_bytes);
    json_t *v = json_loadb(copy, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, e);
    free(copy);
    return v;
}

static sac_status parse(json_t **out, const char *text, size_t n_bytes, bool takes_large, sac_error *err) {
    json_error_t e;
    *out = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!*out && takes_large && json_error_code(&e) == json_error_numeric_overflow)
        *out = load_large_integers(text, n_bytes, &e);
    if (*out) return SAC_OK;
    bool is_cut = json_error_code(&e) == json_error_premature_end_of_input;
    return sac_fail(err, SAC_BAD_FILE, "not valid JSON at line %d column %d: %s%s", e.line, e.column, e.text,
                    is_cut ? ": cut short, fetch the file again" : "");
}

sac_status sac_json_parse(json_t **out, const char *text, size_t n_bytes, sac_error *err) {
    return parse(out, text, n_bytes, false, err);
}

sac_status sac_json_parse_large(json_t **out, const char *text, size_t n_bytes, sac_error *err) {
    return parse(out, text, n_bytes, true, err);
}

sac_status sac_json_parse_file(json_t **out, const char *path, sac_error *err) {
    *out = NULL;
    sac_file_map map;
    SAC_TRY(sac_file_map_open(&map, path, err));
    sac_status st;
    if (map.n_bytes > SAC_JSON_MAX_BYTES)
        st = sac_fail(err, SAC_BAD_FILE, "%s: %zu bytes, more than the %zu read as JSON", path, map.n_bytes,
                      SAC_JSON_MAX_BYTES);
    else if (map.n_bytes == 0)
        st = sac_fail(err, SAC_BAD_FILE, "%s: empty file", path);
    else if (sac_file_is_lfs_pointer(&map))
        st = sac_fail(err, SAC_BAD_FILE,
                      "%s: a Git LFS pointer, not the file: run \"git lfs pull\" in its folder", path);
    else {
        st = parse(out, (const char *)map.data, map.n_bytes, true, err);
        if (st != SAC_OK) st = sac_fail_prefix(err, st, "%s", path);
    }
    sac_file_unmap(&map);
    return st;
}

static const json_t *present(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return v && !json_is_null(v) ? v : NULL;
}

sac_status sac_json_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *value,
                            sac_error *err) {
    const json_t *v = present(object, key);
    if (!v) return SAC_OK;
    int64_t n;
    if (json_is_integer(v))
        n = json_integer_value(v);
    else if (json_is_real(v) && fabs(json_real_value(v)) < 9e15 &&
             json_real_value(v) == floor(json_real_value(v)))
        n = (int64_t)json_real_value(v); /* some writers print 14.0 */
    else
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be an integer", key);
    if (n < min || n > max)
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld, must be %lld to %lld", key, (long long)n,
                        (long long)min, (long long)max);
    *value = n;
    return SAC_OK;
}

sac_status sac_json_get_float(const json_t *object, const char *key, double *value, sac_error *err) {
    const json_t *v = present(object, key);
    if (!v) return SAC_OK;
    if (!json_is_number(v)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be a number", key);
    *value = json_number_value(v);
    return SAC_OK;
}

sac_status sac_json_get_bool(const json_t *object, const char *key, bool *value, sac_error *err) {
    const json_t *v = present(object, key);
    if (!v) return SAC_OK;
    if (!json_is_boolean(v)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be true or false", key);
    *value = json_is_true(v);
    return SAC_OK;
}

sac_status sac_json_get_string(const json_t *object, const char *key, const char **value, sac_error *err) {
    const json_t *v = present(object, key);
    if (!v) return SAC_OK;
    if (!json_is_string(v)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be a string", key);
    *value = json_string_value(v);
    return SAC_OK;
}

sac_status sac_json_get_object(const json_t *object, const char *key, const json_t **value, sac_error *err) {
    *value = present(object, key);
    if (*value && !json_is_object(*value))
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be an object", key);
    return SAC_OK;
}

sac_status sac_json_get_array(const json_t *object, const char *key, const json_t **value, sac_error *err) {
    *value = present(object, key);
    if (*value && !json_is_array(*value)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be an array", key);
    return SAC_OK;
}
