/* string_find.c - looking for a text in a text: find, count, startswith, removeprefix ... */
#define _GNU_SOURCE
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <string.h>

#define SELF (self.string)

/* The last place of `what`, or NULL. Each byte that is compared is paid for. */
static sac_status find_last(sac_tmpl_run *r, const char *text, size_t n, const sac_tmpl_string *what,
                            const char **found) {
    *found = NULL;
    if (what->n_bytes > n) return SAC_OK;
    for (const char *p = text + (n - what->n_bytes);; p--) {
        size_t same = 0;
        while (same < what->n_bytes && p[same] == what->bytes[same]) same++;
        if (same > 32) SAC_TRY(sac_tmpl_charge(r, same));
        if (same == what->n_bytes) *found = p;
        if (*found || p == text) break;
    }
    return sac_tmpl_charge(r, n);
}

sac_status sac_tmpl_find_text(sac_tmpl_run *r, const char *text, size_t n, const sac_tmpl_string *what,
                              bool last, const char **found) {
    if (last) return find_last(r, text, n, what, found);
    *found = memmem(text, n, what->bytes, what->n_bytes);
    return sac_tmpl_charge(r, *found ? (size_t)(*found - text) : n);
}

/* The byte range of s[start:end] in characters, as Python cuts it; *before: characters before it. False: start
 * lies behind the end. */
static sac_status cut(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value start, sac_tmpl_value end,
                      size_t *from, size_t *to, int64_t *before, bool *is_empty) {
    int64_t n = (int64_t)sac_tmpl_count_chars(s->bytes, s->n_bytes), i, j;
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    SAC_TRY(sac_tmpl_optional_int(r, start, 0, true, &i));
    SAC_TRY(sac_tmpl_optional_int(r, end, n, true, &j));
    i = i < 0 ? (i + n < 0 ? 0 : i + n) : i;
    j = j < 0 ? (j + n < 0 ? 0 : j + n) : j > n ? n : j;
    *is_empty = i > j;
    *before = i;
    size_t at = 0;
    for (int64_t c = 0; c <= j && at <= s->n_bytes; c++) {
        if (c == i) *from = at;
        if (c == j) *to = at;
        if (at < s->n_bytes) at += sac_utf8_length(s->bytes[at]);
    }
    return SAC_OK;
}

static sac_status any_find(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_value *a, bool last,
                           int64_t *at) {
    size_t from = 0, to = 0;
    bool is_empty;
    *at = -1;
    SAC_TRY(sac_tmpl_need_string(r, a[0]));
    SAC_TRY(cut(r, s, a[1], a[2], &from, &to, at, &is_empty));
    int64_t before = *at;
    *at = -1;
    if (is_empty) return SAC_OK;
    const char *p;
    SAC_TRY(sac_tmpl_find_text(r, s->bytes + from, to - from, a[0].string, last, &p));
    if (p) *at = before + (int64_t)sac_tmpl_count_chars(s->bytes + from, (size_t)(p - s->bytes) - from);
    return SAC_OK;
}

static sac_status find(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t at;
    SAC_TRY(any_find(r, SELF, a, false, &at));
    *out = sac_tmpl_int(at);
    return SAC_OK;
}
static sac_status rfind(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t at;
    SAC_TRY(any_find(r, SELF, a, true, &at));
    *out = sac_tmpl_int(at);
    return SAC_OK;
}
static sac_status need_found(sac_tmpl_run *r, sac_tmpl_value v) {
    return v.integer < 0 ? sac_tmpl_fail(r, "a text is looked for that is not there") : SAC_OK;
}
static sac_status find_index(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    SAC_TRY(find(r, self, a, out));
    return need_found(r, *out);
}
static sac_status rfind_index(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                              sac_tmpl_value *out) {
    SAC_TRY(rfind(r, self, a, out));
    return need_found(r, *out);
}

static sac_status count(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    size_t from = 0, to = 0;
    int64_t n = 0, before;
    bool is_empty;
    SAC_TRY(sac_tmpl_need_string(r, a[0]));
    SAC_TRY(cut(r, SELF, a[1], a[2], &from, &to, &before, &is_empty));
    if (!is_empty && a[0].string->n_bytes == 0)
        n = (int64_t)sac_tmpl_count_chars(SELF->bytes + from, to - from) + 1;
    for (const char *p; !is_empty && a[0].string->n_bytes &&
                        (p = memmem(SELF->bytes + from, to - from, a[0].string->bytes, a[0].string->n_bytes));
         n++)
        from = (size_t)(p - SELF->bytes) + a[0].string->n_bytes;
    *out = sac_tmpl_int(n);
    return SAC_OK;
}

static bool has_at(const sac_tmpl_string *s, size_t from, size_t to, const sac_tmpl_string *what,
                   bool at_end) {
    if (what->n_bytes > to - from) return false;
    return memcmp(s->bytes + (at_end ? to - what->n_bytes : from), what->bytes, what->n_bytes) == 0;
}

static sac_status any_with(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_value *a, bool at_end,
                           sac_tmpl_value *out) {
    const sac_tmpl_list one = {.items = (sac_tmpl_value *)(uintptr_t)a, .n = 1};
    const sac_tmpl_list *list = a[0].kind == SAC_TMPL_TUPLE ? a[0].list : &one;
    size_t from = 0, to = 0;
    int64_t before;
    bool is_empty, found = false;
    SAC_TRY(cut(r, s, a[1], a[2], &from, &to, &before, &is_empty));
    for (size_t i = 0; i < list->n; i++) {
        SAC_TRY(sac_tmpl_need_string(r, list->items[i]));
        found = found || (!is_empty && has_at(s, from, to, list->items[i].string, at_end));
    }
    *out = sac_tmpl_bool(found);
    return SAC_OK;
}
static sac_status startswith(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    return any_with(r, SELF, a, false, out);
}
static sac_status endswith(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    return any_with(r, SELF, a, true, out);
}

static sac_status removeprefix(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_need_string(r, a[0]));
    bool has = has_at(SELF, 0, SELF->n_bytes, a[0].string, false);
    return sac_tmpl_part_value(r, SELF, has ? a[0].string->n_bytes : 0, SELF->n_bytes, out);
}
static sac_status removesuffix(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_need_string(r, a[0]));
    bool has = has_at(SELF, 0, SELF->n_bytes, a[0].string, true);
    return sac_tmpl_part_value(r, SELF, 0, SELF->n_bytes - (has ? a[0].string->n_bytes : 0), out);
}

static const sac_tmpl_spec methods[] = {
    {"startswith", startswith, 1, {"prefix", "start", "end", "/"}, NULL},
    {"endswith", endswith, 1, {"suffix", "start", "end", "/"}, NULL},
    {"find", find, 1, {"sub", "start", "end", "/"}, NULL},
    {"rfind", rfind, 1, {"sub", "start", "end", "/"}, NULL},
    {"index", find_index, 1, {"sub", "start", "end", "/"}, NULL},
    {"rindex", rfind_index, 1, {"sub", "start", "end", "/"}, NULL},
    {"count", count, 1, {"sub", "start", "end", "/"}, NULL},
    {"removeprefix", removeprefix, 1, {"prefix", "/"}, NULL},
    {"removesuffix", removesuffix, 1, {"suffix", "/"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_string_find_method(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(methods, SAC_COUNT(methods), name, n_bytes);
}
