/* InfiniteBench (Zhang et al., arXiv:2402.13718), its compute_scores.py, task by task. The item's answers are the file's: texts, for
 * options the text and its letter, numbers of mathematics and of code. */
#include "score.h"
#include "score_overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- what is said and what is right */

static const json_t *value(const eval_item *item, size_t i) {
    return json_array_get(item->answers, i);
}

static const char *text(const eval_item *item, size_t i) {
    const char *s = json_string_value(value(item, i));
    return s ? s : "";
}

static bool starts(const char *s, const char *with) {
    return !strncmp(s, with, strlen(with));
}

/* Each of these characters becomes a blank. */
static char *blank(text_pool *p, const char *s, const char *marks) {
    char *out = text_copy(p, s, strlen(s));
    for (char *at = out; *at; at++)
        if (strchr(marks, *at)) *at = ' ';
    return out;
}

/* Runs of blanks become one. */
static char *join_blanks(text_pool *p, const char *s) {
    char *out = text_copy(p, s, strlen(s)), *to = out;
    if (p->failed) return out;
    for (const char *at = out; *at; at++)
        if (*at != ' ' || to == out || to[-1] != ' ') *to++ = *at;
    *to = 0;
    return out;
}

static size_t digits(const char *s) {
    return strspn(s, "0123456789");
}

/* A number without its leading zeros, as int() reads it. */
static const char *whole(const char *s, size_t *n) {
    while (*n > 1 && *s == '0') s++, --*n;
    return s;
}

/* ---------------------------------------------------------------- tasks */

static double first_number(text_pool *p, const eval_item *item, const char *said) {
    const char *at = said + strcspn(said, "0123456789");
    (void)p;
    return digits(at) == strlen(text(item, 0)) && !strncmp(at, text(item, 0), digits(at));
}

static double among_words(text_pool *p, const eval_item *item, const char *said) {
    const char *words = text_words(p, blank(p, said, "\n:\"'.,?!{}")), *right = text(item, 0);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == strlen(right) && !strncmp(at, right, n)) return 1;
        at += n;
    }
    return 0;
}

/* int(): digits with single underscores between them, a sign before. */
static bool read_int(text_pool *p, const char *s, json_int_t *out) {
    const char *from = s + (*s == '-' || *s == '+');
    for (const char *at = from; *at; at++)
        if (!digits((char[]){*at, 0}) && !(*at == '_' && at > from && digits(at - 1) && digits(at + 1)))
            return false;
    if (!*from) return false;
    *out = strtoll(text_replace(p, s, "_", ""), NULL, 10);
    return true;
}

static double code_run(text_pool *p, const eval_item *item, const char *said) {
    const char *words = text_words(p, blank(p, said, "\n.`'\":")), *last = strrchr(words, ' ');
    json_int_t n;
    return read_int(p, last ? last + 1 : words, &n) && json_is_integer(value(item, 0)) &&
           json_integer_value(value(item, 0)) == n;
}

/* Whether what follows the first of these words that is there, and one more character, begins with the letter or the text; -1 = none
 * of them is there. */
static int behind_words(const char *said, const char *const *words, const eval_item *item) {
    for (; *words; words++) {
        const char *at = strstr(said, *words);
        size_t n;
        if (!at) continue;
        at += strlen(*words);
        if (!*at) return 0;
        text_next(at, &n);
        at += n;
        return starts(at, text(item, 0)) || starts(at, text(item, 1));
    }
    return -1;
}

/* \b[A-D]\b(?!.*\b[A-D]\b): the last lone letter up to `last` of the first line that has one; 0 = none. */
static char lone_letter(const char *said, char last) {
    char found = 0;
    bool in_word = false;
    size_t n;
    for (const char *at = said; *at && !(*at == '\n' && found); at += n) {
        uint32_t c = text_next(at, &n), next = 0;
        size_t after;
        if (at[n]) next = text_next(at + n, &after);
        if (*at >= 'A' && *at <= last && !in_word && !text_is_word(next)) found = *at;
        in_word = text_is_word(c);
    }
    return found;
}

static double code_debug(text_pool *p, const eval_item *item, const char *said) {
    static const char *const words[] = {"answer is:", "is:", "answer:", "correct option is:", NULL};
    const char *s = text_strip(p, said), *letter = text(item, 1);
    if (*letter && lone_letter(s, 'J') == *letter) return 1;
    s = text_replace(p, text_replace(p, blank(p, s, "\n`'\"-*"), "Option", " "), "option", " ");
    s = join_blanks(p, s);
    return starts(s, letter) || starts(s, text(item, 0)) || behind_words(s, words, item) > 0;
}

static double choice(text_pool *p, const eval_item *item, const char *said) {
    static const char *const words[] = {"answer is:", "answer:", "answer is", "option is", NULL};
    const char *s = text_strip(p, said), *right = text(item, 0), *letter = text(item, 1);
    char lone = lone_letter(s, 'D');
    if (!*s) return 0;
    if (lone && (*letter == lone || (right[0] == lone && !right[1]))) return 1;
    if (*s >= 'A' && *s <= 'D') return *letter == *s || (right[0] == *s && !right[1]);
    if (!strcmp(s, right) || !strcmp(s, letter)) return 1;
    s = join_blanks(p, blank(p, s, "\n\"'.,?!{}"));
    int found = behind_words(s, words, item);
    if (found >= 0) return found;
    for (const char *at = text_words(p, s); *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        const char *word = text_copy(p, at, n);
        if (strstr("ABCD", word)) return !strcmp(word, letter) || !strcmp(word, right);
        at += n;
    }
    return 0;
}

/* "\d+\.\d+|\d+": of the first, its value is the right one. A whole right answer wants a whole number. */
static double math_find(text_pool *p, const eval_item *item, const char *said) {
    const char *at = said + strcspn(said, "0123456789");
    size_t n = digits(at), more = n && at[n] == '.' ? digits(at + n + 1) : 0;
    const json_t *right = value(item, 0);
    if (!n) return 0;
    const char *number = text_copy(p, at, more ? n + 1 + more : n);
    if (json_is_integer(right)) return !more && strtod(number, NULL) == (double)json_integer_value(right);
    return json_is_real(right) && strtod(number, NULL) == json_real_value(right);
}

/* The share of the values that are right one after the other. */
static double math_calc(text_pool *p, const eval_item *item, const char *said) {
    const json_t *list = json_is_array(value(item, 0)) ? value(item, 0) : item->answers;
    size_t n = json_array_size(list), right = 0, length;
    (void)p;
    for (const char *at = said; right < n; right++, at += length) {
        char expected[32];
        at += strcspn(at, "0123456789");
        length = digits(at);
        size_t k = length;
        const char *number = whole(at, &k);
        int wanted = snprintf(expected, sizeof expected, "%" JSON_INTEGER_FORMAT,
                              json_integer_value(json_array_get(list, right)));
        if (!k || (size_t)wanted != k || strncmp(number, expected, k)) break;
    }
    return n ? (double)right / (double)n : 0;
}

static double dialogue(text_pool *p, const eval_item *item, const char *said) {
    const char *s = text_upper(p, text_strip(p, said));
    for (size_t i = 0; i < json_array_size(item->answers); i++)
        if (strstr(s, text_upper(p, text(item, i)))) return 1;
    return 0;
}

static double best(text_pool *p, const eval_item *item, const char *said,
                   double (*rule)(text_pool *, const char *, const char *)) {
    double most = 0;
    for (size_t i = 0; i < json_array_size(item->answers); i++) {
        double score = rule(p, said, text(item, i));
        most = score > most ? score : most;
    }
    return most;
}

static double book_qa(text_pool *p, const eval_item *item, const char *said) {
    return best(p, item, said, overlap_f1);
}

static double book_qa_zh(text_pool *p, const eval_item *item, const char *said) {
    return best(p, item, said, overlap_f1_letters);
}

static double summary(text_pool *p, const eval_item *item, const char *said) {
    return best(p, item, said, overlap_rouge_lsum);
}

static const struct {
    const char *task;
    double (*rule)(text_pool *p, const eval_item *item, const char *said);
} rules[] = {{"passkey", first_number},    {"number_string", first_number}, {"kv_retrieval", among_words},
             {"code_run", code_run},       {"code_debug", code_debug},      {"longbook_choice_eng", choice},
             {"math_find", math_find},     {"math_calc", math_calc},        {"longdialogue_qa_eng", dialogue},
             {"longbook_qa_eng", book_qa}, {"longbook_qa_chn", book_qa_zh}, {"longbook_sum_eng", summary}};

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (item->kind && !strcmp(rules[i].task, item->kind)) out->score = rules[i].rule(&p, item, response);
    out->answered = *response;
    snprintf(out->said, sizeof out->said, "%s", response);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_infinitebench = {.name = "infinitebench", .one = one};
