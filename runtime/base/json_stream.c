#define _GNU_SOURCE /* strtod_l */
#include "json_stream.h"

#include "utf8.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NUMBER_BYTES 64 /* longer ones are no numbers that anyone needs */

void sac_json_stream_open(sac_json_stream *s, const char *text, size_t n_bytes) {
    memset(s, 0, sizeof *s);
    s->begin = s->at = text;
    s->end = text + n_bytes;
}

void sac_json_stream_close(sac_json_stream *s) {
    free(s->unescaped);
    if (s->c_locale) freelocale((locale_t)s->c_locale);
    memset(s, 0, sizeof *s);
}

static sac_status broken(const sac_json_stream *s, const char *what, sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "not valid JSON at byte %zu: %s", (size_t)(s->at - s->begin), what);
}

static void skip_space(sac_json_stream *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')) s->at++;
}

sac_json_kind sac_json_stream_peek(sac_json_stream *s) {
    skip_space(s);
    if (s->at == s->end) return SAC_JSON_BROKEN;
    switch (*s->at) {
    case '{': return SAC_JSON_OBJECT;
    case '[': return SAC_JSON_ARRAY;
    case '"': return SAC_JSON_STRING;
    case 't':
    case 'f':
    case 'n': return SAC_JSON_LITERAL;
    default: return *s->at == '-' || (*s->at >= '0' && *s->at <= '9') ? SAC_JSON_NUMBER : SAC_JSON_BROKEN;
    }
}

sac_status sac_json_stream_enter(sac_json_stream *s, char bracket, sac_error *err) {
    skip_space(s);
    if (s->at == s->end || *s->at != bracket)
        return broken(s, bracket == '{' ? "expected an object" : "expected an array", err);
    if (s->depth == SAC_JSON_STREAM_MAX_DEPTH) return broken(s, "nested too deeply", err);
    s->opened[s->depth] = bracket;
    s->first[s->depth] = true;
    s->depth++;
    s->at++;
    return SAC_OK;
}

sac_status sac_json_stream_next(sac_json_stream *s, bool *more, sac_error *err) {
    skip_space(s);
    if (s->at == s->end) return broken(s, "the text ends inside a value", err);
    int level = s->depth - 1;
    char close = s->opened[level] == '{' ? '}' : ']';
    if (*s->at == close) {
        s->at++;
        s->depth--;
        *more = false;
        return SAC_OK;
    }
    if (!s->first[level]) {
        if (*s->at != ',') return broken(s, "expected a comma or a closing bracket", err);
        s->at++;
        skip_space(s);
        if (s->at < s->end && *s->at == close) return broken(s, "a comma before a closing bracket", err);
    }
    s->first[level] = false;
    *more = true;
    return SAC_OK;
}

/* Bytes from p on that stand for themselves: ASCII, no control character, quote or backslash. Eight at a
 * time: (w - n * ones) & ~w has the top bit of every byte below n (bytes above the first hit may be wrong,
 * but only the first is used). */
static inline size_t plain_bytes(const char *p, const char *end) {
    const uint64_t ones = 0x0101010101010101u;
    const char *from = p;
    for (; end - p >= 8; p += 8) {
        uint64_t w, quote, slash;
        memcpy(&w, p, 8);
        quote = w ^ ones * '"';
        slash = w ^ ones * '\\';
        uint64_t hit =
            (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | w) &
            ones * 0x80;
        if (hit) return (size_t)(p - from) + (size_t)__builtin_ctzll(hit) / 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\') p++;
    return (size_t)(p - from);
}

/* Moves s->at from behind the opening quote to behind the closing one. */
static sac_status pass_string(sac_json_stream *s, bool *has_escapes, sac_error *err) {
    const char *p = s->at, *end = s->end, *what = NULL;
    *has_escapes = false;
    while (!what) {
        p += plain_bytes(p, end);
        if (p == end) {
            what = "a string does not end";
        } else if (*p == '"') {
            s->at = p + 1;
            return SAC_OK;
        } else if (*p == '\\' && end - p >= 2) {
            *has_escapes = true;
            p += 2;
        } else if ((unsigned char)*p < 0x80) {
            what = *p == '\\' ? "a string does not end" : "a control character in a string";
        } else {
            size_t n = 2;
            bool two = (unsigned char)*p >= 0xc2 && (unsigned char)*p < 0xe0 && end - p >= 2 &&
                       sac_utf8_continues(p[1]);
            if (two || sac_utf8_next(p, end, &n, NULL))
                p += n;
            else
                what = "a string is not valid UTF-8";
        }
    }
    s->at = p;
    return broken(s, what, err);
}

static bool hex4(const char *p, const char *end, uint32_t *out) {
    if (end - p < 4) return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* The escape at *p (behind the backslash) as UTF-8 into out; false when there is no such escape. */
static bool unescape_one(const char **p, const char *end, char *out, size_t *n_out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char kind = *(*p)++;
    if (kind != 'u') {
        const char *known = kind ? strchr(from, kind) : NULL;
        if (!known) return false;
        *out = to[known - from];
        *n_out = 1;
        return true;
    }
    uint32_t c, low;
    if (!hex4(*p, end, &c)) return false;
    *p += 4;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u' || !hex4(*p + 2, end, &low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        *p += 6;
    } else if (c >= 0xdc00 && c <= 0xdfff) {
        return false;
    }
    *n_out = sac_utf8_encode(c, out);
    return true;
}

static sac_status unescape(sac_json_stream *s, const char *from, const char *to, size_t *n_bytes,
                           sac_error *err) {
    size_t need = (size_t)(to - from); /* every escape is longer than what it stands for */
    if (s->unescaped_capacity < need) {
        char *bigger = realloc(s->unescaped, need * 2);
        if (!bigger) return sac_fail(err, SAC_NO_MEMORY, "no memory for a string of %zu bytes", need);
        s->unescaped = bigger;
        s->unescaped_capacity = need * 2;
    }
    size_t n = 0;
    for (const char *p = from; p < to;) {
        if (*p != '\\') {
            s->unescaped[n++] = *p++;
            continue;
        }
        p++;
        size_t n_out;
        if (!unescape_one(&p, to, s->unescaped + n, &n_out))
            return broken(s, "a bad escape in a string", err);
        n += n_out;
    }
    *n_bytes = n;
    return SAC_OK;
}

sac_status sac_json_stream_string(sac_json_stream *s, const char **text, size_t *n_bytes, sac_error *err) {
    skip_space(s);
    if (s->at == s->end || *s->at != '"') return broken(s, "expected a string", err);
    s->at++;
    const char *from = s->at;
    bool has_escapes;
    SAC_TRY(pass_string(s, &has_escapes, err));
    if (!has_escapes) {
        *text = from;
        *n_bytes = (size_t)(s->at - 1 - from);
        return SAC_OK;
    }
    SAC_TRY(unescape(s, from, s->at - 1, n_bytes, err));
    *text = s->unescaped;
    return SAC_OK;
}

static sac_status pass_colon(sac_json_stream *s, sac_error *err) {
    skip_space(s);
    if (s->at == s->end || *s->at != ':') return broken(s, "expected a colon after a key", err);
    s->at++;
    return SAC_OK;
}

sac_status sac_json_stream_key(sac_json_stream *s, const char **text, size_t *n_bytes, sac_error *err) {
    SAC_TRY(sac_json_stream_string(s, text, n_bytes, err));
    return pass_colon(s, err);
}

/* The same strings as sac_json_stream_string, without a copy. *is (may be NULL): it is the n bytes of `name`. */
static sac_status match_string(sac_json_stream *s, const char *name, size_t n, bool *is, sac_error *err) {
    skip_space(s);
    if (s->at == s->end || *s->at != '"') return broken(s, "expected a string", err);
    const char *from = ++s->at;
    bool has_escapes, same = true;
    SAC_TRY(pass_string(s, &has_escapes, err));
    const char *to = s->at - 1;
    if (!has_escapes) {
        if (is) *is = (size_t)(to - from) == n && memcmp(from, name, n) == 0;
        return SAC_OK;
    }
    size_t n_all = 0; /* bytes without escapes; at most n while they are the same */
    for (const char *p = from; p < to;) {
        char out[4] = {*p++};
        size_t n_out = 1;
        if (out[0] == '\\' && !unescape_one(&p, to, out, &n_out)) return broken(s, "a bad escape in a string", err);
        same = same && n_out <= n - n_all && memcmp(name + n_all, out, n_out) == 0;
        n_all += n_out;
    }
    if (is) *is = same && n_all == n;
    return SAC_OK;
}

sac_status sac_json_stream_key_is(sac_json_stream *s, const char *name, bool *is, sac_error *err) {
    SAC_TRY(match_string(s, name, strlen(name), is, err));
    return pass_colon(s, err);
}

static bool is_digit(const char *p, const char *end) {
    return p < end && *p >= '0' && *p <= '9';
}

/* End of the number at s->at by RFC 8259's grammar, NULL when there is none. */
static const char *number_end(const sac_json_stream *s, bool *is_integer) {
    const char *p = s->at;
    *is_integer = true;
    if (p < s->end && *p == '-') p++;
    if (!is_digit(p, s->end)) return NULL;
    if (*p++ != '0')
        while (is_digit(p, s->end)) p++;
    if (p < s->end && *p == '.') {
        *is_integer = false;
        if (!is_digit(++p, s->end)) return NULL;
        while (is_digit(p, s->end)) p++;
    }
    if (p < s->end && (*p == 'e' || *p == 'E')) {
        *is_integer = false;
        p++;
        if (p < s->end && (*p == '+' || *p == '-')) p++;
        if (!is_digit(p, s->end)) return NULL;
        while (is_digit(p, s->end)) p++;
    }
    return p;
}

/* Lists hold many that are short: one pass. False: it is anything else, or there may be more of it. */
static bool read_short_int(sac_json_stream *s, int64_t *value) {
    const char *p = s->at, *end = s->end - p > 18 ? p + 18 : s->end;
    int64_t n = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++) n = 10 * n + (*p - '0');
    if (p == s->at || p == end || *p == '.' || *p == 'e' || *p == 'E' || (*s->at == '0' && p > s->at + 1)) return false;
    *value = n;
    s->at = p;
    return true;
}

sac_status sac_json_stream_int(sac_json_stream *s, int64_t *value, sac_error *err) {
    skip_space(s);
    if (read_short_int(s, value)) return SAC_OK;
    bool is_integer;
    const char *end = number_end(s, &is_integer);
    if (!end || !is_integer) return broken(s, "expected an integer", err);
    bool negative = *s->at == '-';
    int64_t n = 0;
    for (const char *p = s->at + negative; p < end; p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_sub_overflow(n, *p - '0', &n))
            return broken(s, "an integer out of range", err);
    if (!negative && n == INT64_MIN) return broken(s, "an integer out of range", err);
    *value = negative ? n : -n;
    s->at = end;
    return SAC_OK;
}

sac_status sac_json_stream_float(sac_json_stream *s, double *value, sac_error *err) {
    skip_space(s);
    bool is_integer;
    const char *end = number_end(s, &is_integer);
    char text[MAX_NUMBER_BYTES + 1];
    if (!end || end - s->at > MAX_NUMBER_BYTES) return broken(s, "expected a number", err);
    size_t n_bytes = (size_t)(end - s->at);
    memcpy(text, s->at, n_bytes);
    text[n_bytes] = 0;
    if (!s->c_locale) s->c_locale = (void *)newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!s->c_locale) return sac_fail(err, SAC_NO_MEMORY, "no memory for a locale");
    double v = strtod_l(text, NULL, (locale_t)s->c_locale);
    if (!isfinite(v)) return broken(s, "a number out of range", err);
    *value = v;
    s->at = end;
    return SAC_OK;
}

static sac_status skip_scalar(sac_json_stream *s, sac_error *err) {
    static const char *const literals[] = {"true", "false", "null"};
    bool flag;
    if (*s->at == '"') return match_string(s, "", 0, NULL, err);
    for (size_t i = 0; i < SAC_COUNT(literals); i++) {
        size_t n = strlen(literals[i]);
        if (*s->at == literals[i][0] && (size_t)(s->end - s->at) >= n && memcmp(s->at, literals[i], n) == 0) {
            s->at += n;
            return SAC_OK;
        }
    }
    const char *end = number_end(s, &flag);
    if (!end) return broken(s, "expected a value", err);
    s->at = end;
    return SAC_OK;
}

sac_status sac_json_stream_skip(sac_json_stream *s, const char **text, size_t *n_bytes, sac_error *err) {
    skip_space(s);
    const char *from = s->at;
    int depth = s->depth;
    do {
        sac_json_kind kind = sac_json_stream_peek(s);
        bool more = true;
        if (kind == SAC_JSON_BROKEN) return broken(s, "expected a value", err);
        if (kind == SAC_JSON_OBJECT || kind == SAC_JSON_ARRAY)
            SAC_TRY(sac_json_stream_enter(s, *s->at, err));
        else
            SAC_TRY(skip_scalar(s, err));
        while (s->depth > depth) {
            SAC_TRY(sac_json_stream_next(s, &more, err));
            if (more) break;
        }
        if (s->depth > depth && s->opened[s->depth - 1] == '{') {
            SAC_TRY(match_string(s, "", 0, NULL, err));
            SAC_TRY(pass_colon(s, err));
        }
    } while (s->depth > depth);
    if (text) {
        *text = from;
        *n_bytes = (size_t)(s->at - from);
    }
    return SAC_OK;
}

sac_status sac_json_stream_end(sac_json_stream *s, sac_error *err) {
    skip_space(s);
    return s->at == s->end ? SAC_OK : broken(s, "text after the end of the value", err);
}
