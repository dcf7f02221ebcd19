#include "eval_marks.h"
#include "eval_run.h"
#include "eval_score.h"
#include "output.h"
#include "report_value.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- marks */

static const eval_question *question(const eval_marks *m, size_t i) {
    return &m->set->videos[0].questions[i];
}

/* The option whose text was said, as its letter; "" for none. */
static const char *letter_of(eval_marks *m, size_t i, const char *response) {
    const eval_item *item = question(m, i)->item;
    char letter = 0;
    for (size_t k = 0; k < item->n_options; k++)
        if (eval_same_text(item->options[k], response)) letter = letter ? '?' : (char)('A' + k);
    m->letters[i][0] = letter == '?' ? 0 : letter;
    return m->letters[i];
}

static sac_status take_lists(eval_marks *m, sac_error *err) {
    size_t n = m->set->n_questions;
    m->answers.n = n;
    m->answers.items = calloc(n, sizeof(void *));
    m->answers.ids = calloc(n, sizeof(char *));
    m->answers.responses = calloc(n, sizeof(char *));
    m->marks = calloc(n, sizeof *m->marks);
    m->letters = calloc(n, sizeof *m->letters);
    bool ok = m->answers.items && m->answers.ids && m->answers.responses && m->marks && m->letters;
    return ok ? SAC_OK : sac_fail_no_memory(err);
}

/* ---------------------------------------------------------------- counts */

static eval_count *find_count(eval_marks *m, const char *dimension, const char *value) {
    for (size_t i = 0; i < m->n_counts; i++)
        if (!strcmp(m->counts[i].dimension, dimension) && !strcmp(m->counts[i].value, value))
            return &m->counts[i];
    if ((m->n_counts & (m->n_counts - 1)) == 0) {
        eval_count *more = realloc(m->counts, (m->n_counts ? 2 * m->n_counts : 1) * sizeof *more);
        if (!more) return NULL;
        m->counts = more;
    }
    m->counts[m->n_counts] = (eval_count){.dimension = dimension, .value = value};
    return &m->counts[m->n_counts++];
}

static bool has(const eval_item *item, const eval_count *c) {
    if (!*c->dimension) return true;
    for (size_t i = 0; i < item->n_dimensions; i++)
        if (!strcmp(item->dimensions[i].name, c->dimension) && !strcmp(item->dimensions[i].value, c->value))
            return true;
    return false;
}

/* The benchmark's own figures of the questions of one count. */
static sac_status count_figures(const eval_marks *m, eval_count *c, sac_error *err) {
    size_t n = 0;
    const eval_item **items = calloc(m->answers.n, sizeof *items);
    eval_mark *marks = calloc(m->answers.n, sizeof *marks);
    eval_answers some = {.items = items};
    for (size_t i = 0; items && marks && i < m->answers.n; i++)
        if (has(m->answers.items[i], c)) items[n] = m->answers.items[i], marks[n++] = m->marks[i];
    some.n = n;
    if (items && marks) c->n_figures = m->set->bench->scorer->figures(&some, marks, c->figures);
    bool ok = items && marks;
    free(items);
    free(marks);
    return ok ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status count_one(eval_marks *m, const char *dimension, const char *value, const eval_mark *mark,
                            sac_error *err) {
    eval_count *c = find_count(m, dimension, value);
    if (!c) return sac_fail_no_memory(err);
    if (!mark) return SAC_OK;
    c->questions++;
    c->answered += mark->answered;
    c->drawn += mark->drawn;
    c->score += mark->score;
    return SAC_OK;
}

static bool is_unscored(const eval_item *item) {
    return !item->answer && !item->answers;
}

bool eval_marks_counts(const eval_marks *m, size_t i) {
    return !is_unscored(m->answers.items[i]) && !m->marks[i].apart;
}

static sac_status count_all(eval_marks *m, sac_error *err) {
    SAC_TRY(count_one(m, "", "", NULL, err)); /* the first, even if none counts */
    for (size_t i = 0; i < m->answers.n; i++) {
        const eval_item *item = m->answers.items[i];
        m->n_unscored += is_unscored(item) || (m->marks[i].apart && item->kind != NULL);
        if (!eval_marks_counts(m, i)) continue;
        SAC_TRY(count_one(m, "", "", &m->marks[i], err));
        for (size_t d = 0; d < item->n_dimensions; d++)
            SAC_TRY(count_one(m, item->dimensions[d].name, item->dimensions[d].value, &m->marks[i], err));
    }
    for (size_t i = 0; m->set->bench->scorer->figures && i < m->n_counts; i++)
        SAC_TRY(count_figures(m, &m->counts[i], err));
    return SAC_OK;
}

sac_status eval_marks_make(eval_marks *m, const eval_set *set, json_t *const *records, bool open,
                           sac_error *err) {
    *m = (eval_marks){.set = set};
    SAC_TRY(take_lists(m, err));
    const char **responses = (const char **)m->answers.responses, **ids = (const char **)m->answers.ids;
    const eval_item **items = (const eval_item **)m->answers.items;
    for (size_t i = 0; i < set->n_questions; i++) {
        const char *said = eval_record_response(records[i]), *error = eval_record_error(records[i]);
        items[i] = question(m, i)->item;
        ids[i] = question(m, i)->id;
        responses[i] = said && open && items[i]->n_options ? letter_of(m, i, said) : said;
        m->n_errors += error != NULL;
        if (!m->first_error) m->first_error = error;
    }
    if (!eval_score_all(set->bench->scorer, &m->answers, m->marks)) return sac_fail_no_memory(err);
    return count_all(m, err);
}

void eval_marks_free(eval_marks *m) {
    free((void *)m->answers.items);
    free((void *)m->answers.ids);
    free((void *)m->answers.responses);
    free(m->marks);
    free(m->counts);
    free(m->letters);
    *m = (eval_marks){0};
}

static double mean(const eval_count *c) {
    return c->questions ? c->score / (double)c->questions : 0;
}

static const eval_figure *main_figure(const eval_marks *m) {
    const eval_count *all = &m->counts[0];
    for (size_t i = 0; m->set->bench->main && i < all->n_figures; i++)
        if (!strcmp(all->figures[i].name, m->set->bench->main)) return &all->figures[i];
    return NULL;
}

static double unit_of(const eval_marks *m) {
    return strcmp(m->set->bench->scorer->name, "cider") ? 100 : 1;
}

double eval_marks_figure(const eval_marks *m, const char *name) {
    const eval_figure *main = main_figure(m);
    if (!strcmp(name, "score") && main) return (main->points ? 1 : 100) * main->value;
    if (!strcmp(name, "score")) return unit_of(m) * eval_marks_main(m);
    for (size_t i = 0; i < m->counts[0].n_figures; i++)
        if (!strcmp(m->counts[0].figures[i].name, name))
            return (m->counts[0].figures[i].points ? 1 : unit_of(m)) * m->counts[0].figures[i].value;
    for (size_t i = 1; i < m->n_counts; i++)
        if (!strcmp(m->counts[i].value, name)) return unit_of(m) * mean(&m->counts[i]);
    return (double)NAN;
}

double eval_marks_main(const eval_marks *m) {
    const char *over = m->set->bench->mean_over;
    if (main_figure(m)) return main_figure(m)->value;
    double sum = 0, n = 0;
    for (size_t i = 0; over && i < m->n_counts; i++)
        if (!strcmp(m->counts[i].dimension, over)) sum += mean(&m->counts[i]), n++;
    return over ? n > 0 ? sum / n : 0 : mean(&m->counts[0]);
}

/* ---------------------------------------------------------------- JSON */

static json_t *describe_count(const eval_count *c) {
    json_t *figures = json_object();
    for (size_t i = 0; figures && i < c->n_figures; i++)
        json_object_set_new(figures, c->figures[i].name, json_real(c->figures[i].value));
    json_t *j = json_pack("{s:I, s:I, s:f, s:o*}", "questions", (json_int_t)c->questions, "answered",
                          (json_int_t)c->answered, "score", mean(c), "figures",
                          c->n_figures ? json_incref(figures) : NULL);
    json_decref(figures);
    return j;
}

static bool put_count(json_t *by, const eval_count *c) {
    json_t *dimension = json_object_get(by, c->dimension);
    if (!dimension && (json_object_set_new(by, c->dimension, json_object()) ||
                       !(dimension = json_object_get(by, c->dimension))))
        return false;
    return !json_object_set_new(dimension, c->value, describe_count(c));
}

json_t *eval_marks_scores(const eval_marks *m) {
    const eval_bench *b = m->set->bench;
    json_t *by = json_object(), *all = describe_count(&m->counts[0]);
    bool ok = by && all;
    for (size_t i = 1; ok && i < m->n_counts; i++) ok = put_count(by, &m->counts[i]);
    if (!ok) {
        json_decref(by);
        json_decref(all);
        return NULL;
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:s*, s:o, s:o}", "set", b->name, "questions",
                     (json_int_t)m->answers.n, "answered", (json_int_t)m->counts[0].answered, "errors",
                     (json_int_t)m->n_errors, "unscored", (json_int_t)m->n_unscored, "drawn",
                     (json_int_t)m->counts[0].drawn, "figure", b->figure, "score", eval_marks_main(m), "note",
                     b->note, "all", all, "by", by);
}

static json_t *one_result(const eval_marks *m, size_t i) {
    const eval_question *q = question(m, i);
    const eval_item *item = q->item;
    const eval_mark *mark = &m->marks[i];
    const char *response = m->answers.responses[i];
    json_t *options = item->n_options ? json_array() : NULL;
    for (size_t k = 0; options && k < item->n_options; k++)
        json_array_append_new(options, json_string(item->options[k]));
    json_t *j = json_pack("{s:s, s:s, s:o*, s:s*, s:s, s:o, s:f}", "question_id", q->id, "question", q->text,
                          "options", options, "answer", item->answer, "response", response ? response : "",
                          "said", report_text(mark->said), "score", mark->score);
    if (j && item->answers) json_object_set(j, "answers", (json_t *)item->answers);
    if (j && mark->drawn) json_object_set_new(j, "drawn", json_true());
    for (size_t d = 0; j && d < item->n_dimensions; d++)
        if (!json_object_get(j, item->dimensions[d].name))
            json_object_set_new(j, item->dimensions[d].name, json_string(item->dimensions[d].value));
    return j;
}

json_t *eval_marks_result(const eval_marks *m) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < m->answers.n; i++) {
        if (!json_array_append_new(list, one_result(m, i))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* ---------------------------------------------------------------- the table */

static void print_count(const eval_marks *m, const char *name, const eval_count *c) {
    char line[320];
    double unit = unit_of(m);
    int n = snprintf(line, sizeof line, "  %-32.60s %9" PRId64 " %9" PRId64 "   %7.2f%s", name, c->questions,
                     c->answered, unit * mean(c), unit > 1 ? " %" : "");
    for (size_t i = 0; i < c->n_figures && n > 0 && (size_t)n < sizeof line; i++) {
        double of = c->figures[i].points ? 1 : unit;
        n += snprintf(line + n, sizeof line - (size_t)n, "   %s %.2f%s", c->figures[i].name,
                      of * c->figures[i].value, of > 1 ? " %" : "");
    }
    if (n > 0) output_piece(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    printf("\n");
}

void eval_marks_print(const eval_marks *m) {
    const eval_bench *b = m->set->bench;
    bool points = main_figure(m) ? main_figure(m)->points : unit_of(m) <= 1;
    printf("%-34s %9s %9s   %s\n", "", "questions", "answered",
           b->mean_over ? "accuracy"
           : b->main    ? "score"
                        : b->figure);
    print_count(m, "all", &m->counts[0]);
    for (size_t i = 1; i < m->n_counts; i++) {
        bool first = true;
        for (size_t k = 1; k < i; k++)
            first = first && strcmp(m->counts[k].dimension, m->counts[i].dimension) != 0;
        if (!first) continue;
        printf("%s\n", m->counts[i].dimension);
        for (size_t k = i; k < m->n_counts; k++)
            if (!strcmp(m->counts[k].dimension, m->counts[i].dimension))
                print_count(m, m->counts[k].value, &m->counts[k]);
    }
    printf("%s: %.2f%s\n", b->figure, (points ? 1 : 100) * eval_marks_main(m), points ? "" : " %");
    if (m->n_unscored)
        printf("%" PRId64 " not scored: the file has no answer to them, or another model would judge them\n",
               m->n_unscored);
    if (m->counts[0].drawn)
        printf("%" PRId64 " without a letter: one was drawn by the question's id (official: at random)\n",
               m->counts[0].drawn);
    if (b->note) printf("%s\n", b->note);
}
