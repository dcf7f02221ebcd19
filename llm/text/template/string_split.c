/* string_split.c - split, splitlines, partition and their twins from the right. */
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <string.h>

#define SELF (self.string)

static sac_status add(sac_tmpl_run *r, sac_tmpl_value list, const sac_tmpl_string *s, size_t from,
                      size_t to) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_charge(r, 0));
    SAC_TRY(sac_tmpl_part_value(r, s, from, to, &v));
    return sac_tmpl_list_add(&r->pool, list.list, v) ? SAC_OK : sac_tmpl_full(r);
}

static sac_status split_spaces(sac_tmpl_run *r, const sac_tmpl_string *s, int64_t most, sac_tmpl_value list) {
    const char *p = s->bytes, *end = p + s->n_bytes;
    for (int64_t n = 0;; n++) {
        p = sac_tmpl_skip_space(p, end);
        if (p >= end) return SAC_OK;
        const char *stop = p;
        if (most >= 0 && n >= most) return add(r, list, s, (size_t)(p - s->bytes), s->n_bytes);
        while (stop < end && !sac_tmpl_is_space(sac_utf8_decode(stop))) stop += sac_utf8_length(*stop);
        SAC_TRY(add(r, list, s, (size_t)(p - s->bytes), (size_t)(stop - s->bytes)));
        p = stop;
    }
}

static void turn(sac_tmpl_list *list) {
    for (size_t i = 0; i < list->n / 2; i++) {
        sac_tmpl_value v = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = v;
    }
}

static sac_status rsplit_spaces(sac_tmpl_run *r, const sac_tmpl_string *s, int64_t most,
                                sac_tmpl_value list) {
    const char *p = s->bytes, *end = p + s->n_bytes;
    for (int64_t n = 0;; n++) {
        end = sac_tmpl_skip_space_back(p, end);
        if (p >= end) break;
        const char *start = end;
        if (most >= 0 && n >= most) start = p;
        while (start > p) {
            const char *last = start - 1;
            while (last > p && sac_utf8_continues(*last)) last--;
            if (sac_tmpl_is_space(sac_utf8_decode(last))) break;
            start = last;
        }
        SAC_TRY(add(r, list, s, (size_t)(start - p), (size_t)(end - p)));
        end = start;
    }
    turn(list.list);
    return SAC_OK;
}

static sac_status split_text(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_string *by,
                             int64_t most, bool backwards, sac_tmpl_value list) {
    size_t from = 0, to = s->n_bytes;
    for (; most != 0; most--) {
        const char *p;
        SAC_TRY(sac_tmpl_find_text(r, s->bytes + from, to - from, by, backwards, &p));
        SAC_TRY(sac_tmpl_charge(r, by->n_bytes));
        if (!p) break;
        size_t at = (size_t)(p - s->bytes);
        SAC_TRY(backwards ? add(r, list, s, at + by->n_bytes, to) : add(r, list, s, from, at));
        if (backwards)
            to = at;
        else
            from = at + by->n_bytes;
    }
    SAC_TRY(add(r, list, s, from, to));
    if (backwards) turn(list.list);
    return SAC_OK;
}

static sac_status any_split(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_value *a,
                            bool backwards, sac_tmpl_value *out) {
    int64_t most;
    SAC_TRY(sac_tmpl_optional_int(r, a[1], -1, false, &most));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, 8), out));
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    if (a[0].kind == SAC_TMPL_MISSING || a[0].kind == SAC_TMPL_NONE)
        return backwards ? rsplit_spaces(r, s, most, *out) : split_spaces(r, s, most, *out);
    SAC_TRY(sac_tmpl_need_string(r, a[0]));
    if (a[0].string->n_bytes == 0) return sac_tmpl_fail(r, "a text cannot be split by an empty one");
    return split_text(r, s, a[0].string, most, backwards, *out);
}

static sac_status split(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return any_split(r, SELF, a, false, out);
}
static sac_status rsplit(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return any_split(r, SELF, a, true, out);
}
static sac_status splitlines(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    return sac_tmpl_split_lines(r, SELF, sac_tmpl_truth(a[0]), out);
}

static sac_status any_partition(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value by, bool last,
                                sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_need_string(r, by));
    if (by.string->n_bytes == 0) return sac_tmpl_fail(r, "a text cannot be split by an empty one");
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, 3), out));
    const char *p;
    SAC_TRY(sac_tmpl_find_text(r, s->bytes, s->n_bytes, by.string, last, &p));
    size_t at = p ? (size_t)(p - s->bytes) : last ? 0 : s->n_bytes, behind = p ? at + by.string->n_bytes : at;
    SAC_TRY(add(r, *out, s, 0, at));
    SAC_TRY(add(r, *out, s, at, behind));
    return add(r, *out, s, behind, s->n_bytes);
}
static sac_status partition(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                            sac_tmpl_value *out) {
    return any_partition(r, SELF, a[0], false, out);
}
static sac_status rpartition(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    return any_partition(r, SELF, a[0], true, out);
}

static const sac_tmpl_spec methods[] = {
    {"split", split, 0, {"sep", "maxsplit"}, NULL},    {"rsplit", rsplit, 0, {"sep", "maxsplit"}, NULL},
    {"splitlines", splitlines, 0, {"keepends"}, NULL}, {"partition", partition, 1, {"sep", "/"}, NULL},
    {"rpartition", rpartition, 1, {"sep", "/"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_string_split_method(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(methods, SAC_COUNT(methods), name, n_bytes);
}
