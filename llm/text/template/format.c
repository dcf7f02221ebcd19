#include "format.h"

#include "field.h"
#include "str.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <math.h>
#include <string.h>

typedef struct percent {
    sac_tmpl_writer w;
    const sac_tmpl_string *s;
    size_t at;
    sac_tmpl_value values;
    size_t n_used;
    bool by_name;
} percent;

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

/* Digits, or the next value where a star stands. */
static sac_status read_size(percent *f, char *c, int64_t *n) {
    sac_tmpl_value v;
    *n = 0;
    if (*c == '*') {
        SAC_TRY(next_value(f, &v));
        if (!sac_tmpl_is_int(v, n)) return sac_tmpl_fail_use(f->w.run, v, "the width of a field");
        *c = next_char(f);
    }
    for (; *c >= '0' && *c <= '9'; *c = next_char(f))
        *n = *n > SAC_TMPL_MAX_WIDTH ? *n : *n * 10 + (*c - '0');
    return SAC_OK;
}

/* %(name): its value. */
static sac_status read_name(percent *f, sac_tmpl_value *v) {
    sac_tmpl_run *r = f->w.run;
    size_t from = f->at, open = 1;
    if (f->values.kind != SAC_TMPL_DICT) return sac_tmpl_fail(r, "a format with names needs a dict");
    for (; f->at < f->s->n_bytes; f->at++) {
        open += f->s->bytes[f->at] == '(';
        open -= f->s->bytes[f->at] == ')';
        if (!open) break;
    }
    if (open) return sac_tmpl_fail(r, "a name in a format has no closing )");
    const sac_tmpl_value *found = sac_tmpl_dict_find_name(f->values.dict, f->s->bytes + from, f->at - from);
    if (!found) return sac_tmpl_fail(r, "a format names a value that is not there");
    *v = *found;
    f->by_name = true;
    f->at++;
    return SAC_OK;
}

static sac_status read_field(percent *f, sac_tmpl_field *d, sac_tmpl_value *v) {
    sac_tmpl_run *r = f->w.run;
    int64_t width, precision = -1;
    bool left = false, zero = false;
    *d = (sac_tmpl_field){0};
    char c = next_char(f);
    bool named = c == '(';
    if (named) {
        SAC_TRY(read_name(f, v));
        c = next_char(f);
    }
    for (; c && strchr("-0+ #", c); c = next_char(f)) {
        left |= c == '-';
        zero |= c == '0';
        if (c == '+' || (c == ' ' && !d->sign)) d->sign = c;
        d->alternate |= c == '#';
    }
    SAC_TRY(read_size(f, &c, &width));
    if (width < 0) {
        left = true;
        width = -width;
    }
    if (c == '.') {
        c = next_char(f);
        SAC_TRY(read_size(f, &c, &precision));
        precision = precision < 0 ? 0 : precision;
    }
    if (c == 'h' || c == 'l' || c == 'L') c = next_char(f);
    if (!c || !strchr("sradiuxXocfFeEgG", c))
        return sac_tmpl_fail(r, "a format has a field that is not known");
    if (width < 0 || width > SAC_TMPL_MAX_WIDTH || precision > SAC_TMPL_MAX_WIDTH)
        return sac_tmpl_fail(r, "a field of a format is wider than %d", SAC_TMPL_MAX_WIDTH);
    zero = zero && !left && !strchr("srac", c);
    d->fill = (sac_tmpl_string){.bytes = "0", .n_bytes = zero};
    d->align = left ? '<' : zero ? '=' : '>';
    d->width = (int)width;
    d->precision = (int)precision;
    d->kind = c == 'u' || c == 'i' ? 'd' : c;
    return named ? SAC_OK : next_value(f, v);
}

static sac_status repr_value(const sac_tmpl_writer *w, sac_tmpl_value v, sac_tmpl_value *out) {
    sac_tmpl_writer part = {.run = w->run};
    SAC_TRY(sac_tmpl_write_repr(&part, v));
    return sac_tmpl_written_value(&part, out);
}

static sac_status put_text(percent *f, const sac_tmpl_field *d, sac_tmpl_value v) {
    sac_tmpl_writer part = {.run = f->w.run};
    if (f->s->is_markup) {
        SAC_TRY(d->kind == 's' ? sac_tmpl_str(part.run, v, &v) : repr_value(&part, v, &v));
        SAC_TRY(sac_tmpl_escape(part.run, v.string, false, &v));
        return sac_tmpl_put_text(&f->w, d, *v.string);
    }
    SAC_TRY(d->kind == 'r'   ? sac_tmpl_write_repr(&part, v)
            : d->kind == 'a' ? sac_tmpl_write_ascii(&part, v)
                             : sac_tmpl_write_str(&part, v));
    return sac_tmpl_put_text(&f->w, d, sac_tmpl_written(&part));
}

static sac_status put_number(percent *f, const sac_tmpl_field *d, sac_tmpl_value v) {
    int64_t i = 0;
    double x = 0;
    bool wants_int = strchr("dxXo", d->kind) != NULL;
    if (!sac_tmpl_is_number(v, &x) || (wants_int && d->kind != 'd' && v.kind == SAC_TMPL_FLOAT))
        return sac_tmpl_fail_use(f->w.run, v, "formatted as a number");
    if (!wants_int) return sac_tmpl_put_float(&f->w, d, x);
    if (!sac_tmpl_is_int(v, &i)) {
        if (!isfinite(x)) return sac_tmpl_fail(f->w.run, "a float that is no number as an integer");
        if (!(fabs(x) < 0x1p63)) return sac_tmpl_fail(f->w.run, "an integer beyond 64 bits");
        i = (int64_t)x;
    }
    return sac_tmpl_put_int(&f->w, d, i);
}

static sac_status put_char(percent *f, const sac_tmpl_field *d, sac_tmpl_value v) {
    char text[4];
    int64_t i;
    sac_tmpl_field one = *d;
    one.precision = -1;
    if (v.kind == SAC_TMPL_STRING && sac_tmpl_count_chars(v.string->bytes, v.string->n_bytes) == 1)
        return sac_tmpl_put_text(&f->w, &one, *v.string);
    if (!sac_tmpl_is_int(v, &i) || i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000))
        return sac_tmpl_fail_use(f->w.run, v, "formatted as a character");
    size_t n = sac_utf8_encode((uint32_t)i, text);
    return sac_tmpl_put_text(&f->w, &one, (sac_tmpl_string){.bytes = text, .n_bytes = n});
}

/* Python lets values that have items be left over. */
static bool may_remain(sac_tmpl_value v) {
    return v.kind == SAC_TMPL_DICT || v.kind == SAC_TMPL_LIST || v.kind == SAC_TMPL_RANGE ||
           v.kind == SAC_TMPL_UNDEFINED;
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
        if (f.at < s->n_bytes &&
            s->bytes[f.at] == '%') { /* with anything between it is no field, as in Python 3 */
            SAC_TRY(sac_tmpl_write(&f.w, sac_tmpl_part(s, end, end + 1)));
            f.at++;
            continue;
        }
        sac_tmpl_field d;
        sac_tmpl_value v = SAC_TMPL_VALUE_NONE;
        SAC_TRY(read_field(&f, &d, &v));
        if (strchr("sra", d.kind))
            SAC_TRY(put_text(&f, &d, v));
        else
            SAC_TRY(d.kind == 'c' ? put_char(&f, &d, v) : put_number(&f, &d, v));
    }
    bool all = values.kind == SAC_TMPL_TUPLE ? f.n_used == values.list->n : f.n_used == 1;
    if (!all && !f.by_name && !may_remain(values))
        return sac_tmpl_fail(r, "a format has more values than fields");
    SAC_TRY(sac_tmpl_written_value(&f.w, out));
    return sac_tmpl_keep_markup(r, s, out);
}
