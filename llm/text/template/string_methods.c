/* string_methods.c - the methods of str that templates call. */
#define _GNU_SOURCE
#include "format.h"
#include "iterate.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <string.h>

#define SELF (self.string)

static sac_status need_string(sac_tmpl_run *r, sac_tmpl_value v) {
    return v.kind == SAC_TMPL_STRING ? SAC_OK : sac_tmpl_fail_use(r, v, "taken as text");
}

#define CASE_METHOD(name, how)                                                                               \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,                    \
                           sac_tmpl_value *out) {                                                            \
        (void)a;                                                                                             \
        return sac_tmpl_change_case(r, SELF, how, out);                                                      \
    }
CASE_METHOD(upper, SAC_TMPL_UPPER)
CASE_METHOD(lower, SAC_TMPL_LOWER)
CASE_METHOD(casefold, SAC_TMPL_FOLD)
CASE_METHOD(title, SAC_TMPL_TITLE)
CASE_METHOD(capitalize, SAC_TMPL_CAPITALIZE)
CASE_METHOD(swapcase, SAC_TMPL_SWAP)

static sac_status strip(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return sac_tmpl_strip(r, SELF, a[0], true, true, out);
}
static sac_status lstrip(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return sac_tmpl_strip(r, SELF, a[0], true, false, out);
}
static sac_status rstrip(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return sac_tmpl_strip(r, SELF, a[0], false, true, out);
}

static sac_status replace(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                          sac_tmpl_value *out) {
    int64_t count;
    SAC_TRY(need_string(r, a[0]));
    SAC_TRY(need_string(r, a[1]));
    SAC_TRY(sac_tmpl_optional_int(r, a[2], -1, false, &count));
    sac_tmpl_value new_text = a[1];
    if (SELF->is_markup) SAC_TRY(sac_tmpl_escape(r, a[1].string, false, &new_text));
    SAC_TRY(sac_tmpl_replace(r, SELF, a[0].string, new_text.string, count, out));
    return sac_tmpl_keep_markup(r, SELF, out);
}

/* ---- split ---- */

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

static sac_status find_first_or_last(sac_tmpl_run *r, const char *text, size_t n, const sac_tmpl_string *what,
                                     bool last, const char **found) {
    if (last) return find_last(r, text, n, what, found);
    *found = memmem(text, n, what->bytes, what->n_bytes);
    return sac_tmpl_charge(r, *found ? (size_t)(*found - text) : n);
}

static sac_status split_text(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_string *by,
                             int64_t most, bool backwards, sac_tmpl_value list) {
    size_t from = 0, to = s->n_bytes;
    for (; most != 0; most--) {
        const char *p;
        SAC_TRY(find_first_or_last(r, s->bytes + from, to - from, by, backwards, &p));
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
    SAC_TRY(need_string(r, a[0]));
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
    SAC_TRY(need_string(r, by));
    if (by.string->n_bytes == 0) return sac_tmpl_fail(r, "a text cannot be split by an empty one");
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, 3), out));
    const char *p;
    SAC_TRY(find_first_or_last(r, s->bytes, s->n_bytes, by.string, last, &p));
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

/* ---- looking ---- */

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
    SAC_TRY(need_string(r, a[0]));
    SAC_TRY(cut(r, s, a[1], a[2], &from, &to, at, &is_empty));
    int64_t before = *at;
    *at = -1;
    if (is_empty) return SAC_OK;
    const char *p;
    SAC_TRY(find_first_or_last(r, s->bytes + from, to - from, a[0].string, last, &p));
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
    SAC_TRY(need_string(r, a[0]));
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
        SAC_TRY(need_string(r, list->items[i]));
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
    SAC_TRY(need_string(r, a[0]));
    bool has = has_at(SELF, 0, SELF->n_bytes, a[0].string, false);
    return sac_tmpl_part_value(r, SELF, has ? a[0].string->n_bytes : 0, SELF->n_bytes, out);
}
static sac_status removesuffix(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    SAC_TRY(need_string(r, a[0]));
    bool has = has_at(SELF, 0, SELF->n_bytes, a[0].string, true);
    return sac_tmpl_part_value(r, SELF, 0, SELF->n_bytes - (has ? a[0].string->n_bytes : 0), out);
}

/* ---- kinds of characters: all are so, and there is one ---- */

static sac_status all_are(sac_tmpl_run *r, const sac_tmpl_string *s, bool (*is)(uint32_t c),
                          sac_tmpl_value *out) {
    bool all = s->n_bytes > 0;
    for (size_t i = 0; i < s->n_bytes && all; i += sac_utf8_length(s->bytes[i]))
        all = is(sac_utf8_decode(s->bytes + i));
    *out = sac_tmpl_bool(all);
    return sac_tmpl_charge(r, s->n_bytes);
}
static bool is_alnum(uint32_t c) {
    return sac_tmpl_is_alpha(c) || sac_tmpl_is_numeric(c);
}
static bool is_ascii(uint32_t c) {
    return c < 0x80;
}
#define KIND_METHOD(name, is)                                                                                \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,                    \
                           sac_tmpl_value *out) {                                                            \
        (void)a;                                                                                             \
        return all_are(r, SELF, is, out);                                                                    \
    }
KIND_METHOD(isnumeric_, sac_tmpl_is_numeric)
KIND_METHOD(isdigit_, sac_tmpl_is_digit)
KIND_METHOD(isdecimal_, sac_tmpl_is_decimal)
KIND_METHOD(isalpha_, sac_tmpl_is_alpha)
KIND_METHOD(isalnum_, is_alnum)
KIND_METHOD(isspace_, sac_tmpl_is_space)

static sac_status isprintable_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(all_are(r, SELF, sac_tmpl_is_printable, out));
    out->truth = out->truth || SELF->n_bytes == 0;
    return SAC_OK;
}

static sac_status isidentifier_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                                sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(all_are(r, SELF, sac_tmpl_continues_name, out));
    uint32_t first = SELF->n_bytes ? sac_utf8_decode(SELF->bytes) : 0;
    out->truth = out->truth && (sac_tmpl_begins_name(first));
    return SAC_OK;
}

/* Words begin with a capital, and only they do. */
static sac_status istitle_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    bool any = false, in_word = false, is_title = true;
    (void)a;
    for (size_t i = 0; i < SELF->n_bytes && is_title; i += sac_utf8_length(SELF->bytes[i])) {
        uint32_t c = sac_utf8_decode(SELF->bytes + i);
        bool capital = sac_tmpl_is_upper(c) || sac_tmpl_is_title(c), small = sac_tmpl_is_lower(c);
        is_title = !(capital && in_word) && !(small && !in_word);
        any = any || capital || small;
        in_word = capital || small;
    }
    *out = sac_tmpl_bool(any && is_title);
    return sac_tmpl_charge(r, SELF->n_bytes);
}

static sac_status isascii_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(all_are(r, SELF, is_ascii, out));
    out->truth = out->truth || SELF->n_bytes == 0;
    return SAC_OK;
}

static sac_status cased(sac_tmpl_run *r, const sac_tmpl_string *s, bool upper_wanted, sac_tmpl_value *out) {
    bool any = false, other = false;
    for (size_t i = 0; i < s->n_bytes; i += sac_utf8_length(s->bytes[i])) {
        uint32_t c = sac_utf8_decode(s->bytes + i);
        bool up = sac_tmpl_is_upper(c), low = sac_tmpl_is_lower(c);
        any = any || (upper_wanted ? up : low);
        other = other || sac_tmpl_is_title(c) || (upper_wanted ? low : up);
    }
    *out = sac_tmpl_bool(any && !other);
    return sac_tmpl_charge(r, s->n_bytes);
}
static sac_status isupper_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    return cased(r, SELF, true, out);
}
static sac_status islower_(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    (void)a;
    return cased(r, SELF, false, out);
}

/* ---- the rest ---- */

static sac_status join(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    const sac_tmpl_list *items;
    SAC_TRY(sac_tmpl_items(r, a[0], &items));
    return sac_tmpl_join(r, items, SELF, true, out);
}

static sac_status any_just(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_value *a, int side,
                           sac_tmpl_value *out) {
    int64_t width;
    sac_tmpl_string fill = {.bytes = " ", .n_bytes = 1};
    SAC_TRY(sac_tmpl_optional_int(r, a[0], 0, false, &width));
    if (a[1].kind != SAC_TMPL_MISSING) {
        SAC_TRY(need_string(r, a[1]));
        fill = *a[1].string;
        if (sac_tmpl_count_chars(fill.bytes, fill.n_bytes) != 1)
            return sac_tmpl_fail(r, "text is filled up with one character");
    }
    return sac_tmpl_pad(r, s, width, fill, side, out);
}
static sac_status ljust(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return any_just(r, SELF, a, -1, out);
}
static sac_status rjust(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return any_just(r, SELF, a, 1, out);
}
static sac_status center(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    return any_just(r, SELF, a, 0, out);
}
static sac_status zfill(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t width;
    SAC_TRY(sac_tmpl_optional_int(r, a[0], 0, false, &width));
    bool has_sign = SELF->n_bytes && (SELF->bytes[0] == '-' || SELF->bytes[0] == '+');
    sac_tmpl_string sign = sac_tmpl_part(SELF, 0, has_sign),
                    rest = sac_tmpl_part(SELF, has_sign, SELF->n_bytes);
    sac_tmpl_value digits;
    SAC_TRY(
        sac_tmpl_pad(r, &rest, width - has_sign, (sac_tmpl_string){.bytes = "0", .n_bytes = 1}, 1, &digits));
    sac_tmpl_writer w = {.run = r};
    SAC_TRY(sac_tmpl_write(&w, sign));
    SAC_TRY(sac_tmpl_write(&w, *digits.string));
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, SELF, out);
}

static sac_status expandtabs(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    int64_t every, column = 0;
    SAC_TRY(sac_tmpl_optional_int(r, a[0], 8, false, &every));
    for (size_t i = 0, n; i < SELF->n_bytes; i += n) {
        char c = SELF->bytes[i];
        n = sac_utf8_length(c);
        if (c == '\t') {
            for (int64_t room = every > 0 ? every - column % every : 0; room > 0; room--, column++)
                SAC_TRY(sac_tmpl_write_bytes(&w, " ", 1, sac_tmpl_mark(SELF, i)));
            continue;
        }
        column = c == '\n' || c == '\r' ? 0 : column + 1;
        SAC_TRY(sac_tmpl_write(&w, sac_tmpl_part(SELF, i, i + n)));
    }
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, SELF, out);
}

static sac_status format(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,
                         sac_tmpl_value *out) {
    return sac_tmpl_format_braces(r, SELF, args, out);
}

static sac_status format_map(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                             sac_tmpl_value *out) {
    const sac_tmpl_args args = {.named = a[0].kind == SAC_TMPL_DICT ? a[0].dict : NULL};
    return sac_tmpl_format_braces(r, SELF, &args, out);
}

static const sac_tmpl_spec methods[] = {
    {"strip", strip, 0, {"chars", "/"}, NULL},
    {"lstrip", lstrip, 0, {"chars", "/"}, NULL},
    {"rstrip", rstrip, 0, {"chars", "/"}, NULL},
    {"split", split, 0, {"sep", "maxsplit"}, NULL},
    {"rsplit", rsplit, 0, {"sep", "maxsplit"}, NULL},
    {"splitlines", splitlines, 0, {"keepends"}, NULL},
    {"replace", replace, 2, {"old", "new", "count", "/"}, NULL},
    {"startswith", startswith, 1, {"prefix", "start", "end", "/"}, NULL},
    {"endswith", endswith, 1, {"suffix", "start", "end", "/"}, NULL},
    {"upper", upper, 0, {0}, NULL},
    {"lower", lower, 0, {0}, NULL},
    {"casefold", casefold, 0, {0}, NULL},
    {"title", title, 0, {0}, NULL},
    {"capitalize", capitalize, 0, {0}, NULL},
    {"swapcase", swapcase, 0, {0}, NULL},
    {"join", join, 1, {"iterable", "/"}, NULL},
    {"find", find, 1, {"sub", "start", "end", "/"}, NULL},
    {"rfind", rfind, 1, {"sub", "start", "end", "/"}, NULL},
    {"index", find_index, 1, {"sub", "start", "end", "/"}, NULL},
    {"rindex", rfind_index, 1, {"sub", "start", "end", "/"}, NULL},
    {"count", count, 1, {"sub", "start", "end", "/"}, NULL},
    {"partition", partition, 1, {"sep", "/"}, NULL},
    {"rpartition", rpartition, 1, {"sep", "/"}, NULL},
    {"removeprefix", removeprefix, 1, {"prefix", "/"}, NULL},
    {"removesuffix", removesuffix, 1, {"suffix", "/"}, NULL},
    {"isdigit", isdigit_, 0, {0}, NULL},
    {"isnumeric", isnumeric_, 0, {0}, NULL},
    {"isdecimal", isdecimal_, 0, {0}, NULL},
    {"isalpha", isalpha_, 0, {0}, NULL},
    {"isalnum", isalnum_, 0, {0}, NULL},
    {"isspace", isspace_, 0, {0}, NULL},
    {"isprintable", isprintable_, 0, {0}, NULL},
    {"isidentifier", isidentifier_, 0, {0}, NULL},
    {"istitle", istitle_, 0, {0}, NULL},
    {"expandtabs", expandtabs, 0, {"tabsize"}, NULL},
    {"isascii", isascii_, 0, {0}, NULL},
    {"isupper", isupper_, 0, {0}, NULL},
    {"islower", islower_, 0, {0}, NULL},
    {"ljust", ljust, 1, {"width", "fillchar", "/"}, NULL},
    {"rjust", rjust, 1, {"width", "fillchar", "/"}, NULL},
    {"center", center, 1, {"width", "fillchar", "/"}, NULL},
    {"zfill", zfill, 1, {"width", "/"}, NULL},
    {"format", NULL, 0, {0}, format},
    {"format_map", format_map, 1, {"mapping", "/"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_string_method(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(methods, SAC_COUNT(methods), name, n_bytes);
}
