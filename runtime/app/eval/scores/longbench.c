/* LongBench (Bai et al., arXiv:2308.14508), its metrics.py and eval.py: the best score over the right answers, by the rule of the
 * dataset. Chinese texts are cut into characters where it takes jieba's words. */
#include "score.h"
#include "score_overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double (*rule_fn)(text_pool *p, const eval_item *item, const char *said, const char *right);

/* ---------------------------------------------------------------- rules */

static double f1(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)item;
    return overlap_f1(p, said, right);
}

static double f1_zh(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)item;
    return overlap_f1_letters(p, said, right);
}

static double rouge(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)item;
    return overlap_rouge_l(p, said, right, false);
}

static double rouge_zh(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)item;
    return overlap_rouge_l(p, said, right, true);
}

/* The script takes names out of its list while it walks along it, so that it passes over the one behind each: kept. */
static double class_name(text_pool *p, const eval_item *item, const char *said, const char *right) {
    size_t room = json_array_size(item->classes), n = 0, same = 0;
    const char **found = (const char **)(void *)text_take(p, (room + 1) * sizeof *found);
    for (size_t i = 0; found && i < room; i++) {
        const char *name = json_string_value(json_array_get(item->classes, i));
        if (name && strstr(said, name)) found[n++] = name;
    }
    for (size_t i = 0; i < n; i++) {
        if (!strstr(right, found[i]) || !strcmp(found[i], right)) continue;
        size_t first = 0;
        while (strcmp(found[first], found[i]) != 0) first++;
        memmove(found + first, found + first + 1, (--n - first) * sizeof *found);
    }
    for (size_t i = 0; i < n; i++) same += !strcmp(found[i], right);
    return same ? 1.0 / (double)n : 0;
}

static size_t count_digits(const char *s) {
    size_t length = 0, n;
    while (s[length] && text_is_digit(text_next(s + length, &n))) length += n;
    return length;
}

/* The run of digits at or behind s; NULL = none. */
static const char *next_number(const char *s, size_t *length) {
    size_t n;
    while (*s && !text_is_digit(text_next(s, &n))) s += n;
    *length = count_digits(s);
    return *length ? s : NULL;
}

/* How many of the numbers said are this one. */
static double share(const char *said, const char *right, size_t n_right) {
    double all = 0, same = 0;
    size_t n;
    for (const char *at = said; (at = next_number(at, &n)); at += n) {
        all++;
        same += n == n_right && !memcmp(at, right, n);
    }
    return all > 0 ? same / all : 0;
}

static double count(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)p, (void)item;
    return share(said, right, strlen(right));
}

static double paragraph_after(const char *word, const char *said, const char *right) {
    for (const char *at = right; (at = strstr(at, word));) {
        at += strlen(word);
        const size_t n = count_digits(at);
        if (n) return share(said, at, n);
    }
    return 0;
}

static double paragraph(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)p, (void)item;
    return paragraph_after("Paragraph ", said, right);
}

static double paragraph_zh(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)p, (void)item;
    return paragraph_after("段落", said, right);
}

/* The first line without a mark of a comment or of a fence. */
static double code(text_pool *p, const eval_item *item, const char *said, const char *right) {
    (void)item;
    for (const char *at = said + strspn(said, "\n");;) {
        size_t n = strcspn(at, "\n");
        const char *line = text_copy(p, at, n);
        if (!strpbrk(line, "`#") && !strstr(line, "//")) return overlap_ratio(p, line, right);
        if (!at[n]) return overlap_ratio(p, "", right);
        at += n + 1;
    }
}

static const struct {
    const char *dataset;
    rule_fn rule;
    bool first_line;
} rules[] = {{"narrativeqa", f1, false},
             {"qasper", f1, false},
             {"multifieldqa_en", f1, false},
             {"multifieldqa_zh", f1_zh, false},
             {"hotpotqa", f1, false},
             {"2wikimqa", f1, false},
             {"musique", f1, false},
             {"dureader", rouge_zh, false},
             {"gov_report", rouge, false},
             {"qmsum", rouge, false},
             {"multi_news", rouge, false},
             {"vcsum", rouge_zh, false},
             {"trec", class_name, true},
             {"triviaqa", f1, true},
             {"samsum", rouge, true},
             {"lsht", class_name, true},
             {"passage_count", count, false},
             {"passage_retrieval_en", paragraph, false},
             {"passage_retrieval_zh", paragraph_zh, false},
             {"lcc", code, false},
             {"repobench-p", code, false}};

/* ---------------------------------------------------------------- a question */

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    const char *said = response;
    (void)id;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!item->kind || strcmp(rules[i].dataset, item->kind)) continue;
        if (rules[i].first_line) {
            said += strspn(said, "\n");
            said = text_copy(&p, said, strcspn(said, "\n"));
        }
        for (size_t k = 0; k < json_array_size(item->answers) && !p.failed; k++) {
            const char *right = json_string_value(json_array_get(item->answers, k));
            double score = right ? rules[i].rule(&p, item, said, right) : 0;
            out->score = score > out->score ? score : out->score;
        }
    }
    out->answered = *said;
    snprintf(out->said, sizeof out->said, "%s", said);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_longbench = {.name = "longbench", .one = one};
