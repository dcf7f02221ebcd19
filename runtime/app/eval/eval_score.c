#include "eval_score.h"
#include "status.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- letters */

/* The phrases as the script has them, in its order; the two long ones are its missing commas. */
static const char *const phrases[] = {"The best answer is",
                                      "The correct answer is",
                                      "The answer is",
                                      "The answer",
                                      "The best option isThe correct option is",
                                      "Best answer:Best option:"};

static void remove_all(char *text, const char *phrase) {
    size_t n = strlen(phrase);
    char *to = text;
    for (const char *from = text; *from;) {
        if (!strncmp(from, phrase, n))
            from += n;
        else
            *to++ = *from++;
    }
    *to = 0;
}

/* The script also drops texts of more than ten words that hold no A to D: they have no letter anyway. */
char eval_letter(const char *response) {
    char *text = response ? malloc(strlen(response) + 1) : NULL;
    if (!text) return 0;
    strcpy(text, response);
    for (size_t i = 0; i < SAC_COUNT(phrases); i++) remove_all(text, phrases[i]);
    char letter = text[strcspn(text, "ABCD")];
    free(text);
    return letter;
}

/* Of text..*n without white space around it and one full stop at its end. */
static const char *trim(const char *text, size_t *n) {
    static const char space[] = " \t\r\n";
    text += strspn(text, space);
    *n = strlen(text);
    while (*n && strchr(space, text[*n - 1])) --*n;
    if (*n && text[*n - 1] == '.') --*n;
    return text;
}

bool eval_same_text(const char *a, const char *b) {
    size_t n, m;
    a = trim(a, &n);
    b = trim(b, &m);
    if (n != m || !n) return false;
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return false;
    return true;
}

char eval_letter_of_text(const eval_question *q, const char *response) {
    char letter = 0;
    for (size_t i = 0; response && i < EVAL_OPTIONS; i++) {
        if (!eval_same_text(eval_option_text(q->options[i]), response)) continue;
        if (letter) return 0;
        letter = (char)('A' + i);
    }
    return letter;
}

/* ---------------------------------------------------------------- accuracy */

double eval_official(const eval_tally *t) {
    return t->answered ? (double)t->correct / (double)t->answered : 0;
}

double eval_strict(const eval_tally *t) {
    return t->asked ? (double)t->correct / (double)t->asked : 0;
}

static const double z95 = 1.959963984540054;

/* Wilson 1927: the set of p that a normal test at 95 % would not refuse; unlike p +- 1.96 s it stays within
 * 0..1 and has a width when all answers are right. */
void eval_wilson(int64_t k, int64_t n, double *low, double *high) {
    const double z = z95;
    *low = 0;
    *high = 1;
    if (n <= 0) return;
    double p = (double)k / (double)n, zz = z * z / (double)n;
    double centre = p + 0.5 * zz, half = z * sqrt(p * (1 - p) / (double)n + 0.25 * zz / (double)n);
    *low = fmax(0, (centre - half) / (1 + zz));
    *high = fmin(1, (centre + half) / (1 + zz));
}

double eval_paired(const eval_pairs *p, double *low, double *high) {
    double n = (double)p->n + 2, gained = (double)p->gained + 0.5, lost = (double)p->lost + 0.5;
    double centre = (gained - lost) / n;
    double half = z95 * sqrt(gained + lost - n * centre * centre) / n;
    *low = fmax(-1, centre - half);
    *high = fmin(1, centre + half);
    return p->n > 0 ? (double)(p->gained - p->lost) / (double)p->n : 0;
}

double eval_mcnemar(const eval_pairs *p) {
    double m = (double)(p->gained + p->lost), sum = 0;
    int64_t fewer = p->gained < p->lost ? p->gained : p->lost;
    for (int64_t i = 0; i <= fewer; i++)
        sum += exp(lgamma(m + 1) - lgamma((double)i + 1) - lgamma(m - (double)i + 1) - m * log(2));
    return fmin(1, 2 * sum);
}

/* ---------------------------------------------------------------- tallies */

static eval_score_row *find_row(const eval_scores *s, const char *scope, const char *dimension,
                                const char *key) {
    for (size_t i = 0; i < s->n_rows; i++) {
        eval_score_row *row = &s->rows[i];
        if (!strcmp(row->scope, scope) && !strcmp(row->dimension, dimension) && !strcmp(row->key, key))
            return row;
    }
    return NULL;
}

const eval_score_row *eval_scores_find(const eval_scores *s, const char *scope, const char *dimension,
                                       const char *key) {
    return find_row(s, scope, dimension, key);
}

static sac_status count(eval_scores *s, const char *scope, const char *dimension, const char *key,
                        bool answered, bool correct, sac_error *err) {
    eval_score_row *row = find_row(s, scope, dimension, key);
    if (!row) {
        if ((s->n_rows & (s->n_rows - 1)) == 0) { /* a power of two is full */
            eval_score_row *more = realloc(s->rows, (s->n_rows ? 2 * s->n_rows : 1) * sizeof *more);
            if (!more) return sac_fail_no_memory(err);
            s->rows = more;
        }
        row = &s->rows[s->n_rows++];
        *row = (eval_score_row){.scope = scope, .dimension = dimension, .key = key};
    }
    row->tally.asked++;
    row->tally.answered += answered;
    row->tally.correct += correct;
    return SAC_OK;
}

sac_status eval_scores_add(eval_scores *s, const eval_video *v, const eval_question *q, char letter,
                           sac_error *err) {
    const char *const scopes[] = {"all", v->duration};
    for (size_t i = 0; i < SAC_COUNT(scopes); i++) {
        SAC_TRY(count(s, scopes[i], "overall", "", letter != 0, letter == q->answer, err));
        SAC_TRY(count(s, scopes[i], "domain", v->domain, letter != 0, letter == q->answer, err));
        SAC_TRY(count(s, scopes[i], "sub_category", v->sub_category, letter != 0, letter == q->answer, err));
        SAC_TRY(count(s, scopes[i], "task_type", q->task_type, letter != 0, letter == q->answer, err));
    }
    return SAC_OK;
}

void eval_scores_free(eval_scores *s) {
    free(s->rows);
    *s = (eval_scores){0};
}
