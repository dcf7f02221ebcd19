#include "tokenizer_regex.h"

#include "tokenizer_buffer.h"
#include "utf8.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MAX_PATTERN_BYTES 16384
/* A match of `\s*[\r\n]+` over a text of n spaces takes n steps; these let a megabyte of them pass and stop
 * `(a*)*b` within a second. */
#define MATCH_LIMIT       10000000
#define HEAP_LIMIT_KIB    65536
#define JIT_STACK_BYTES   (1 << 20)

/* ---- from Oniguruma's dialect to PCRE2's ---- */

/* PCRE2's \s has U+180E, Oniguruma's has not; otherwise both are White_Space. */
#define SPACES                                                                                               \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
/* PCRE2's \w has no marks. Oniguruma's outside of a class also has the Latin-1 numbers. */
#define WORDS     "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORDS_OUT "[" WORDS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}]"

typedef struct translator {
    const char *p, *end;
    sac_buffer out;
    bool in_class;
    sac_error *err;
} translator;

static sac_status put(translator *t, const char *text) {
    return sac_buffer_add(&t->out, text, strlen(text), t->err);
}

static sac_status refuse(const translator *t, const char *from, size_t n_bytes) {
    size_t left = (size_t)(t->end - from);
    return sac_fail(t->err, SAC_BAD_FILE, "the regular expression construct \"%.*s\" is not supported",
                    (int)(n_bytes < left ? n_bytes : left), from);
}

/* "{Han}" after \p: a script's name means Script in Oniguruma, Script_Extensions in PCRE2. */
static sac_status property(translator *t, const char *from) {
    const char *close = t->p < t->end && *t->p == '{' ? memchr(t->p, '}', (size_t)(t->end - t->p)) : NULL;
    if (!close || close - t->p > 40) return refuse(t, from, 12);
    const char *name = t->p + 1;
    if (name < close && *name == '^') name++;
    char script[64] = "\\p{sc:";
    size_t n = strlen(script);
    memcpy(script + n, name, (size_t)(close - name));
    memcpy(script + n + (size_t)(close - name), "}", 2);
    int code;
    PCRE2_SIZE at;
    pcre2_code *probe =
        close - name > 2 && !memchr(name, ':', (size_t)(close - name))
            ? pcre2_compile((PCRE2_SPTR)script, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL)
            : NULL;
    SAC_TRY(sac_buffer_add(&t->out, from, (size_t)(name - from), t->err));
    if (probe) SAC_TRY(put(t, "sc:"));
    pcre2_code_free(probe);
    SAC_TRY(sac_buffer_add(&t->out, name, (size_t)(close + 1 - name), t->err));
    t->p = close + 1;
    return SAC_OK;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \xHH, \x{H...} and \uHHHH; t->p is behind the letter. */
static sac_status code_point(translator *t, const char *from, char letter) {
    uint32_t c = 0;
    size_t want = letter == 'u' ? 4 : 2, n = 0;
    bool braces = letter == 'x' && t->p < t->end && *t->p == '{';
    if (braces) {
        t->p++;
        want = 6;
    }
    for (; n < want && t->p < t->end && hex_digit(*t->p) >= 0; t->p++, n++)
        c = c << 4 | (uint32_t)hex_digit(*t->p);
    if (n == 0 || (letter == 'u' && n < 4) || (braces && (t->p == t->end || *t->p++ != '}')))
        return refuse(t, from, 10);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (letter == 'x' && !braces && c > 0x7f))
        return refuse(t, from, 10);
    static const char digits[] = "0123456789ABCDEF";
    char text[12] = "\\x{";
    size_t at = 3;
    for (int shift = 20; shift >= 0; shift -= 4) text[at++] = digits[c >> shift & 15];
    text[at++] = '}';
    return sac_buffer_add(&t->out, text, at, t->err);
}

static sac_status escape(translator *t) {
    const char *from = t->p;
    if (t->end - t->p < 2) return refuse(t, from, 1);
    char c = t->p[1];
    t->p += 2;
    switch (c) {
    case 's': return put(t, t->in_class ? SPACES : "[" SPACES "]");
    case 'S': return put(t, t->in_class ? "\\S\\x{180E}" : "[^" SPACES "]");
    case 'w': return put(t, t->in_class ? WORDS : WORDS_OUT);
    case 'W':
        if (t->in_class) return refuse(t, from, 2);
        return put(t, "[^" WORDS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}]");
    case 'b':
        if (t->in_class) return put(t, "\\x{08}");
        return put(t, "(?:(?<=" WORDS_OUT ")(?!" WORDS_OUT ")|(?<!" WORDS_OUT ")(?=" WORDS_OUT "))");
    case 'v': return put(t, "\\x{0B}");
    case 'x':
    case 'u': return code_point(t, from, c);
    case 'p':
    case 'P': return property(t, from);
    case 'A':
    case 'z':
    case 'Z':
        if (t->in_class) return refuse(t, from, 2);
        break;
    case 'd':
    case 'D':
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'a':
    case 'e': break;
    default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            return refuse(t, from, 2);
        t->p = from + 1 + sac_utf8_length(c);
        if ((unsigned char)c >= 0x80) from++; /* PCRE2 wants no backslash before these */
    }
    return sac_buffer_add(&t->out, from, (size_t)(t->p - from), t->err);
}

/* What follows "(": only groups that mean the same in both dialects. */
static sac_status group(translator *t) {
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    const char *from = t->p;
    size_t left = (size_t)(t->end - from), n = 1;
    if (left >= 2 && from[1] == '*') return refuse(t, from, 8);
    if (left >= 2 && from[1] == '?') {
        n = 0;
        for (size_t i = 0; i < SAC_COUNT(same) && !n; i++)
            if (left >= strlen(same[i]) && memcmp(from, same[i], strlen(same[i])) == 0) n = strlen(same[i]);
        /* "(?i)" elsewhere reaches over alternatives in one dialect and not in the other */
        if (!n && t->out.n_bytes == 0 && left >= 4 && memcmp(from, "(?i)", 4) == 0) n = 4;
        if (!n) return refuse(t, from, 5);
    }
    t->p += n;
    return sac_buffer_add(&t->out, from, n, t->err);
}

/* "{2,3}": "{,n}" is a number in Oniguruma only, and what may follow differs. */
static sac_status repeat(translator *t) {
    const char *from = t->p, *p = from + 1;
    while (p < t->end && ((*p >= '0' && *p <= '9') || *p == ',')) p++;
    if (p == t->end || *p != '}' || p == from + 1) return refuse(t, from, 8);
    bool range = memchr(from, ',', (size_t)(p - from)) != NULL;
    p++;
    if (p < t->end && (*p == '+' || (*p == '?' && !range))) return refuse(t, from, (size_t)(p + 1 - from));
    if (from[1] == ',') {
        SAC_TRY(put(t, "{0"));
        from++;
    }
    t->p = p;
    return sac_buffer_add(&t->out, from, (size_t)(p - from), t->err);
}

static sac_status open_class(translator *t) {
    const char *from = t->p++;
    if (t->p < t->end && *t->p == '^') t->p++;
    if (t->p < t->end && *t->p == ']') return refuse(t, from, 3);
    t->in_class = true;
    return sac_buffer_add(&t->out, from, (size_t)(t->p - from), t->err);
}

static sac_status translate(translator *t) {
    while (t->p < t->end) {
        const char *from = t->p;
        if (*t->p == '\\') {
            SAC_TRY(escape(t));
        } else if (t->in_class && (*t->p == '[' || (*t->p == '&' && t->end - t->p > 1 && t->p[1] == '&'))) {
            return refuse(t, from, 2); /* sets within sets */
        } else if (!t->in_class && *t->p == '[') {
            SAC_TRY(open_class(t));
        } else if (!t->in_class && *t->p == '(') {
            SAC_TRY(group(t));
        } else if (!t->in_class && *t->p == '{') {
            SAC_TRY(repeat(t));
        } else {
            if (*t->p == ']') t->in_class = false;
            t->p += sac_utf8_length(*t->p);
            SAC_TRY(sac_buffer_add(&t->out, from, (size_t)(t->p - from), t->err));
        }
    }
    return SAC_OK;
}

/* ---- compiling and matching ---- */

static sac_status compile(sac_regex *re, const char *pattern, size_t n_bytes, uint32_t options,
                          sac_error *err) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return sac_fail(err, SAC_NO_MEMORY, "no memory for a regular expression");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE at;
    re->code = pcre2_compile((PCRE2_SPTR)pattern, n_bytes, options, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!re->code) {
        char text[120];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return sac_fail(err, SAC_BAD_FILE, "bad regular expression \"%.*s\": %s",
                        (int)(n_bytes < 160 ? n_bytes : 160), pattern, text);
    }
    re->has_jit = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0; /* without it, slower but the same */
    return SAC_OK;
}

sac_status sac_regex_compile(sac_regex *re, const char *pattern, size_t n_bytes, bool literal,
                             sac_error *err) {
    memset(re, 0, sizeof *re);
    if (n_bytes == 0 || n_bytes > MAX_PATTERN_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "a pattern of %zu bytes, must be 1 to %d", n_bytes,
                        MAX_PATTERN_BYTES);
    if (literal) return compile(re, pattern, n_bytes, PCRE2_UTF | PCRE2_LITERAL, err);
    translator t = {pattern, pattern + n_bytes, {0}, false, err};
    sac_status st = translate(&t);
    if (st == SAC_OK) /* "^" and "$" are about lines in Ruby's syntax */
        st = compile(re, t.out.data, t.out.n_bytes,
                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, err);
    sac_buffer_free(&t.out);
    return st;
}

void sac_regex_free(sac_regex *re) {
    pcre2_code_free(re->code);
    memset(re, 0, sizeof *re);
}

void sac_regex_scratch_free(sac_regex_scratch *s) {
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    memset(s, 0, sizeof *s);
}

static sac_status make_scratch(sac_regex_scratch *s, sac_error *err) {
    if (s->match) return SAC_OK;
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_BYTES, NULL);
    s->match = pcre2_match_data_create(1, NULL);
    if (!s->context || !s->stack || !s->match) {
        sac_regex_scratch_free(s);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for matching regular expressions");
    }
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return SAC_OK;
}

sac_regex_iter sac_regex_find(const sac_regex *re, sac_regex_scratch *scratch, const char *text,
                              size_t n_bytes) {
    return (sac_regex_iter){re, scratch, text, n_bytes, 0, 0, false};
}

sac_status sac_regex_next(sac_regex_iter *it, size_t *begin, size_t *end, bool *found, sac_error *err) {
    *found = false;
    SAC_TRY(make_scratch(it->scratch, err));
    while (it->at <= it->n_bytes) {
        int (*run)(const pcre2_code *, PCRE2_SPTR, PCRE2_SIZE, PCRE2_SIZE, uint32_t, pcre2_match_data *,
                   pcre2_match_context *) = it->re->has_jit ? pcre2_jit_match : pcre2_match;
        int n = run(it->re->code, (PCRE2_SPTR)it->text, it->n_bytes, it->at, PCRE2_NO_UTF_CHECK,
                    it->scratch->match, it->scratch->context);
        if (n == PCRE2_ERROR_NOMATCH) break;
        if (n < 0) {
            char text[120];
            pcre2_get_error_message(n, (PCRE2_UCHAR *)text, sizeof text);
            return sac_fail(err, SAC_BAD_FILE,
                            "the tokenizer's regular expression takes too long on this text (%s)", text);
        }
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(it->scratch->match);
        bool empty = where[0] == where[1];
        if (empty && it->any && where[1] == it->last_end) {
            if (it->at == it->n_bytes) break;
            it->at += sac_utf8_length(it->text[it->at]);
            continue;
        }
        *begin = where[0];
        *end = it->at = it->last_end = where[1];
        it->any = true;
        *found = true;
        return SAC_OK;
    }
    return SAC_OK;
}
