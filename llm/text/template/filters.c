/* filters.c - filters of single values. Those of lists are in filters_list.c, filters_select.c, filters_sort.c. */
#include "attributes.h"
#include "format.h"
#include "iterate.h"
#include "json_text.h"
#include "names.h"
#include "number.h"
#include "operators.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

#define CASE_FILTER(name, how)                                                                               \
    static sac_status name(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,                    \
                           sac_tmpl_value *out) {                                                            \
        sac_tmpl_value s;                                                                                    \
        (void)a;                                                                                             \
        SAC_TRY(sac_tmpl_str(r, self, &s));                                                                  \
        return sac_tmpl_change_case(r, s.string, how, out);                                                  \
    }
CASE_FILTER(upper, SAC_TMPL_UPPER)
CASE_FILTER(lower, SAC_TMPL_LOWER)
CASE_FILTER(capitalize, SAC_TMPL_CAPITALIZE)

static bool breaks_word(const char *p) {
    return sac_tmpl_is_space(sac_utf8_decode(p)) || (*p && strchr("-({[<", *p));
}

/* Jinja's own title: a word begins behind white space, - ( { [ <, not at every letter after a non-letter. */
static sac_status title(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    sac_tmpl_value s, part;
    sac_tmpl_writer w = {.run = r};
    (void)a;
    SAC_TRY(sac_tmpl_str(r, self, &s));
    const char *text = s.string->bytes, *end = text + s.string->n_bytes;
    for (const char *p = text; p < end;) {
        const char *from = p;
        bool breaks = breaks_word(p);
        do p += sac_utf8_length(*p);
        while (p < end && breaks_word(p) == breaks);
        sac_tmpl_string word = sac_tmpl_part(s.string, (size_t)(from - text), (size_t)(p - text));
        if (breaks) {
            SAC_TRY(sac_tmpl_write(&w, word));
            continue;
        }
        size_t n = sac_utf8_length(*from);
        sac_tmpl_string first = sac_tmpl_part(&word, 0, n), rest = sac_tmpl_part(&word, n, word.n_bytes);
        SAC_TRY(sac_tmpl_change_case(r, &first, SAC_TMPL_UPPER, &part));
        SAC_TRY(sac_tmpl_write(&w, *part.string));
        SAC_TRY(sac_tmpl_change_case(r, &rest, SAC_TMPL_LOWER, &part));
        SAC_TRY(sac_tmpl_write(&w, *part.string));
    }
    return sac_tmpl_written_value(&w, out);
}

static sac_status trim(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    sac_tmpl_value s;
    SAC_TRY(sac_tmpl_str(r, self, &s));
    return sac_tmpl_strip(r, s.string, a[0], true, true, out);
}

static sac_status string(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    return sac_tmpl_str(r, self, out);
}

static sac_status replace(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                          sac_tmpl_value *out) {
    sac_tmpl_value s, old, new_text;
    int64_t count;
    SAC_TRY(sac_tmpl_str(r, self, &s));
    SAC_TRY(sac_tmpl_str(r, a[0], &old));
    SAC_TRY(sac_tmpl_str(r, a[1], &new_text));
    SAC_TRY(sac_tmpl_optional_int(r, a[2], -1, true, &count));
    return sac_tmpl_replace(r, s.string, old.string, new_text.string, count, out);
}

static sac_status escape(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    sac_tmpl_value s;
    (void)a;
    SAC_TRY(sac_tmpl_str(r, self, &s));
    return sac_tmpl_escape(r, s.string, false, out);
}
static sac_status escape_again(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    sac_tmpl_value s;
    (void)a;
    SAC_TRY(sac_tmpl_str(r, self, &s));
    return sac_tmpl_escape(r, s.string, true, out);
}
static sac_status safe(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    (void)a;
    SAC_TRY(sac_tmpl_str(r, self, out));
    return sac_tmpl_keep_markup(r, &(sac_tmpl_string){.is_markup = true}, out);
}

/* The indent itself: so many spaces, or a text. */
static sac_status indent_text(sac_tmpl_run *r, sac_tmpl_value width, sac_tmpl_string *text) {
    int64_t n;
    if (width.kind == SAC_TMPL_STRING) {
        *text = *width.string;
        return SAC_OK;
    }
    SAC_TRY(sac_tmpl_optional_int(r, width, 4, false, &n));
    sac_tmpl_writer w = {.run = r};
    for (int64_t i = 0; i < n; i++) SAC_TRY(sac_tmpl_write_text(&w, " "));
    *text = sac_tmpl_written(&w);
    return SAC_OK;
}

static sac_status indent(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    bool first = sac_tmpl_truth(a[1]), blank = sac_tmpl_truth(a[2]);
    sac_tmpl_string by;
    sac_tmpl_value lines;
    sac_tmpl_writer with_end = {.run = r}, w = {.run = r};
    if (self.kind != SAC_TMPL_STRING) return sac_tmpl_fail_use(r, self, "indented");
    SAC_TRY(indent_text(r, a[0], &by));
    SAC_TRY(sac_tmpl_write(&with_end, *self.string));
    SAC_TRY(sac_tmpl_write_text(&with_end, "\n"));
    sac_tmpl_string s = sac_tmpl_written(&with_end);
    SAC_TRY(sac_tmpl_split_lines(r, &s, false, &lines));
    for (size_t i = 0; i < lines.list->n; i++) {
        const sac_tmpl_string *line = lines.list->items[i].string;
        if (i) SAC_TRY(sac_tmpl_write_text(&w, "\n"));
        if (i ? blank || line->n_bytes : first) SAC_TRY(sac_tmpl_write(&w, by));
        SAC_TRY(sac_tmpl_write(&w, *line));
    }
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, self.string, out);
}

static sac_status center(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    sac_tmpl_value s;
    int64_t width;
    SAC_TRY(sac_tmpl_str(r, self, &s));
    SAC_TRY(sac_tmpl_optional_int(r, a[0], 80, false, &width));
    return sac_tmpl_pad(r, s.string, width, (sac_tmpl_string){.bytes = " ", .n_bytes = 1}, 0, out);
}

static sac_status length(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t n;
    (void)a;
    SAC_TRY(sac_tmpl_length(r, self, &n));
    *out = sac_tmpl_int(n);
    return SAC_OK;
}

static sac_status format(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,
                         sac_tmpl_value *out) {
    sac_tmpl_value s, values;
    bool named = args->named && args->named->n;
    if (named && args->n) return sac_tmpl_fail(r, "'format' takes either values or named values");
    SAC_TRY(sac_tmpl_str(r, self, &s));
    if (named)
        values = (sac_tmpl_value){.kind = SAC_TMPL_DICT, .dict = (sac_tmpl_dict *)(uintptr_t)args->named};
    else {
        SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, args->n), &values));
        for (size_t i = 0; i < args->n; i++) values.list->items[values.list->n++] = args->items[i];
    }
    return sac_tmpl_format_percent(r, s.string, values, out);
}

/* ---- numbers ---- */

static sac_status float_to_int(sac_tmpl_run *r, double f, sac_tmpl_value otherwise, sac_tmpl_value *out) {
    *out = otherwise;
    if (isnan(f) || isinf(f)) return SAC_OK;
    if (fabs(f) >= 0x1p63) return sac_tmpl_fail(r, "an integer beyond 64 bits");
    *out = sac_tmpl_int((int64_t)f);
    return SAC_OK;
}

static sac_status to_int(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a, sac_tmpl_value *out) {
    int64_t i, base = 10;
    double f;
    *out = a[0].kind == SAC_TMPL_MISSING ? sac_tmpl_int(0) : a[0];
    if (a[1].kind != SAC_TMPL_MISSING && !sac_tmpl_is_int(a[1], &base)) base = -1; /* none that text has */
    if (self.kind == SAC_TMPL_UNDEFINED) return sac_tmpl_fail_use(r, self, "made a number");
    if (self.kind == SAC_TMPL_STRING) {
        bool ok = (base == 0 || (base >= 2 && base <= 36)) &&
                  sac_tmpl_parse_int(self.string->bytes, self.string->n_bytes, (int)base, &i);
        if (!ok && sac_tmpl_parse_float(self.string->bytes, self.string->n_bytes, &f))
            return float_to_int(r, f, *out, out);
        if (ok) *out = sac_tmpl_int(i);
    } else if (self.kind == SAC_TMPL_FLOAT && isinf(self.real))
        return sac_tmpl_fail(r, "infinity as an integer"); /* as in Jinja; 'inf' as text is the default */
    else if (self.kind == SAC_TMPL_FLOAT)
        return float_to_int(r, self.real, *out, out);
    else if (sac_tmpl_is_int(self, &i))
        *out = sac_tmpl_int(i);
    return SAC_OK;
}

static sac_status to_float(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    double f;
    *out = a[0].kind == SAC_TMPL_MISSING ? sac_tmpl_float(0) : a[0];
    if (self.kind == SAC_TMPL_UNDEFINED) return sac_tmpl_fail_use(r, self, "made a number");
    if (self.kind == SAC_TMPL_STRING ? sac_tmpl_parse_float(self.string->bytes, self.string->n_bytes, &f)
                                     : sac_tmpl_is_number(self, &f))
        *out = sac_tmpl_float(f);
    return SAC_OK;
}

static sac_status absolute(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    int64_t i;
    (void)a;
    *out = self;
    if (self.kind == SAC_TMPL_FLOAT) {
        out->real = fabs(self.real);
        return SAC_OK;
    }
    if (!sac_tmpl_is_int(self, &i)) return sac_tmpl_fail_use(r, self, "made absolute");
    return i < 0 ? sac_tmpl_negate(r, self, false, out) : sac_tmpl_negate(r, self, true, out);
}

/* To so many digits behind the point, or below 0 before it; halves to the even one, as the exact value has it. */
static double round_real(double f, int digits) {
    char text[700];
    if (digits >= 0)
        snprintf(text, sizeof text, "%.*f", digits, f);
    else {
        snprintf(text, sizeof text, "%.20e", f);              /* enough digits to keep the exponent */
        int shown = atoi(strchr(text, 'e') + 1) + 1 + digits; /* digits that stay */
        if (shown < 0) return copysign(0, f);
        if (shown == 0) return copysign(fabs(f) > 5 * pow(10, -digits - 1) ? pow(10, -digits) : 0, f);
        snprintf(text, sizeof text, "%.*e", shown - 1, f);
    }
    return strtod(text, NULL);
}

static sac_status round_int(sac_tmpl_run *r, int64_t i, int64_t digits, sac_tmpl_value *out) {
    int64_t unit = 1;
    for (; digits < 0 && unit; digits++)
        if (__builtin_mul_overflow(unit, 10, &unit)) unit = 0;
    *out = sac_tmpl_int(unit ? i : 0);
    if (unit <= 1) return SAC_OK;
    int64_t rest = i % unit, down = i - rest;
    if (rest < 0) {
        rest += unit;
        if (__builtin_sub_overflow(down, unit, &down)) return sac_tmpl_fail(r, "an integer beyond 64 bits");
    }
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    if (up && __builtin_add_overflow(down, unit, &down)) return sac_tmpl_fail(r, "an integer beyond 64 bits");
    *out = sac_tmpl_int(down);
    return SAC_OK;
}

static sac_status round_number(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                               sac_tmpl_value *out) {
    int64_t digits, i;
    double f;
    SAC_TRY(sac_tmpl_optional_int(r, a[0], 0, true, &digits));
    bool ceil_wanted = a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "ceil");
    bool floor_wanted = a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "floor");
    bool common = a[1].kind == SAC_TMPL_MISSING ||
                  (a[1].kind == SAC_TMPL_STRING && sac_tmpl_string_is(a[1].string, "common"));
    if (!sac_tmpl_is_number(self, &f)) return sac_tmpl_fail_use(r, self, "rounded");
    if (!ceil_wanted && !floor_wanted && !common)
        return sac_tmpl_fail(r, "'round' takes the methods common, ceil and floor");
    if (a[0].kind == SAC_TMPL_NONE) {
        if (!common) return sac_tmpl_fail_use(r, a[0], "a number of digits");
        if (!isfinite(f)) return sac_tmpl_fail(r, "a float that is no number as an integer");
        if (!sac_tmpl_is_int(self, &i)) return float_to_int(r, nearbyint(f), SAC_TMPL_VALUE_NONE, out);
    }
    const bool is_power = digits <= 308; /* 10 to that is a float */
    double scale = pow(10, (double)(digits < -400 ? -400 : digits));
    digits = digits > 300 ? 300 : digits < -400 ? -400 : digits;
    if (common && sac_tmpl_is_int(self, &i)) return round_int(r, i, digits, out);
    if (common) {
        *out = sac_tmpl_float(isfinite(f) ? round_real(f, (int)digits) : f);
        return SAC_OK;
    }
    f = ceil_wanted ? ceil(f * scale) : floor(f * scale);
    if (!is_power || !isfinite(f)) return sac_tmpl_fail(r, "a float that is no number as an integer");
    if (scale == 0) return sac_tmpl_fail(r, "division by zero");
    *out = sac_tmpl_float((f == 0 ? 0 : f) / scale); /* math.ceil gives an int, which has no -0 */
    return SAC_OK;
}

/* ---- the rest ---- */

static sac_status otherwise(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                            sac_tmpl_value *out) {
    bool use = self.kind == SAC_TMPL_UNDEFINED || (sac_tmpl_truth(a[1]) && !sac_tmpl_truth(self));
    *out = !use ? self : a[0];
    return use && a[0].kind == SAC_TMPL_MISSING ? sac_tmpl_give(r, sac_tmpl_name(&r->pool, ""), out) : SAC_OK;
}

static sac_status attribute(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                            sac_tmpl_value *out) {
    if (a[0].kind != SAC_TMPL_STRING) return sac_tmpl_fail_use(r, a[0], "the name of an attribute");
    return sac_tmpl_only_attribute(r, self, a[0].string->bytes, a[0].string->n_bytes, out);
}

static const sac_tmpl_spec filters[] = {
    {"trim", trim, 0, {"chars"}, NULL},
    {"tojson", sac_tmpl_tojson, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}, NULL},
    {"default", otherwise, 0, {"default_value", "boolean"}, NULL},
    {"d", otherwise, 0, {"default_value", "boolean"}, NULL},
    {"length", length, 0, {0}, NULL},
    {"count", length, 0, {0}, NULL},
    {"string", string, 0, {0}, NULL},
    {"safe", safe, 0, {0}, NULL},
    {"upper", upper, 0, {0}, NULL},
    {"lower", lower, 0, {0}, NULL},
    {"title", title, 0, {0}, NULL},
    {"capitalize", capitalize, 0, {0}, NULL},
    {"replace", replace, 2, {"old", "new", "count"}, NULL},
    {"indent", indent, 0, {"width", "first", "blank"}, NULL},
    {"center", center, 0, {"width"}, NULL},
    {"escape", escape, 0, {0}, NULL},
    {"e", escape, 0, {0}, NULL},
    {"forceescape", escape_again, 0, {0}, NULL},
    {"format", NULL, 0, {0}, format},
    {"int", to_int, 0, {"default", "base"}, NULL},
    {"float", to_float, 0, {"default"}, NULL},
    {"abs", absolute, 0, {0}, NULL},
    {"round", round_number, 0, {"precision", "method"}, NULL},
    {"attr", attribute, 1, {"name"}, NULL},
};

const sac_tmpl_spec *sac_tmpl_find_filter(const char *name, size_t n_bytes) {
    const sac_tmpl_spec *found = sac_tmpl_find_spec(filters, SAC_COUNT(filters), name, n_bytes);
    if (!found) found = sac_tmpl_find_list_filter(name, n_bytes);
    if (!found) found = sac_tmpl_find_select_filter(name, n_bytes);
    return found ? found : sac_tmpl_find_sort_filter(name, n_bytes);
}
