/* format_braces.c - "...".format(values), as Python's string.Formatter does it in the sandbox. */
#include "field.h"
#include "format.h"
#include "number.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <math.h>
#include <string.h>

typedef struct braces {
    const sac_tmpl_args *args;
    int64_t n_auto; /* fields without a number so far */
    bool is_manual; /* a field had a number */
    bool is_markup; /* what is put in is escaped */
} braces;

/* ---- which value ---- */

static sac_status first_value(sac_tmpl_run *r, braces *b, sac_tmpl_string name, sac_tmpl_value *v) {
    int64_t i = b->n_auto;
    bool is_number = name.n_bytes > 0;
    for (size_t k = 0; k < name.n_bytes; k++)
        is_number = is_number && name.bytes[k] >= '0' && name.bytes[k] <= '9';
    if (name.n_bytes == 0)
        b->n_auto++;
    else if (is_number) {
        if (!sac_tmpl_parse_int(name.bytes, name.n_bytes, 10, &i)) i = INT64_MAX;
        b->is_manual = true;
    } else {
        const sac_tmpl_value *found =
            b->args->named ? sac_tmpl_dict_find_name(b->args->named, name.bytes, name.n_bytes) : NULL;
        if (!found)
            return sac_tmpl_fail(r, "format: no value '%.*s'", (int)(name.n_bytes > 40 ? 40 : name.n_bytes),
                                 name.bytes);
        *v = *found;
        return SAC_OK;
    }
    if (b->is_manual && b->n_auto) return sac_tmpl_fail(r, "format: fields with and without numbers");
    if ((uint64_t)i >= b->args->n) return sac_tmpl_fail(r, "format: fewer values than fields");
    *v = b->args->items[i];
    return SAC_OK;
}

/* name.attribute[key] */
static sac_status find_value(sac_tmpl_run *r, braces *b, sac_tmpl_string name, sac_tmpl_value *v) {
    size_t at = 0;
    while (at < name.n_bytes && name.bytes[at] != '.' && name.bytes[at] != '[') at++;
    SAC_TRY(first_value(r, b, sac_tmpl_part(&name, 0, at), v));
    while (at < name.n_bytes) {
        bool is_item = name.bytes[at] == '[';
        size_t from = at + 1, to = from;
        while (to < name.n_bytes &&
               (is_item ? name.bytes[to] != ']' : name.bytes[to] != '.' && name.bytes[to] != '['))
            to++;
        if (to == from || (is_item && to == name.n_bytes) || (!is_item && name.bytes[at] != '.'))
            return sac_tmpl_fail(r, "format: a name with an empty or open part");
        sac_tmpl_value key, of = *v;
        int64_t i;
        if (!is_item)
            SAC_TRY(r->attribute(r, of, name.bytes + from, to - from, v));
        else {
            bool digits = name.bytes[from] >= '0' && name.bytes[from] <= '9' &&
                          sac_tmpl_parse_int(name.bytes + from, to - from, 10, &i);
            if (digits)
                key = sac_tmpl_int(i);
            else
                SAC_TRY(sac_tmpl_part_value(r, &name, from, to, &key));
            SAC_TRY(r->item(r, of, key, v));
        }
        at = to + is_item;
    }
    return SAC_OK;
}

/* ---- how it is shown ---- */

static bool read_digits(const char **p, const char *end, int *n) {
    bool any = false;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++, any = true)
        *n = *n > SAC_TMPL_MAX_WIDTH ? *n : *n * 10 + (**p - '0');
    return any;
}

/* [[fill]align][sign][#][0][width][,][.precision][kind] */
static sac_status read_spec(sac_tmpl_run *r, sac_tmpl_string s, sac_tmpl_field *d) {
    const char *p = s.bytes, *end = p + s.n_bytes;
    size_t n = p < end ? sac_tmpl_char_bytes(p, end) : 0;
    *d = (sac_tmpl_field){.precision = -1};
    if (n && p + n < end && strchr("<>=^", p[n]) && p[n]) {
        d->fill = sac_tmpl_part(&s, 0, n);
        d->align = p[n];
        p += n + 1;
    } else if (n && *p && strchr("<>=^", *p))
        d->align = *p++;
    if (p < end && (*p == '+' || *p == ' ' || *p == '-')) d->sign = *p++;
    if (p < end && *p == '#') d->alternate = *p++ == '#';
    if (p < end && *p == '0') {
        p++;
        if (!d->fill.n_bytes) d->fill = (sac_tmpl_string){.bytes = "0", .n_bytes = 1};
        if (!d->align) d->align = '0'; /* '=' for numbers, '<' for text */
    }
    read_digits(&p, end, &d->width);
    if (p < end && (*p == ',' || *p == '_')) d->grouping = *p++;
    if (p < end && *p == '.') {
        p++;
        d->precision = 0;
        if (!read_digits(&p, end, &d->precision))
            return sac_tmpl_fail(r, "format: a precision without digits");
    }
    bool has_kind = p < end;
    if (has_kind) d->kind = *p++;
    if (p != end || (has_kind && !d->kind))
        return sac_tmpl_fail(r, "format: a field's format cannot be read");
    if (d->width > SAC_TMPL_MAX_WIDTH || d->precision > SAC_TMPL_MAX_WIDTH)
        return sac_tmpl_fail(r, "a field of a format is wider than %d", SAC_TMPL_MAX_WIDTH);
    return SAC_OK;
}

static sac_status bad_kind(sac_tmpl_run *r, sac_tmpl_value v) {
    return sac_tmpl_fail(r, "format: a field's format is not one of type %s", sac_tmpl_type_name(v));
}

static sac_status show_text(sac_tmpl_writer *w, sac_tmpl_field *d, sac_tmpl_value v) {
    if ((d->kind && d->kind != 's') || d->sign || d->alternate || d->grouping || d->align == '=')
        return bad_kind(w->run, v);
    if (d->align == '0') d->align = '<';
    return sac_tmpl_put_text(w, d, *v.string);
}

static sac_status show_number(sac_tmpl_writer *w, sac_tmpl_field *d, sac_tmpl_value v) {
    int64_t i = 0;
    double x = 0;
    bool is_int = sac_tmpl_is_int(v, &i), as_float = d->kind && strchr("eEfFgG%", d->kind);
    sac_tmpl_is_number(v, &x);
    if (d->align == '0') d->align = '=';
    if (d->kind == 'n') {
        if (d->grouping) return bad_kind(w->run, v);
        d->kind = is_int ? 'd' : 'g';
        as_float = !is_int;
    }
    if (is_int && d->kind == 'c') {
        char text[4];
        if (d->sign || d->alternate || d->grouping || d->precision >= 0 || i < 0 || i > 0x10ffff ||
            (i >= 0xd800 && i < 0xe000))
            return bad_kind(w->run, v);
        if (!d->align) d->align = '>'; /* as numbers */
        return sac_tmpl_put_text(
            w, d, (sac_tmpl_string){.bytes = text, .n_bytes = sac_utf8_encode((uint32_t)i, text)});
    }
    if (as_float || (!is_int && !d->kind)) return sac_tmpl_put_float(w, d, x);
    if (!is_int || (d->kind && !strchr("dxXob", d->kind)) || d->precision >= 0 ||
        (d->grouping == ',' && d->kind && d->kind != 'd'))
        return bad_kind(w->run, v);
    return sac_tmpl_put_int(w, d, i);
}

static sac_status show(sac_tmpl_writer *w, sac_tmpl_value v, sac_tmpl_string spec) {
    sac_tmpl_field d;
    double unused;
    if (spec.n_bytes == 0) return sac_tmpl_write_str(w, v);
    bool is_text = v.kind == SAC_TMPL_STRING;
    if (!is_text && !sac_tmpl_is_number(v, &unused)) return bad_kind(w->run, v);
    SAC_TRY(read_spec(w->run, spec, &d));
    return is_text ? show_text(w, &d, v) : show_number(w, &d, v);
}

/* ---- fields ---- */

static sac_status format_text(sac_tmpl_writer *w, braces *b, const sac_tmpl_string *s, int depth);

/* The end of a field that begins at `at`, behind its bracket; braces within are other fields'. */
static sac_status field_end(sac_tmpl_run *r, const sac_tmpl_string *s, size_t at, size_t *end) {
    int open = 1;
    bool in_key = false, in_spec = false;
    for (*end = at; *end < s->n_bytes; ++*end) {
        char c = s->bytes[*end];
        if (!in_spec && c == '[') in_key = true;
        if (c == ']') in_key = false;
        if (in_key) continue;
        in_spec = in_spec || c == ':' || c == '!';
        open += c == '{';
        open -= c == '}';
        if (c == '{' && !in_spec) return sac_tmpl_fail(r, "format: a { in the name of a field");
        if (!open) return SAC_OK;
    }
    return sac_tmpl_fail(r, "format: a { is not closed");
}

static sac_status write_field(sac_tmpl_writer *w, braces *b, sac_tmpl_string field, int depth) {
    sac_tmpl_run *r = w->run;
    size_t name = 0;
    bool in_key = false;
    for (; name < field.n_bytes; name++) {
        in_key = field.bytes[name] == '[' || (in_key && field.bytes[name] != ']');
        if (!in_key && (field.bytes[name] == '!' || field.bytes[name] == ':')) break;
    }
    size_t at = name;
    char how = 0;
    if (at < field.n_bytes && field.bytes[at] == '!') {
        how = at + 1 < field.n_bytes ? field.bytes[at + 1] : 0;
        at += 2;
        if (!how || !strchr("rsa", how) || (at < field.n_bytes && field.bytes[at] != ':'))
            return sac_tmpl_fail(r, "format: a conversion is !r, !s or !a");
    }
    sac_tmpl_string spec =
        at < field.n_bytes ? sac_tmpl_part(&field, at + 1, field.n_bytes) : (sac_tmpl_string){0};
    sac_tmpl_value v;
    SAC_TRY(find_value(r, b, sac_tmpl_part(&field, 0, name), &v));
    sac_tmpl_writer made = {.run = r}, inner = {.run = r};
    if (how) {
        SAC_TRY(how == 'r'   ? sac_tmpl_write_repr(&made, v)
                : how == 'a' ? sac_tmpl_write_ascii(&made, v)
                             : sac_tmpl_write_str(&made, v));
        SAC_TRY(sac_tmpl_written_value(&made, &v));
    }
    if (spec.n_bytes) {
        SAC_TRY(format_text(&inner, b, &spec, depth + 1));
        spec = sac_tmpl_written(&inner);
    }
    if (!b->is_markup) return show(w, v, spec);
    sac_tmpl_writer shown = {.run = r};
    bool is_markup = v.kind == SAC_TMPL_STRING && v.string->is_markup;
    SAC_TRY(show(&shown, v, spec));
    SAC_TRY(sac_tmpl_written_value(&shown, &v));
    SAC_TRY(sac_tmpl_escape(r, v.string, !is_markup, &v));
    return sac_tmpl_write(w, *v.string);
}

static sac_status format_text(sac_tmpl_writer *w, braces *b, const sac_tmpl_string *s, int depth) {
    sac_tmpl_run *r = w->run;
    if (depth > 1) return sac_tmpl_fail(r, "format: fields within fields of fields");
    for (size_t i = 0; i < s->n_bytes; i++) {
        char c = s->bytes[i];
        bool twice = i + 1 < s->n_bytes && s->bytes[i + 1] == c;
        if ((c != '{' && c != '}') || twice) {
            SAC_TRY(sac_tmpl_write(w, sac_tmpl_part(s, i, i + 1)));
            i += twice && (c == '{' || c == '}');
            continue;
        }
        if (c == '}') return sac_tmpl_fail(r, "format: a } has no {");
        size_t end;
        SAC_TRY(field_end(r, s, i + 1, &end));
        SAC_TRY(write_field(w, b, sac_tmpl_part(s, i + 1, end), depth));
        i = end;
    }
    return SAC_OK;
}

sac_status sac_tmpl_format_braces(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_args *args,
                                  sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    braces b = {.args = args, .is_markup = s->is_markup};
    SAC_TRY(format_text(&w, &b, s, 0));
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, s, out);
}
