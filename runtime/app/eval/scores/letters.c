/* The letters of multiple choice, as the scripts of several benchmarks read them. */
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <string.h>

static void set_letter(const eval_item *item, char letter, eval_mark *out) {
    out->answered = letter != 0;
    snprintf(out->said, sizeof out->said, "%.1s", letter ? &letter : "");
    out->score = letter && item->answer && letter == item->answer[0];
}

static void draw(const eval_item *item, const char *id, eval_mark *out) {
    set_letter(item, eval_draw(id, item->n_options), out);
    out->answered = false;
    out->drawn = true;
}

/* ---------------------------------------------------------------- MVBench */

/* check_ans of VideoChat2 (arXiv:2311.17005), with the later guard that an answer must have one of the letters a to g: the
 * first word of the response, in lower case, against "(b)": equal, part of it without full stops, or it of the word. The
 * prompt ends with "(", which the response therefore goes on from. */
static bool mark_mvbench(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    char *line = text_strip(&p, response);
    line[strcspn(line, "\n")] = 0;
    char *text = text_take(&p, strlen(line) + 1);
    if (text) sprintf(text, "%s%s", *line == '(' ? "" : "(", line);
    char *word = text_lower(&p, text ? text : "");
    if (!p.failed) word[strcspn(word, " ")] = 0;
    char right[4] = {'(', item->answer ? (char)(item->answer[0] | 32) : 0, ')'};
    out->answered = strpbrk(word, "abcdefg") != NULL;
    out->score = out->answered && item->answer &&
                 (strstr(right, text_replace(&p, word, ".", "")) || strstr(word, right));
    snprintf(out->said, sizeof out->said, "%s", word);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_mvbench = {.name = "mvbench", .one = mark_mvbench};

/* ---------------------------------------------------------------- MLVU */

/* MLVU (arXiv:2406.04264), choice_bench.py: the character before the first ")", or the whole response. */
static bool mark_mlvu(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    const char *close = strchr(response, ')');
    (void)id;
    char letter = 0;
    if (close && close > response)
        letter = close[-1];
    else if (!close && response[0] && !response[1])
        letter = response[0];
    set_letter(item, letter >= 'A' && letter <= 'Z' ? letter : 0, out);
    return true;
}

const eval_scorer eval_scorer_mlvu = {.name = "mlvu", .one = mark_mlvu};

/* ---------------------------------------------------------------- LongVideoBench */

/* lmms-eval's reading, which the benchmark's author changed it to: fixed phrases go, then the first capital A to E; a
 * response without one gets a letter at random. */
static bool mark_longvideobench(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    static const char *const phrases[] = {
        "The best answer is", "The correct answer is", "The answer is", "The answer",
        "The best option is", "The correct option is", "Best answer:",  "Best option:"};
    text_pool p = {0};
    char *s = text_strip(&p, response);
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) s = text_replace(&p, s, phrases[i], "");
    char letter = s[strcspn(s, "ABCDE")];
    if (letter)
        set_letter(item, letter, out);
    else
        draw(item, id, out);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_longvideobench = {.name = "longvideobench", .one = mark_longvideobench};

/* ---------------------------------------------------------------- StreamingBench */

/* The response's first character, after white space. */
static bool mark_first(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    (void)id;
    char c = response[strspn(response, " \t\r\n")];
    set_letter(item, c >= 'A' && c <= 'Z' ? c : 0, out);
    return true;
}

const eval_scorer eval_scorer_first_letter = {.name = "first_letter", .one = mark_first};

/* ---------------------------------------------------------------- EgoSchema */

/* lmms-eval's reading: "(A)", "A " or "A." anywhere, and of several the first; else, in more than five words, the text of
 * an option, the first of several; else at random. */
typedef struct found {
    char letter;
    const char *at;
    size_t n;
} found;

static void keep_first(found *f, char letter, const char *at) {
    if (!at) return;
    f->n++;
    if (f->at && at >= f->at) return;
    f->letter = letter;
    f->at = at;
}

static bool mark_egoschema(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    static const char *const forms[] = {"(%c)", "%c ", "%c."};
    static const char *const ends[] = {",", ".", "!", "?", ";", ":", "'"};
    text_pool p = {0};
    const char *s = response;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) s = text_strip_chars(&p, s, ends[i]);
    char *text = text_take(&p, strlen(s) + 2);
    if (text) sprintf(text, " %s ", s);
    found f = {0};
    for (size_t k = 0; text && k < 3; k++)
        for (size_t i = 0; i < item->n_options; i++) {
            char form[8] = "";
            int n = 0;
            for (const char *c = forms[k]; *c; c++)
                if (*c == '%')
                    form[n++] = (char)('A' + i), c++;
                else
                    form[n++] = *c;
            keep_first(&f, (char)('A' + i), text_last(text, form));
        }
    if (text && !f.n && text_word_count(text) > 5) {
        char *low = text_lower(&p, text);
        for (size_t i = 0; i < item->n_options; i++)
            keep_first(&f, (char)('A' + i), text_last(low, text_lower(&p, text_strip(&p, item->options[i]))));
    }
    if (f.letter)
        set_letter(item, f.letter, out);
    else
        draw(item, id, out);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_egoschema = {.name = "egoschema", .one = mark_egoschema};

/* ---------------------------------------------------------------- ScienceQA */

/* lmms-eval's (LLaVA's): the letter alone in either case, or a capital letter and a full stop at the start. */
static bool mark_scienceqa(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    char *s = text_strip(&p, response);
    char letter = 0;
    if (s[0] && !s[1])
        letter = (char)(s[0] >= 'a' && s[0] <= 'z' ? s[0] - 32 : s[0]);
    else if (s[0] >= 'A' && s[0] <= 'Z' && s[1] == '.')
        letter = s[0];
    set_letter(item, letter >= 'A' && letter <= 'Z' ? letter : 0, out);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_scienceqa = {.name = "scienceqa", .one = mark_scienceqa};
