#include "tmpl_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 1000, BYTES_A_STEP = 32 };

sac_status sac_tmpl_fail(sac_tmpl_run *r, const char *format, ...) {
    char text[260];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sac_fail(r->err, SAC_BAD_FILE,
                    "%.120s line %d: %s; mend the template, or name another with --chat", r->name, r->line,
                    text);
}

sac_status sac_tmpl_full(sac_tmpl_run *r) {
    return sac_tmpl_fail(r, "it needs more than %zu MiB of memory", r->pool.limit_bytes >> 20);
}

sac_status sac_tmpl_fail_use(sac_tmpl_run *r, sac_tmpl_value v, const char *use) {
    if (v.kind != SAC_TMPL_UNDEFINED)
        return sac_tmpl_fail(r, "a value of type %s cannot be %s", sac_tmpl_type_name(v), use);
    const sac_tmpl_absence *a = v.absence;
    if (!a) return sac_tmpl_fail(r, "an undefined value cannot be %s", use);
    int n = (int)(a->n_bytes > 60 ? 60 : a->n_bytes);
    if (a->is_unsafe)
        return sac_tmpl_fail(r, "'%.*s' of a %s would change it, which a chat template may not", n, a->name,
                             a->what);
    if (!a->name) return sac_tmpl_fail(r, "%s", a->what);
    if (!a->what) return sac_tmpl_fail(r, "'%.*s' is undefined", n, a->name);
    return sac_tmpl_fail(r, "a value of type %s has no '%.*s'", a->what, n, a->name);
}

sac_status sac_tmpl_charge(sac_tmpl_run *r, size_t n_bytes) {
    size_t steps = 1 + n_bytes / BYTES_A_STEP + (size_t)r->pool.work;
    r->pool.work = 0;
    if (steps > (size_t)r->steps_left)
        return sac_tmpl_fail(r, "it takes more than %lld steps", (long long)r->steps);
    r->steps_left -= (int64_t)steps;
    return SAC_OK;
}

sac_status sac_tmpl_descend(sac_tmpl_run *r) {
    if (r->depth >= MAX_DEPTH)
        return sac_tmpl_fail(r, "it nests or calls itself more than %d deep", MAX_DEPTH);
    r->depth++;
    return sac_tmpl_charge(r, 0);
}

/* ---- questions ---- */

const char *sac_tmpl_type_name(sac_tmpl_value v) {
    static const char *const names[] = {
        "missing", "Undefined",  "NoneType", "bool",      "int",  "float",     "str",      "list",
        "tuple",   "dict_items", "range",    "generator", "dict", "Namespace", "function", "LoopContext"};
    return v.kind == SAC_TMPL_VIEW ? v.list->type : names[v.kind];
}

bool sac_tmpl_truth(sac_tmpl_value v) {
    switch (v.kind) {
    case SAC_TMPL_MISSING:
    case SAC_TMPL_UNDEFINED:
    case SAC_TMPL_NONE: return false;
    case SAC_TMPL_BOOL: return v.truth;
    case SAC_TMPL_INT: return v.integer != 0;
    case SAC_TMPL_FLOAT: return v.real != 0;
    case SAC_TMPL_STRING: return v.string->n_bytes != 0;
    case SAC_TMPL_LIST:
    case SAC_TMPL_TUPLE:
    case SAC_TMPL_VIEW:
    case SAC_TMPL_RANGE: return v.list->n != 0;
    case SAC_TMPL_DICT: return v.dict->n != 0;
    default: return true;
    }
}

bool sac_tmpl_is_int(sac_tmpl_value v, int64_t *i) {
    *i = v.kind == SAC_TMPL_BOOL ? v.truth : v.kind == SAC_TMPL_INT ? v.integer : 0;
    return v.kind == SAC_TMPL_BOOL || v.kind == SAC_TMPL_INT;
}

bool sac_tmpl_is_number(sac_tmpl_value v, double *f) {
    int64_t i;
    bool is_int = sac_tmpl_is_int(v, &i);
    *f = is_int ? (double)i : v.kind == SAC_TMPL_FLOAT ? v.real : 0;
    return is_int || v.kind == SAC_TMPL_FLOAT;
}

sac_status sac_tmpl_optional_int(sac_tmpl_run *r, sac_tmpl_value v, int64_t otherwise, bool takes_none,
                                 int64_t *i) {
    *i = otherwise;
    if (v.kind == SAC_TMPL_MISSING || (takes_none && v.kind == SAC_TMPL_NONE)) return SAC_OK;
    return sac_tmpl_is_int(v, i) ? SAC_OK : sac_tmpl_fail_use(r, v, "taken as a whole number");
}

sac_tmpl_string sac_tmpl_part(const sac_tmpl_string *s, size_t from, size_t to) {
    sac_tmpl_string part = *s;
    part.bytes += from;
    if (part.marks) part.marks += from;
    part.n_bytes = to - from;
    return part;
}

sac_status sac_tmpl_part_value(sac_tmpl_run *r, const sac_tmpl_string *s, size_t from, size_t to,
                               sac_tmpl_value *out) {
    return sac_tmpl_give(r, sac_tmpl_string_value(&r->pool, sac_tmpl_part(s, from, to)), out);
}

static sac_status order_lists(sac_tmpl_run *r, const sac_tmpl_list *a, const sac_tmpl_list *b, int *order) {
    SAC_TRY(sac_tmpl_descend(r));
    sac_status st = SAC_OK;
    size_t n = a->n < b->n ? a->n : b->n;
    *order = 0;
    for (size_t i = 0; st == SAC_OK && *order == 0 && i < n; i++)
        if (!sac_tmpl_equal(&r->pool, a->items[i], b->items[i]))
            st = sac_tmpl_order(r, a->items[i], b->items[i], order);
    r->depth--;
    if (*order == 0) *order = a->n < b->n ? -1 : a->n > b->n;
    return st;
}

sac_status sac_tmpl_order(sac_tmpl_run *r, sac_tmpl_value a, sac_tmpl_value b, int *order) {
    double f, g;
    int64_t i, j;
    *order = 0;
    if (sac_tmpl_is_int(a, &i) && sac_tmpl_is_int(b, &j)) {
        *order = i < j ? -1 : i > j;
        return SAC_OK;
    }
    if (sac_tmpl_is_number(a, &f) && sac_tmpl_is_number(b, &g)) {
        *order = f < g ? -1 : f > g ? 1 : f == g ? 0 : 2; /* 2: not a number, no order */
        return SAC_OK;
    }
    if (a.kind == SAC_TMPL_STRING && b.kind == SAC_TMPL_STRING) {
        size_t n = a.string->n_bytes < b.string->n_bytes ? a.string->n_bytes : b.string->n_bytes;
        int c = memcmp(a.string->bytes, b.string->bytes, n); /* UTF-8 keeps the order of code points */
        *order = c                                       ? (c < 0 ? -1 : 1)
                 : a.string->n_bytes < b.string->n_bytes ? -1
                                                         : a.string->n_bytes > b.string->n_bytes;
        return sac_tmpl_charge(r, n);
    }
    if (a.kind == b.kind && (a.kind == SAC_TMPL_LIST || a.kind == SAC_TMPL_TUPLE))
        return order_lists(r, a.list, b.list, order);
    if (a.kind == SAC_TMPL_UNDEFINED || b.kind == SAC_TMPL_UNDEFINED)
        return sac_tmpl_fail_use(r, a.kind == SAC_TMPL_UNDEFINED ? a : b, "ordered");
    return sac_tmpl_fail(r, "values of types %s and %s have no order", sac_tmpl_type_name(a),
                         sac_tmpl_type_name(b));
}

sac_status sac_tmpl_need_key(sac_tmpl_run *r, sac_tmpl_value v) {
    bool is_set = v.kind == SAC_TMPL_VIEW && strcmp(v.list->type, "dict_values") != 0;
    if (v.kind == SAC_TMPL_LIST || v.kind == SAC_TMPL_DICT || is_set)
        return sac_tmpl_fail_use(r, v, "a key of a dict");
    if (v.kind != SAC_TMPL_TUPLE) return SAC_OK;
    SAC_TRY(sac_tmpl_descend(r));
    for (size_t i = 0; i < v.list->n; i++) SAC_TRY(sac_tmpl_need_key(r, v.list->items[i]));
    r->depth--;
    return SAC_OK;
}

/* ---- calls ---- */

sac_status sac_tmpl_call_value(sac_tmpl_run *r, sac_tmpl_value f, const sac_tmpl_args *args,
                               sac_tmpl_value *out) {
    if (f.kind == SAC_TMPL_LOOP) f = f.loop->recurse;
    if (f.kind == SAC_TMPL_MISSING)
        return sac_tmpl_fail(r, "the loop is called, but its for is not recursive");
    if (f.kind != SAC_TMPL_FUNCTION) return sac_tmpl_fail_use(r, f, "called");
    SAC_TRY(sac_tmpl_descend(r));
    sac_status st = (sac_status)f.function->call(r, f.function, args, out);
    r->depth--;
    return st;
}

const sac_tmpl_spec *sac_tmpl_find_spec(const sac_tmpl_spec *table, size_t n, const char *name,
                                        size_t n_bytes) {
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == n_bytes && memcmp(table[i].name, name, n_bytes) == 0) return &table[i];
    return NULL;
}

sac_status sac_tmpl_invoke(sac_tmpl_run *r, const sac_tmpl_spec *spec, sac_tmpl_value self,
                           const sac_tmpl_args *args, sac_tmpl_value *out) {
    sac_tmpl_value a[SAC_TMPL_MAX_PARAMETERS] = {0};
    size_t n = 0, n_named = args->named ? args->named->n : 0, used = 0;
    if (spec->raw) return spec->raw(r, self, args, out);
    while (n < SAC_TMPL_MAX_PARAMETERS && spec->parameters[n] && spec->parameters[n][0] != '/') n++;
    if (n_named && n < SAC_TMPL_MAX_PARAMETERS && spec->parameters[n])
        return sac_tmpl_fail(r, "'%s' takes no keyword arguments", spec->name);
    if (args->n > n)
        return sac_tmpl_fail(r, "'%s' takes at most %zu arguments, %zu given", spec->name, n, args->n);
    for (size_t i = 0; i < n; i++) {
        const char *name = spec->parameters[i];
        const sac_tmpl_value *named =
            n_named ? sac_tmpl_dict_find_name(args->named, name, strlen(name)) : NULL;
        if (i < args->n) a[i] = args->items[i];
        if (named && i < args->n)
            return sac_tmpl_fail(r, "'%s' is given its argument '%s' twice", spec->name, name);
        if (named) a[i] = *named;
        used += named != NULL;
        if ((int)i < spec->n_needed && a[i].kind == SAC_TMPL_MISSING)
            return sac_tmpl_fail(r, "'%s' needs its argument '%s'", spec->name, name);
    }
    if (used != n_named)
        return sac_tmpl_fail(r, "'%s' is given a keyword argument that it does not have", spec->name);
    return spec->fn(r, self, a, out);
}

static int call_method(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                       sac_tmpl_value *out) {
    return sac_tmpl_invoke(r, f->data, f->self, args, out);
}

sac_status sac_tmpl_method(sac_tmpl_run *r, const sac_tmpl_spec *spec, sac_tmpl_value self,
                           sac_tmpl_value *out) {
    sac_tmpl_function *f = sac_tmpl_take(&r->pool, sizeof *f);
    if (!f) return sac_tmpl_full(r);
    *f = (sac_tmpl_function){.name = spec->name, .self = self, .data = spec, .call = call_method};
    *out = (sac_tmpl_value){.kind = SAC_TMPL_FUNCTION, .function = f};
    return SAC_OK;
}
