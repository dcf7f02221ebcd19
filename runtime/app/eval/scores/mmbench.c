/* MMBench (arXiv:2307.06281): the letter that stands alone in a response, else the one option whose text is in it; and the
 * circular evaluation: a question counts when it and all its rotations (the same index plus millions) are right. Where the
 * official script would ask ChatGPT for the letter, this has none and counts wrong ("exact matching" there). */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CIRCLE = 1000000 };

/* ---------------------------------------------------------------- letters */

static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *p = words; *p;) {
        size_t k = strcspn(p, " ");
        if (k == n && !memcmp(p, word, n)) return true;
        p += k + (p[k] == ' ');
    }
    return false;
}

/* The one letter of A to E that is a word with these before and behind; 0 = none or several. */
static char only_letter(const char *words, const char *before, const char *after) {
    char letter = 0;
    for (char c = 'A'; c <= 'E'; c++) {
        char word[8];
        snprintf(word, sizeof word, "%s%c%s", before, c, after);
        if (!has_word(words, word)) continue;
        if (letter) return 0;
        letter = c;
    }
    return letter;
}

static char infer_option(text_pool *p, const char *response) {
    static const char *const around[][2] = {{"", "."},  {"", ","},  {"", ":"},   {"", ")"},
                                            {"", ")."}, {"(", ")"}, {"(", ")."}, {":", ""},
                                            {":", ","}, {":", "."}, {":", ")"},  {":", ")."}};
    if (strstr(response, "Failed to obtain answer via API")) return 0;
    char *words = text_words(p, response);
    char letter = only_letter(words, "", "");
    /* an A among more than three words may be an article */
    if (letter && !(has_word(words, "A") && text_word_count(words) > 3)) return letter;
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        if ((letter = only_letter(words, around[i][0], around[i][1]))) return letter;
    return 0;
}

static char infer_text(text_pool *p, const eval_item *item, const char *response) {
    char *low = text_lower(p, response), letter = 0;
    for (size_t i = 0; i < item->n_options; i++) {
        if (!strstr(low, text_lower(p, item->options[i]))) continue;
        if (letter) return 0;
        letter = (char)('A' + i);
    }
    return letter;
}

static bool mark(const eval_item *item, const char *response, eval_mark *out) {
    text_pool p = {0};
    char letter = infer_option(&p, response);
    if (!letter) letter = infer_text(&p, item, response);
    out->answered = letter != 0;
    if (letter) snprintf(out->said, sizeof out->said, "%c", letter);
    out->score = letter && item->answer && letter == item->answer[0];
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

/* ---------------------------------------------------------------- circles */

typedef struct place {
    int64_t circle, index;
    size_t i;
} place;

static int by_circle(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->circle != y->circle) return x->circle < y->circle ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool all(const eval_answers *a, eval_mark *marks) {
    place *places = calloc(a->n, sizeof *places);
    if (!places) return false;
    bool ok = true;
    for (size_t i = 0; i < a->n && ok; i++) {
        places[i] = (place){a->items[i]->group % CIRCLE, a->items[i]->group, i};
        if (a->responses[i]) ok = mark(a->items[i], a->responses[i], &marks[i]);
    }
    qsort(places, a->n, sizeof *places, by_circle);
    for (size_t i = 0, first = 0; i < a->n; i++) { /* of a circle the smallest index stands for all */
        if (places[i].circle != places[first].circle) first = i;
        if (i == first) continue;
        eval_mark *main = &marks[places[first].i], *other = &marks[places[i].i];
        if (other->score < main->score) main->score = other->score;
        other->apart = true;
    }
    free(places);
    return ok;
}

const eval_scorer eval_scorer_mmbench = {.name = "mmbench", .all = all};
