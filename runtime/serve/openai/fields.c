#include "fields.h"

/* The member, or NULL when it is absent or null. */
static const json_t *member(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

static bool wrong_type(const char *key, const char *wanted, serve_problem *p) {
    return serve_refuse(p, 400, key, NULL, "'%s' must be %s", key, wanted);
}

bool serve_field_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *value,
                     serve_problem *p) {
    const json_t *v = member(object, key);
    if (!v) return true;
    if (!json_is_integer(v)) return wrong_type(key, "an integer", p);
    json_int_t i = json_integer_value(v);
    if (i < min || i > max)
        return serve_refuse(p, 400, key, NULL, "'%s' is %lld: give %lld to %lld", key, (long long)i,
                            (long long)min, (long long)max);
    *value = i;
    return true;
}

bool serve_field_real(const json_t *object, const char *key, double min, double max, double *value,
                      serve_problem *p) {
    const json_t *v = member(object, key);
    if (!v) return true;
    if (!json_is_number(v)) return wrong_type(key, "a number", p);
    double d = json_number_value(v);
    if (!(d >= min && d <= max))
        return serve_refuse(p, 400, key, NULL, "'%s' is %g: give %g to %g", key, d, min, max);
    *value = d;
    return true;
}

bool serve_field_bool(const json_t *object, const char *key, bool *value, serve_problem *p) {
    const json_t *v = member(object, key);
    if (!v) return true;
    if (!json_is_boolean(v)) return wrong_type(key, "true or false", p);
    *value = json_is_true(v);
    return true;
}

bool serve_field_string(const json_t *object, const char *key, const char **value, serve_problem *p) {
    const json_t *v = member(object, key);
    if (!v) return true;
    if (!json_is_string(v)) return wrong_type(key, "a string", p);
    *value = json_string_value(v);
    return true;
}

bool serve_field_object(const json_t *object, const char *key, const json_t **value, serve_problem *p) {
    const json_t *v = member(object, key);
    if (!v) return true;
    if (!json_is_object(v)) return wrong_type(key, "an object", p);
    *value = v;
    return true;
}
