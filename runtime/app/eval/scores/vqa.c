/* VQA accuracy (Antol et al., arXiv:1505.00468) as TextVQA's challenge takes it (EvalAI's processor in MMF): answers are
 * normalised, and the score is the mean, over the ten people's answers, of min(1, matches among the other nine / 3).
 * The processor's oddities are kept, since scores are only comparable with them: "'s" is set apart by a blank; all
 * punctuation goes where it stands beside a blank or the text has a comma in a number, else becomes a blank; a full stop
 * goes unless a digit follows, the first 32 of them. */
#define _GNU_SOURCE
#include "score.h"
#include "score_text.h"

#include <stdio.h>
#include <string.h>

/* Words with their apostrophe left out, which get it back. First the plain ones: the apostrophe stands before the last n
 * letters, n by list. */
static const char *const before_1[] = {
    "aint",   "arent",    "cant",  "couldnt", "didnt",  "doesnt", "dont",    "hadnt",  "hasnt",   "havent",
    "hed",    "hes",      "howd",  "hows",    "isnt",   "itd",    "mightnt", "mustnt", "neednt",  "oughtnt",
    "shant",  "shouldnt", "thats", "thered",  "theres", "theyd",  "wasnt",   "werent", "whats",   "whens",
    "whered", "wheres",   "whod",  "whos",    "whys",   "wont",   "yall",    "youd",   "wouldnt", NULL};
static const char *const before_2[] = {
    "couldve", "howll",  "itll",    "mightve", "mustve", "notve",  "shouldve", "therere", "theyll",
    "theyre",  "theyve", "weve",    "whatll",  "whatre", "whatve", "wholl",    "whereve", "whove",
    "whyll",   "whyre",  "wouldve", "youll",   "youre",  "youve",  NULL};

/* The others: as found, as it becomes. The table has "somebody'd" and its like the wrong way round; kept. Keys with capital
 * letters ("Im") are left out: words are in lower case before. */
static const char *const others[][2] = {
    {"couldn'tve", "couldn't've"},
    {"couldnt've", "couldn't've"},
    {"hadnt've", "hadn't've"},
    {"hadn'tve", "hadn't've"},
    {"hed've", "he'd've"},
    {"he'dve", "he'd've"},
    {"itd've", "it'd've"},
    {"it'dve", "it'd've"},
    {"maam", "ma'am"},
    {"mightnt've", "mightn't've"},
    {"mightn'tve", "mightn't've"},
    {"oclock", "o'clock"},
    {"ow's'at", "'ow's'at"},
    {"'ows'at", "'ow's'at"},
    {"'ow'sat", "'ow's'at"},
    {"shed've", "she'd've"},
    {"she'dve", "she'd've"},
    {"shouldnt've", "shouldn't've"},
    {"shouldn'tve", "shouldn't've"},
    {"somebody'd", "somebodyd"},
    {"somebodyd've", "somebody'd've"},
    {"somebody'dve", "somebody'd've"},
    {"somebodyll", "somebody'll"},
    {"somebodys", "somebody's"},
    {"someoned", "someone'd"},
    {"someoned've", "someone'd've"},
    {"someone'dve", "someone'd've"},
    {"someonell", "someone'll"},
    {"someones", "someone's"},
    {"somethingd", "something'd"},
    {"somethingd've", "something'd've"},
    {"something'dve", "something'd've"},
    {"somethingll", "something'll"},
    {"thered've", "there'd've"},
    {"there'dve", "there'd've"},
    {"theyd've", "they'd've"},
    {"they'dve", "they'd've"},
    {"twas", "'twas"},
    {"wed've", "we'd've"},
    {"we'dve", "we'd've"},
    {"whod've", "who'd've"},
    {"who'dve", "who'd've"},
    {"wouldnt've", "wouldn't've"},
    {"wouldn'tve", "wouldn't've"},
    {"yall'll", "y'all'll"},
    {"y'allll", "y'all'll"},
    {"yall'd've", "y'all'd've"},
    {"y'alld've", "y'all'd've"},
    {"y'all'dve", "y'all'd've"},
    {"youd've", "you'd've"},
    {"you'dve", "you'd've"},
};
static const char *const numbers[] = {"zero", "one",   "two",   "three", "four", "five",
                                      "six",  "seven", "eight", "nine",  "ten"};

static bool is_in(const char *const *list, const char *word) {
    for (; *list; list++)
        if (!strcmp(*list, word)) return true;
    return false;
}

/* The word with its apostrophe, in out[n]. */
static void contract(const char *word, char *out, size_t n) {
    size_t length = strlen(word), tail = is_in(before_1, word) ? 1 : is_in(before_2, word) ? 2 : 0;
    if (!strcmp(word, "yall")) tail = 3;
    snprintf(out, n, "%.*s%s%s", (int)(length - tail), word, tail ? "'" : "", word + length - tail);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i][0], word)) snprintf(out, n, "%s", others[i][1]);
}

/* A comma between digits. */
static bool has_grouped_number(const char *s) {
    for (const char *at = s; (at = strchr(at, ',')); at++) {
        const char *after = at;
        size_t n;
        while (*after == ',') after++;
        if (text_is_digit(text_before(s, at)) && text_is_digit(text_next(after, &n))) return true;
    }
    return false;
}

static char *drop_punctuation(text_pool *p, char *s) {
    static const char marks[] = ";/[]\"{}()=+\\_-><@`,?!";
    char *out = s;
    bool grouped = has_grouped_number(s);
    for (const char *m = marks; *m; m++) {
        char mark[2] = {*m}, before[3] = {' ', *m}, after[3] = {*m, ' '};
        out = text_replace(p, out, mark, grouped || strstr(s, before) || strstr(s, after) ? "" : " ");
    }
    char *t = text_copy(p, out, strlen(out)), *to = t;
    int dropped = 0;
    for (const char *at = out; *at; at++) {
        size_t n;
        if (*at == '.' && dropped < 32 && !text_is_digit(text_next(at + 1, &n)))
            dropped++;
        else if (!p->failed)
            *to++ = *at;
    }
    if (!p->failed) *to = 0;
    return t;
}

static char *read_words(text_pool *p, const char *s) {
    char *words = text_words(p, text_lower(p, s)), *out = text_take(p, 2 * strlen(words) + 16), *to = out;
    if (!out) return words;
    for (char *at = words; *at;) {
        size_t n = strcspn(at, " "), room = 2 * n + 8;
        char *word = text_copy(p, at, n), *whole = text_take(p, room);
        at += n + (at[n] == ' ');
        if (!whole || p->failed) return out;
        if (!strcmp(word, "none")) word = "0";
        char digits[4];
        for (int i = 0; i <= 10; i++)
            if (!strcmp(word, numbers[i])) snprintf(digits, sizeof digits, "%d", i), word = digits;
        if (!strcmp(word, "a") || !strcmp(word, "an") || !strcmp(word, "the")) continue;
        contract(word, whole, room);
        if (to > out) *to++ = ' ';
        to = stpcpy(to, whole);
    }
    return out;
}

static char *normalise(text_pool *p, const char *answer) {
    char *s = text_lower(p, answer);
    s = text_replace(p, text_replace(p, text_replace(p, s, ",", ""), "?", ""), "'s", " 's");
    s = text_strip(p, s);
    s = text_strip(p, text_replace(p, text_replace(p, s, "\n", " "), "\t", " "));
    return read_words(p, drop_punctuation(p, s));
}

/* Over each answer left out: its matches among the others, of three. */
static double mean_of(size_t n, size_t matches) {
    double with = (double)(matches > 0 ? matches - 1 : 0) / 3, without = (double)matches / 3;
    if (!n) return 0;
    if (with > 1) with = 1;
    if (without > 1) without = 1;
    return ((double)matches * with + (double)(n - matches) * without) / (double)n;
}

static double accuracy(text_pool *p, const json_t *answers, const char *said) {
    size_t n = json_array_size(answers), matches = 0;
    for (size_t i = 0; i < n; i++)
        matches += !strcmp(normalise(p, json_string_value(json_array_get(answers, i))), said);
    return mean_of(n, matches);
}

static bool one(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    (void)id;
    char *said = normalise(&p, response);
    snprintf(out->said, sizeof out->said, "%s", said);
    out->answered = *said;
    out->score = accuracy(&p, item->answers, said);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_vqa = {.name = "vqa", .one = one};

/* ---------------------------------------------------------------- VQAv2 */

static char *plain(text_pool *p, const char *s) {
    return text_strip(p, text_replace(p, text_replace(p, s, "\n", " "), "\t", " "));
}

static char *answer_of(text_pool *p, const json_t *answers, size_t i) {
    return plain(p, json_string_value(json_array_get(answers, i)));
}

static bool differ(text_pool *p, const json_t *answers) {
    for (size_t i = 1; i < json_array_size(answers); i++)
        if (strcmp(answer_of(p, answers, i), answer_of(p, answers, 0)) != 0) return true;
    return false;
}

/* As lmms-eval scores VQAv2 (vqaEval.py's rule over EvalAI's processor): people's answers lose punctuation, articles and spelled digits
 * where they differ, and stay as they are where all ten are one; the model's is processed either way. */
static bool one_v2(const eval_item *item, const char *id, const char *response, eval_mark *out) {
    text_pool p = {0};
    size_t n = json_array_size(item->answers), matches = 0;
    bool process = differ(&p, item->answers);
    (void)id;
    char *said = normalise(&p, response);
    if (process) said = read_words(&p, drop_punctuation(&p, said));
    for (size_t i = 0; i < n; i++) {
        char *answer = answer_of(&p, item->answers, i);
        if (process) answer = read_words(&p, drop_punctuation(&p, answer));
        matches += !strcmp(answer, said);
    }
    snprintf(out->said, sizeof out->said, "%s", said);
    out->answered = *said;
    out->score = mean_of(n, matches);
    bool ok = !p.failed;
    text_pool_free(&p);
    return ok;
}

const eval_scorer eval_scorer_vqav2 = {.name = "vqav2", .one = one_v2};
