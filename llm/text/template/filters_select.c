/* filters_select.c - filters that pick items or change each: map, select, reject, unique, items, batch, slice. They
 * give iterators, as they are generators in Jinja: an item is looked at when it is asked for. */
#include "attributes.h"
#include "iterate.h"
#include "names.h"
#include "operators.h"
#include "str.h"

#include <string.h>

/* What an iterator keeps: the arguments of its filter, and where it stands. */
typedef struct picker {
    sac_tmpl_iterator it;
    sac_tmpl_value self;
    sac_tmpl_args args;
    sac_tmpl_walk walk;
    bool is_open;
    bool wanted, by_path;           /* of select and its like */
    sac_tmpl_value seen;            /* of unique: keys that were given out */
    sac_tmpl_value path, otherwise; /* of map(attribute=...); `path` of unique, too */
    bool keep_case;                 /* of unique */
    sac_tmpl_value size, fill;      /* of batch and slice */
    sac_tmpl_value row;             /* of batch */
    size_t at, n_slices;            /* of slice */
    const sac_tmpl_list *items;     /* of slice */
} picker;

static sac_status picker_new(sac_tmpl_run *r, sac_tmpl_value self,
                             int (*next)(sac_tmpl_run *, sac_tmpl_iterator *, sac_tmpl_value *), picker **p,
                             sac_tmpl_value *out) {
    *p = sac_tmpl_take_zeroed(&r->pool, sizeof **p);
    if (!*p) return sac_tmpl_full(r);
    (*p)->it.next = next;
    (*p)->self = self;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_ITERATOR, .iterator = &(*p)->it};
    return SAC_OK;
}

/* The next item of what is filtered. */
static sac_status next_of(sac_tmpl_run *r, picker *p, sac_tmpl_value *item) {
    if (!p->is_open) SAC_TRY(sac_tmpl_walk_open(r, p->self, &p->walk));
    p->is_open = true;
    return sac_tmpl_walk_next(r, &p->walk, item);
}

/* The same; but what is false has no items, whatever it is. */
static sac_status next_of_true(sac_tmpl_run *r, picker *p, sac_tmpl_value *item) {
    *item = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    return p->is_open || sac_tmpl_truth(p->self) ? next_of(r, p, item) : SAC_OK;
}

/* ---- map ---- */

/* What a filter is given is looked at when it begins, unless it has nothing to filter. */
static bool begins(const picker *p) {
    return !p->is_open && sac_tmpl_truth(p->self);
}

static int next_attribute(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    sac_tmpl_value item;
    if (begins(p) && p->args.n) return sac_tmpl_fail(r, "'map' takes attribute and default, or a filter");
    SAC_TRY(next_of_true(r, p, &item));
    *out = item;
    if (item.kind == SAC_TMPL_MISSING) return SAC_OK;
    return sac_tmpl_path(r, item, p->path, p->otherwise, out);
}

static int next_mapped(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    sac_tmpl_value item, name = p->args.n ? p->args.items[0] : (sac_tmpl_value){0};
    if (begins(p) && !p->args.n) return sac_tmpl_fail(r, "'map' needs the name of a filter");
    SAC_TRY(next_of_true(r, p, &item));
    *out = item;
    if (item.kind == SAC_TMPL_MISSING) return SAC_OK;
    if (name.kind != SAC_TMPL_STRING) return sac_tmpl_fail(r, "'map' needs the name of a filter");
    const sac_tmpl_spec *filter = r->find_filter(name.string->bytes, name.string->n_bytes);
    int n = (int)(name.string->n_bytes > 40 ? 40 : name.string->n_bytes);
    if (!filter)
        return sac_tmpl_fail(r,
                             sac_tmpl_is_left_out(name.string->bytes, name.string->n_bytes)
                                 ? "filter '%.*s' cannot be used in a chat template here"
                                 : "no filter '%.*s'",
                             n, name.string->bytes);
    const sac_tmpl_args rest = {.items = p->args.items + 1, .n = p->args.n - 1, .named = p->args.named};
    return sac_tmpl_invoke(r, filter, item, &rest, out);
}

/* map(attribute=..., default=...), unless a filter is named. Anything else that is named is too much. */
static sac_status map(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args, sac_tmpl_value *out) {
    picker *p;
    const sac_tmpl_dict *named = args->named;
    const sac_tmpl_value *path = named && !args->n ? sac_tmpl_dict_find_name(named, "attribute", 9) : NULL;
    SAC_TRY(picker_new(r, self, path ? next_attribute : next_mapped, &p, out));
    p->args = *args;
    if (!path) return SAC_OK;
    const sac_tmpl_value *otherwise = sac_tmpl_dict_find_name(named, "default", 7);
    p->path = *path;
    p->otherwise = otherwise ? *otherwise : (sac_tmpl_value){0};
    p->args.n = named->n - 1 - (otherwise != NULL); /* too many */
    return SAC_OK;
}

/* ---- select, reject, selectattr, rejectattr ---- */

static sac_status is_picked(sac_tmpl_run *r, const picker *p, sac_tmpl_value item, bool *picked) {
    sac_tmpl_args rest = p->args;
    if (p->by_path) {
        SAC_TRY(sac_tmpl_path(r, item, rest.items[0], (sac_tmpl_value){0}, &item));
        rest.items++;
        rest.n--;
    }
    if (rest.n) {
        sac_tmpl_value name = rest.items[0];
        const sac_tmpl_spec *test =
            name.kind == SAC_TMPL_STRING ? r->find_test(name.string->bytes, name.string->n_bytes) : NULL;
        if (!test) return sac_tmpl_fail(r, "no such test in a filter that selects");
        rest.items++;
        rest.n--;
        SAC_TRY(sac_tmpl_invoke(r, test, item, &rest, &item));
    }
    *picked = sac_tmpl_truth(item) == p->wanted;
    return SAC_OK;
}

static int next_picked(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    if (begins(p) && p->by_path && !p->args.n)
        return sac_tmpl_fail(r, "a filter that selects needs the name of an attribute");
    for (bool picked = false; !picked;) {
        SAC_TRY(next_of_true(r, p, out));
        if (out->kind == SAC_TMPL_MISSING) break;
        SAC_TRY(is_picked(r, p, *out, &picked));
    }
    return SAC_OK;
}

#define PICK_FILTER(name, is_wanted, has_path)                                                               \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,                  \
                           sac_tmpl_value *out) {                                                            \
        picker *p;                                                                                           \
        SAC_TRY(picker_new(r, self, next_picked, &p, out));                                                  \
        p->args = *args;                                                                                     \
        p->wanted = is_wanted;                                                                               \
        p->by_path = has_path;                                                                               \
        return SAC_OK;                                                                                       \
    }
PICK_FILTER(select_, true, false)
PICK_FILTER(reject, false, false)
PICK_FILTER(selectattr, true, true)
PICK_FILTER(rejectattr, false, true)

/* ---- unique ---- */

static sac_status is_new(sac_tmpl_run *r, picker *p, sac_tmpl_value item, bool *yes) {
    sac_tmpl_value key;
    SAC_TRY(sac_tmpl_path(r, item, p->path, (sac_tmpl_value){0}, &key));
    if (!p->keep_case && key.kind == SAC_TMPL_STRING)
        SAC_TRY(sac_tmpl_change_case(r, key.string, SAC_TMPL_LOWER, &key));
    SAC_TRY(sac_tmpl_need_key(r, key));
    SAC_TRY(sac_tmpl_charge(r, p->seen.list->n * 16));
    *yes = true;
    for (size_t i = 0; i < p->seen.list->n && *yes; i++)
        *yes = !sac_tmpl_equal(&r->pool, p->seen.list->items[i], key);
    return *yes ? sac_tmpl_add(r, p->seen, key) : SAC_OK;
}

static int next_unique(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    for (bool is_first = false; !is_first;) {
        SAC_TRY(next_of(r, p, out));
        if (out->kind == SAC_TMPL_MISSING) break;
        SAC_TRY(is_new(r, p, *out, &is_first));
    }
    return SAC_OK;
}

static sac_status unique(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    picker *p;
    SAC_TRY(picker_new(r, self, next_unique, &p, out));
    p->keep_case = sac_tmpl_truth(a[0]);
    p->path = a[1];
    return sac_tmpl_new_list(r, SAC_TMPL_LIST, 8, &p->seen);
}

/* ---- items ---- */

static int next_pair(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    sac_tmpl_value key;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    if (p->self.kind == SAC_TMPL_UNDEFINED) return SAC_OK;
    if (p->self.kind != SAC_TMPL_DICT) return sac_tmpl_fail_use(r, p->self, "taken for a dict");
    SAC_TRY(next_of(r, p, &key));
    if (key.kind == SAC_TMPL_MISSING) return SAC_OK;
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_TUPLE, 2, out));
    SAC_TRY(sac_tmpl_add(r, *out, key));
    return sac_tmpl_add(r, *out, p->self.dict->values[p->walk.at - 1]);
}

static sac_status items(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    picker *p;
    (void)a;
    return picker_new(r, self, next_pair, &p, out);
}

/* ---- batch ---- */

static sac_status is_full(sac_tmpl_run *r, const picker *p, bool *yes) {
    *yes = sac_tmpl_equal(&r->pool, p->size, sac_tmpl_int((int64_t)p->row.list->n));
    return sac_tmpl_charge(r, 0);
}

/* The last row is filled up: [fill] * (size - len(row)). */
static sac_status fill_up(sac_tmpl_run *r, const picker *p) {
    sac_tmpl_value n = sac_tmpl_int((int64_t)p->row.list->n);
    bool is_short;
    int64_t size;
    if (p->fill.kind == SAC_TMPL_MISSING || p->fill.kind == SAC_TMPL_NONE) return SAC_OK;
    SAC_TRY(sac_tmpl_compare(r, SAC_LEX_LT, n, p->size, &is_short));
    if (!is_short) return SAC_OK;
    if (!sac_tmpl_is_int(p->size, &size)) return sac_tmpl_fail_use(r, p->size, "the length of a row");
    while ((int64_t)p->row.list->n < size) SAC_TRY(sac_tmpl_add(r, p->row, p->fill));
    return SAC_OK;
}

/* The row that is begun, or MISSING. */
static int next_row(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    sac_tmpl_value item;
    bool full = false;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    if (p->row.kind == SAC_TMPL_MISSING && p->is_open) return SAC_OK; /* the last was given out */
    if (p->row.kind == SAC_TMPL_MISSING) SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, 4, &p->row));
    for (;;) {
        SAC_TRY(next_of(r, p, &item));
        if (item.kind == SAC_TMPL_MISSING) break;
        SAC_TRY(is_full(r, p, &full));
        if (full) {
            *out = p->row;
            SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, 4, &p->row));
        }
        SAC_TRY(sac_tmpl_add(r, p->row, item));
        if (full) return SAC_OK;
    }
    if (p->row.list->n) {
        SAC_TRY(fill_up(r, p));
        *out = p->row;
    }
    p->row = (sac_tmpl_value){0};
    return SAC_OK;
}

static sac_status batch(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    picker *p;
    SAC_TRY(picker_new(r, self, next_row, &p, out));
    p->size = a[0];
    p->fill = a[1];
    return SAC_OK;
}

/* ---- slice ---- */

static int next_slice(sac_tmpl_run *r, sac_tmpl_iterator *it, sac_tmpl_value *out) {
    picker *p = (picker *)it;
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    if (!p->is_open) {
        int64_t n;
        SAC_TRY(sac_tmpl_items(r, p->self, &p->items));
        if (!sac_tmpl_is_int(p->size, &n)) return sac_tmpl_fail_use(r, p->size, "a number of slices");
        if (n == 0) return sac_tmpl_fail(r, "'slice' cannot make 0 slices");
        p->n_slices = n > 0 ? (size_t)n : 0;
        p->is_open = true;
    }
    if (p->at == p->n_slices) return SAC_OK;
    size_t n = p->items->n, each = n / p->n_slices, longer = n % p->n_slices, i = p->at++;
    size_t from = i * each + (i < longer ? i : longer), to = from + each + (i < longer);
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, to - from + 1, out));
    for (; from < to; from++) SAC_TRY(sac_tmpl_add(r, *out, p->items->items[from]));
    bool filled = i >= longer && p->fill.kind != SAC_TMPL_MISSING && p->fill.kind != SAC_TMPL_NONE;
    return filled ? sac_tmpl_add(r, *out, p->fill) : SAC_OK;
}

static sac_status slice(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    picker *p;
    SAC_TRY(picker_new(r, self, next_slice, &p, out));
    p->size = a[0];
    p->fill = a[1];
    return SAC_OK;
}

static const sac_tmpl_spec filters[] = {
    {"map", NULL, 0, {0}, map},
    {"select", NULL, 0, {0}, select_},
    {"reject", NULL, 0, {0}, reject},
    {"selectattr", NULL, 0, {0}, selectattr},
    {"rejectattr", NULL, 0, {0}, rejectattr},
    {"unique", unique, 0, {"case_sensitive", "attribute"}, NULL},
    {"items", items, 0, {0}, NULL},
    {"batch", batch, 1, {"linecount", "fill_with"}, NULL},
    {"slice", slice, 1, {"slices", "fill_with"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_find_select_filter(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(filters, SAC_COUNT(filters), name, n_bytes);
}

bool sac_tmpl_takes_context(const sac_tmpl_spec *filter) {
    sac_tmpl_raw_fn f = filter->raw;
    return f == map || f == select_ || f == reject || f == selectattr || f == rejectattr;
}
