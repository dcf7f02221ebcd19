#include "field.h"

#include "number.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest float has 309 digits before its point. */
enum { MAX_NUMBER = 320 + 2 * SAC_TMPL_MAX_WIDTH };

static sac_status fill_up(sac_tmpl_writer *w, const sac_tmpl_field *d, size_t n) {
    for (size_t i = 0; i < n; i++)
        SAC_TRY(d->fill.n_bytes ? sac_tmpl_write(w, d->fill) : sac_tmpl_write_text(w, " "));
    return SAC_OK;
}

/* sign and prefix stand before the fill of '=' and behind that of '>'. */
static sac_status put(sac_tmpl_writer *w, const sac_tmpl_field *d, const char *prefix, sac_tmpl_string text,
                      char align) {
    size_t n = strlen(prefix) + sac_tmpl_count_chars(text.bytes, text.n_bytes);
    size_t room = n < (size_t)d->width ? (size_t)d->width - n : 0;
    size_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
    SAC_TRY(fill_up(w, d, left));
    SAC_TRY(sac_tmpl_write_text(w, prefix));
    if (align == '=') SAC_TRY(fill_up(w, d, room));
    SAC_TRY(sac_tmpl_write(w, text));
    return align == '=' ? SAC_OK : fill_up(w, d, room - left);
}

sac_status sac_tmpl_put_text(sac_tmpl_writer *w, const sac_tmpl_field *d, sac_tmpl_string text) {
    size_t end = 0;
    for (int i = 0; i < d->precision && end < text.n_bytes; i++)
        end += sac_tmpl_char_bytes(text.bytes + end, text.bytes + text.n_bytes);
    return put(w, d, "", d->precision >= 0 ? sac_tmpl_part(&text, 0, end) : text, d->align ? d->align : '<');
}

/* Digits with d->grouping between, before what follows them; zeros in front up to the width are digits, too. */
static sac_status put_digits(sac_tmpl_writer *w, const sac_tmpl_field *d, const char *prefix,
                             const char *digits) {
    char text[2 * MAX_NUMBER], *to = text;
    size_t each = d->kind == 'x' || d->kind == 'X' || d->kind == 'o' || d->kind == 'b' ? 4 : 3;
    size_t n = strspn(digits, each == 4 ? "0123456789abcdefABCDEF" : "0123456789"), zeros = 0;
    bool zero_filled = d->align == '=' && d->fill.n_bytes == 1 && d->fill.bytes[0] == '0';
    sac_tmpl_string s = {.bytes = digits, .n_bytes = strlen(digits)};
    char align = d->align ? d->align : '>';
    if (!d->grouping || n == 0) return put(w, d, prefix, s, align);
    size_t others = strlen(prefix) + s.n_bytes - n;
    while (zero_filled && others + n + zeros + (n + zeros - 1) / each < (size_t)d->width) zeros++;
    for (size_t i = 0; i < n + zeros; i++) {
        if (i && (n + zeros - i) % each == 0) *to++ = d->grouping;
        *to++ = i < zeros ? '0' : digits[i - zeros];
    }
    memcpy(to, digits + n, s.n_bytes - n);
    s = (sac_tmpl_string){.bytes = text, .n_bytes = (size_t)(to - text) + s.n_bytes - n};
    return put(w, d, prefix, s, align);
}

static const char *sign_of(const sac_tmpl_field *d, bool negative) {
    return negative ? "-" : d->sign == '+' ? "+" : d->sign == ' ' ? " " : "";
}

sac_status sac_tmpl_put_int(sac_tmpl_writer *w, const sac_tmpl_field *d, int64_t i) {
    static const char low[] = "0123456789abcdef", high[] = "0123456789ABCDEF";
    char text[SAC_TMPL_MAX_WIDTH + 72], prefix[8];
    char *end = text + sizeof text - 1, *p = end;
    uint64_t v = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    uint64_t base = d->kind == 'x' || d->kind == 'X' ? 16 : d->kind == 'o' ? 8 : d->kind == 'b' ? 2 : 10;
    *end = 0;
    do *--p = (d->kind == 'X' ? high : low)[v % base];
    while (v /= base);
    while (end - p < d->precision) *--p = '0';
    snprintf(prefix, sizeof prefix, "%s%s%.1s", sign_of(d, i < 0), d->alternate && base != 10 ? "0" : "",
             d->alternate && base != 10 ? &d->kind : "");
    return put_digits(w, d, prefix, p);
}

static void cut_zeros(char *text, bool keep_one) {
    char *e = strpbrk(text, "eE"), *point = strchr(text, '.');
    char *end = e ? e : text + strlen(text), *p = end;
    if (!point) return;
    while (p[-1] == '0') p--;
    if (p[-1] == '.') p += keep_one ? 1 : -1;
    memmove(p, end, strlen(end) + 1);
}

/* A precision without a kind: as g, but 1.0 keeps its point and one digit less is shown without an exponent. */
static void write_short(double v, int precision, char *text) {
    int digits = precision > 0 ? precision : 1;
    snprintf(text, MAX_NUMBER, "%.*e", digits - 1, v);
    int point = atoi(strchr(text, 'e') + 1) + 1;
    if (point > -4 && point <= digits - 1) {
        snprintf(text, MAX_NUMBER, "%.*f", digits - point, v);
        cut_zeros(text, true);
    } else
        cut_zeros(text, false);
}

static void write_real(const sac_tmpl_field *d, double v, char *text) {
    int precision = d->precision < 0 ? 6 : d->precision;
    const char *sharp = d->alternate ? "#" : "";
    char how[8];
    if (!d->kind && d->precision >= 0 && isfinite(v)) {
        write_short(v, d->precision, text);
        return;
    }
    if (!d->kind) {
        sac_tmpl_write_float(v, text);
        return;
    }
    snprintf(how, sizeof how, "%%%s.*%c", sharp, d->kind == '%' ? 'f' : d->kind);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, MAX_NUMBER, how, precision, d->kind == '%' ? v * 100 : v);
#pragma GCC diagnostic pop
}

sac_status sac_tmpl_put_float(sac_tmpl_writer *w, const sac_tmpl_field *d, double v) {
    char text[MAX_NUMBER];
    write_real(d, isnan(v) ? (double)NAN : fabs(v), text);
    const char *p = text + (*text == '-'); /* a NaN's sign is not shown */
    if (d->kind == '%') strcat(text, "%");
    return put_digits(w, d, sign_of(d, !isnan(v) && signbit(v)), p);
}

sac_status sac_tmpl_write_ascii(sac_tmpl_writer *w, sac_tmpl_value v) {
    sac_tmpl_writer part = {.run = w->run};
    SAC_TRY(sac_tmpl_write_repr(&part, v));
    sac_tmpl_string s = sac_tmpl_written(&part);
    for (size_t i = 0, n; i < s.n_bytes; i += n) {
        char text[16];
        n = sac_tmpl_char_bytes(s.bytes + i, s.bytes + s.n_bytes);
        uint32_t c = sac_utf8_decode(s.bytes + i);
        if (c < 0x80) {
            SAC_TRY(sac_tmpl_write(w, sac_tmpl_part(&s, i, i + n)));
            continue;
        }
        snprintf(text, sizeof text,
                 c < 0x100     ? "\\x%02" PRIx32
                 : c < 0x10000 ? "\\u%04" PRIx32
                               : "\\U%08" PRIx32,
                 c);
        SAC_TRY(sac_tmpl_write_bytes(w, text, strlen(text), sac_tmpl_mark(&s, i)));
    }
    return SAC_OK;
}
