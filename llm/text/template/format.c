#include "format.h"

#include "number.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 200 };

typedef struct percent {
    sac_tmpl_writer w;
    const sac_tmpl_string *s;
    size_t at;
    sac_tmpl_value values;
    size_t n_used;
    bool by_name;
} percent;

typedef struct field {
    bool left, zero, plus, space, alternate;
    int width, precision; /* -1 = none */
    char kind;
} field;

static char next_char(percent *f) {
    return f->at < f->s->n_bytes ? f->s->bytes[f->at++] : 0;
}

static sac_status next_value(percent *f, sac_tmpl_value *v) {
    bool is_tuple = f->values.kind == SAC_TMPL_TUPLE;
    if (is_tuple ? f->n_used >= f->values.list->n : f->n_used > 0)
        return sac_tmpl_fail(f->w.run, "a format has fewer values than fields");
    *v = is_tuple ? f->values.list->items[f->n_used] : f->values;
    f->n_used++;
    return SAC_OK;
}

static int read_digits(percent *f, char *c, int otherwise) {
    int n = *c >= '0' && *c <= '9' ? 0 : otherwise;
    for (; *c >= '0' && *c <= '9'; *c = next_char(f)) n = n > MAX_WIDTH ? n : n * 10 + (*c - '0');
    return n;
}

static sac_status read_field(percent *f, field *d, sac_tmpl_value *v) {
    sac_tmpl_run *r = f->w.run;
    *d = (field){.precision = -1};
    char c = next_char(f);
    bool named = c == '(';
    if (named) {
        size_t from = f->at;
        while (f->at < f->s->n_bytes && f->s->bytes[f->at] != ')') f->at++;
        if (f->values.kind != SAC_TMPL_DICT) return sac_tmpl_fail(r, "a format with names needs a dict");
        const sac_tmpl_value *found =
            sac_tmpl_dict_find_name(f->values.dict, f->s->bytes + from, f->at - from);
        if (!found) return sac_tmpl_fail(r, "a format names a value that is not there");
        *v = *found;
        f->by_name = true;
        next_char(f);
        c = next_char(f);
    }
    for (; c && strchr("-0+ #", c); c = next_char(f)) {
        d->left |= c == '-';
        d->zero |= c == '0';
        d->plus |= c == '+';
        d->space |= c == ' ';
        d->alternate |= c == '#';
    }
    d->width = read_digits(f, &c, 0);
    if (c == '.') {
        c = next_char(f);
        d->precision = read_digits(f, &c, 0);
    }
    if (d->width > MAX_WIDTH || d->precision > MAX_WIDTH || !c || !strchr("srdiuxXocfFeEgG%", c))
        return sac_tmpl_fail(r, "a format has a field that is not known or too wide");
    d->kind = c;
    return c == '%' || named ? SAC_OK : next_value(f, v);
}

static sac_status pad(percent *f, const field *d, sac_tmpl_string text) {
    size_t n = sac_tmpl_count_chars(text.bytes, text.n_bytes);
    int missing = n < (size_t)d->width ? d->width - (int)n : 0;
    if (d->left) SAC_TRY(sac_tmpl_write(&f->w, text));
    for (int i = 0; i < missing; i++) SAC_TRY(sac_tmpl_write_text(&f->w, " "));
    return d->left ? SAC_OK : sac_tmpl_write(&f->w, text);
}

static sac_status put_text(percent *f, const field *d, sac_tmpl_value v) {
    sac_tmpl_writer part = {.run = f->w.run};
    SAC_TRY(d->kind == 'r' ? sac_tmpl_write_repr(&part, v) : sac_tmpl_write_str(&part, v));
    sac_tmpl_string text = sac_tmpl_written(&part);
    size_t end = 0;
    for (int i = 0; d->precision >= 0 && i < d->precision && end < text.n_bytes; i++)
        end += sac_tmpl_char_bytes(text.bytes + end, text.bytes + text.n_bytes);
    return pad(f, d, d->precision >= 0 ? sac_tmpl_part(&text, 0, end) : text);
}

static sac_status put_number(percent *f, const field *d, sac_tmpl_value v) {
    char text[2 * MAX_WIDTH + 400], how[32];
    int64_t i = 0;
    double x = 0;
    char kind = d->kind == 'u' || d->kind == 'i' ? 'd' : d->kind;
    bool is_int = kind == 'd' || kind == 'x' || kind == 'X' || kind == 'o', negative;
    if (!sac_tmpl_is_number(v, &x) || (is_int && kind != 'd' && v.kind == SAC_TMPL_FLOAT))
        return sac_tmpl_fail_use(f->w.run, v, "formatted as a number");
    if (is_int && !sac_tmpl_is_int(v, &i)) {
        if (!(fabs(x) < 0x1p63)) return sac_tmpl_fail(f->w.run, "a number too large for a format");
        i = (int64_t)x;
    }
    negative = is_int ? i < 0 : signbit(x);
    if (is_int && kind != 'd' && negative)
        return sac_tmpl_fail(f->w.run, "a negative number in base 8 or 16");
    snprintf(how, sizeof how, "%%%s%s%s%s%s*%s%s%c", d->left ? "-" : "", d->zero && !d->left ? "0" : "",
             d->plus ? "+" : "", d->space ? " " : "", d->alternate ? "#" : "", d->precision >= 0 ? ".*" : "",
             is_int ? PRId64 : "", kind);
    if (is_int) { /* PRId64 ends in its own letter */
        how[strlen(how) - 2] = kind;
        how[strlen(how) - 1] = 0;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = is_int ? (d->precision >= 0 ? snprintf(text, sizeof text, how, d->width, d->precision, i)
                                        : snprintf(text, sizeof text, how, d->width, i))
                   : (d->precision >= 0 ? snprintf(text, sizeof text, how, d->width, d->precision, x)
                                        : snprintf(text, sizeof text, how, d->width, x));
#pragma GCC diagnostic pop
    return n < 0 || (size_t)n >= sizeof text ? sac_tmpl_fail(f->w.run, "a number too long for a format")
                                             : sac_tmpl_write_bytes(&f->w, text, (size_t)n, false);
}

static sac_status put_char(percent *f, const field *d, sac_tmpl_value v) {
    char text[4];
    int64_t i;
    if (v.kind == SAC_TMPL_STRING && sac_tmpl_count_chars(v.string->bytes, v.string->n_bytes) == 1)
        return pad(f, d, *v.string);
    if (!sac_tmpl_is_int(v, &i) || i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000))
        return sac_tmpl_fail_use(f->w.run, v, "formatted as a character");
    size_t n = sac_utf8_encode((uint32_t)i, text);
    return pad(f, d, (sac_tmpl_string){.bytes = text, .n_bytes = n});
}

sac_status sac_tmpl_format_percent(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value values,
                                   sac_tmpl_value *out) {
    percent f = {.w = {.run = r}, .s = s, .values = values};
    while (f.at < s->n_bytes) {
        const char *from = s->bytes + f.at, *sign = memchr(from, '%', s->n_bytes - f.at);
        size_t end = sign ? (size_t)(sign - s->bytes) : s->n_bytes;
        SAC_TRY(sac_tmpl_write(&f.w, sac_tmpl_part(s, f.at, end)));
        f.at = end + 1;
        if (!sign) break;
        field d;
        sac_tmpl_value v = SAC_TMPL_VALUE_NONE;
        SAC_TRY(read_field(&f, &d, &v));
        if (d.kind == '%')
            SAC_TRY(sac_tmpl_write(&f.w, sac_tmpl_part(s, end, end + 1)));
        else if (d.kind == 's' || d.kind == 'r')
            SAC_TRY(put_text(&f, &d, v));
        else
            SAC_TRY(d.kind == 'c' ? put_char(&f, &d, v) : put_number(&f, &d, v));
    }
    bool all = values.kind == SAC_TMPL_TUPLE ? f.n_used == values.list->n : f.n_used == 1;
    if (!all && !f.by_name && values.kind != SAC_TMPL_DICT && values.kind != SAC_TMPL_LIST)
        return sac_tmpl_fail(r, "a format has more values than fields");
    return sac_tmpl_written_value(&f.w, out);
}

/* ---- str.format ---- */

static sac_status brace_value(sac_tmpl_run *r, const sac_tmpl_string *name, size_t *n_auto,
                              const sac_tmpl_args *args, sac_tmpl_value *v) {
    int64_t i = (int64_t)*n_auto;
    if (name->n_bytes == 0)
        ++*n_auto;
    else if (!sac_tmpl_parse_int(name->bytes, name->n_bytes, 10, &i)) {
        const sac_tmpl_value *found =
            args->named ? sac_tmpl_dict_find_name(args->named, name->bytes, name->n_bytes) : NULL;
        if (!found)
            return sac_tmpl_fail(r, "format: no value '%.*s'", (int)(name->n_bytes > 40 ? 40 : name->n_bytes),
                                 name->bytes);
        *v = *found;
        return SAC_OK;
    }
    if (i < 0 || (size_t)i >= args->n) return sac_tmpl_fail(r, "format: fewer values than fields");
    *v = args->items[i];
    return SAC_OK;
}

static sac_status brace_field(sac_tmpl_writer *w, sac_tmpl_string name, size_t *n_auto,
                              const sac_tmpl_args *args) {
    bool repr = name.n_bytes >= 2 && memcmp(name.bytes + name.n_bytes - 2, "!r", 2) == 0;
    bool str = name.n_bytes >= 2 && memcmp(name.bytes + name.n_bytes - 2, "!s", 2) == 0;
    sac_tmpl_value v;
    if (repr || str) name.n_bytes -= 2;
    for (size_t i = 0; i < name.n_bytes; i++)
        if (strchr(":!.[{", name.bytes[i]))
            return sac_tmpl_fail(w->run, "format: only {}, {0} and {name} can be used here");
    SAC_TRY(brace_value(w->run, &name, n_auto, args, &v));
    return repr ? sac_tmpl_write_repr(w, v) : sac_tmpl_write_str(w, v);
}

sac_status sac_tmpl_format_braces(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_args *args,
                                  sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    size_t n_auto = 0;
    for (size_t i = 0; i < s->n_bytes; i++) {
        char c = s->bytes[i];
        bool twice = i + 1 < s->n_bytes && s->bytes[i + 1] == c;
        if ((c == '{' || c == '}') && twice)
            SAC_TRY(sac_tmpl_write(&w, sac_tmpl_part(s, i, i + 1)));
        else if (c == '{') {
            const char *close = memchr(s->bytes + i, '}', s->n_bytes - i);
            if (!close) return sac_tmpl_fail(r, "format: a { is not closed");
            size_t end = (size_t)(close - s->bytes);
            SAC_TRY(brace_field(&w, sac_tmpl_part(s, i + 1, end), &n_auto, args));
            i = end;
            continue;
        } else if (c == '}')
            return sac_tmpl_fail(r, "format: a } has no {");
        else
            SAC_TRY(sac_tmpl_write(&w, sac_tmpl_part(s, i, i + 1)));
        i += twice && (c == '{' || c == '}');
    }
    return sac_tmpl_written_value(&w, out);
}
