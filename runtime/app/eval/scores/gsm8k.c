/* GSM8K (Cobbe et al., arXiv:2110.14168) as lm-eval scores it, by two rules. Strict: the number behind "#### ", or, of a chain of
 * thought, behind "The answer is ". Flexible: the last number anywhere. Numbers are compared as texts without commas, dollars and a full
 * stop at their end. The item's kind is what stands before the number. */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <string.h>

static const char digits[] = "0123456789", number[] = "0123456789.,", price[] = "$0123456789.,";

/* "#### (-?[0-9.,]+)", or "The answer is (-?[0-9.,]+)." whose last point is any character but a line end: then the number gives up its
 * last one where the text ends. */
static const char *strict_number(text_pool *p, const char *text, const char *before) {
    bool needs_more = before[0] != '#';
    for (const char *at = text; (at = strstr(at, before)); at++) {
        const char *first = at + strlen(before), *from = first + (*first == '-');
        size_t n = strspn(from, number);
        if (n && needs_more && (!from[n] || from[n] == '\n')) n--;
        if (n) return text_copy(p, first, (size_t)(from - first) + n);
    }
    return NULL;
}

/* The last of the matches of "(-?[$0-9.,]{2,})|(-?[0-9]+)". */
static const char *last_number(text_pool *p, const char *text) {
    const char *last = NULL;
    size_t n_last = 0;
    for (const char *at = text; *at;) {
        const char *from = at + (*at == '-');
        size_t n = strspn(from, price);
        if (n < 2) n = strspn(from, digits);
        if (!n) {
            at++;
            continue;
        }
        last = at;
        n_last = (size_t)(from - at) + n;
        at += n_last;
    }
    return last ? text_copy(p, last, n_last) : NULL;
}

static const char *plain(text_pool *p, const char *s) {
    char *out = text_lower(p, text_replace(p, text_replace(p, s, ",", ""), "$", ""));
    const char *mark = text_last(out, "#### ");
    if (mark) out = text_copy(p, mark + 5, strlen(mark + 5));
    size_t n = strlen(out);
    if (n && out[n - 1] == '.') out = text_copy(p, out, n - 1);
    return out;
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    const char *strict = strict_number(&p, response, item->kind && *item->kind ? item->kind : "#### ");
    const char *flexible = last_number(&p, response), *right = item->answer ? plain(&p, item->answer) : NULL;
    out->score = strict && right && !strcmp(plain(&p, strict), right);
    out->second = flexible && right && !strcmp(plain(&p, flexible), right);
    out->answered = strict != NULL;
    snprintf(out->said, sizeof out->said, "%s", strict ? strict : flexible ? flexible : "");
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

static size_t figures(const eval_answers *a, const eval_mark *marks, eval_figure out[EVAL_FIGURES_MAX]) {
    double strict = 0, flexible = 0, n = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (!a->items[i]->answer) continue;
        strict += marks[i].score;
        flexible += marks[i].second;
        n++;
    }
    out[0] = (eval_figure){.name = "strict", .value = n > 0 ? strict / n : 0};
    out[1] = (eval_figure){.name = "flexible", .value = n > 0 ? flexible / n : 0};
    return 2;
}

const eval_scorer eval_scorer_gsm8k = {.name = "gsm8k", .one = one, .figures = figures};
