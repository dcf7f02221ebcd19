#include "value.h"

#include <string.h>

enum { MAX_DEPTH = 500, MAX_JSON_DEPTH = 512, MAX_COMPARISONS = 1 << 24 };

static const sac_tmpl_value missing = {.kind = SAC_TMPL_MISSING};

sac_tmpl_value sac_tmpl_string_value(sac_tmpl_pool *p, sac_tmpl_string s) {
    sac_tmpl_string *to = sac_tmpl_take(p, sizeof *to);
    if (!to) return missing;
    *to = s;
    return (sac_tmpl_value){.kind = SAC_TMPL_STRING, .string = to};
}

sac_tmpl_value sac_tmpl_text(sac_tmpl_pool *p, const char *bytes, size_t n_bytes, bool is_user) {
    return sac_tmpl_string_value(p,
                                 (sac_tmpl_string){.bytes = bytes, .n_bytes = n_bytes, .is_user = is_user});
}

sac_tmpl_value sac_tmpl_name(sac_tmpl_pool *p, const char *text) {
    return sac_tmpl_text(p, text, strlen(text), false);
}

sac_tmpl_value sac_tmpl_list_new(sac_tmpl_pool *p, sac_tmpl_kind kind, size_t capacity) {
    sac_tmpl_list *list = sac_tmpl_take_zeroed(p, sizeof *list);
    if (!list || capacity > p->limit_bytes / sizeof *list->items) return missing;
    list->items = sac_tmpl_take(p, capacity * sizeof *list->items);
    list->capacity = capacity;
    return list->items ? (sac_tmpl_value){.kind = kind, .list = list} : missing;
}

bool sac_tmpl_list_add(sac_tmpl_pool *p, sac_tmpl_list *list, sac_tmpl_value v) {
    if (list->n == list->capacity) {
        size_t more = list->capacity ? 2 * list->capacity : 8;
        sac_tmpl_value *items = sac_tmpl_grow(p, list->items, list->n * sizeof *items, more * sizeof *items);
        if (!items) return false;
        list->items = items;
        list->capacity = more;
    }
    list->items[list->n++] = v;
    return v.kind != SAC_TMPL_MISSING;
}

sac_tmpl_value sac_tmpl_dict_new(sac_tmpl_pool *p, size_t capacity) {
    sac_tmpl_dict *d = sac_tmpl_take_zeroed(p, sizeof *d);
    if (!d || capacity > p->limit_bytes / sizeof *d->keys) return missing;
    d->keys = sac_tmpl_take(p, capacity * sizeof *d->keys);
    d->values = sac_tmpl_take(p, capacity * sizeof *d->values);
    d->capacity = capacity;
    return d->keys && d->values ? (sac_tmpl_value){.kind = SAC_TMPL_DICT, .dict = d} : missing;
}

static bool dict_add(sac_tmpl_pool *p, sac_tmpl_dict *d, sac_tmpl_value key, sac_tmpl_value value) {
    if (d->n == d->capacity) {
        size_t more = d->capacity ? 2 * d->capacity : 8;
        sac_tmpl_value *keys = sac_tmpl_grow(p, d->keys, d->n * sizeof *keys, more * sizeof *keys);
        sac_tmpl_value *values = sac_tmpl_grow(p, d->values, d->n * sizeof *values, more * sizeof *values);
        if (!keys || !values) return false;
        d->keys = keys;
        d->values = values;
        d->capacity = more;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = value;
    return key.kind != SAC_TMPL_MISSING && value.kind != SAC_TMPL_MISSING;
}

bool sac_tmpl_dict_set(sac_tmpl_pool *p, sac_tmpl_dict *d, sac_tmpl_value key, sac_tmpl_value value) {
    sac_tmpl_value *at = sac_tmpl_dict_find(p, d, key);
    if (!at) return dict_add(p, d, key, value);
    *at = value;
    return value.kind != SAC_TMPL_MISSING;
}

bool sac_tmpl_dict_set_name(sac_tmpl_pool *p, sac_tmpl_dict *d, const char *key, sac_tmpl_value value) {
    return sac_tmpl_dict_set(p, d, sac_tmpl_name(p, key), value);
}

static bool equal(sac_tmpl_pool *p, sac_tmpl_value a, sac_tmpl_value b, int depth);

sac_tmpl_value *sac_tmpl_dict_find(sac_tmpl_pool *p, const sac_tmpl_dict *d, sac_tmpl_value key) {
    for (size_t i = 0; i < d->n; i++)
        if (equal(p, d->keys[i], key, 0)) return &d->values[i];
    return NULL;
}

sac_tmpl_value *sac_tmpl_dict_find_name(const sac_tmpl_dict *d, const char *key, size_t n_bytes) {
    for (size_t i = 0; i < d->n; i++) {
        sac_tmpl_value k = d->keys[i];
        if (k.kind == SAC_TMPL_STRING && k.string->n_bytes == n_bytes &&
            memcmp(k.string->bytes, key, n_bytes) == 0)
            return &d->values[i];
    }
    return NULL;
}

bool sac_tmpl_string_is(const sac_tmpl_string *s, const char *text) {
    return strlen(text) == s->n_bytes && memcmp(s->bytes, text, s->n_bytes) == 0;
}

/* ---- equality ---- */

static bool equal_lists(sac_tmpl_pool *p, const sac_tmpl_list *a, const sac_tmpl_list *b, int depth) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!equal(p, a->items[i], b->items[i], depth + 1)) return false;
    return true;
}

static bool equal_dicts(sac_tmpl_pool *p, const sac_tmpl_dict *a, const sac_tmpl_dict *b, int depth) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const sac_tmpl_value *v = sac_tmpl_dict_find(p, b, a->keys[i]);
        if (!v || !equal(p, a->values[i], *v, depth + 1)) return false;
    }
    return true;
}

/* keys() and items() are sets, of which every item is there once; values() are not. */
static bool equal_sets(sac_tmpl_pool *p, const sac_tmpl_list *a, const sac_tmpl_list *b, int depth) {
    bool are_sets = strcmp(a->type, "dict_values") != 0 && strcmp(b->type, "dict_values") != 0;
    if (!are_sets || a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        bool found = false;
        for (size_t j = 0; j < b->n && !found; j++) found = equal(p, a->items[i], b->items[j], depth + 1);
        if (!found) return false;
    }
    return true;
}

static bool is_number(sac_tmpl_value v) {
    return v.kind == SAC_TMPL_BOOL || v.kind == SAC_TMPL_INT || v.kind == SAC_TMPL_FLOAT;
}

static bool equal_numbers(sac_tmpl_value a, sac_tmpl_value b) {
    int64_t i = a.kind == SAC_TMPL_BOOL ? a.truth : a.integer,
            j = b.kind == SAC_TMPL_BOOL ? b.truth : b.integer;
    if (a.kind == SAC_TMPL_FLOAT) return b.kind == SAC_TMPL_FLOAT ? a.real == b.real : equal_numbers(b, a);
    if (b.kind != SAC_TMPL_FLOAT) return i == j;
    return b.real >= -0x1p63 && b.real < 0x1p63 && (double)(int64_t)b.real == b.real && (int64_t)b.real == i;
}

static bool equal_strings(sac_tmpl_pool *p, const sac_tmpl_string *a, const sac_tmpl_string *b) {
    if (a->n_bytes != b->n_bytes) return false;
    p->work += (int64_t)(a->n_bytes / 32);
    return memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}

/* Lists may hold one list many times, so that a few of them are as many values as one likes. */
static bool equal(sac_tmpl_pool *p, sac_tmpl_value a, sac_tmpl_value b, int depth) {
    if (depth > MAX_DEPTH || p->work > MAX_COMPARISONS) {
        p->work = INT64_MAX / 2;
        return false;
    }
    p->work++;
    if (is_number(a) && is_number(b)) return equal_numbers(a, b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case SAC_TMPL_UNDEFINED:
    case SAC_TMPL_NONE: return true;
    case SAC_TMPL_STRING: return equal_strings(p, a.string, b.string);
    case SAC_TMPL_LIST:
    case SAC_TMPL_TUPLE:
    case SAC_TMPL_RANGE: return equal_lists(p, a.list, b.list, depth);
    case SAC_TMPL_DICT: return equal_dicts(p, a.dict, b.dict, depth);
    case SAC_TMPL_FUNCTION: return a.function == b.function;
    case SAC_TMPL_NAMESPACE: return a.dict == b.dict;
    case SAC_TMPL_LOOP: return a.loop == b.loop;
    case SAC_TMPL_VIEW: return a.list == b.list || equal_sets(p, a.list, b.list, depth);
    default: return a.iterator == b.iterator;
    }
}

bool sac_tmpl_equal(sac_tmpl_pool *p, sac_tmpl_value a, sac_tmpl_value b) {
    return equal(p, a, b, 0);
}

/* ---- JSON ---- */

static sac_tmpl_value from_json(sac_tmpl_pool *p, const json_t *json, bool is_user, int depth);

static sac_tmpl_value from_string(sac_tmpl_pool *p, const char *bytes, size_t n, bool is_user) {
    char *copy = sac_tmpl_take(p, n);
    if (!copy) return missing;
    memcpy(copy, bytes, n);
    return sac_tmpl_text(p, copy, n, is_user);
}

static sac_tmpl_value from_array(sac_tmpl_pool *p, const json_t *json, bool is_user, int depth) {
    sac_tmpl_value v = sac_tmpl_list_new(p, SAC_TMPL_LIST, json_array_size(json));
    for (size_t i = 0; v.kind != SAC_TMPL_MISSING && i < json_array_size(json); i++)
        if (!sac_tmpl_list_add(p, v.list, from_json(p, json_array_get(json, i), is_user, depth + 1)))
            return missing;
    return v;
}

static sac_tmpl_value from_object(sac_tmpl_pool *p, const json_t *json, bool is_user, int depth) {
    sac_tmpl_value v = sac_tmpl_dict_new(p, json_object_size(json));
    const char *key;
    json_t *item;
    if (v.kind == SAC_TMPL_MISSING) return v;
    json_object_foreach((json_t *)(uintptr_t)json, key, item) {
        sac_tmpl_value name = from_string(p, key, strlen(key), is_user);
        if (!dict_add(p, v.dict, name, from_json(p, item, is_user, depth + 1))) return missing;
    }
    return v;
}

static sac_tmpl_value from_json(sac_tmpl_pool *p, const json_t *json, bool is_user, int depth) {
    if (depth > MAX_JSON_DEPTH) return missing;
    switch (json_typeof(json)) {
    case JSON_OBJECT: return from_object(p, json, is_user, depth);
    case JSON_ARRAY: return from_array(p, json, is_user, depth);
    case JSON_STRING: return from_string(p, json_string_value(json), json_string_length(json), is_user);
    case JSON_INTEGER: return sac_tmpl_int(json_integer_value(json));
    case JSON_REAL: return sac_tmpl_float(json_real_value(json));
    case JSON_TRUE: return sac_tmpl_bool(true);
    case JSON_FALSE: return sac_tmpl_bool(false);
    default: return SAC_TMPL_VALUE_NONE;
    }
}

sac_tmpl_value sac_tmpl_from_json(sac_tmpl_pool *p, const json_t *json, bool is_user) {
    return from_json(p, json, is_user, 0);
}
