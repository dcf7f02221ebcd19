/* filters_sort.c - filters that order: sort, dictsort, groupby, min and max. */
#include "attributes.h"
#include "iterate.h"
#include "names.h"
#include "str.h"

#include <string.h>

/* What an item is ordered by: itself or an attribute; text without case. */
static sac_status sort_key(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value path, bool keep_case,
                           sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_path(r, v, path, (sac_tmpl_value){0}, out));
    if (keep_case || out->kind != SAC_TMPL_STRING) return SAC_OK;
    return sac_tmpl_change_case(r, out->string, SAC_TMPL_LOWER, out);
}

/* The key of `sort`: a list of what stands between the commas of its attribute. So items that are equal need no
 * order. */
static sac_status sort_keys_of(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value path, bool keep_case,
                               sac_tmpl_value *out) {
    sac_tmpl_value one = path, key;
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, 1, out));
    if (path.kind != SAC_TMPL_STRING) {
        SAC_TRY(sort_key(r, v, path, keep_case, &key));
        return sac_tmpl_add(r, *out, key);
    }
    for (size_t from = 0, to; from <= path.string->n_bytes; from = to + 1) {
        const char *comma = memchr(path.string->bytes + from, ',', path.string->n_bytes - from);
        to = comma ? (size_t)(comma - path.string->bytes) : path.string->n_bytes;
        SAC_TRY(sac_tmpl_part_value(r, path.string, from, to, &one));
        SAC_TRY(sort_key(r, v, one, keep_case, &key));
        SAC_TRY(sac_tmpl_add(r, *out, key));
    }
    return SAC_OK;
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
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, keys));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value key;
        SAC_TRY(sort_key(r, items->items[i], path, keep_case, &key));
        SAC_TRY(sac_tmpl_add(r, *keys, key));
    }
    return SAC_OK;
}

static sac_status sort(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t down;
    const sac_tmpl_list *items;
    const size_t *order;
    sac_tmpl_value keys;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(sac_tmpl_check_path(r, a[2], true));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, &keys));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value key;
        SAC_TRY(sort_keys_of(r, items->items[i], a[2], sac_tmpl_truth(a[1]), &key));
        SAC_TRY(sac_tmpl_add(r, keys, key));
    }
    SAC_TRY(sac_tmpl_optional_int(r, a[0], 0, false, &down));
    SAC_TRY(sort_keys(r, keys.list->items, items->n, down != 0, &order));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, out));
    for (size_t i = 0; i < items->n; i++) SAC_TRY(sac_tmpl_add(r, *out, items->items[order[i]]));
    return SAC_OK;
}

static sac_status dictsort(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    const size_t *order;
    sac_tmpl_value keys;
    int64_t down;
    if (self.kind != SAC_TMPL_DICT) return sac_tmpl_fail_use(r, self, "sorted as a dict");
    bool by_value = a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "value");
    if (!by_value && a[1].kind != SAC_TMPL_MISSING &&
        !(a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "key")))
        return sac_tmpl_fail(r, "'dictsort' sorts by key or value");
    const sac_tmpl_list items = {.items = by_value ? self.dict->values : self.dict->keys, .n = self.dict->n};
    SAC_TRY(find_keys(r, &items, (sac_tmpl_value){0}, sac_tmpl_truth(a[0]), &keys));
    SAC_TRY(sac_tmpl_optional_int(r, a[2], 0, false, &down));
    SAC_TRY(sort_keys(r, keys.list->items, items.n, down != 0, &order));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items.n, out));
    for (size_t i = 0; i < items.n; i++) {
        sac_tmpl_value pair;
        SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_TUPLE, 2, &pair));
        SAC_TRY(sac_tmpl_add(r, pair, self.dict->keys[order[i]]));
        SAC_TRY(sac_tmpl_add(r, pair, self.dict->values[order[i]]));
        SAC_TRY(sac_tmpl_add(r, *out, pair));
    }
    return SAC_OK;
}

static sac_status groupby(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                          sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    const size_t *order;
    sac_tmpl_value keys, group, pair, key;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(sac_tmpl_check_path(r, a[0], false));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, &keys));
    for (size_t i = 0; i < items->n; i++) {
        SAC_TRY(sac_tmpl_path(r, items->items[i], a[0], a[1], &key));
        if (!sac_tmpl_truth(a[2]) && key.kind == SAC_TMPL_STRING)
            SAC_TRY(sac_tmpl_change_case(r, key.string, SAC_TMPL_LOWER, &key));
        SAC_TRY(sac_tmpl_add(r, keys, key));
    }
    SAC_TRY(sort_keys(r, keys.list->items, items->n, false, &order));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, 8, out));
    for (size_t i = 0; i < items->n; i++) {
        if (i == 0 || !sac_tmpl_equal(&r->pool, keys.list->items[order[i]], keys.list->items[order[i - 1]])) {
            SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_TUPLE, 2, &pair));
            pair.list->type = "group"; /* so that it has the attributes grouper and list */
            SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, 4, &group));
            SAC_TRY(sac_tmpl_path(r, items->items[order[i]], a[0], a[1], &key));
            SAC_TRY(sac_tmpl_add(r, pair, key));
            SAC_TRY(sac_tmpl_add(r, pair, group));
            SAC_TRY(sac_tmpl_add(r, *out, pair));
        }
        SAC_TRY(sac_tmpl_add(r, group, items->items[order[i]]));
    }
    return SAC_OK;
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

static const sac_tmpl_spec filters[] = {
    {"sort", sort, 0, {"reverse", "case_sensitive", "attribute"}, NULL},
    {"dictsort", dictsort, 0, {"case_sensitive", "by", "reverse"}, NULL},
    {"groupby", groupby, 1, {"attribute", "default", "case_sensitive"}, NULL},
    {"max", max, 0, {"case_sensitive", "attribute"}, NULL},
    {"min", min, 0, {"case_sensitive", "attribute"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_find_sort_filter(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(filters, SAC_COUNT(filters), name, n_bytes);
}
