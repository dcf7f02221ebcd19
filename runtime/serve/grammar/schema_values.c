/* schema_values.c - strings, numbers and lists of values. */
#include "regex.h"
#include "schema_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- strings */

/* A pattern and bounds of the length: both hold where the pattern implies the bounds, or is a repeat of one class. */
static bool narrow(const schema_reader *r, int node, int64_t min, int64_t max) {
    int64_t low, high;
    grammar_node *n = &r->g->nodes[node];
    regex_lengths(r->g, node, &low, &high);
    if (low >= min && (max < 0 || (high >= 0 && high <= max))) return true;
    if (n->kind == GRAMMAR_REPEAT && r->g->nodes[n->items[0]].kind == GRAMMAR_CLASS) {
        if (min > n->min) n->min = min;
        if (max >= 0 && (n->max < 0 || max < n->max)) n->max = max;
        if (n->max < 0 || n->max >= n->min) return true;
    }
    return schema_refuse(
        r, "a 'pattern' or 'format' beside a 'minLength' or 'maxLength' that it does not keep by itself");
}

static int patterned(const schema_reader *r, const char *pattern, size_t n, int64_t min, int64_t max) {
    const char *why;
    int node = regex_compile(r->g, pattern, n, false, true, &why);
    if (why) return schema_refuse(r, "'pattern': %s", why), -1;
    if (node < 0 || !narrow(r, node, min, max)) return -1;
    int quote = grammar_bytes(r->g, "\"", 1);
    return grammar_seq(r->g, (int[]){quote, node, quote}, 3);
}

int schema_string(const schema_reader *r, const json_t *text) {
    const json_t *pattern = json_object_get(text, "pattern"), *format = json_object_get(text, "format");
    int64_t min = 0, max = -1;
    if (!schema_read_bound(r, text, "minLength", &min) || !schema_read_bound(r, text, "maxLength", &max))
        return -1;
    if (max >= 0 && max < min) return schema_refuse(r, "a minimum above its maximum"), -1;
    if (pattern && format) return schema_refuse(r, "'pattern' and 'format' side by side"), -1;
    if (pattern && !json_is_string(pattern)) return schema_refuse(r, "'pattern' must be a string"), -1;
    if (pattern) return patterned(r, json_string_value(pattern), json_string_length(pattern), min, max);
    if (!format) return grammar_string(r->g, min, max);
    const char *name = json_is_string(format) ? json_string_value(format) : "",
               *known = schema_format_pattern(name);
    if (!known)
        return schema_refuse(r,
                             "the format '%.40s', which is not known: date, time, date-time, duration, uuid, "
                             "ipv4, email, hostname and uri are",
                             name),
               -1;
    return patterned(r, known, strlen(known), min, max);
}

/* ---------------------------------------------------------------- numbers */

static bool read_limit(const schema_reader *r, const json_t *text, const char *key, double *value,
                       bool *given) {
    const json_t *v = json_object_get(text, key);
    *given = v != NULL;
    if (!v) return true;
    if (!json_is_number(v)) return schema_refuse(r, "'%s' must be a number", key);
    *value = json_number_value(v);
    return true;
}

/* Whether a number of few digits lies between, so that it can be written. */
static bool can_be_written(double low, double high) {
    double tries[] = {low, high, low / 2 + high / 2, 0};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        for (int digits = 1; digits <= 14; digits++) {
            char text[64];
            snprintf(text, sizeof text, "%.*f", digits, tries[i]);
            double v = strtod(text, NULL);
            if (v >= low && v <= high && fabs(v) < 10.0) return true;
            snprintf(text, sizeof text, "%.*g", digits, tries[i]);
            v = strtod(text, NULL);
            if (v >= low && v <= high && (fabs(v) >= 1 || v == 0) && fabs(v) < 1e15) return true;
        }
    return false;
}

int schema_number(const schema_reader *r, const json_t *text, bool whole) {
    double low = -1e15, high = 1e15, low_out = low, high_out = high;
    bool has_low, has_high, has_low_out, has_high_out;
    if (!read_limit(r, text, "minimum", &low, &has_low) ||
        !read_limit(r, text, "maximum", &high, &has_high) ||
        !read_limit(r, text, "exclusiveMinimum", &low_out, &has_low_out) ||
        !read_limit(r, text, "exclusiveMaximum", &high_out, &has_high_out))
        return -1;
    if (!has_low && !has_high && !has_low_out && !has_high_out) return grammar_number(r->g, whole);
    if (whole) {
        low = ceil(low);
        high = floor(high);
        if (has_low_out) low = fmax(low, floor(low_out) + 1);
        if (has_high_out) high = fmin(high, ceil(high_out) - 1);
    } else {
        if (has_low_out) low = fmax(low, nextafter(low_out, INFINITY));
        if (has_high_out) high = fmin(high, nextafter(high_out, -INFINITY));
    }
    if (!(low <= high) || low >= 1e15 || high <= -1e15 || (!whole && !can_be_written(low, high)))
        return schema_refuse(r, "no number of at most 15 digits is from %.17g to %.17g", low, high), -1;
    return grammar_number_between(r->g, whole, low, high);
}

/* ---------------------------------------------------------------- enum and const */

static bool fits(const json_t *value, unsigned types) {
    unsigned type = schema_type_of_value(value);
    if (type == SCHEMA_INTEGER ||
        (type == SCHEMA_NUMBER && json_real_value(value) == floor(json_real_value(value))))
        return (types & (SCHEMA_NUMBER | SCHEMA_INTEGER)) != 0;
    return (types & type) != 0;
}

/* Beside a list of values nothing else may decide but the type. */
static bool check_alone(const schema_reader *r, const json_t *text) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)text, key, value) {
        bool own =
            !strcmp(key, "enum") || !strcmp(key, "const") || !strcmp(key, "type") || !strcmp(key, "nullable");
        if (!own && schema_is_deciding(key)) return schema_refuse(r, "'%.40s' beside 'enum' or 'const'", key);
    }
    return true;
}

int schema_choices(const schema_reader *r, const json_t *text, unsigned types) {
    const json_t *list = json_object_get(text, "enum"), *one = json_object_get(text, "const");
    size_t count = list ? json_array_size(list) : 1, n = 0;
    if (!check_alone(r, text)) return -1;
    if (count == 0 || count > GRAMMAR_MAX_CHOICES)
        return schema_refuse(r, "'enum' must have 1 to %d values", GRAMMAR_MAX_CHOICES), -1;
    grammar_text *texts = calloc(count, sizeof *texts);
    char **made = calloc(count, sizeof *made);
    bool ok = texts && made;
    if (!ok) r->g->no_memory = true;
    for (size_t i = 0; ok && i < count; i++) {
        const json_t *value = list ? json_array_get(list, i) : one;
        if (!fits(value, types) || (list && one && !json_equal(value, one))) continue;
        char *s = made[n] = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        ok = s || schema_refuse(r, "a value that cannot be written");
        if (ok) texts[n] = (grammar_text){s, (uint32_t)strlen(s)}, n++;
    }
    int node = -1;
    if (ok && n == 0) schema_refuse(r, "no value of 'enum' or 'const' is of its 'type'");
    if (ok && n) node = grammar_choice(r->g, texts, n);
    for (size_t i = 0; made && i < n; i++) free(made[i]);
    free(made);
    free(texts);
    return node;
}
