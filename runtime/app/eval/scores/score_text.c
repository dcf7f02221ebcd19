#define _GNU_SOURCE
#include "score_text.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void text_pool_free(text_pool *p) {
    for (size_t i = 0; i < p->n; i++) free(p->items[i]);
    free(p->items);
    *p = (text_pool){0};
}

char *text_take(text_pool *p, size_t n_bytes) {
    if ((p->n & (p->n - 1)) == 0) { /* a power of two is full */
        void **more = realloc(p->items, (p->n ? 2 * p->n : 1) * sizeof *more);
        if (!more) return p->failed = true, NULL;
        p->items = more;
    }
    char *s = calloc(1, n_bytes + 1);
    if (!s) return p->failed = true, NULL;
    return p->items[p->n++] = s;
}

/* Where there is no memory, an empty text that nobody writes to. */
static char *nothing(void) {
    static char empty[1];
    return empty;
}

char *text_copy(text_pool *p, const char *s, size_t n) {
    char *t = text_take(p, n);
    if (!t) return nothing();
    memcpy(t, s, n);
    return t;
}

uint32_t text_next(const char *p, size_t *n_bytes) {
    bool cut;
    return sac_utf8_next(p, p + strnlen(p, 4), n_bytes, &cut) ? sac_utf8_decode(p) : 0xfffd;
}

uint32_t text_before(const char *start, const char *p) {
    if (p == start) return 0;
    do p--;
    while (p > start && sac_utf8_continues(*p));
    size_t n;
    return text_next(p, &n);
}

/* ---------------------------------------------------------------- characters */

bool text_is_space(uint32_t c) {
    if ((c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85) return true;
    if (c < 0x80) return false;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool text_is_digit(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ND;
}

bool text_is_word(uint32_t c) {
    if (c == '_') return true;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

/* ---------------------------------------------------------------- texts */

char *text_lower(text_pool *p, const char *s) {
    char *t =
        text_take(p, 3 * strlen(s) + 3); /* no character gets longer than three bytes for each of its own */
    if (!t) return nothing();
    char *to = t;
    for (size_t n; *s; s += n) {
        uint32_t c = text_next(s, &n);
        if (c == 0x130) /* the one character that becomes two */
            to += sac_utf8_encode('i', to), to += sac_utf8_encode(0x307, to);
        else
            to += sac_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)c), to);
    }
    *to = 0;
    return t;
}

char *text_upper(text_pool *p, const char *s) {
    char *t = text_take(p, 3 * strlen(s) + 3);
    if (!t) return nothing();
    char *to = t;
    for (size_t n; *s; s += n) {
        uint32_t c = text_next(s, &n);
        if (c == 0xdf)
            to = stpcpy(to, "SS");
        else
            to += sac_utf8_encode((uint32_t)utf8proc_toupper((utf8proc_int32_t)c), to);
    }
    *to = 0;
    return t;
}

char *text_strip(text_pool *p, const char *s) {
    size_t n;
    while (*s && text_is_space(text_next(s, &n))) s += n;
    const char *end = s + strlen(s);
    while (end > s && text_is_space(text_before(s, end))) {
        do end--;
        while (end > s && sac_utf8_continues(*end));
    }
    return text_copy(p, s, (size_t)(end - s));
}

char *text_strip_chars(text_pool *p, const char *s, const char *ascii) {
    s += strspn(s, ascii);
    size_t n = strlen(s);
    while (n && strchr(ascii, s[n - 1])) n--;
    return text_copy(p, s, n);
}

char *text_replace(text_pool *p, const char *s, const char *from, const char *to) {
    size_t count = 0, n_from = strlen(from), n_to = strlen(to);
    for (const char *at = s; (at = strstr(at, from)); at += n_from) count++;
    char *t = text_take(p, strlen(s) + count * n_to);
    if (!t) return nothing();
    char *out = t;
    for (const char *at; (at = strstr(s, from)); s = at + n_from) {
        memcpy(out, s, (size_t)(at - s));
        memcpy(out + (at - s), to, n_to);
        out += (size_t)(at - s) + n_to;
    }
    strcpy(out, s);
    return t;
}

char *text_words(text_pool *p, const char *s) {
    char *t = text_take(p, strlen(s));
    if (!t) return nothing();
    char *out = t;
    bool gap = false;
    for (size_t n; *s; s += n) {
        if (text_is_space(text_next(s, &n))) {
            gap = out > t;
            continue;
        }
        if (gap) *out++ = ' ';
        gap = false;
        memcpy(out, s, n);
        out += n;
    }
    *out = 0;
    return t;
}

size_t text_word_count(const char *s) {
    size_t count = 0;
    bool within = false;
    for (size_t n; *s; s += n) {
        bool space = text_is_space(text_next(s, &n));
        count += !space && !within;
        within = !space;
    }
    return count;
}

size_t text_length(const char *s) {
    size_t count = 0;
    for (size_t n; *s; s += n, count++) text_next(s, &n);
    return count;
}

const char *text_last(const char *s, const char *part) {
    const char *last = NULL;
    if (!*part) return s + strlen(s);
    for (const char *at = s; (at = strstr(at, part)); at++) last = at;
    return last;
}

/* ---------------------------------------------------------------- numbers */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Digits, with single underscores between them. */
static const char *skip_digits(const char *s) {
    while (is_digit(*s) || (*s == '_' && is_digit(s[1]))) s++;
    return s;
}

static bool is_number(const char *s) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    if (*s == '+' || *s == '-') s++;
    for (size_t i = 0; i < 3; i++) {
        size_t k = 0;
        while (names[i][k] && (s[k] | 32) == names[i][k]) k++;
        if (!names[i][k] && !s[k]) return true;
    }
    bool before = is_digit(*s);
    if (before) s = skip_digits(s);
    if (*s == '.') {
        s++;
        if (is_digit(*s))
            s = skip_digits(s);
        else if (!before)
            return false;
        before = true;
    }
    if (!before) return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-') s++;
        if (!is_digit(*s)) return false;
        s = skip_digits(s);
    }
    return !*s;
}

bool text_float(const char *s, double *out) {
    text_pool p = {0};
    char *t = text_strip(&p, s);
    bool ok = is_number(t);
    if (ok) *out = strtod(text_replace(&p, t, "_", ""), NULL);
    text_pool_free(&p);
    return ok;
}
