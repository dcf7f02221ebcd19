#define _GNU_SOURCE
#include "ptb.h"

#include <string.h>

typedef struct cutter {
    const char *start, *at; /* in the caption, quotes and dashes made plain */
    char *out, *to;
} cutter;

static bool is_letter(const char *p) {
    size_t n;
    uint32_t c = text_next(p, &n);
    return c != '_' && text_is_word(c) && !text_is_digit(c);
}

static bool is_digit(const char *p) {
    return *p >= '0' && *p <= '9';
}

static bool is_alnum(const char *p) {
    return *p && (is_letter(p) || is_digit(p));
}

static bool is_gap(const char *p) {
    size_t n;
    return !*p || text_is_space(text_next(p, &n));
}

static void put(cutter *c, const char *word, size_t n) {
    if (!n) return;
    if (c->to > c->out) *c->to++ = ' ';
    memcpy(c->to, word, n);
    c->to += n;
}

/* ---------------------------------------------------------------- before */

/* Signs that become others: quotes and dashes of all kinds, currencies, fractions. The result is not longer than twice the
 * text. */
static char *make_plain(text_pool *p, const char *s) {
    static const char *const plain[][2] = {{"\xe2\x80\x98", "'"},
                                           {"\xe2\x80\x99", "'"},
                                           {"\xe2\x80\x9c", "\""},
                                           {"\xe2\x80\x9d", "\""},
                                           {"\xc2\xab", "\""},
                                           {"\xc2\xbb", "\""},
                                           {"\xe2\x80\x93", " -- "},
                                           {"\xe2\x80\x94", " -- "},
                                           {"\xe2\x80\xa6", " ... "},
                                           {"\xc2\xbd", " 1/2 "},
                                           {"\xc2\xbc", " 1/4 "},
                                           {"\xc2\xbe", " 3/4 "},
                                           {"\xc2\xa3", " # "},
                                           {"\xe2\x82\xac", " $ "},
                                           {"\xc2\xa2", " cents "},
                                           {"&amp;", "&"},
                                           {"&lt;", "<"},
                                           {"&gt;", ">"},
                                           {"\n", " "}};
    char *t = text_copy(p, s, strlen(s));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strstr(t, plain[i][0])) t = text_replace(p, t, plain[i][0], plain[i][1]);
    return t;
}

/* ---------------------------------------------------------------- words */

/* 's 'm 'd 'll 're 've and n't at an apostrophe: how long behind it, 0 = none of them. */
static size_t clitic(const char *p) {
    static const char *const ends[] = {"s", "m", "d", "ll", "re", "ve"};
    for (size_t i = 0; i < 6; i++) {
        size_t n = strlen(ends[i]);
        if (!strncmp(p + 1, ends[i], n) && !is_alnum(p + 1 + n)) return n + 1;
    }
    return 0;
}

/* Whether the sign at p holds two parts of a word together. */
static bool joins(const char *start, const char *p) {
    bool before = p > start && is_alnum(p - 1 >= start ? p - 1 : p), after = is_alnum(p + 1);
    if (p > start && (p[-1] & 0x80)) before = true; /* the end of a letter of several bytes */
    switch (*p) {
    case '.':
    case '-':
    case '/':
    case '&':
    case '@':
    case '_': return before && after;
    case ',':
    case ':': return p > start && is_digit(p - 1) && is_digit(p + 1);
    case '\'': return before && is_letter(p + 1) && !clitic(p);
    default: return false;
    }
}

static const char *word_end(const char *start, const char *p) {
    for (size_t n; *p; p += n) {
        text_next(p, &n);
        if (is_alnum(p)) continue;
        if (*p == '-' && strchr("./&@_,:", p[1]) && p[1]) return p;
        if (!joins(start, p)) return p;
        if (*p == '\'' && (p[1] == 't') && p[-1] == 'n' && !is_alnum(p + 2)) return p; /* n't */
    }
    return p;
}

/* Words that keep a full stop. */
static bool keeps_stop(const char *word, size_t n) {
    static const char *const known[] = {"mr", "mrs", "ms", "dr",  "prof", "st",  "ave",  "blvd",
                                        "jr", "sr",  "vs", "etc", "inc",  "co",  "corp", "ltd",
                                        "oz", "ft",  "mt", "rd",  "gen",  "sen", "rep",  "gov"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == n && !memcmp(word, known[i], n)) return true;
    bool initials = n >= 3; /* u.s, a.m */
    for (size_t i = 0; i < n && initials; i++)
        initials = i % 2 ? word[i] == '.' : (word[i] >= 'a' && word[i] <= 'z');
    return initials && n % 2;
}

static bool put_split(cutter *c, const char *word, size_t n) {
    static const char *const pairs[][2] = {{"can", "not"}, {"gon", "na"}, {"got", "ta"},
                                           {"wan", "na"},  {"lem", "me"}, {"gim", "me"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t k = strlen(pairs[i][0]);
        if (n != k + strlen(pairs[i][1]) || memcmp(word, pairs[i][0], k) ||
            memcmp(word + k, pairs[i][1], n - k))
            continue;
        put(c, word, k);
        put(c, word + k, n - k);
        return true;
    }
    return false;
}

static void cut_word(cutter *c) {
    const char *word = c->at, *end = word_end(word, word + (*word == '.')); /* .5 */
    size_t n = (size_t)(end - word);
    bool not_ = end[0] == '\'' && end[1] == 't' && n > 1 && end[-1] == 'n' && !is_alnum(end + 2);
    if (not_) {
        put(c, word, n - 1);
        put(c, end - 1, 3);
        c->at = end + 2;
        return;
    }
    if (*end == '.' && keeps_stop(word, n)) n++, end++;
    if (!put_split(c, word, n)) put(c, word, n);
    c->at = end;
    for (size_t k; *c->at == '\'' && (k = clitic(c->at)); c->at += k) put(c, c->at, k);
}

/* ---------------------------------------------------------------- signs */

static void cut_quote(cutter *c) {
    const char *p = c->at;
    if (!strncmp(p, "'tis", 4) && !is_alnum(p + 4)) {
        put(c, p, 2);
        put(c, p + 2, 2);
        c->at += 4;
    } else if (!strncmp(p, "'twas", 5) && !is_alnum(p + 5)) {
        put(c, p, 2);
        put(c, p + 2, 3);
        c->at += 5;
    } else if (!strncmp(p, "'n'", 3)) {
        put(c, p, 3);
        c->at += 3;
    } else if (is_digit(p + 1) && is_digit(p + 2) && p[3] == 's' && !is_alnum(p + 4)) {
        put(c, p, 4);
        c->at += 4;
    } else {
        size_t k = clitic(p);
        put(c, p, k);
        c->at += k ? k : 1;
    }
}

/* A mark such as <b> or </b> is a word. */
static bool cut_mark(cutter *c) {
    size_t n = strcspn(c->at, "> \t");
    if (*c->at != '<' || c->at[n] != '>' || !is_letter(c->at + 1 + (c->at[1] == '/'))) return false;
    put(c, c->at, n + 1);
    c->at += n + 1;
    return true;
}

static void cut_dash(cutter *c) {
    size_t n = strspn(c->at, "-");
    if (n == 1 && is_digit(c->at + 1) && (c->at == c->start || is_gap(c->at - 1))) { /* a number below 0 */
        const char *end = word_end(c->at + 1, c->at + 1);
        put(c, c->at, (size_t)(end - c->at));
        c->at = end;
        return;
    }
    c->at += n;
}

static void cut_sign(cutter *c) {
    static const char *const brackets[][2] = {{"(", "-lrb-"}, {")", "-rrb-"}, {"[", "-lsb-"},
                                              {"]", "-rsb-"}, {"{", "-lcb-"}, {"}", "-rcb-"}};
    for (size_t i = 0; i < 6; i++)
        if (*c->at == *brackets[i][0]) {
            put(c, brackets[i][1], 5);
            c->at++;
            return;
        }
    if (cut_mark(c)) return;
    size_t n = strspn(c->at, "!?");
    if (n) { /* one alone is dropped, several are a word */
        if (n > 1) put(c, c->at, n);
        c->at += n;
        return;
    }
    if (strchr("$%#&*+=~^|\\_@<>/", *c->at)) put(c, c->at, 1);
    if (!strncmp(c->at, "\xc2\xb4", 2) || !strncmp(c->at, "\xc2\xb0", 2)) put(c, c->at, 2);
    text_next(c->at, &n);
    c->at += n;
}

char *ptb_words(text_pool *p, const char *caption) {
    char *s = text_lower(p, make_plain(p, caption));
    cutter c = {.start = s, .at = s, .out = text_take(p, 6 * strlen(s) + 16)};
    if (!c.out) return s;
    c.to = c.out;
    while (*c.at) {
        size_t n;
        if (text_is_space(text_next(c.at, &n)))
            c.at += n;
        else if (is_alnum(c.at) || (*c.at == '.' && is_digit(c.at + 1)))
            cut_word(&c);
        else if (*c.at == '\'')
            cut_quote(&c);
        else if (*c.at == '-')
            cut_dash(&c);
        else
            cut_sign(&c);
    }
    *c.to = 0;
    return c.out;
}
