/* Relaxed accuracy (Methani et al., arXiv:1909.00997), ChartQA's figure: numbers may be off by 5 %, "12%" is 0.12; what is
 * no number, and a right answer of 0, must be equal but for case. */
#include "score.h"
#include "score_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* False = no number, with the rule's own sense of percent. */
static bool number_of(text_pool *p, const char *s, double *out) {
    size_t n = strlen(s), end = n;
    while (end && s[end - 1] == '%') end--;
    if (!text_float(text_copy(p, s, end), out)) return false;
    if (end < n) *out /= 100;
    return true;
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    double said, right;
    (void)id;
    const char *answer = item->answer ? item->answer : "";
    bool numbers = number_of(&p, response, &said) && number_of(&p, answer, &right) && right != 0;
    if (numbers)
        out->score = fabs(said - right) / fabs(right) <= 0.05;
    else
        out->score = !strcmp(text_lower(&p, response), text_lower(&p, answer));
    out->answered = *response;
    snprintf(out->said, sizeof out->said, "%s", response);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_relaxed = {.name = "relaxed", .one = one};
