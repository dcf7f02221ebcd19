/* filters_list.c - filters of lists: their first, last, sum, text. Those that pick items are in filters_select.c, those
 * that order them in filters_sort.c. */
#include "attributes.h"
#include "iterate.h"
#include "names.h"
#include "operators.h"
#include "str.h"

static sac_status list(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    (void)a;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, out));
    for (size_t i = 0; i < items->n; i++) SAC_TRY(sac_tmpl_add(r, *out, items->items[i]));
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
    SAC_TRY(sac_tmpl_check_path(r, a[1], false));
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, &parts));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v;
        SAC_TRY(sac_tmpl_path(r, items->items[i], a[1], (sac_tmpl_value){0}, &v));
        SAC_TRY(sac_tmpl_add(r, parts, v));
    }
    return sac_tmpl_join(r, parts.list, between.string, false, out);
}

static sac_status first(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    static const sac_tmpl_absence none = {.what = "the first of nothing is asked for"};
    sac_tmpl_walk w;
    (void)a;
    SAC_TRY(sac_tmpl_walk_open(r, self, &w));
    SAC_TRY(sac_tmpl_walk_next(r, &w, out));
    if (out->kind == SAC_TMPL_MISSING) *out = sac_tmpl_absent(&none);
    return SAC_OK;
}

static sac_status last(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    static const sac_tmpl_absence none = {.what = "the last of nothing is asked for"};
    const sac_tmpl_list *items;
    (void)a;
    if (self.kind == SAC_TMPL_ITERATOR || self.kind == SAC_TMPL_LOOP)
        return sac_tmpl_fail_use(r, self, "asked for its last item");
    SAC_TRY(sac_tmpl_items(r, self, &items));
    *out = items->n ? items->items[items->n - 1] : sac_tmpl_absent(&none);
    bool is_letter = items->n && self.kind == SAC_TMPL_STRING; /* of markup it is markup, as in Python */
    return is_letter ? sac_tmpl_keep_markup(r, self.string, out) : SAC_OK;
}

static sac_status reverse(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                          sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    sac_tmpl_value back;
    (void)a;
    SAC_TRY(sac_tmpl_items(r, self, &items));
    if (self.kind == SAC_TMPL_STRING) {
        sac_tmpl_writer w = {.run = r};
        for (size_t i = items->n; i > 0; i--) SAC_TRY(sac_tmpl_write(&w, *items->items[i - 1].string));
        SAC_TRY(sac_tmpl_written_value(&w, out));
        return sac_tmpl_keep_markup(r, self.string, out);
    }
    SAC_TRY(sac_tmpl_new_list(r, SAC_TMPL_LIST, items->n, &back));
    for (size_t i = items->n; i > 0; i--) SAC_TRY(sac_tmpl_add(r, back, items->items[i - 1]));
    *out = back; /* what has no end to begin at is a list before it is turned */
    bool is_list = self.kind == SAC_TMPL_ITERATOR || self.kind == SAC_TMPL_LOOP;
    return is_list ? SAC_OK : sac_tmpl_iterator_over(r, back, out);
}

static sac_status sum(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    *out = a[1].kind == SAC_TMPL_MISSING ? sac_tmpl_int(0) : a[1];
    if (out->kind == SAC_TMPL_STRING) return sac_tmpl_fail(r, "'sum' does not add text: use join");
    SAC_TRY(sac_tmpl_check_path(r, a[0], false));
    SAC_TRY(sac_tmpl_items(r, self, &items));
    for (size_t i = 0; i < items->n; i++) {
        sac_tmpl_value v = items->items[i];
        if (a[0].kind != SAC_TMPL_MISSING && a[0].kind != SAC_TMPL_NONE)
            SAC_TRY(sac_tmpl_path(r, v, a[0], (sac_tmpl_value){0}, &v));
        SAC_TRY(sac_tmpl_binary(r, SAC_LEX_ADD, *out, v, out));
    }
    return SAC_OK;
}

static const sac_tmpl_spec filters[] = {
    {"list", list, 0, {0}, NULL},       {"join", join, 0, {"d", "attribute"}, NULL},
    {"first", first, 0, {0}, NULL},     {"last", last, 0, {0}, NULL},
    {"reverse", reverse, 0, {0}, NULL}, {"sum", sum, 0, {"attribute", "start"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_find_list_filter(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(filters, SAC_COUNT(filters), name, n_bytes);
}
