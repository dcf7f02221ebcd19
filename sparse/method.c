#include "method.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sac_method_whole[] = {NULL};

size_t sac_method_name_bytes(const char *line) {
    return strcspn(line, ":");
}

/* One setting of the line: key and value as spans. */
typedef struct setting {
    const char *key, *value;
    int key_bytes, value_bytes;
} setting;

/* Takes the next setting off *at; false at the end. A setting without '=' has no value. */
static bool next_setting(const char **at, setting *s) {
    if (**at == 0) return false;
    size_t n = strcspn(*at, ","), key = 0;
    while (key < n && (*at)[key] != '=') key++;
    *s = (setting){.key = *at, .key_bytes = (int)key};
    s->value = *at + (key < n ? key + 1 : n);
    s->value_bytes = (int)(key < n ? n - key - 1 : 0);
    *at += n + ((*at)[n] == ',');
    return true;
}

static bool is_name(const char *name, const char *text, int n_bytes) {
    return strlen(name) == (size_t)n_bytes && memcmp(name, text, (size_t)n_bytes) == 0;
}

static void list_names(const sac_method_param *params, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (const sac_method_param *p = params; p->name && used < capacity; p++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", p == params ? "" : ", ", p->name);
}

static void list_choices(const char *const *names, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; names[i] && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", names[i]);
}

static sac_status parse_choice(const char *what, const sac_method_param *p, const setting *s, double *value,
                               sac_error *err) {
    char names[160];
    for (size_t i = 0; p->choices[i]; i++)
        if (is_name(p->choices[i], s->value, s->value_bytes)) {
            *value = (double)i;
            return SAC_OK;
        }
    list_choices(p->choices, names, sizeof names);
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s: %s=%.*s: give one of %s", what, p->name, s->value_bytes,
                    s->value, names);
}

/* Of names; whole numbers have none. */
static bool has_choices(const sac_method_param *p) {
    return p->choices && p->choices != SAC_WHOLE;
}

static sac_status parse_value(const char *what, const sac_method_param *p, const setting *s, double *value,
                              sac_error *err) {
    if (has_choices(p)) return parse_choice(what, p, s, value, err);
    bool is_whole = p->choices == SAC_WHOLE;
    char text[40], *end = text;
    if (s->value_bytes > 0 && (size_t)s->value_bytes < sizeof text) {
        memcpy(text, s->value, (size_t)s->value_bytes);
        text[s->value_bytes] = 0;
        *value = strtod(text, &end);
        if (*end == 0 && isfinite(*value) && *value >= p->min && *value <= p->max &&
            (!is_whole || *value == floor(*value)))
            return SAC_OK;
    }
    if (is_whole)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%s: %s=%.*s: give a whole number from %.0f to %.0f (%s)",
                        what, p->name, s->value_bytes, s->value, p->min, p->max, p->help);
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s: %s=%.*s: give a number from %g to %g (%s)", what, p->name,
                    s->value_bytes, s->value, p->min, p->max, p->help);
}

sac_status sac_method_parse(const char *what, const char *line, const sac_method_param *params,
                            const char *prefix, bool only_prefix, double *values, sac_error *err) {
    const char *at = line + sac_method_name_bytes(line);
    size_t prefix_bytes = prefix ? strlen(prefix) : 0;
    bool given[SAC_METHOD_MAX_PARAMS] = {false};
    for (size_t i = 0; i < SAC_METHOD_MAX_PARAMS; i++) values[i] = 0;
    for (size_t i = 0; params[i].name; i++) values[i] = params[i].value;
    if (*at == ':') at++;
    for (setting s; next_setting(&at, &s);) {
        bool prefixed =
            prefix && (size_t)s.key_bytes > prefix_bytes && memcmp(s.key, prefix, prefix_bytes) == 0;
        if (prefixed != only_prefix) continue;
        if (prefixed) {
            s.key += prefix_bytes;
            s.key_bytes -= (int)prefix_bytes;
        }
        const sac_method_param *p = params;
        while (p->name && !is_name(p->name, s.key, s.key_bytes)) p++;
        if (!p->name) {
            char names[240];
            list_names(params, names, sizeof names);
            return sac_fail(err, SAC_BAD_ARGUMENT, "%s \"%s\" has no setting \"%.*s\"%s%s", what, line,
                            s.key_bytes, s.key, names[0] ? ": there are " : "", names);
        }
        if (given[p - params])
            return sac_fail(err, SAC_BAD_ARGUMENT, "%s \"%s\" gives %s%s twice", what, line,
                            prefixed ? prefix : "", p->name);
        given[p - params] = true;
        SAC_TRY(parse_value(what, p, &s, &values[p - params], err));
    }
    return SAC_OK;
}

void sac_method_print(const char *name, const sac_method_param *params, const double *values, char *text,
                      size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "%s", name);
    for (size_t i = 0; params && params[i].name && used < capacity; i++) {
        char sign = i ? ',' : ':';
        if (has_choices(&params[i]))
            used += (size_t)snprintf(text + used, capacity - used, "%c%s=%s", sign, params[i].name,
                                     params[i].choices[(size_t)values[i]]);
        else
            used +=
                (size_t)snprintf(text + used, capacity - used, "%c%s=%.10g", sign, params[i].name, values[i]);
    }
}
