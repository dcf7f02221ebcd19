/* MME (Fu et al., arXiv:2306.13394): two questions a picture, whose answers are yes or no. A category's points are 100 times its
 * accuracy and its accuracy+ (pictures both of whose questions are right); perception sums ten categories, cognition four. What an
 * answer says is lmms-eval's rule: without full stops "yes" or "no", one letter y or n, or one of both words in its first four
 * characters. */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first ten are perception. */
static const char *const categories[] = {"existence",
                                         "count",
                                         "position",
                                         "color",
                                         "posters",
                                         "celebrity",
                                         "scene",
                                         "landmark",
                                         "artwork",
                                         "OCR",
                                         "commonsense_reasoning",
                                         "numerical_calculation",
                                         "text_translation",
                                         "code_reasoning"};
enum { N_CATEGORIES = 14, N_PERCEPTION = 10 };

/* ---------------------------------------------------------------- an answer */

static const char *read_answer(text_pool *p, const char *response) {
    char *s = text_replace(p, text_strip(p, text_lower(p, response)), ".", "");
    if (text_length(s) == 1) return *s == 'y' ? "yes" : *s == 'n' ? "no" : "other";
    size_t n = 0, step;
    for (int i = 0; i < 4 && s[n]; i++, n += step) text_next(s + n, &step);
    s[n] = p->failed ? s[n] : 0; /* "yes" and "no" are not longer */
    return strstr(s, "yes") ? "yes" : strstr(s, "no") ? "no" : "other";
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    const char *said = read_answer(&p, response);
    snprintf(out->said, sizeof out->said, "%s", said);
    out->answered = strcmp(said, "other") != 0;
    out->score = item->answer && !strcmp(said, item->answer);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

/* ---------------------------------------------------------------- pictures and categories */

typedef struct answer {
    int category;
    int64_t picture;
    bool right;
} answer;

static int by_picture(const void *a, const void *b) {
    const answer *x = a, *y = b;
    if (x->category != y->category) return x->category < y->category ? -1 : 1;
    return (x->picture > y->picture) - (x->picture < y->picture);
}

static int category_of(const char *name) {
    for (int i = 0; i < N_CATEGORIES; i++)
        if (name && !strcmp(categories[i], name)) return i;
    return N_CATEGORIES;
}

bool eval_mme_has_category(const char *name) {
    return category_of(name) < N_CATEGORIES;
}

static size_t read_answers(const eval_answers *a, const eval_mark *marks, answer *out) {
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (!a->items[i]->answer) continue;
        out[n++] = (answer){category_of(a->items[i]->kind), a->items[i]->group, marks[i].score > 0};
    }
    qsort(out, n, sizeof *out, by_picture);
    return n;
}

/* A picture with one question has no plus: it could not show both. */
static size_t figures(const eval_answers *a, const eval_mark *marks, eval_figure out[EVAL_FIGURES_MAX]) {
    answer *all = malloc((a->n + 1) * sizeof *all);
    double sums[2] = {0}, all_plus = 0, all_pictures = 0;
    size_t n = all ? read_answers(a, marks, all) : 0;
    for (size_t i = 0; i < n;) {
        double right = 0, questions = 0, plus = 0, pictures = 0;
        int category = all[i].category;
        while (i < n && all[i].category == category) {
            size_t first = i, both = 0;
            for (; i < n && all[i].category == category && all[i].picture == all[first].picture; i++)
                both += all[i].right;
            right += (double)both;
            questions += (double)(i - first);
            plus += both == 2 && i - first == 2;
            pictures++;
        }
        if (category < N_CATEGORIES)
            sums[category >= N_PERCEPTION] += 100 * (right / questions + plus / pictures);
        all_plus += plus;
        all_pictures += pictures;
    }
    free(all);
    out[0] = (eval_figure){"perception", sums[0], true};
    out[1] = (eval_figure){"cognition", sums[1], true};
    out[2] = (eval_figure){"accuracy+", all_pictures > 0 ? all_plus / all_pictures : 0, false};
    return 3;
}

const eval_scorer eval_scorer_mme = {.name = "mme", .one = one, .figures = figures};
