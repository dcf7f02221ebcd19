/* filters_list.c - filters of lists. Those that are generators in Jinja give iterators, which are passed over once. */
#include "attributes.h"
#include "names.h"
#include "operators.h"
#include "str.h"
#include "utf8.h"

#include <string.h>

static sac_status new_list(sac_tmpl_run *r, sac_tmpl_kind kind, size_t capacity, sac_tmpl_value *out) {
    return sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, kind, capacity), out);
}
static sac_status add(sac_tmpl_run *r, sac_tmpl_value list, sac_tmpl_value v) {
    SAC_TRY(sac_tmpl_charge(r, 0));
    return sac_tmpl_list_add(&r->pool, list.list, v) ? SAC_OK : sac_tmpl_full(r);
}

static const sac_tmpl_value *named(const sac_tmpl_args *args, const char *name) {
    return args->named ? sac_tmpl_dict_find_name(args->named, name, strlen(name)) : NULL;
}

static sac_status list(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    (void)a;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(new_list(r, SAC_TMPL_LIST, items->n, out));
    for (size_t i = 0; i < items->n; i++) SAC_TRY(add(r, *out, items->items[i]));
    return SAC_OK;
}

static sac_status join(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    sac_tmpl_value between, parts;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(a[0].kind == SAC_TMPL_MISSING ? sac_tmpl_give(r, sac_tmpl_name(&r->pool, ""), &between)
                                          : sac_tmpl_str(r, a[0], &between));
    if (a[1].kind == SAC_TMPL_MISSING || a[1].kind == SAC_TMPL_NONE)
        return sac_tmpl_join(r, items, between.string, false, out);
    SAC_TRY(new_list(r, SAC_TMPL_LIST, items->n, &parts));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_path(r, items->items[i], a[1], (sac_tmpl_value){0}, &v));
        SAC_TRY(add(r, parts, v));
    }
    return sac_tmpl_join(r, parts.list, between.string, false, out);
}

static sac_status first(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    static const sac_tmpl_absence none = {.what = "the first of nothing is asked for"};
    const sac_tmpl_list *items;
    (void)a;
    *out = sac_tmpl_absent(&none);
    if (self.kind == SAC_TMPL_ITERATOR) { /* the others stay */
        if (self.list->n_passed < self.list->n) *out = self.list->items[self.list->n_passed++];
        return SAC_OK;
    }
    SAC_TRY(sac_tmpl_items(r, self, &items));
    if (items->n) *out = items->items[0];
    return SAC_OK;
}

static sac_status last(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    static const sac_tmpl_absence none = {.what = "the last of nothing is asked for"};
    const sac_tmpl_list *items;
    (void)a;
    if (self.kind == SAC_TMPL_ITERATOR) return sac_tmpl_fail_use(r, self, "asked for its last item");
    SAC_TRY(sac_tmpl_items(r, self, &items));
    *out = items->n ? items->items[items->n - 1] : sac_tmpl_absent(&none);
    return SAC_OK;
}

static sac_status reverse(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                          sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    (void)a;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    if (self.kind == SAC_TMPL_STRING) {
        sac_tmpl_writer w = {.run = r};
        for (size_t i = items->n; i > 0; i--) SAC_TRY(sac_tmpl_write(&w, *items->items[i - 1].string));
        SAC_TRY(sac_tmpl_written_value(&w, out));
        return sac_tmpl_keep_markup(r, self.string, out);
    }
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, items->n, out));
    for (size_t i = items->n; i > 0; i--) SAC_TRY(add(r, *out, items->items[i - 1]));
    return SAC_OK;
}

/* ---- map, select ---- */

static sac_status map_attribute(sac_tmpl_run *r, const sac_tmpl_list *items, const sac_tmpl_args *args,
                                sac_tmpl_value path, sac_tmpl_value *out) {
    const sac_tmpl_value *otherwise = named(args, "default");
    if (args->n || args->named->n > 1 + (otherwise != NULL))
        return sac_tmpl_fail(r, "'map' takes attribute and default, or a filter");
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_path(r, items->items[i], path, otherwise ? *otherwise : (sac_tmpl_value){0}, &v));
        SAC_TRY(add(r, *out, v));
    }
    return SAC_OK;
}

static sac_status map(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    const sac_tmpl_value *path = named(args, "attribute");
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, 8, out));
    if (!sac_tmpl_truth(self)) return SAC_OK;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    if (path && !args->n) return map_attribute(r, items, args, *path, out);
    if (!args->n || args->items[0].kind != SAC_TMPL_STRING)
        return sac_tmpl_fail(r, "'map' needs the name of a filter");
    const sac_tmpl_string *name = args->items[0].string;
    const sac_tmpl_spec *filter = r->find_filter(name->bytes, name->n_bytes);
    if (!filter)
        return sac_tmpl_fail(r, "no filter '%.*s'", (int)(name->n_bytes > 40 ? 40 : name->n_bytes),
                             name->bytes);
    const sac_tmpl_args rest = {.items = args->items + 1, .n = args->n - 1, .named = args->named};
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_descend(r));
        SAC_TRY(sac_tmpl_invoke(r, filter, items->items[i], &rest, &v));
        r->depth--;
        SAC_TRY(add(r, *out, v));
    }
    return SAC_OK;
}

/* wanted: select, otherwise reject. by_path: the first argument says which attribute is looked at. */
static sac_status pick(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args, bool wanted,
                       bool by_path, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    const sac_tmpl_spec *test = NULL;
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, 8, out));
    if (!sac_tmpl_truth(self)) return SAC_OK;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    if (by_path && !args->n) return sac_tmpl_fail(r, "'selectattr' needs the name of an attribute");
    sac_tmpl_args rest = *args;
    if (by_path) rest.items++, rest.n--;
    if (rest.n) {
        sac_tmpl_value name = rest.items[0];
        if (name.kind == SAC_TMPL_STRING) test = r->find_test(name.string->bytes, name.string->n_bytes);
        if (!test) return sac_tmpl_fail(r, "no such test in a filter that selects");
        rest.items++;
        rest.n--;
    }
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v = items->items[i], holds;
        if (by_path) SAC_TRY(sac_tmpl_path(r, v, args->items[0], (sac_tmpl_value){0}, &v));
        if (test) SAC_TRY(sac_tmpl_invoke(r, test, v, &rest, &holds));
        if (sac_tmpl_truth(test ? holds : v) == wanted) SAC_TRY(add(r, *out, items->items[i]));
    }
    return SAC_OK;
}
#define PICK_FILTER(name, wanted, by_path)                                                                   \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,                  \
                           sac_tmpl_value *out) {                                                            \
        return pick(r, self, args, wanted, by_path, out);                                                    \
    }
PICK_FILTER(select_, true, false)
PICK_FILTER(reject, false, false)
PICK_FILTER(selectattr, true, true)
PICK_FILTER(rejectattr, false, true)

/* ---- order ---- */

/* What items are ordered by: an attribute of them, or several with commas between; text without case. */
static sac_status sort_key(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value path, bool keep_case,
                           sac_tmpl_value *out) {
    *out = v;
    if (path.kind == SAC_TMPL_STRING && memchr(path.string->bytes, ',', path.string->n_bytes)) {
        SAC_TRY(new_list(r, SAC_TMPL_LIST, 4, out));
        for (size_t from = 0, to; from <= path.string->n_bytes; from = to + 1) {
            const char *comma = memchr(path.string->bytes + from, ',', path.string->n_bytes - from);
            sac_tmpl_value one, key;
            to = comma ? (size_t)(comma - path.string->bytes) : path.string->n_bytes;
            SAC_TRY(sac_tmpl_part_value(r, path.string, from, to, &one));
            SAC_TRY(sort_key(r, v, one, keep_case, &key));
            SAC_TRY(add(r, *out, key));
        }
        return SAC_OK;
    }
    if (path.kind != SAC_TMPL_MISSING && path.kind != SAC_TMPL_NONE)
        SAC_TRY(sac_tmpl_path(r, v, path, (sac_tmpl_value){0}, out));
    if (keep_case || out->kind != SAC_TMPL_STRING) return SAC_OK;
    return sac_tmpl_change_case(r, out->string, SAC_TMPL_LOWER, out);
}

typedef struct sorter {
    sac_tmpl_run *r;
    const sac_tmpl_value *keys;
    size_t *order, *other;
    bool down;
} sorter;

/* Merges runs of 1, 2, 4 ...: stable, also downwards, as Python's. */
static sac_status merge(sorter *s, size_t from, size_t middle, size_t to) {
    size_t a = from, b = middle;
    for (size_t i = from; i < to; i++) {
        int order = 0;
        if (a < middle && b < to) {
            SAC_TRY(sac_tmpl_charge(s->r, 0));
            SAC_TRY(sac_tmpl_order(s->r, s->keys[s->order[b]], s->keys[s->order[a]], &order));
            if (order == 2) order = 0;
            if (s->down) order = -order;
        }
        s->other[i] = a < middle && (b >= to || order >= 0) ? s->order[a++] : s->order[b++];
    }
    return SAC_OK;
}

static sac_status sort_keys(sac_tmpl_run *r, const sac_tmpl_value *keys, size_t n, bool down,
                            const size_t **order) {
    sorter s = {.r = r, .keys = keys, .down = down};
    s.order = sac_tmpl_take(&r->pool, (n + 1) * sizeof *s.order);
    s.other = sac_tmpl_take(&r->pool, (n + 1) * sizeof *s.other);
    if (!s.order || !s.other) return sac_tmpl_full(r);
    for (size_t i = 0; i < n; i++) s.order[i] = i;
    for (size_t step = 1; step < n; step *= 2) {
        for (size_t from = 0; from < n; from += 2 * step) {
            size_t middle = from + step < n ? from + step : n, to = from + 2 * step < n ? from + 2 * step : n;
            SAC_TRY(merge(&s, from, middle, to));
        }
        size_t *t = s.order;
        s.order = s.other;
        s.other = t;
    }
    *order = s.order;
    return SAC_OK;
}

static sac_status find_keys(sac_tmpl_run *r, const sac_tmpl_list *items, sac_tmpl_value path, bool keep_case,
                            sac_tmpl_value *keys) {
    SAC_TRY(new_list(r, SAC_TMPL_LIST, items->n, keys));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value key;
        SAC_TRY(sort_key(r, items->items[i], path, keep_case, &key));
        SAC_TRY(add(r, *keys, key));
    }
    return SAC_OK;
}

static sac_status sort(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    const size_t *order;
    sac_tmpl_value keys;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(find_keys(r, items, a[2], sac_tmpl_truth(a[1]), &keys));
    SAC_TRY(sort_keys(r, keys.list->items, items->n, sac_tmpl_truth(a[0]), &order));
    SAC_TRY(new_list(r, SAC_TMPL_LIST, items->n, out));
    for (size_t i = 0; i < items->n; i++) SAC_TRY(add(r, *out, items->items[order[i]]));
    return SAC_OK;
}

static sac_status pairs_of(sac_tmpl_run *r, const sac_tmpl_dict *d, const size_t *order,
                           sac_tmpl_value *out) {
    for (size_t i = 0; i < d->n; i++) {
        sac_tmpl_value pair;
        size_t at = order ? order[i] : i;
        SAC_TRY(new_list(r, SAC_TMPL_TUPLE, 2, &pair));
        SAC_TRY(add(r, pair, d->keys[at]));
        SAC_TRY(add(r, pair, d->values[at]));
        SAC_TRY(add(r, *out, pair));
    }
    return SAC_OK;
}

static sac_status dictsort(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    const size_t *order;
    sac_tmpl_value keys;
    if (self.kind != SAC_TMPL_DICT) return sac_tmpl_fail_use(r, self, "sorted as a dict");
    bool by_value = a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "value");
    if (!by_value && a[1].kind != SAC_TMPL_MISSING &&
        !(a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "key")))
        return sac_tmpl_fail(r, "'dictsort' sorts by key or value");
    const sac_tmpl_list items = {.items = by_value ? self.dict->values : self.dict->keys, .n = self.dict->n};
    SAC_TRY(find_keys(r, &items, (sac_tmpl_value){0}, sac_tmpl_truth(a[0]), &keys));
    SAC_TRY(sort_keys(r, keys.list->items, items.n, sac_tmpl_truth(a[2]), &order));
    SAC_TRY(new_list(r, SAC_TMPL_LIST, items.n, out));
    return pairs_of(r, self.dict, order, out);
}

static sac_status items_of(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    if (self.kind != SAC_TMPL_DICT && self.kind != SAC_TMPL_UNDEFINED)
        return sac_tmpl_fail_use(r, self, "taken for a dict");
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, 8, out));
    return self.kind == SAC_TMPL_DICT ? pairs_of(r, self.dict, NULL, out) : SAC_OK;
}

static sac_status extreme(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, int sign,
                          sac_tmpl_value *out) {
    static const sac_tmpl_absence none = {.what = "the largest or smallest of nothing is asked for"};
    const sac_tmpl_list *items;
    sac_tmpl_value keys;
    size_t best = 0;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(find_keys(r, items, a[1], sac_tmpl_truth(a[0]), &keys));
    for (size_t i = 1; i < items->n; i++) {
        int order;
        SAC_TRY(sac_tmpl_order(r, keys.list->items[i], keys.list->items[best], &order));
        if (order != 2 && order * sign > 0) best = i;
    }
    *out = items->n ? items->items[best] : sac_tmpl_absent(&none);
    return SAC_OK;
}
static sac_status max(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return extreme(r, self, a, 1, out);
}
static sac_status min(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return extreme(r, self, a, -1, out);
}

static sac_status unique(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    sac_tmpl_value keys;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(find_keys(r, items, a[1], sac_tmpl_truth(a[0]), &keys));
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, 8, out));
    for (size_t i = 0; i < items->n; i++) {
        bool seen = false;
        SAC_TRY(sac_tmpl_charge(r, i * 16));
        if (keys.list->items[i].kind == SAC_TMPL_LIST || keys.list->items[i].kind == SAC_TMPL_DICT)
            return sac_tmpl_fail_use(r, keys.list->items[i], "looked for among others");
        for (size_t j = 0; j < i && !seen; j++)
            seen = sac_tmpl_equal(&r->pool, keys.list->items[i], keys.list->items[j]);
        if (!seen) SAC_TRY(add(r, *out, items->items[i]));
    }
    return SAC_OK;
}

static sac_status groupby(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                          sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    const size_t *order;
    sac_tmpl_value keys, group, pair, key;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(new_list(r, SAC_TMPL_LIST, items->n, &keys));
    for (size_t i = 0; i < items->n; i++) {
        SAC_TRY(sac_tmpl_path(r, items->items[i], a[0], a[1], &key));
        if (!sac_tmpl_truth(a[2]) && key.kind == SAC_TMPL_STRING)
            SAC_TRY(sac_tmpl_change_case(r, key.string, SAC_TMPL_LOWER, &key));
        SAC_TRY(add(r, keys, key));
    }
    SAC_TRY(sort_keys(r, keys.list->items, items->n, false, &order));
    SAC_TRY(new_list(r, SAC_TMPL_LIST, 8, out));
    for (size_t i = 0; i < items->n; i++) {
        if (i == 0 || !sac_tmpl_equal(&r->pool, keys.list->items[order[i]], keys.list->items[order[i - 1]])) {
            SAC_TRY(new_list(r, SAC_TMPL_TUPLE, 2, &pair));
            SAC_TRY(new_list(r, SAC_TMPL_LIST, 4, &group));
            SAC_TRY(sac_tmpl_path(r, items->items[order[i]], a[0], a[1], &key));
            SAC_TRY(add(r, pair, key));
            SAC_TRY(add(r, pair, group));
            SAC_TRY(add(r, *out, pair));
        }
        SAC_TRY(add(r, group, items->items[order[i]]));
    }
    return SAC_OK;
}

static sac_status sum(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    *out = a[1].kind == SAC_TMPL_MISSING ? sac_tmpl_int(0) : a[1];
    if (out->kind == SAC_TMPL_STRING) return sac_tmpl_fail(r, "'sum' does not add text: use join");
    SAC_TRY(sac_tmpl_items(r, self, &items));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v = items->items[i];
        if (a[0].kind != SAC_TMPL_MISSING && a[0].kind != SAC_TMPL_NONE)
            SAC_TRY(sac_tmpl_path(r, v, a[0], (sac_tmpl_value){0}, &v));
        SAC_TRY(sac_tmpl_binary(r, SAC_LEX_ADD, *out, v, out));
    }
    return SAC_OK;
}

/* ---- parts ---- */

static sac_status batch(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    sac_tmpl_value row = {0};
    int64_t n;
    if (!sac_tmpl_is_int(a[0], &n) || n < 1 || n > 100000)
        return sac_tmpl_fail(r, "'batch' takes a number from 1 to 100000");
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, 8, out));
    for (size_t i = 0; i < items->n; i++) {
        if (i % (size_t)n == 0) {
            SAC_TRY(new_list(r, SAC_TMPL_LIST, 4, &row));
            SAC_TRY(add(r, *out, row));
        }
        SAC_TRY(add(r, row, items->items[i]));
    }
    while (items->n && a[1].kind > SAC_TMPL_NONE && row.list->n < (size_t)n) SAC_TRY(add(r, row, a[1]));
    return SAC_OK;
}

static sac_status slice(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    int64_t n;
    if (!sac_tmpl_is_int(a[0], &n) || n < 1 || n > 100000)
        return sac_tmpl_fail(r, "'slice' takes a number from 1 to 100000");
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(new_list(r, SAC_TMPL_ITERATOR, (size_t)n, out));
    size_t each = items->n / (size_t)n, longer = items->n % (size_t)n, at = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        sac_tmpl_value row;
        size_t m = each + (i < longer);
        SAC_TRY(new_list(r, SAC_TMPL_LIST, m + 1, &row));
        for (size_t j = 0; j < m; j++) SAC_TRY(add(r, row, items->items[at++]));
        if (i >= longer && a[1].kind > SAC_TMPL_NONE) SAC_TRY(add(r, row, a[1]));
        SAC_TRY(add(r, *out, row));
    }
    return SAC_OK;
}

static const sac_tmpl_spec filters[] = {
    {"list", list, 0, {0}, NULL},
    {"join", join, 0, {"d", "attribute"}, NULL},
    {"first", first, 0, {0}, NULL},
    {"last", last, 0, {0}, NULL},
    {"reverse", reverse, 0, {0}, NULL},
    {"map", NULL, 0, {0}, map},
    {"select", NULL, 0, {0}, select_},
    {"reject", NULL, 0, {0}, reject},
    {"selectattr", NULL, 0, {0}, selectattr},
    {"rejectattr", NULL, 0, {0}, rejectattr},
    {"sort", sort, 0, {"reverse", "case_sensitive", "attribute"}, NULL},
    {"dictsort", dictsort, 0, {"case_sensitive", "by", "reverse"}, NULL},
    {"items", items_of, 0, {0}, NULL},
    {"max", max, 0, {"case_sensitive", "attribute"}, NULL},
    {"min", min, 0, {"case_sensitive", "attribute"}, NULL},
    {"unique", unique, 0, {"case_sensitive", "attribute"}, NULL},
    {"groupby", groupby, 1, {"attribute", "default", "case_sensitive"}, NULL},
    {"sum", sum, 0, {"attribute", "start"}, NULL},
    {"batch", batch, 1, {"linecount", "fill_with"}, NULL},
    {"slice", slice, 1, {"slices", "fill_with"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_find_list_filter(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(filters, SAC_COUNT(filters), name, n_bytes);
}
