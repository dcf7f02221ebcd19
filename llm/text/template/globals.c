/* globals.c - functions that every template has: range, dict, namespace, joiner, raise_exception, strftime_now. */
#define _DEFAULT_SOURCE
#include "iterate.h"
#include "names.h"

#include <string.h>
#include <time.h>

enum { MAX_RANGE = 100000 }; /* the sandbox's */

static sac_status range(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t b[3] = {0, 0, 1}, n = 0;
    (void)self;
    for (int i = 0; i < 3; i++)
        if (a[i].kind != SAC_TMPL_MISSING && !sac_tmpl_is_int(a[i], &b[i]))
            return sac_tmpl_fail_use(r, a[i], "a bound of a range");
    if (a[1].kind == SAC_TMPL_MISSING) {
        b[1] = b[0];
        b[0] = 0;
    }
    if (b[2] == 0) return sac_tmpl_fail(r, "a range has step 0");
    int64_t *bounds = sac_tmpl_take(&r->pool, sizeof b);
    if (!bounds) return sac_tmpl_full(r);
    memcpy(bounds, b, sizeof b);
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_RANGE, 8), out));
    out->list->range = bounds;
    for (int64_t i = b[0]; b[2] > 0 ? i < b[1] : i > b[1]; n++) {
        SAC_TRY(sac_tmpl_charge(r, 0));
        if (n == MAX_RANGE) return sac_tmpl_fail(r, "a range of more than %d numbers", MAX_RANGE);
        if (!sac_tmpl_list_add(&r->pool, out->list, sac_tmpl_int(i))) return sac_tmpl_full(r);
        if (__builtin_add_overflow(i, b[2], &i)) break;
    }
    return SAC_OK;
}

static sac_status add_pairs(sac_tmpl_run *r, sac_tmpl_dict *d, sac_tmpl_value from) {
    const sac_tmpl_list *pairs;
    if (from.kind == SAC_TMPL_DICT) {
        for (size_t i = 0; i < from.dict->n; i++) {
            SAC_TRY(sac_tmpl_charge(r, d->n * 4));
            if (!sac_tmpl_dict_set(&r->pool, d, from.dict->keys[i], from.dict->values[i]))
                return sac_tmpl_full(r);
        }
        return SAC_OK;
    }
    if (from.kind == SAC_TMPL_UNDEFINED) return sac_tmpl_fail_use(r, from, "made a dict");
    SAC_TRY(sac_tmpl_items(r, from, &pairs));
    for (size_t i = 0; i < pairs->n; i++) {
        const sac_tmpl_list *pair;
        SAC_TRY(sac_tmpl_items(r, pairs->items[i], &pair));
        if (pair->n != 2) return sac_tmpl_fail(r, "a dict is made of pairs");
        SAC_TRY(sac_tmpl_need_key(r, pair->items[0]));
        SAC_TRY(sac_tmpl_charge(r, d->n * 4));
        if (!sac_tmpl_dict_set(&r->pool, d, pair->items[0], pair->items[1])) return sac_tmpl_full(r);
    }
    return SAC_OK;
}

static sac_status dict(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args, sac_tmpl_value *out) {
    (void)self;
    if (args->n > 1) return sac_tmpl_fail(r, "'dict' takes one value and named ones");
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_dict_new(&r->pool, 8), out));
    if (args->n) SAC_TRY(add_pairs(r, out->dict, args->items[0]));
    return args->named ? add_pairs(r, out->dict,
                                   (sac_tmpl_value){.kind = SAC_TMPL_DICT,
                                                    .dict = (sac_tmpl_dict *)(uintptr_t)args->named})
                       : SAC_OK;
}

static sac_status fromkeys(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    sac_tmpl_walk w;
    sac_tmpl_value key, value = a[1].kind == SAC_TMPL_MISSING ? SAC_TMPL_VALUE_NONE : a[1];
    (void)self;
    SAC_TRY(sac_tmpl_walk_open(r, a[0], &w));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_dict_new(&r->pool, 8), out));
    for (;;) {
        SAC_TRY(sac_tmpl_walk_next(r, &w, &key));
        if (key.kind == SAC_TMPL_MISSING) return SAC_OK;
        SAC_TRY(sac_tmpl_need_key(r, key));
        SAC_TRY(sac_tmpl_charge(r, out->dict->n * 4));
        if (!sac_tmpl_dict_set(&r->pool, out->dict, key, value)) return sac_tmpl_full(r);
    }
}

const sac_tmpl_spec *sac_tmpl_dict_class_method(const char *name, size_t n_bytes) {
    static const sac_tmpl_spec spec = {"fromkeys", fromkeys, 1, {"iterable", "value", "/"}, NULL};
    return sac_tmpl_find_spec(&spec, 1, name, n_bytes);
}

const sac_tmpl_spec *sac_tmpl_function_method(const sac_tmpl_function *f, const char *name, size_t n_bytes) {
    bool is_dict = !f->is_macro && strcmp(f->name, "dict") == 0;
    return is_dict ? sac_tmpl_dict_class_method(name, n_bytes) : NULL;
}

static sac_status namespace(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,
                            sac_tmpl_value *out) {
    SAC_TRY(dict(r, self, args, out));
    out->kind = SAC_TMPL_NAMESPACE;
    for (size_t i = 0; i < out->dict->n; i++) {
        sac_tmpl_value key = out->dict->keys[i];
        if (key.kind == SAC_TMPL_STRING && key.string->n_bytes && key.string->bytes[0] == '_')
            return sac_tmpl_fail(r, "a namespace holds no names that begin with _");
    }
    return SAC_OK;
}

/* Nothing at its first call, then its text. */
static int call_joiner(sac_tmpl_run *r, const sac_tmpl_function *f, const sac_tmpl_args *args,
                       sac_tmpl_value *out) {
    sac_tmpl_list *state = f->self.list; /* {text, whether it was called} */
    if (args->n || (args->named && args->named->n)) return sac_tmpl_fail(r, "a joiner takes no arguments");
    bool again = sac_tmpl_truth(state->items[1]);
    state->items[1] = sac_tmpl_bool(true);
    *out = state->items[0];
    return again ? SAC_OK : sac_tmpl_give(r, sac_tmpl_name(&r->pool, ""), out);
}

static sac_status joiner(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    sac_tmpl_value state, text = a[0];
    sac_tmpl_function *f = sac_tmpl_take(&r->pool, sizeof *f);
    (void)self;
    if (!f) return sac_tmpl_full(r);
    if (text.kind == SAC_TMPL_MISSING) SAC_TRY(sac_tmpl_give(r, sac_tmpl_name(&r->pool, ", "), &text));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, 2), &state));
    state.list->items[0] = text;
    state.list->items[1] = sac_tmpl_bool(false);
    *f = (sac_tmpl_function){.name = "joiner", .self = state, .call = call_joiner};
    *out = (sac_tmpl_value){.kind = SAC_TMPL_FUNCTION, .function = f};
    return SAC_OK;
}

static sac_status raise_exception(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                                  sac_tmpl_value *out) {
    sac_tmpl_value text;
    (void)self;
    SAC_TRY(sac_tmpl_str(r, a[0], &text));
    *out = text;
    int n = (int)(text.string->n_bytes > 200 ? 200 : text.string->n_bytes);
    return sac_fail(r->err, SAC_BAD_ARGUMENT, "%.120s line %d refuses this conversation: %.*s", r->name,
                    r->line, n, text.string->bytes);
}

static sac_status strftime_now(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    char format[128], text[512];
    struct tm tm;
    time_t now = r->has_time ? (time_t)r->time : time(NULL);
    (void)self;
    if (a[0].kind != SAC_TMPL_STRING) return sac_tmpl_fail_use(r, a[0], "a format of time");
    if (a[0].string->n_bytes >= sizeof format)
        return sac_tmpl_fail(r, "a format of time of more than 127 bytes");
    memcpy(format, a[0].string->bytes, a[0].string->n_bytes);
    format[a[0].string->n_bytes] = 0;
    if (!localtime_r(&now, &tm)) return sac_tmpl_fail(r, "the clock shows no time");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = *format ? strftime(text, sizeof text, format, &tm) : 0;
#pragma GCC diagnostic pop
    if (*format && n == 0) return sac_tmpl_fail(r, "a time of more than 511 bytes");
    sac_tmpl_writer w = {.run = r};
    SAC_TRY(sac_tmpl_write_bytes(&w, text, n, false));
    return sac_tmpl_written_value(&w, out);
}

static const sac_tmpl_spec globals[] = {
    {"range", range, 1, {"start", "stop", "step", "/"}, NULL},
    {"dict", NULL, 0, {0}, dict},
    {"namespace", NULL, 0, {0}, namespace},
    {"joiner", joiner, 0, {"sep"}, NULL},
    {"raise_exception", raise_exception, 1, {"message"}, NULL},
    {"strftime_now", strftime_now, 1, {"format"}, NULL},
};

bool sac_tmpl_is_global_left_out(const char *name) {
    static const char *const names[] = {"cycler", "lipsum", "self"};
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

const sac_tmpl_spec *sac_tmpl_find_global(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(globals, SAC_COUNT(globals), name, n_bytes);
}
