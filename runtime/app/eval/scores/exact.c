/* GQA (Hudson and Manning, arXiv:1902.09506): the answer is the right one, word for word, but for case, white space around it and ASCII
 * punctuation, as lmms-eval compares (its exact_match). */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <string.h>

static const char *plain(text_pool *p, const char *s) {
    static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    char *out = text_lower(p, text_strip(p, s)), *to = out;
    if (p->failed) return "";
    for (const char *at = out; *at; at++)
        if (!strchr(marks, *at)) *to++ = *at;
    *to = 0;
    return out;
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    const char *said = plain(&p, response);
    snprintf(out->said, sizeof out->said, "%s", said);
    out->answered = *said;
    out->score = item->answer && !strcmp(said, plain(&p, item->answer));
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_exact = {.name = "exact", .one = one};
