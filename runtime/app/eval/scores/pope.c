/* POPE (Li et al., arXiv:2305.10355), evaluate.py: the first sentence, without commas; "no" where it has the word No, no
 * or not, else "yes". Precision, recall and F1 are of "yes"; questions that could not be asked are in none of them. */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <string.h>

static bool says_no(const char *sentence) {
    for (const char *p = sentence;; p++) {
        size_t n = strcspn(p, " ");
        if ((n == 2 && (!strncmp(p, "No", 2) || !strncmp(p, "no", 2))) || (n == 3 && !strncmp(p, "not", 3)))
            return true;
        p += n;
        if (!*p) return false;
    }
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    const char *stop = strchr(response, '.');
    char *text = text_copy(&p, response, stop ? (size_t)(stop - response) : strlen(response));
    const char *said = says_no(text_replace(&p, text, ",", "")) ? "no" : "yes";
    snprintf(out->said, sizeof out->said, "%s", said);
    out->answered = true;
    out->score = item->answer && !strcmp(said, item->answer);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static size_t figures(const eval_answers *a, const eval_mark *marks, eval_figure out[EVAL_FIGURES_MAX]) {
    double tp = 0, fp = 0, tn = 0, fn = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (!marks[i].answered || !a->items[i]->answer) continue;
        bool yes = !strcmp(marks[i].said, "yes"), right = marks[i].score > 0;
        *(yes ? right ? &tp : &fp : right ? &tn : &fn) += 1;
    }
    double precision = ratio(tp, tp + fp), recall = ratio(tp, tp + fn);
    out[0] = (eval_figure){.name = "precision", .value = precision};
    out[1] = (eval_figure){.name = "recall", .value = recall};
    out[2] = (eval_figure){.name = "F1", .value = ratio(2 * precision * recall, precision + recall)};
    out[3] = (eval_figure){.name = "yes ratio", .value = ratio(tp + fp, tp + tn + fp + fn)};
    return 4;
}

const eval_scorer eval_scorer_pope = {.name = "pope", .one = one, .figures = figures};
