/* lexer.c - Jinja's rules of white space and tokens, for trim_blocks and lstrip_blocks on. */
#include "number.h"
#include "syntax.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 20, MAX_BRACKETS = 256 };

typedef struct lexer {
    sac_tmpl_source *s;
    char *text; /* with one kind of line end */
    const char *at, *end;
    int line;
    bool line_starting;
    sac_lex_token *tokens;
    size_t n, capacity;
} lexer;

sac_status sac_tmpl_source_fail(const sac_tmpl_source *s, int line, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sac_fail(s->err, SAC_BAD_FILE,
                    "%.120s line %d: %s; mend the template, or name another with --chat", s->name, line,
                    text);
}

sac_status sac_tmpl_source_full(const sac_tmpl_source *s) {
    return sac_fail(s->err, SAC_NO_MEMORY, "%.120s: no memory for a template of %zu bytes", s->name,
                    s->n_bytes);
}

static sac_status add(lexer *l, sac_token_kind kind, const char *text, size_t n_bytes) {
    if (l->n == MAX_TOKENS) return sac_tmpl_source_fail(l->s, l->line, "more than %d tokens", MAX_TOKENS);
    if (l->n == l->capacity) {
        size_t more = l->capacity ? 2 * l->capacity : 256;
        sac_lex_token *grown =
            sac_tmpl_grow(l->s->pool, l->tokens, l->n * sizeof *grown, more * sizeof *grown);
        if (!grown) return sac_tmpl_source_full(l->s);
        l->tokens = grown;
        l->capacity = more;
    }
    l->tokens[l->n++] = (sac_lex_token){.kind = kind, .line = l->line, .text = text, .n_bytes = n_bytes};
    return SAC_OK;
}

static void pass(lexer *l, const char *to) {
    for (const char *p = l->at; p < to; p++) l->line += *p == '\n';
    if (to > l->at) l->line_starting = to[-1] == '\n';
    l->at = to;
}

static bool here(const lexer *l, const char *p, const char *what) {
    size_t n = strlen(what);
    return (size_t)(l->end - p) >= n && memcmp(p, what, n) == 0;
}

/* What stands at p, if the tag ends there: the first byte behind it, white space that it eats included. */
static const char *tag_end(const lexer *l, const char *p, const char *bracket, bool is_variable) {
    char minus[4] = {'-', bracket[0], bracket[1], 0}, plus[4] = {'+', bracket[0], bracket[1], 0};
    if (here(l, p, minus)) return sac_tmpl_skip_space(p + 3, l->end);
    if (!is_variable && here(l, p, plus)) return p + 3;
    if (!here(l, p, bracket)) return NULL;
    p += 2;
    return !is_variable && p < l->end && *p == '\n' ? p + 1 : p;
}

/* The text before a tag, with what the tag's sign or lstrip_blocks takes away. */
static sac_status add_data(lexer *l, const char *to, char sign, bool is_variable) {
    const char *end = to;
    if (sign == '-')
        end = sac_tmpl_skip_space_back(l->at, to);
    else if (sign != '+' && !is_variable) {
        const char *line = to;
        while (line > l->at && line[-1] != '\n') line--;
        if ((line > l->at || l->line_starting) && sac_tmpl_skip_space(line, to) == to) end = line;
    }
    return end > l->at ? add(l, SAC_LEX_DATA, l->at, (size_t)(end - l->at)) : SAC_OK;
}

/* ---- within a tag ---- */

static const struct {
    const char *text;
    sac_token_kind kind;
} operators[] = {
    {"//", SAC_LEX_FLOORDIV}, {"**", SAC_LEX_POW},     {"==", SAC_LEX_EQ},    {"!=", SAC_LEX_NE},
    {">=", SAC_LEX_GE},       {"<=", SAC_LEX_LE},      {"+", SAC_LEX_ADD},    {"-", SAC_LEX_SUB},
    {"/", SAC_LEX_DIV},       {"*", SAC_LEX_MUL},      {"%", SAC_LEX_MOD},    {"~", SAC_LEX_TILDE},
    {"[", SAC_LEX_LBRACKET},  {"]", SAC_LEX_RBRACKET}, {"(", SAC_LEX_LPAREN}, {")", SAC_LEX_RPAREN},
    {"{", SAC_LEX_LBRACE},    {"}", SAC_LEX_RBRACE},   {">", SAC_LEX_GT},     {"<", SAC_LEX_LT},
    {"=", SAC_LEX_ASSIGN},    {".", SAC_LEX_DOT},      {":", SAC_LEX_COLON},  {"|", SAC_LEX_PIPE},
    {",", SAC_LEX_COMMA},     {";", SAC_LEX_SEMICOLON}};

static sac_status lex_number(lexer *l) {
    sac_tmpl_number number;
    const char *end = sac_tmpl_read_number(l->at, l->end, l->at > l->text && l->at[-1] == '.', &number);
    if (!number.is_valid)
        return sac_tmpl_source_fail(l->s, l->line, "%.*s is a number beyond 64 bits",
                                    (int)(end - l->at > 40 ? 40 : end - l->at), l->at);
    SAC_TRY(add(l, number.is_float ? SAC_LEX_FLOAT : SAC_LEX_INT, l->at, (size_t)(end - l->at)));
    if (number.is_float)
        l->tokens[l->n - 1].real = number.real;
    else
        l->tokens[l->n - 1].integer = number.integer;
    pass(l, end);
    return SAC_OK;
}

static sac_status lex_name(lexer *l) {
    const char *p = l->at;
    while (p < l->end && sac_tmpl_continues_name(sac_utf8_decode(p))) p += sac_utf8_length(*p);
    SAC_TRY(add(l, SAC_LEX_NAME, l->at, (size_t)(p - l->at)));
    pass(l, p);
    return SAC_OK;
}

static sac_status lex_string(lexer *l) {
    char quote = *l->at;
    const char *p = l->at + 1;
    while (p < l->end && *p != quote) p += *p == '\\' && p + 1 < l->end ? 2 : 1;
    if (p >= l->end) return sac_tmpl_source_fail(l->s, l->line, "a string has no closing %c", quote);
    size_t n = (size_t)(p - l->at - 1);
    char *value = sac_tmpl_take(l->s->pool, n + 1);
    if (!value) return sac_tmpl_source_full(l->s);
    if (!sac_tmpl_unescape(l->at + 1, n, value, &n))
        return sac_tmpl_source_fail(l->s, l->line, "a string has an escape that is not one");
    SAC_TRY(add(l, SAC_LEX_STRING, value, n));
    pass(l, p + 1);
    return SAC_OK;
}

static sac_status lex_operator(lexer *l, char *brackets, int *depth) {
    size_t i = 0;
    while (i < SAC_COUNT(operators) && !here(l, l->at, operators[i].text)) i++;
    if (i == SAC_COUNT(operators))
        return sac_tmpl_source_fail(l->s, l->line, "unexpected character '%.*s'",
                                    (int)sac_tmpl_char_bytes(l->at, l->end), l->at);
    char c = *l->at;
    if (c == '{' || c == '(' || c == '[') {
        if (*depth == MAX_BRACKETS)
            return sac_tmpl_source_fail(l->s, l->line, "brackets more than %d deep", MAX_BRACKETS);
        brackets[(*depth)++] = c == '{' ? '}' : c == '(' ? ')' : ']';
    } else if (c == '}' || c == ')' || c == ']') {
        if (*depth == 0 || brackets[--*depth] != c)
            return sac_tmpl_source_fail(l->s, l->line, "unexpected '%c'", c);
    }
    SAC_TRY(add(l, operators[i].kind, l->at, strlen(operators[i].text)));
    pass(l, l->at + strlen(operators[i].text));
    return SAC_OK;
}

static sac_status lex_tag(lexer *l, bool is_variable) {
    char brackets[MAX_BRACKETS];
    int depth = 0, line = l->line;
    while (l->at < l->end) {
        const char *end = depth ? NULL : tag_end(l, l->at, is_variable ? "}}" : "%}", is_variable);
        if (end) {
            SAC_TRY(add(l, is_variable ? SAC_LEX_VARIABLE_END : SAC_LEX_BLOCK_END, l->at, 2));
            pass(l, end);
            return SAC_OK;
        }
        const char *text = sac_tmpl_skip_space(l->at, l->end);
        if (text > l->at)
            pass(l, text);
        else if (*l->at >= '0' && *l->at <= '9')
            SAC_TRY(lex_number(l));
        else if (sac_tmpl_begins_name(sac_utf8_decode(l->at)))
            SAC_TRY(lex_name(l));
        else if (*l->at == '\'' || *l->at == '"')
            SAC_TRY(lex_string(l));
        else
            SAC_TRY(lex_operator(l, brackets, &depth));
    }
    return sac_tmpl_source_fail(l->s, line, "a tag has no closing %s", is_variable ? "}}" : "%}");
}

/* ---- the text between tags ---- */

/* p stands behind "{%" and its sign: behind `word` and the end of that tag, or NULL. */
static const char *plain_tag(const lexer *l, const char *p, const char *word) {
    p = sac_tmpl_skip_space(p, l->end);
    if (!here(l, p, word)) return NULL;
    p = sac_tmpl_skip_space(p + strlen(word), l->end);
    if (strcmp(word, "raw")) return tag_end(l, p, "%}", false);
    if (here(l, p, "-%}")) return sac_tmpl_skip_space(p + 3, l->end);
    return here(l, p, "%}") ? p + 2 : NULL;
}

static char sign_at(const lexer *l, const char *p) {
    return p < l->end && (*p == '-' || *p == '+') ? *p : 0;
}

/* As in Jinja, {% raw %} and comments that nothing follows need no end. */
static sac_status lex_raw(lexer *l, const char *body) {
    int line = l->line;
    pass(l, body);
    for (const char *p = l->at; p < l->end; p++) {
        if (!here(l, p, "{%")) continue;
        char sign = sign_at(l, p + 2);
        const char *end = plain_tag(l, p + 2 + (sign != 0), "endraw");
        if (!end) continue;
        SAC_TRY(add_data(l, p, sign, false));
        pass(l, end);
        return SAC_OK;
    }
    if (l->at == l->end) return SAC_OK;
    return sac_tmpl_source_fail(l->s, line, "{%% raw %%} has no {%% endraw %%}");
}

static sac_status lex_comment(lexer *l) {
    for (const char *p = l->at; p < l->end; p++) {
        const char *end = tag_end(l, p, "#}", false);
        if (!end) continue;
        pass(l, end);
        return SAC_OK;
    }
    if (l->at == l->end) return SAC_OK;
    return sac_tmpl_source_fail(l->s, l->line, "a comment has no closing #}");
}

static sac_status lex_all(lexer *l) {
    while (l->at < l->end) {
        const char *p = l->at;
        while (p < l->end && !(p[0] == '{' && p + 1 < l->end && strchr("{%#", p[1]))) p++;
        if (p >= l->end) {
            SAC_TRY(add(l, SAC_LEX_DATA, l->at, (size_t)(l->end - l->at)));
            pass(l, l->end);
            break;
        }
        char sign = sign_at(l, p + 2), tag = p[1];
        SAC_TRY(add_data(l, p, sign, tag == '{'));
        const char *body = p + 2 + (sign != 0), *raw = tag == '%' ? plain_tag(l, body, "raw") : NULL;
        pass(l, p);
        if (raw) {
            SAC_TRY(lex_raw(l, raw));
            continue;
        }
        if (tag != '#') SAC_TRY(add(l, tag == '{' ? SAC_LEX_VARIABLE_BEGIN : SAC_LEX_BLOCK_BEGIN, p, 2));
        pass(l, body);
        SAC_TRY(tag == '#' ? lex_comment(l) : lex_tag(l, tag == '{'));
    }
    return add(l, SAC_LEX_END, l->end, 0);
}

/* \r\n and \r become \n; one line end at the end goes. */
static size_t copy_lines(char *to, const char *text, size_t n_bytes) {
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '\r' && i + 1 < n_bytes && text[i + 1] == '\n') continue;
        to[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    return n && to[n - 1] == '\n' ? n - 1 : n;
}

sac_status sac_tmpl_lex(sac_tmpl_source *s) {
    lexer l = {.s = s, .line = 1, .line_starting = true};
    l.text = sac_tmpl_take(s->pool, s->n_bytes + 1);
    if (!l.text) return sac_tmpl_source_full(s);
    l.at = l.text;
    l.end = l.text + copy_lines(l.text, s->text, s->n_bytes);
    SAC_TRY(lex_all(&l));
    s->tokens = l.tokens;
    s->n_tokens = l.n;
    return SAC_OK;
}
