/* ANLS (Biten et al., arXiv:1905.13648), DocVQA's figure: 1 - edit distance / length of the longer text, of the best of the
 * answers; below 0.5 it is 0. Texts in lower case with single blanks; as the script that everyone uses (lmms-eval,
 * Qwen-VL) the length is that of the texts as they stand. Distance and length count code points. */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_MAX = 4096 }; /* of a text; what is beyond cannot come near an answer */

static uint32_t *points_of(text_pool *p, const char *s, size_t *n) {
    uint32_t *out = (uint32_t *)(void *)text_take(p, 4 * (strlen(s) + 1));
    *n = 0;
    for (size_t k; out && *s && *n < POINTS_MAX; s += k) out[(*n)++] = text_next(s, &k);
    return out;
}

static size_t distance(text_pool *p, const char *a, const char *b) {
    size_t n, m;
    uint32_t *x = points_of(p, a, &n), *y = points_of(p, b, &m);
    size_t *row = (size_t *)(void *)text_take(p, (m + 1) * sizeof *row);
    if (!x || !y || !row) return 0;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = corner + (x[i - 1] != y[j - 1]),
                   shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            corner = row[j];
            row[j] = change < shorter + 1 ? change : shorter + 1;
        }
    }
    return row[m];
}

/* Upper case changes the length of very few characters: the sharp s, and ligatures. */
static size_t upper_length(const char *s) {
    size_t n = text_length(s);
    for (const char *at = s; (at = strstr(at, "\xc3\x9f")); at += 2) n++;
    return n;
}

static double similarity(text_pool *p, const char *answer, const char *response) {
    char *a = text_words(p, text_lower(p, answer)), *b = text_words(p, text_lower(p, response));
    size_t n = upper_length(answer), m = upper_length(response), length = n > m ? n : m;
    return length ? 1 - (double)distance(p, a, b) / (double)length : 1;
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    double best = -1e9;
    (void)id;
    for (size_t i = 0; i < json_array_size(item->answers); i++) {
        double s = similarity(&p, json_string_value(json_array_get(item->answers, i)), response);
        if (s > best) best = s;
    }
    out->score = best < 0.5 ? 0 : best;
    out->answered = *response;
    snprintf(out->said, sizeof out->said, "%s", response);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_anls = {.name = "anls", .one = one};
