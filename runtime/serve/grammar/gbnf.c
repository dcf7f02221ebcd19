#include "gbnf.h"
#include "scan.h"
#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 2048, MAX_PARTS = 8192, MAX_RANGES = 1024 };

typedef struct rule {
    const char *name;
    size_t n;
    int node;
    bool defined;
} rule;

typedef struct gbnf {
    scan text;
    grammar *g;
    rule rules[MAX_RULES];
    int n_rules;
    int parts[MAX_PARTS]; /* a stack: the items of sequences and alternatives that are being read */
    int n_parts;
    grammar_range ranges[MAX_RANGES];
} gbnf;

/* ---------------------------------------------------------------- words */

static void skip_space(gbnf *x) {
    scan *s = &x->text;
    while (s->at < s->end) {
        if (*s->at == '#')
            while (s->at < s->end && *s->at != '\n') s->at++;
        else if (strchr(" \t\r\n", *s->at) && *s->at)
            s->at++;
        else
            return;
    }
}

static size_t name_length(const scan *s) {
    size_t n = 0;
    for (; s->at + n < s->end; n++) {
        char c = s->at[n];
        if (!((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_') break;
    }
    return n;
}

static bool take_defines(gbnf *x) {
    scan *s = &x->text;
    skip_space(x);
    if (s->end - s->at < 3 || memcmp(s->at, "::=", 3) != 0) return false;
    s->at += 3;
    skip_space(x);
    return true;
}

/* Whether the next rule begins here: a name and "::=". */
static bool at_rule(const gbnf *x) {
    gbnf *y = (gbnf *)(uintptr_t)x;
    const char *at = x->text.at;
    y->text.at += name_length(&x->text);
    bool found = y->text.at > at && take_defines(y);
    y->text.at = at;
    return found;
}

static rule *find_rule(gbnf *x, const char *name, size_t n) {
    for (int i = 0; i < x->n_rules; i++)
        if (x->rules[i].n == n && !memcmp(x->rules[i].name, name, n)) return &x->rules[i];
    if (x->n_rules == MAX_RULES) return scan_fail(&x->text, "more than 2048 rules"), NULL;
    rule *r = &x->rules[x->n_rules++];
    *r = (rule){.name = name, .n = n, .node = grammar_forward(x->g)};
    return r->node < 0 ? NULL : r;
}

static bool push_part(gbnf *x, int node) {
    if (x->n_parts == MAX_PARTS) return scan_fail(&x->text, "a rule is too long"), false;
    if (node < 0) return false;
    x->parts[x->n_parts++] = node;
    return true;
}

/* ---------------------------------------------------------------- literals and classes */

static bool read_character(gbnf *x, uint32_t *c) {
    static const char letters[] = "n\nt\tr\r";
    scan *s = &x->text;
    if (s->at < s->end && *s->at == '\n') return scan_fail(s, "a literal or a class without its end"), false;
    if (!scan_take(s, '\\')) return scan_character(s, c);
    if (!scan_character(s, c)) return false;
    for (const char *l = letters; *l; l += 2)
        if (*c == (uint32_t)*l) return *c = (uint32_t)l[1], true;
    if (*c == 'x') return scan_hex(s, 2, c);
    if (*c == 'u') return scan_hex(s, 4, c);
    if (*c == 'U') return scan_hex(s, 8, c);
    if (strchr("\\\"[]-^/'", (int)(*c < 128 ? *c : 0)) && *c) return true;
    return scan_fail(s, "an escape that is not known"), false;
}

static int read_literal(gbnf *x) {
    scan *s = &x->text;
    size_t n = 0;
    char *text = malloc((size_t)(s->end - s->at) + 4); /* an escape is no shorter than what it stands for */
    int node = -1;
    if (!text) x->g->no_memory = true;
    while (text && !scan_take(s, '"')) {
        uint32_t c;
        if (!read_character(x, &c)) break;
        if (c >= 0xd800 && c < 0xe000) scan_fail(s, "an escape of half a character");
        n += sac_utf8_encode(c, text + n);
    }
    if (text && !s->why) node = n ? grammar_bytes(x->g, text, n) : grammar_seq(x->g, NULL, 0);
    free(text);
    return node;
}

static int read_class(gbnf *x) {
    scan *s = &x->text;
    size_t n = 0;
    bool negated = scan_take(s, '^');
    while (!scan_take(s, ']')) {
        uint32_t low, high;
        if (!read_character(x, &low)) return -1;
        high = low;
        if (s->at + 1 < s->end && *s->at == '-' && s->at[1] != ']') {
            s->at++;
            if (!read_character(x, &high)) return -1;
            if (high < low) return scan_fail(s, "a range of characters without order");
        }
        if (n == MAX_RANGES) return scan_fail(s, "a class of too many characters");
        x->ranges[n++] = (grammar_range){low, high};
    }
    return grammar_class(x->g, x->ranges, n, negated, false);
}

/* ---------------------------------------------------------------- rules */

static int read_alternatives(gbnf *x, int depth);

static int read_atom(gbnf *x, int depth) {
    scan *s = &x->text;
    if (scan_take(s, '"')) return read_literal(x);
    if (scan_take(s, '[')) return read_class(x);
    if (scan_take(s, '.')) return grammar_class(x->g, NULL, 0, true, false);
    if (scan_take(s, '(')) {
        int node = read_alternatives(x, depth + 1);
        return scan_take(s, ')') ? node : scan_fail(s, "a group without its end");
    }
    size_t n = name_length(s);
    if (n == 0) return scan_fail(s, "what is no literal, class, group or rule's name");
    rule *r = find_rule(x, s->at, n);
    s->at += n;
    return r ? r->node : -1;
}

static int read_repeated(gbnf *x, int depth) {
    scan *s = &x->text;
    int node = read_atom(x, depth);
    for (skip_space(x); node >= 0 && !s->why; skip_space(x)) {
        int64_t min = 0, max = -1;
        if (scan_take(s, '+'))
            min = 1;
        else if (scan_take(s, '?'))
            max = 1;
        else if (scan_take(s, '{')) {
            if (!scan_times(s, &min, &max)) return scan_fail(s, "a '{' without a number of times");
        } else if (!scan_take(s, '*'))
            break;
        node = max == 0 ? grammar_seq(x->g, NULL, 0) : grammar_repeat(x->g, node, min, max);
    }
    return s->why ? -1 : node;
}

static int read_sequence(gbnf *x, int depth) {
    int from = x->n_parts;
    scan *s = &x->text;
    for (skip_space(x); s->at < s->end && *s->at != '|' && *s->at != ')' && !at_rule(x); skip_space(x))
        if (!push_part(x, read_repeated(x, depth))) return -1;
    int node = grammar_seq(x->g, x->parts + from, x->n_parts - from);
    x->n_parts = from;
    return node;
}

static int read_alternatives(gbnf *x, int depth) {
    int from = x->n_parts;
    if (depth > SCAN_MAX_DEPTH) return scan_fail(&x->text, "groups within groups, too deep");
    do {
        if (!push_part(x, read_sequence(x, depth))) return -1;
    } while (scan_take(&x->text, '|'));
    int n = x->n_parts - from, node = n == 1 ? x->parts[from] : grammar_alt(x->g, x->parts + from, n);
    x->n_parts = from;
    return node;
}

static bool read_rule(gbnf *x) {
    scan *s = &x->text;
    if (!at_rule(x)) return scan_fail(s, "a rule is wanted: NAME ::= ..."), false;
    size_t n = name_length(s);
    rule *r = find_rule(x, s->at, n);
    if (!r) return false;
    if (r->defined) return scan_fail(s, "a rule that is there already"), false;
    r->defined = true;
    s->at += n;
    take_defines(x);
    int node = read_alternatives(x, 0);
    if (s->at < s->end && *s->at == ')') scan_fail(s, "a ')' without its '('");
    return !s->why && grammar_alt_set(x->g, r->node, &node, 1);
}

static int find_root(gbnf *x, char *why, size_t room) {
    for (int i = 0; i < x->n_rules; i++)
        if (!x->rules[i].defined) {
            snprintf(why, room, "the rule '%.*s' is used and not there",
                     (int)(x->rules[i].n < 60 ? x->rules[i].n : 60), x->rules[i].name);
            return -1;
        }
    for (int i = 0; i < x->n_rules; i++)
        if (x->rules[i].n == 4 && !memcmp(x->rules[i].name, "root", 4)) return x->rules[i].node;
    snprintf(why, room, "it has no rule 'root'");
    return -1;
}

int gbnf_compile(grammar *g, const char *text, size_t n, char *why, size_t room) {
    *why = 0;
    gbnf *x = calloc(1, sizeof *x);
    if (!x) return g->no_memory = true, -1;
    x->text = (scan){.at = text, .end = text + n};
    x->g = g;
    bool ok = true;
    for (skip_space(x); ok && x->text.at < x->text.end; skip_space(x)) ok = read_rule(x);
    int line = 1, node = -1;
    for (const char *c = text; c < x->text.at; c++) line += *c == '\n';
    if (x->text.why)
        snprintf(why, room, "line %d: %s", line, x->text.why);
    else if (ok)
        node = find_root(x, why, room);
    free(x);
    return node;
}
