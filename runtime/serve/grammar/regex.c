#include "regex.h"
#include "scan.h"

#include <string.h>

enum { MAX_RANGES = 512, MAX_PARTS = 4096 };

typedef struct regex {
    scan text;
    grammar *g;
    bool in_json, whole;
    int parts[MAX_PARTS]; /* a stack: the items of sequences and alternatives that are being read */
    int n_parts;
} regex;

typedef struct ranges {
    grammar_range of[MAX_RANGES];
    size_t n;
    bool negated;
} ranges;

static bool push_part(regex *x, int node) {
    if (x->n_parts == MAX_PARTS) return scan_fail(&x->text, "it is too long"), false;
    if (node < 0) return false;
    x->parts[x->n_parts++] = node;
    return true;
}

/* ---------------------------------------------------------------- characters and classes */

static void add(ranges *to, uint32_t low, uint32_t high) {
    if (to->n < MAX_RANGES) to->of[to->n++] = (grammar_range){low, high};
}

/* \d, \w, \s and their opposites; false: the letter is none of them. */
static bool add_shorthand(ranges *to, char letter) {
    static const grammar_range digits[] = {{'0', '9'}},
                               words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                               spaces[] = {{'\t', '\r'}, {' ', ' '}};
    const grammar_range *from = NULL;
    size_t n = 0;
    switch (letter | 32) {
    case 'd': from = digits, n = 1; break;
    case 'w': from = words, n = 4; break;
    case 's': from = spaces, n = 2; break;
    default: return false;
    }
    if (letter & 32) {
        for (size_t i = 0; i < n; i++) add(to, from[i].low, from[i].high);
        return true;
    }
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (from[i].low > next) add(to, next, from[i].low - 1);
        next = from[i].high + 1;
    }
    add(to, next, 0x10ffff);
    return true;
}

/* Behind a backslash that begins no shorthand. */
static bool read_escape(regex *x, bool in_class, uint32_t *c) {
    static const char letters[] = "n\nt\tr\rf\fv\v";
    scan *s = &x->text;
    if (!scan_character(s, c)) return false;
    for (const char *l = letters; *l; l += 2)
        if (*c == (uint32_t)*l) return *c = (uint32_t)l[1], true;
    if (*c == 'x') return scan_hex(s, 2, c);
    if (*c == 'u' && scan_take(s, '{')) {
        int n = 0;
        while (s->at + n < s->end && n < 7 && s->at[n] != '}') n++;
        return scan_hex(s, n, c) && (scan_take(s, '}') || (scan_fail(s, "an escape without its end"), false));
    }
    if (*c == 'u') return scan_hex(s, 4, c);
    if (*c == '0' && (s->at == s->end || *s->at < '0' || *s->at > '9')) return *c = 0, true;
    if (in_class && *c == 'b') return *c = '\b', true;
    bool letter = (*c | 32) >= 'a' && (*c | 32) <= 'z', digit = *c >= '0' && *c <= '9';
    if (!letter && !digit) return true;
    scan_fail(s, digit ? "a back reference, which is not regular"
                       : "an escape that is not taken, such as \\b or \\p");
    return false;
}

/* One character of a class, or a shorthand (*single is then false). */
static bool read_member(regex *x, ranges *to, uint32_t *c, bool *single) {
    scan *s = &x->text;
    *single = true;
    if (!scan_take(s, '\\')) return scan_character(s, c);
    *single = s->at == s->end || !add_shorthand(to, *s->at);
    if (*single) return read_escape(x, true, c);
    s->at++;
    return true;
}

static int read_class(regex *x) {
    scan *s = &x->text;
    ranges all = {.negated = scan_take(s, '^')};
    while (!scan_take(s, ']')) {
        uint32_t low, high;
        bool single, other = true;
        if (!read_member(x, &all, &low, &single)) return -1;
        high = low;
        if (single && s->at + 1 < s->end && *s->at == '-' && s->at[1] != ']') {
            s->at++;
            if (!read_member(x, &all, &high, &other)) return -1;
            if (!other || high < low) return scan_fail(s, "a range of characters without order");
        }
        if (single) add(&all, low, high);
        if (all.n == MAX_RANGES) return scan_fail(s, "a class of too many characters");
    }
    return grammar_class(x->g, all.of, all.n, all.negated, x->in_json);
}

static int one_character(regex *x, uint32_t c) {
    return grammar_class(x->g, &(grammar_range){c, c}, 1, false, x->in_json);
}

static int any_character(regex *x, bool lines) {
    static const grammar_range ends[] = {{'\n', '\n'}, {'\r', '\r'}};
    return grammar_class(x->g, ends, lines ? 0 : 2, true, x->in_json);
}

/* ---------------------------------------------------------------- groups, alternatives, repeats */

static int read_alternatives(regex *x, int depth);

static int read_group(regex *x, int depth) {
    scan *s = &x->text;
    if (scan_take(s, '?')) {
        bool named = scan_take(s, 'P');
        if (scan_take(s, '<') && s->at < s->end && *s->at != '=' && *s->at != '!') {
            while (s->at < s->end && *s->at != '>') s->at++;
            if (!scan_take(s, '>')) return scan_fail(s, "a group without its end");
        } else if (named || !scan_take(s, ':')) {
            return scan_fail(s, "look-around or a flag, which is not taken");
        }
    }
    int node = read_alternatives(x, depth + 1);
    return scan_take(s, ')') ? node : scan_fail(s, "a group without its end");
}

static int read_atom(regex *x, int depth) {
    scan *s = &x->text;
    uint32_t c;
    if (scan_take(s, '(')) return read_group(x, depth);
    if (scan_take(s, '[')) return read_class(x);
    if (scan_take(s, '.')) return any_character(x, false);
    if (scan_take(s, '\\')) {
        ranges all = {.n = 0};
        if (s->at < s->end && add_shorthand(&all, *s->at)) {
            s->at++;
            return grammar_class(x->g, all.of, all.n, false, x->in_json);
        }
        return read_escape(x, false, &c) ? one_character(x, c) : -1;
    }
    if (s->at < s->end && strchr("*+?", *s->at)) return scan_fail(s, "a repeat of nothing");
    if (s->at < s->end && (*s->at == '^' || *s->at == '$'))
        return scan_fail(s, "'^' and '$' are taken at the ends of the whole only");
    return scan_character(s, &c) ? one_character(x, c) : -1;
}

static int read_repeated(regex *x, int depth) {
    scan *s = &x->text;
    int node = read_atom(x, depth);
    while (node >= 0 && s->at < s->end && !s->why) {
        int64_t min = 0, max = -1;
        if (scan_take(s, '+'))
            min = 1;
        else if (scan_take(s, '?'))
            max = 1;
        else if (!scan_take(s, '*')) {
            if (!scan_take(s, '{')) break;
            if (!scan_times(s, &min, &max)) {
                s->at--; /* a brace that stands for itself */
                break;
            }
        }
        scan_take(s, '?'); /* lazy: the same texts */
        node = max == 0 ? grammar_seq(x->g, NULL, 0) : grammar_repeat(x->g, node, min, max);
    }
    return s->why ? -1 : node;
}

static bool at_end(const regex *x) {
    return x->text.at == x->text.end || *x->text.at == '|' || *x->text.at == ')';
}

/* A '$' that ends an alternative of the whole. */
static bool ends_whole(regex *x) {
    scan *s = &x->text;
    bool ends = s->at < s->end && *s->at == '$' && (s->at + 1 == s->end || s->at[1] == '|');
    s->at += ends;
    return ends;
}

static int read_sequence(regex *x, int depth) {
    int from = x->n_parts;
    bool begins = depth > 0 || scan_take(&x->text, '^') || x->whole, ends = depth > 0 || x->whole;
    if (!begins && !push_part(x, grammar_repeat(x->g, any_character(x, true), 0, -1))) return -1;
    while (!at_end(x)) {
        if (depth == 0 && ends_whole(x)) {
            ends = true;
            break;
        }
        if (!push_part(x, read_repeated(x, depth))) return -1;
    }
    if (!ends && !push_part(x, grammar_repeat(x->g, any_character(x, true), 0, -1))) return -1;
    int node = grammar_seq(x->g, x->parts + from, x->n_parts - from);
    x->n_parts = from;
    return node;
}

static int read_alternatives(regex *x, int depth) {
    int from = x->n_parts;
    if (depth > SCAN_MAX_DEPTH) return scan_fail(&x->text, "groups within groups, too deep");
    do {
        if (!push_part(x, read_sequence(x, depth))) return -1;
    } while (scan_take(&x->text, '|'));
    int n = x->n_parts - from, node = n == 1 ? x->parts[from] : grammar_alt(x->g, x->parts + from, n);
    x->n_parts = from;
    return node;
}

int regex_compile(grammar *g, const char *pattern, size_t n, bool whole, bool in_json, const char **why) {
    regex x = {.text = {.at = pattern, .end = pattern + n}, .g = g, .in_json = in_json, .whole = whole};
    int node = read_alternatives(&x, 0);
    if (node >= 0 && x.text.at < x.text.end) node = scan_fail(&x.text, "a ')' without its '('");
    *why = x.text.why;
    return *why ? -1 : node;
}

/* ---------------------------------------------------------------- lengths */

static int64_t times(int64_t a, int64_t b) {
    const int64_t most = (int64_t)1 << 30;
    return a && b > most / a ? most : a * b;
}

void regex_lengths(const grammar *g, int node, int64_t *min, int64_t *max) {
    const grammar_node *n = &g->nodes[node];
    *min = *max = n->kind == GRAMMAR_CLASS;
    for (int i = 0; i < n->n_items; i++) {
        int64_t low, high;
        regex_lengths(g, n->items[i], &low, &high);
        if (n->kind == GRAMMAR_SEQ) {
            *min += low;
            *max = *max < 0 || high < 0 ? -1 : *max + high;
        } else if (n->kind == GRAMMAR_REPEAT) {
            *min = times(low, n->min);
            *max = high == 0 ? 0 : high < 0 || n->max < 0 ? -1 : times(high, n->max);
        } else {
            *min = i == 0 || low < *min ? low : *min;
            *max = i == 0 ? high : *max < 0 || high < 0 ? -1 : high > *max ? high : *max;
        }
    }
}
