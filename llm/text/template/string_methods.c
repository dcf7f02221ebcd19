/* string_methods.c - the methods of str that templates call; those that split, find and ask for kinds of characters
 * are in string_split.c, string_find.c, string_kind.c. */
#include "format.h"
#include "iterate.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <string.h>

#define SELF (self.string)

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
    SAC_TRY(sac_tmpl_need_string(r, a[0]));
    SAC_TRY(sac_tmpl_need_string(r, a[1]));
    SAC_TRY(sac_tmpl_optional_int(r, a[2], -1, false, &count));
    sac_tmpl_value new_text = a[1];
    if (SELF->is_markup) SAC_TRY(sac_tmpl_escape(r, a[1].string, false, &new_text));
    SAC_TRY(sac_tmpl_replace(r, SELF, a[0].string, new_text.string, count, out));
    return sac_tmpl_keep_markup(r, SELF, out);
}

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
        SAC_TRY(sac_tmpl_need_string(r, a[1]));
        sac_tmpl_value filler = a[1];
        if (s->is_markup) SAC_TRY(sac_tmpl_escape(r, a[1].string, false, &filler));
        fill = *filler.string;
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
    {"replace", replace, 2, {"old", "new", "count", "/"}, NULL},
    {"upper", upper, 0, {0}, NULL},
    {"lower", lower, 0, {0}, NULL},
    {"casefold", casefold, 0, {0}, NULL},
    {"title", title, 0, {0}, NULL},
    {"capitalize", capitalize, 0, {0}, NULL},
    {"swapcase", swapcase, 0, {0}, NULL},
    {"join", join, 1, {"iterable", "/"}, NULL},
    {"expandtabs", expandtabs, 0, {"tabsize"}, NULL},
    {"ljust", ljust, 1, {"width", "fillchar", "/"}, NULL},
    {"rjust", rjust, 1, {"width", "fillchar", "/"}, NULL},
    {"center", center, 1, {"width", "fillchar", "/"}, NULL},
    {"zfill", zfill, 1, {"width", "/"}, NULL},
    {"format", NULL, 0, {0}, format},
    {"format_map", format_map, 1, {"mapping", "/"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_string_method(const char *name, size_t n_bytes) {
    const sac_tmpl_spec *found = sac_tmpl_find_spec(methods, SAC_COUNT(methods), name, n_bytes);
    if (!found) found = sac_tmpl_string_split_method(name, n_bytes);
    if (!found) found = sac_tmpl_string_find_method(name, n_bytes);
    return found ? found : sac_tmpl_string_kind_method(name, n_bytes);
}
