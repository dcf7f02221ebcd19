#define _GNU_SOURCE
#include "number.h"

#include "tmpl_chars.h"
#include "utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

/* Digits with single underscores between; returns their end. *is_valid is false beyond 64 bits. */
static const char *read_digits(const char *p, const char *end, int base, int64_t *value, bool *is_valid) {
    for (; p < end; p++) {
        if (*p == '_' && p + 1 < end && digit_of(p[1]) < base) p++;
        if (digit_of(*p) >= base) break;
        *is_valid = *is_valid && !__builtin_mul_overflow(*value, base, value) &&
                    !__builtin_add_overflow(*value, digit_of(*p), value);
    }
    return p;
}

static const char *fraction_end(const char *p, const char *end) {
    int64_t unused = 0;
    bool valid = true;
    const char *at = p;
    if (at + 1 < end && *at == '.' && digit_of(at[1]) < 10)
        p = at = read_digits(at + 1, end, 10, &unused, &valid);
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        if (at < end && digit_of(*at) < 10) p = read_digits(at, end, 10, &unused, &valid);
    }
    return p;
}

static double to_double(const char *text, size_t n) {
    char copy[400], *at = copy;
    for (size_t i = 0; i < n && at < copy + sizeof copy - 1; i++)
        if (text[i] != '_') *at++ = text[i];
    *at = 0;
    return strtod(copy, NULL);
}

const char *sac_tmpl_read_number(const char *p, const char *end, bool after_dot, sac_tmpl_number *number) {
    *number = (sac_tmpl_number){.is_valid = true};
    int base = 10;
    if (*p == '0' && p + 1 < end) {
        char c = (char)(p[1] | 32);
        int other = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
        const char *digits = p + 2 + (p + 2 < end && p[2] == '_');
        if (other != 10 && digits < end && digit_of(*digits) < other) {
            base = other;
            p = digits;
        }
    }
    const char *stop = read_digits(p, end, base, &number->integer, &number->is_valid);
    const char *fraction = base == 10 && !after_dot ? fraction_end(stop, end) : stop;
    if (fraction > stop) {
        *number = (sac_tmpl_number){
            .is_float = true, .is_valid = true, .real = to_double(p, (size_t)(fraction - p))};
        return fraction;
    }
    if (base == 10 && *p == '0') { /* "0", "00": what follows is another token */
        while (p < stop && (*p == '0' || (*p == '_' && p[1] == '0'))) p++;
        *number = (sac_tmpl_number){.is_valid = true};
        return p;
    }
    return stop;
}

size_t sac_tmpl_write_float(double v, char text[32]) {
    if (isnan(v) || isinf(v))
        return (size_t)snprintf(text, 32, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    char digits[40];
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, v);
    while (strtod(digits, NULL) != v && ++precision < 17);
    const char *e = strchr(digits, 'e');
    int exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16) {
        char mantissa[40];
        snprintf(mantissa, sizeof mantissa, "%.*s", (int)(e - digits), digits);
        return (size_t)snprintf(text, 32, "%se%c%02d", mantissa, exponent < 0 ? '-' : '+', abs(exponent));
    }
    int decimals = precision - exponent;
    return (size_t)snprintf(text, 32, "%.*f", decimals > 0 ? decimals : 1, v);
}

/* ---- strings ---- */

/* Python takes single underscores between digits, and the decimal digits of every script. */
static bool without_underscores(const char *text, size_t n, char *to, size_t capacity) {
    const char *end = sac_tmpl_skip_space_back(text, text + n);
    text = sac_tmpl_skip_space(text, end);
    if ((size_t)(end - text) >= capacity || text == end) return false;
    const char *start = to;
    for (const char *p = text; p < end; p += sac_utf8_length(*p)) {
        uint32_t c = sac_utf8_decode(p);
        if (c == 0 || (c >= 0x80 && !sac_tmpl_is_decimal(c))) return false;
        if (c != '_') {
            *to++ = c < 0x80 ? (char)c : (char)('0' + sac_tmpl_decimal(c));
            continue;
        }
        bool digit_follows = p + 1 < end && (digit_of(p[1]) <= 35 || (p[1] & 0x80));
        if (to == start || digit_of(to[-1]) > 35 || !digit_follows) return false;
    }
    *to = 0;
    return true;
}

bool sac_tmpl_parse_int(const char *text, size_t n_bytes, int base, int64_t *value) {
    char digits[128];
    if (!without_underscores(text, n_bytes, digits, sizeof digits)) return false;
    const char *p = digits;
    bool negative = *p == '-', valid = true;
    if (*p == '-' || *p == '+') p++;
    bool is_open = base == 0;
    char sign = (char)(p[0] == '0' ? p[1] | 32 : 0);
    if (is_open) base = sign == 'x' ? 16 : sign == 'o' ? 8 : sign == 'b' ? 2 : 10;
    const char *prefix = base == 16 ? "xX" : base == 8 ? "oO" : base == 2 ? "bB" : "";
    if (p[0] == '0' && p[1] && strchr(prefix, p[1])) p += 2;
    *value = 0;
    if (is_open && base == 10 && *p == '0' && p[strspn(p, "0_")]) return false; /* 012: which base? */
    if (!*p || *read_digits(p, p + strlen(p), base, value, &valid) || !valid) return false;
    if (negative) *value = -*value;
    return true;
}

bool sac_tmpl_parse_float(const char *text, size_t n_bytes, double *value) {
    char digits[400], *end;
    if (!without_underscores(text, n_bytes, digits, sizeof digits) || strpbrk(digits, "xXpP(")) return false;
    *value = strtod(digits, &end);
    return end > digits && !*end;
}

static bool hex_escape(const char **p, const char *end, int n_digits, char **to) {
    uint32_t code = 0;
    for (int i = 0; i < n_digits; i++, (*p)++) {
        if (*p >= end || digit_of(**p) >= 16) return false;
        code = code << 4 | (uint32_t)digit_of(**p);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    *to += sac_utf8_encode(code, *to);
    return true;
}

static bool octal_escape(const char **p, const char *end, char **to) {
    uint32_t code = 0;
    for (int i = 0; i < 3 && *p < end && digit_of(**p) < 8; i++, (*p)++)
        code = code << 3 | (uint32_t)digit_of(**p);
    *to += sac_utf8_encode(code, *to);
    return true;
}

/* An escape is never shorter than what it stands for: \xff is two bytes, \777 two, \uffff three. */
bool sac_tmpl_unescape(const char *text, size_t n_bytes, char *to, size_t *n_out) {
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    const char *end = text + n_bytes;
    char *start = to;
    while (text < end) {
        if (*text != '\\' || text + 1 >= end) {
            *to++ = *text++;
            continue;
        }
        char c = text[1];
        const char *known = NULL;
        for (const char *k = plain; *k && !known; k += 2)
            if (*k == c) known = k;
        text += 2;
        if (c == '\n') continue;
        if (known)
            *to++ = known[1];
        else if (c == 'x' || c == 'u' || c == 'U') {
            if (!hex_escape(&text, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &to)) return false;
        } else if (c >= '0' && c <= '7') {
            text--;
            octal_escape(&text, end, &to);
        } else if (c == 'N')
            return false;
        else {
            *to++ = '\\';
            *to++ = c;
        }
    }
    *n_out = (size_t)(to - start);
    return true;
}
