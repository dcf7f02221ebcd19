#include "attributes.h"

#include "frame.h"
#include "iterate.h"
#include "loop.h"
#include "names.h"
#include "number_methods.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const unsafe_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
static const char *const unsafe_list[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};

static bool is_one_of(const char *const *names, size_t n, const char *name, size_t n_bytes) {
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == n_bytes && memcmp(names[i], name, n_bytes) == 0) return true;
    return false;
}

sac_status sac_tmpl_no_such(sac_tmpl_run *r, const char *name, size_t n_bytes, const char *what,
                            bool is_unsafe, sac_tmpl_value *out) {
    sac_tmpl_absence *a = sac_tmpl_take(&r->pool, sizeof *a);
    if (!a) return sac_tmpl_full(r);
    *a = (sac_tmpl_absence){.name = name, .n_bytes = n_bytes, .what = what, .is_unsafe = is_unsafe};
    *out = sac_tmpl_absent(a);
    return SAC_OK;
}

/* ---- methods of dicts and lists ---- */

static sac_status dict_get(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_need_key(r, a[0]));
    SAC_TRY(sac_tmpl_charge(r, self.dict->n * 8));
    const sac_tmpl_value *found = sac_tmpl_dict_find(&r->pool, self.dict, a[0]);
    *out = found ? *found : a[1].kind == SAC_TMPL_MISSING ? SAC_TMPL_VALUE_NONE : a[1];
    return SAC_OK;
}

static sac_status dict_view(sac_tmpl_run *r, const sac_tmpl_dict *d, bool keys, bool values,
                            sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_charge(r, d->n * 32));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_VIEW, d->n), out));
    out->list->type = !values ? "dict_keys" : keys ? "dict_items" : "dict_values";
    for (size_t i = 0; i < d->n; i++) {
        sac_tmpl_value v = keys ? d->keys[i] : d->values[i];
        if (keys && values) {
            SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, 2), &v));
            v.list->items[0] = d->keys[i];
            v.list->items[1] = d->values[i];
            v.list->n = 2;
        }
        out->list->items[out->list->n++] = v;
    }
    return SAC_OK;
}
static sac_status dict_items(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    (void)a;
    return dict_view(r, self.dict, true, true, out);
}
static sac_status dict_keys(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                            sac_tmpl_value *out) {
    (void)a;
    return dict_view(r, self.dict, true, false, out);
}
static sac_status dict_values(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                              sac_tmpl_value *out) {
    (void)a;
    return dict_view(r, self.dict, false, true, out);
}
static sac_status copy(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)r, (void)a; /* nothing can be changed, so a value is its own copy */
    *out = self;
    return SAC_OK;
}

static sac_status list_count(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n; i++) {
        n += sac_tmpl_equal(&r->pool, self.list->items[i], a[0]);
        SAC_TRY(sac_tmpl_charge(r, 0));
    }
    *out = sac_tmpl_int(n);
    return SAC_OK;
}
static sac_status list_index(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    int64_t n = (int64_t)self.list->n, from, to;
    SAC_TRY(sac_tmpl_optional_int(r, a[1], 0, false, &from));
    SAC_TRY(sac_tmpl_optional_int(r, a[2], n, false, &to));
    from = from < -n ? 0 : from < 0 ? from + n : from;
    to = to < 0 ? to + n : to < n ? to : n;
    for (int64_t i = from; i < to; i++) {
        bool found = sac_tmpl_equal(&r->pool, self.list->items[i], a[0]);
        SAC_TRY(sac_tmpl_charge(r, 0));
        *out = sac_tmpl_int(i);
        if (found) return SAC_OK;
    }
    return sac_tmpl_fail(r, "a value is looked for in a list that does not have it");
}

static const sac_tmpl_spec dict_methods[] = {
    {"get", dict_get, 1, {"key", "default", "/"}, NULL},
    {"items", dict_items, 0, {0}, NULL},
    {"keys", dict_keys, 0, {0}, NULL},
    {"values", dict_values, 0, {0}, NULL},
    {"copy", copy, 0, {0}, NULL},
};
static const sac_tmpl_spec list_methods[] = {{"index", list_index, 1, {"value", "start", "stop", "/"}, NULL},
                                             {"count", list_count, 1, {"value", "/"}, NULL},
                                             {"copy", copy, 0, {0}, NULL}};
static const sac_tmpl_spec range_methods[] = {{"index", list_index, 1, {"value", "/"}, NULL},
                                              {"count", list_count, 1, {"value", "/"}, NULL}};

static void range_attribute(const int64_t range[3], const char *name, size_t n_bytes, sac_tmpl_value *out) {
    static const char *const names[] = {"start", "stop", "step"};
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (is_one_of(&names[i], 1, name, n_bytes)) *out = sac_tmpl_int(range[i]);
}

static void group_attribute(const sac_tmpl_list *group, const char *name, size_t n_bytes,
                            sac_tmpl_value *out) {
    static const char *const names[] = {"grouper", "list"};
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (is_one_of(&names[i], 1, name, n_bytes)) *out = group->items[i];
}

/* Attributes that Python has and no chat template needs. */
static bool is_left_out(sac_tmpl_value v, const char *name, size_t n_bytes) {
    static const char *const
        of_text[] = {"encode", "translate", "maketrans", "unescape", "striptags"},
        *const of_number[] = {"to_bytes", "from_bytes", "as_integer_ratio", "hex", "fromhex"},
        *const of_view[] = {"mapping", "isdisjoint"}, *const of_iterator[] = {"close", "send", "throw"},
        *const of_function[] = {"sep", "used"}; /* a joiner's */
    switch (v.kind) {
    case SAC_TMPL_STRING: return is_one_of(of_text, SAC_COUNT(of_text), name, n_bytes);
    case SAC_TMPL_BOOL:
    case SAC_TMPL_INT:
    case SAC_TMPL_FLOAT: return is_one_of(of_number, SAC_COUNT(of_number), name, n_bytes);
    case SAC_TMPL_VIEW: return is_one_of(of_view, SAC_COUNT(of_view), name, n_bytes);
    case SAC_TMPL_ITERATOR: return is_one_of(of_iterator, SAC_COUNT(of_iterator), name, n_bytes);
    case SAC_TMPL_FUNCTION:
        return !v.function->is_macro && is_one_of(of_function, SAC_COUNT(of_function), name, n_bytes);
    default: return false;
    }
}

/* ---- names ---- */

static const sac_tmpl_spec *dict_method(const char *name, size_t n_bytes) {
    const sac_tmpl_spec *own = sac_tmpl_find_spec(dict_methods, SAC_COUNT(dict_methods), name, n_bytes);
    return own ? own : sac_tmpl_dict_class_method(name, n_bytes);
}

/* The table of methods of a value, or none. */
static const sac_tmpl_spec *method_of(sac_tmpl_value v, const char *name, size_t n_bytes) {
    switch (v.kind) {
    case SAC_TMPL_STRING: return sac_tmpl_string_method(name, n_bytes);
    case SAC_TMPL_DICT: return dict_method(name, n_bytes);
    case SAC_TMPL_LIST: return sac_tmpl_find_spec(list_methods, SAC_COUNT(list_methods), name, n_bytes);
    case SAC_TMPL_TUPLE: return sac_tmpl_find_spec(list_methods, SAC_COUNT(list_methods) - 1, name, n_bytes);
    case SAC_TMPL_RANGE: return sac_tmpl_find_spec(range_methods, SAC_COUNT(range_methods), name, n_bytes);
    case SAC_TMPL_BOOL:
    case SAC_TMPL_INT:
    case SAC_TMPL_FLOAT: return sac_tmpl_number_method(v, name, n_bytes);
    case SAC_TMPL_FUNCTION: return sac_tmpl_function_method(v.function, name, n_bytes);
    case SAC_TMPL_LOOP: return sac_tmpl_loop_method(name, n_bytes);
    default: return NULL;
    }
}

/* *out is MISSING when there is none. */
static sac_status own_attribute(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                                sac_tmpl_value *out) {
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    const sac_tmpl_spec *method = method_of(v, name, n_bytes);
    if (method) return sac_tmpl_method(r, method, v, out);
    if (is_left_out(v, name, n_bytes))
        return sac_tmpl_fail(r, "'%.*s' of a %s cannot be used in a chat template here", (int)n_bytes, name,
                             sac_tmpl_type_name(v));
    if (v.kind == SAC_TMPL_TUPLE && v.list->type) group_attribute(v.list, name, n_bytes, out);
    if (v.kind == SAC_TMPL_RANGE) range_attribute(v.list->range, name, n_bytes, out);
    if (v.kind == SAC_TMPL_BOOL || v.kind == SAC_TMPL_INT || v.kind == SAC_TMPL_FLOAT)
        sac_tmpl_number_attribute(v, name, n_bytes, out);
    if (v.kind == SAC_TMPL_LOOP) SAC_TRY(sac_tmpl_loop_attribute(r, v.loop, name, n_bytes, out));
    if (v.kind == SAC_TMPL_NAMESPACE) {
        const sac_tmpl_value *found = sac_tmpl_dict_find_name(v.dict, name, n_bytes);
        if (found) *out = *found;
    }
    if (v.kind == SAC_TMPL_FUNCTION && v.function->is_macro)
        return sac_tmpl_macro_attribute(r, v.function, name, n_bytes, out);
    if ((v.kind == SAC_TMPL_DICT && is_one_of(unsafe_dict, SAC_COUNT(unsafe_dict), name, n_bytes)) ||
        (v.kind == SAC_TMPL_LIST && is_one_of(unsafe_list, SAC_COUNT(unsafe_list), name, n_bytes)))
        return sac_tmpl_no_such(r, name, n_bytes, sac_tmpl_type_name(v), true, out);
    return SAC_OK;
}

static sac_status own_item(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                           sac_tmpl_value *out) {
    if (v.kind != SAC_TMPL_DICT) return SAC_OK;
    SAC_TRY(sac_tmpl_charge(r, v.dict->n * 4));
    const sac_tmpl_value *found = sac_tmpl_dict_find_name(v.dict, name, n_bytes);
    if (found) *out = *found;
    return SAC_OK;
}

/* __class__ and its like: every object of Python has them, and the sandbox keeps all off. */
static bool is_inner(const char *name, size_t n_bytes) {
    return n_bytes > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + n_bytes - 2, "__", 2) == 0;
}

sac_status sac_tmpl_attribute(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                              sac_tmpl_value *out) {
    if (v.kind == SAC_TMPL_UNDEFINED && is_inner(name, n_bytes))
        return sac_tmpl_no_such(r, name, n_bytes, sac_tmpl_type_name(v), true, out);
    if (v.kind == SAC_TMPL_UNDEFINED) return sac_tmpl_fail_use(r, v, "asked for an attribute");
    SAC_TRY(own_attribute(r, v, name, n_bytes, out));
    if (out->kind == SAC_TMPL_MISSING) SAC_TRY(own_item(r, v, name, n_bytes, out));
    if (out->kind != SAC_TMPL_MISSING) return SAC_OK;
    return sac_tmpl_no_such(r, name, n_bytes, sac_tmpl_type_name(v), false, out);
}

sac_status sac_tmpl_only_attribute(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                                   sac_tmpl_value *out) {
    if (v.kind == SAC_TMPL_UNDEFINED) return sac_tmpl_fail_use(r, v, "asked for an attribute");
    SAC_TRY(own_attribute(r, v, name, n_bytes, out));
    if (out->kind != SAC_TMPL_MISSING) return SAC_OK;
    return sac_tmpl_no_such(r, name, n_bytes, sac_tmpl_type_name(v), false, out);
}

/* ---- items ---- */

static sac_status character_at(sac_tmpl_run *r, const sac_tmpl_string *s, int64_t i, sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    int64_t n = (int64_t)sac_tmpl_count_chars(s->bytes, s->n_bytes);
    if (i < 0) i += n;
    if (i < 0 || i >= n) return SAC_OK;
    size_t at = 0;
    for (; i > 0; i--) at += sac_utf8_length(s->bytes[at]);
    return sac_tmpl_part_value(r, s, at, at + sac_utf8_length(s->bytes[at]), out);
}

static sac_status no_item(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value key, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    if (key.kind == SAC_TMPL_STRING) SAC_TRY(sac_tmpl_write(&w, *key.string));
    if (key.kind == SAC_TMPL_INT) SAC_TRY(sac_tmpl_write_repr(&w, key));
    if (w.n == 0) SAC_TRY(sac_tmpl_write_text(&w, "such item"));
    return sac_tmpl_no_such(r, w.bytes, w.n, sac_tmpl_type_name(v), false, out);
}

sac_status sac_tmpl_item(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value key, sac_tmpl_value *out) {
    int64_t i;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    if (v.kind == SAC_TMPL_UNDEFINED) return sac_tmpl_fail_use(r, v, "asked for an item");
    bool is_int = sac_tmpl_is_int(key, &i);
    if (v.kind == SAC_TMPL_DICT) {
        SAC_TRY(sac_tmpl_charge(r, v.dict->n * 4));
        const sac_tmpl_value *found = sac_tmpl_dict_find(&r->pool, v.dict, key);
        if (found) *out = *found;
    } else if (v.kind == SAC_TMPL_STRING && is_int)
        SAC_TRY(character_at(r, v.string, i, out));
    else if ((v.kind == SAC_TMPL_LIST || v.kind == SAC_TMPL_TUPLE || v.kind == SAC_TMPL_RANGE) && is_int) {
        int64_t n = (int64_t)v.list->n;
        if (i < 0) i += n;
        if (i >= 0 && i < n) *out = v.list->items[i];
    }
    if (out->kind == SAC_TMPL_MISSING && key.kind == SAC_TMPL_STRING)
        SAC_TRY(own_attribute(r, v, key.string->bytes, key.string->n_bytes, out));
    return out->kind == SAC_TMPL_MISSING ? no_item(r, v, key, out) : SAC_OK;
}

/* ---- slices ---- */

typedef struct span {
    int64_t from, to, step, n;
} span;

static sac_status bound(sac_tmpl_run *r, sac_tmpl_value v, int64_t otherwise, int64_t *i) {
    *i = otherwise;
    if (v.kind == SAC_TMPL_MISSING || v.kind == SAC_TMPL_NONE) return SAC_OK;
    return sac_tmpl_is_int(v, i) ? SAC_OK : sac_tmpl_fail_use(r, v, "a bound of a slice");
}

/* As CPython cuts bounds to a length. */
static sac_status find_span(sac_tmpl_run *r, const sac_tmpl_value b[3], int64_t n, span *s) {
    int64_t from, to;
    SAC_TRY(bound(r, b[2], 1, &s->step));
    if (s->step == 0) return sac_tmpl_fail(r, "a slice has step 0");
    if (s->step < -INT64_MAX) s->step = -INT64_MAX;
    bool back = s->step < 0;
    SAC_TRY(bound(r, b[0], back ? INT64_MAX : 0, &from));
    SAC_TRY(bound(r, b[1], back ? INT64_MIN : INT64_MAX, &to));
    bool to_given = b[1].kind != SAC_TMPL_MISSING && b[1].kind != SAC_TMPL_NONE;
    if (from < 0) from = from + n < 0 ? (back ? -1 : 0) : from + n;
    if (from >= n) from = back ? n - 1 : n;
    if (to < 0) to = !to_given || to < -n ? (back ? -1 : 0) : to + n;
    if (to >= n) to = back ? n - 1 : n;
    s->from = from;
    s->to = to;
    s->n = back        ? (to < from ? (from - to - 1) / -s->step + 1 : 0)
           : from < to ? (to - from - 1) / s->step + 1
                       : 0;
    return SAC_OK;
}

static sac_status slice_string(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_value b[3],
                               sac_tmpl_value *out) {
    span cut;
    SAC_TRY(find_span(r, b, (int64_t)sac_tmpl_count_chars(s->bytes, s->n_bytes), &cut));
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    if (cut.step == 1) {
        size_t from = 0;
        for (int64_t i = 0; i < cut.from && from < s->n_bytes; i++) from += sac_utf8_length(s->bytes[from]);
        size_t to = from;
        for (int64_t i = 0; i < cut.n; i++) to += sac_utf8_length(s->bytes[to]);
        return sac_tmpl_part_value(r, s, from, to, out);
    }
    const sac_tmpl_list *chars;
    sac_tmpl_writer w = {.run = r};
    SAC_TRY(sac_tmpl_items(r, (sac_tmpl_value){.kind = SAC_TMPL_STRING, .string = s}, &chars));
    for (int64_t i = 0; i < cut.n; i++)
        SAC_TRY(sac_tmpl_write(&w, *chars->items[cut.from + i * cut.step].string));
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, s, out);
}

/* Where a part of a range starts and stops. A step that cannot be told is one that is not taken. */
static sac_status cut_range(sac_tmpl_run *r, const int64_t of[3], const span *cut, sac_tmpl_list *list) {
    int64_t *range = sac_tmpl_take(&r->pool, 3 * sizeof *range);
    if (!range) return sac_tmpl_full(r);
    list->range = range;
    if (__builtin_mul_overflow(cut->from, of[2], &range[0]) ||
        __builtin_add_overflow(range[0], of[0], &range[0]) ||
        __builtin_mul_overflow(cut->to, of[2], &range[1]) ||
        __builtin_add_overflow(range[1], of[0], &range[1]) ||
        __builtin_mul_overflow(cut->step, of[2], &range[2]))
        return sac_tmpl_fail(r, "an integer beyond 64 bits");
    return SAC_OK;
}

sac_status sac_tmpl_slice(sac_tmpl_run *r, sac_tmpl_value v, const sac_tmpl_value b[3], sac_tmpl_value *out) {
    span cut;
    if (v.kind == SAC_TMPL_STRING) return slice_string(r, v.string, b, out);
    if (v.kind != SAC_TMPL_LIST && v.kind != SAC_TMPL_TUPLE && v.kind != SAC_TMPL_RANGE)
        return sac_tmpl_fail_use(r, v, "cut");
    SAC_TRY(find_span(r, b, (int64_t)v.list->n, &cut));
    SAC_TRY(sac_tmpl_charge(r, (size_t)cut.n * 32));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, v.kind, (size_t)cut.n), out));
    for (int64_t i = 0; i < cut.n; i++) out->list->items[i] = v.list->items[cut.from + i * cut.step];
    out->list->n = (size_t)cut.n;
    return v.kind == SAC_TMPL_RANGE ? cut_range(r, v.list->range, &cut, out->list) : SAC_OK;
}
