/* MMMU (arXiv:2311.16502), eval_utils.py: letters of multiple choice, and open answers.
 *
 * Letters: "(A)", else "A ", else "A.", else in more than five words the text of an option; of several the last, by where it
 * stands (the script looks for " A " there, so letters before a full stop are at no place and the first option wins: kept).
 * None: one at random, here drawn by the question's id.
 *
 * Open: the shortest tail of each sentence behind "is ", "answer ", "=" and such, and the numbers in these; numbers are rounded
 * to two places, and a text is right when an answer is part of it. */
#include "score.h"
#include "score_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- letters */

static char *form_of(text_pool *p, const char *before, size_t i, const char *after) {
    char *s = text_take(p, 8);
    static char nothing[8];
    if (!s) return nothing;
    sprintf(s, "%s%c%s", before, (char)('A' + i), after);
    return s;
}

/* The letter in this form that stands last by `where`; 0 = none has the form. */
static char last_letter(text_pool *p, const char *text, size_t n, const char *before, const char *after,
                        const char *where_before, const char *where_after) {
    char letter = 0;
    const char *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!strstr(text, form_of(p, before, i, after))) continue;
        const char *at = text_last(text, form_of(p, where_before, i, where_after));
        if (letter && (!at || (last && at <= last))) continue;
        letter = (char)('A' + i);
        last = at;
    }
    return letter;
}

static char last_option(text_pool *p, const eval_item *item, const char *text) {
    char letter = 0, *low = text_lower(p, text);
    const char *last = NULL;
    for (size_t i = 0; i < item->n_options; i++) {
        const char *at = text_last(low, text_lower(p, item->options[i]));
        if (!at) continue;
        if (letter && at <= last) continue;
        letter = (char)('A' + i);
        last = at;
    }
    return letter;
}

static bool mark_letter(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    static const char *const ends[] = {",", ".", "!", "?", ";", ":", "'"};
    text_pool p = {0};
    const char *s = response;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) s = text_strip_chars(&p, s, ends[i]);
    char *text = text_take(&p, strlen(s) + 2);
    char letter = 0;
    if (text) {
        sprintf(text, " %s ", s);
        letter = last_letter(&p, text, item->n_options, "(", ")", "(", ")");
        if (!letter) letter = last_letter(&p, text, item->n_options, "", " ", " ", " ");
        if (!letter) letter = last_letter(&p, text, item->n_options, "", ".", " ", " ");
        if (!letter && text_word_count(text) > 5) letter = last_option(&p, item, text);
    }
    out->answered = letter != 0;
    out->drawn = !letter;
    if (!letter) letter = eval_draw(id, item->n_options);
    snprintf(out->said, sizeof out->said, "%c", letter);
    out->score = item->answer && letter == item->answer[0];
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

/* ---------------------------------------------------------------- open answers */

/* A normalised answer: a number, or a text. */
typedef struct value {
    bool is_number;
    double number;
    const char *text;
} value;

typedef struct values {
    value *items;
    size_t n, room;
} values;

static void add_value(text_pool *p, values *v, value x) {
    if (v->n == v->room) {
        v->room = v->room ? 2 * v->room : 16;
        value *more = realloc(v->items, v->room * sizeof *more);
        if (!more) {
            v->room = v->n;
            p->failed = true;
            return;
        }
        v->items = more;
    }
    v->items[v->n++] = x;
}

/* round(x, 2): of the shortest decimal, half to even, as Python's. */
static double round_2(double x) {
    char digits[400];
    if (!isfinite(x) || fabs(x) > 1e22) return x;
    snprintf(digits, sizeof digits, "%.2f", x); /* glibc rounds the exact value, as Python does */
    return strtod(digits, NULL);
}

static void add_normalised(text_pool *p, values *v, const char *text) {
    char *s = text_strip(p, text);
    double x;
    if (text_float(text_replace(p, s, ",", ""), &x)) {
        add_value(p, v, (value){.is_number = true, .number = round_2(x)});
        return;
    }
    s = text_lower(p, s);
    if (text_length(s) != 1) {
        add_value(p, v, (value){.text = s});
        return;
    }
    char *before = text_take(p, strlen(s) + 1), *after = text_take(p, strlen(s) + 1);
    if (!before || !after) return;
    sprintf(before, " %s", s);
    sprintf(after, "%s ", s);
    add_value(p, v, (value){.text = before});
    add_value(p, v, (value){.text = after});
}

static bool digit_at(const char *s) {
    size_t n;
    return *s && text_is_digit(text_next(s, &n));
}

static const char *skip_digits(const char *s) {
    for (size_t n; *s && text_is_digit(text_next(s, &n)); s += n) {
    }
    return s;
}

static bool word_at(const char *s) {
    size_t n;
    return *s && text_is_word(text_next(s, &n));
}

/* -?\b\d{1,3}(?:,\d{3})+\b from p on; NULL = it does not match here. */
static const char *match_grouped(const char *start, const char *p) {
    if (*p == '-') p++;
    if (!digit_at(p) || (p > start && text_is_word(text_before(start, p)))) return NULL;
    const char *best = NULL;
    const char *q = p;
    size_t n;
    for (int k = 0; k < 3 && digit_at(q); k++) text_next(q, &n), q += n;
    for (;;) { /* the group of digits before the comma is all that stand there */
        if (*q != ',') break;
        const char *g = q + 1;
        int k = 0;
        for (; k < 3 && digit_at(g); k++) text_next(g, &n), g += n;
        if (k < 3) break;
        q = g;
        if (!word_at(q)) best = q;
    }
    return best;
}

/* [eE][+-]?\d+ at p; where it ends, or NULL. */
static const char *match_exponent(const char *p) {
    if (*p != 'e' && *p != 'E') return NULL;
    p++;
    if (*p == '+' || *p == '-') p++;
    return digit_at(p) ? skip_digits(p) : NULL;
}

/* -?\d+(?:\.\d+)?[eE][+-]?\d+ */
static const char *match_scientific(const char *start, const char *p) {
    (void)start;
    if (*p == '-') p++;
    if (!digit_at(p)) return NULL;
    p = skip_digits(p);
    if (*p == '.' && digit_at(p + 1)) p = skip_digits(p + 1);
    return match_exponent(p);
}

/* Not followed by an exponent, a comma or a digit. */
static bool ends_simple(const char *p) {
    return !match_exponent(p) && *p != ',' && !digit_at(p);
}

/* -?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d]), with the regular expression's going back over digits. */
static const char *match_simple(const char *start, const char *p) {
    (void)start;
    if (*p == '-') p++;
    const char *whole = skip_digits(p), *best = NULL;
    if (*whole == '.' && digit_at(whole + 1)) { /* shorter fractions end before a digit, which does not do */
        const char *end = skip_digits(whole + 1);
        if (ends_simple(end)) best = end;
    }
    if (!best && whole > p && !word_at(whole) && ends_simple(whole)) best = whole;
    return best;
}

typedef const char *(*match_fn)(const char *start, const char *p);

static void add_numbers(text_pool *p, values *v, const char *s) {
    static const match_fn patterns[] = {match_grouped, match_scientific, match_simple};
    for (size_t k = 0; k < 3; k++)
        for (const char *at = s; *at;) {
            const char *end = patterns[k](s, at);
            if (end && end > at) {
                add_normalised(p, v, text_copy(p, at, (size_t)(end - at)));
                at = end;
            } else {
                size_t n;
                text_next(at, &n);
                at += n;
            }
        }
}

/* The shortest tail behind an indicator; NULL = there is none, or it is trivial. */
static const char *key_of(text_pool *p, const char *sentence, bool last) {
    static const char *const indicators[] = {"could be ", "so ",     "is ",     "thus ", "therefore ",
                                             "final ",    "answer ", "result ", "="};
    const char *shortest = NULL;
    for (size_t i = 0; i < 8 + (size_t)last; i++) {
        const char *at = text_last(sentence, indicators[i]);
        if (!at) continue;
        char *tail = text_strip(p, at + strlen(indicators[i]));
        if (!shortest || !*shortest || text_length(tail) < text_length(shortest)) shortest = tail;
    }
    if (!shortest || !*shortest || (!shortest[1] && strchr(":,.!?;'", *shortest))) return NULL;
    return shortest;
}

/* The response's parts that may be the answer. It is in lower case before it is cut at ". " and a capital, so that only line
 * ends cut it; kept. */
static void add_open(text_pool *p, values *v, const char *response) {
    char *s = text_lower(p, text_strip_chars(p, text_strip(p, response), "."));
    char *copy = text_copy(p, s, strlen(s));
    const char *keys[256];
    size_t n = 0;
    for (char *line = copy, *end; line && n < 256; line = end) {
        if ((end = strchr(line, '\n'))) *end++ = 0;
        const char *key = key_of(p, line, !end);
        if (key) keys[n++] = key;
    }
    if (!n) keys[n++] = s;
    for (size_t i = 0; i < n; i++) add_normalised(p, v, keys[i]);
    for (size_t i = 0; i < n; i++) add_numbers(p, v, keys[i]);
}

static bool is_right(const values *said, const values *right) {
    for (size_t i = 0; i < said->n; i++)
        for (size_t k = 0; k < right->n; k++) {
            const value *a = &said->items[i], *b = &right->items[k];
            if (a->is_number != b->is_number) continue;
            if (a->is_number ? a->number == b->number : strstr(a->text, b->text) != NULL) return true;
        }
    return false;
}

static bool mark_open(const eval_item *item, const char *response, eval_mark *out) {
    text_pool p = {0};
    values said = {0}, right = {0};
    add_open(&p, &said, response);
    for (size_t i = 0; i < json_array_size(item->answers); i++)
        add_normalised(&p, &right, json_string_value(json_array_get(item->answers, i)));
    if (!item->answers && item->answer) add_normalised(&p, &right, item->answer);
    out->score = is_right(&said, &right);
    out->answered = *response;
    snprintf(out->said, sizeof out->said, "%s", response);
    free(said.items);
    free(right.items);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    return item->n_options ? mark_letter(item, id, response, out) : mark_open(item, response, out);
}

const eval_scorer eval_scorer_mmmu = {.name = "mmmu", .one = one};
