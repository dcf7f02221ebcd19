#include "comparison.h"
#include "eval_split.h"
#include "exit_code.h"
#include "interrupt.h"
#include "method_names.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- before any work */

sac_status comparison_check_settings(const settings *s, sac_error *err) {
    const size_t parts[] = {offsetof(settings, prefill), offsetof(settings, kv), offsetof(settings, decode),
                            offsetof(settings, rope), offsetof(settings, reduce)};
    for (size_t i = 0; i < SAC_COUNT(parts); i++)
        if (settings_given(s, parts[i]))
            return sac_fail(
                err, SAC_BAD_CONFIG,
                "%s: session: %s is not for a comparison, whose methods are lines of --method and "
                "--methods",
                s->config, method_part_names[i]);
    return SAC_OK;
}

sac_status comparison_check_names(const method_list *list, sac_error *err) {
    for (size_t i = 0; i < list->n; i++) {
        char *const *part = list->lines[i].part;
        sac_status st = method_names_check_lines(part[METHOD_PREFILL], part[METHOD_DECODE], part[METHOD_KV], err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "method line '%.80s'", list->lines[i].name);
    }
    return SAC_OK;
}

sac_status comparison_open_rows(comparison *c, sac_error *err) {
    compare_row *rows = realloc(c->rows, c->list.n * sizeof *rows);
    if (!rows) return sac_fail_no_memory(err);
    c->rows = rows;
    memset(rows + c->n_rows, 0, (c->list.n - c->n_rows) * sizeof *rows);
    for (size_t i = 0; i < c->n_rows; i++) rows[i].line = &c->list.lines[i]; /* the list has moved */
    for (; c->n_rows < c->list.n; c->n_rows++) {
        compare_row *row = &c->rows[c->n_rows];
        row->line = &c->list.lines[c->n_rows];
        const json_t *like = c->n_rows ? c->rows[0].header : NULL;
        sac_status st = compare_row_open(row, c->r, &c->task, c->set_path, like, err);
        if (st == SAC_OK && row->refused != SAC_OK && c->n_rows == 0) {
            *err = row->why;
            st = row->refused;
        }
        if (st != SAC_OK) {
            c->n_rows++;
            return st;
        }
    }
    return SAC_OK;
}

void comparison_note_refused(const comparison *c) {
    size_t n = 0;
    const compare_row *first = NULL;
    for (size_t i = 0; i < c->n_rows; i++) {
        if (c->rows[i].refused == SAC_OK) continue;
        if (!n++) first = &c->rows[i];
    }
    if (n)
        fprintf(stderr, "saccade: %zu of %s %s refused; the first, %s: %s\n", n,
                report_counted((int64_t)c->n_rows, "method line"), n == 1 ? "was" : "were", first->line->name,
                first->why.text);
}

/* ---------------------------------------------------------------- journals */

sac_status comparison_open_journals(comparison *c, const char *out, const char *name, sac_error *err) {
    interrupt_goes_on();
    char *folder = run_files_path(out, name);
    sac_status st = folder ? run_files_make_folder(out, err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = run_files_make_folder(folder, err);
    for (size_t i = 0; i < c->n_rows && st == SAC_OK; i++)
        if (c->rows[i].refused == SAC_OK && !c->rows[i].journal.file.path)
            st = compare_row_resume(&c->rows[i], folder, &c->set, c->s->retry, err);
    if (st == SAC_OK) run_files_sync_folder(folder);
    if (st == SAC_OK) run_files_sync_folder(out);
    free(folder);
    return st;
}

sac_status comparison_close_journals(comparison *c, sac_status st, sac_error *err) {
    sac_error at_close;
    for (size_t i = 0; i < c->n_rows; i++) {
        if (eval_journal_close(&c->rows[i].journal, &at_close) == SAC_OK || st != SAC_OK) continue;
        *err = at_close;
        st = at_close.status;
    }
    return st;
}

/* ---------------------------------------------------------------- asking */

static bool takes_row(const comparison *c, const comparison_choice *choice, size_t row) {
    return c->rows[row].refused == SAC_OK && (!choice || !choice->rows || choice->rows[row]);
}

static bool takes_question(const comparison_choice *choice, size_t question) {
    return !choice || !choice->questions || choice->questions[question];
}

/* Questions that every line is asked before the next ones, in one session a line: those of a video, or that follow one another
 * about the same picture, or without any. */
typedef struct turn {
    size_t video, from, end;
} turn;

/* Lines get about as far as each other: a run that is stopped can be read, and their times are of the same hours. */
enum { MOST_IN_TURN = 16 };

static turn turn_at(const eval_set *set, size_t video, size_t from) {
    return (turn){video, from, eval_turn_end(set, &set->videos[video], from, MOST_IN_TURN)};
}

static int64_t missing_in(const compare_row *row, const turn *t, const comparison_choice *choice) {
    int64_t n = 0;
    for (size_t i = t->from; i < t->end; i++) n += !row->records[i] && takes_question(choice, i);
    return n;
}

int64_t comparison_missing(const comparison *c, const comparison_choice *choice) {
    int64_t n = 0;
    for (size_t i = 0; i < c->n_rows; i++)
        if (takes_row(c, choice, i))
            n += missing_in(&c->rows[i], &(turn){.end = c->set.n_questions}, choice);
    return n;
}

typedef struct asking {
    comparison *c;
    compare_row *row;
} asking;

static sac_status keep_record(void *ctx, size_t question, const json_t *record, sac_error *err) {
    asking *k = ctx;
    comparison *c = k->c;
    (void)question;
    progress_update(&c->line, "questions", ++c->done, c->todo);
    return k->row->journal.file.path ? eval_journal_write(&k->row->journal, record, err) : SAC_OK;
}

/* eval_run passes over questions that have a record: null stands for one where a question is not to be asked. */
static void hide(compare_row *row, const turn *t, const comparison_choice *choice, bool hidden) {
    for (size_t i = t->from; i < t->end; i++) {
        if (takes_question(choice, i)) continue;
        if (hidden && !row->records[i]) row->records[i] = json_null();
        if (!hidden && json_is_null(row->records[i])) row->records[i] = NULL;
    }
}

static sac_status ask_row(comparison *c, size_t at, const turn *t, const comparison_choice *choice,
                          sac_error *err) {
    asking k = {.c = c, .row = &c->rows[at]};
    snprintf(c->line.label, sizeof c->line.label, "method %zu of %zu", at + 1, c->n_rows);
    snprintf(c->line.note, sizeof c->line.note, "%s", k.row->line->name);
    progress_update(&c->line, "questions", c->done, c->todo);
    c->r->session_config = k.row->config;
    sac_status st = run_create_session(c->r, err);
    hide(k.row, t, choice, true);
    const eval_part part = {.first = t->video, .n = 1, .from = t->from, .end = t->end};
    if (st == SAC_OK) st = eval_run(c->r, &c->task, &part, k.row->records, keep_record, &k, err);
    hide(k.row, t, choice, false);
    run_free_session(c->r);
    return st == SAC_OK || st == SAC_CANCELLED
               ? st
               : sac_fail_prefix(err, err->status, "%.60s", k.row->line->name);
}

static sac_status ask_turn(comparison *c, const turn *t, const comparison_choice *choice, bool *stopped,
                           sac_error *err) {
    for (size_t i = 0; i < c->n_rows; i++) {
        if (!takes_row(c, choice, i) || !missing_in(&c->rows[i], t, choice)) continue;
        *stopped = choice && choice->stop && choice->stop(choice->ctx);
        if (*stopped) return SAC_OK;
        SAC_TRY(ask_row(c, i, t, choice, err));
    }
    return SAC_OK;
}

sac_status comparison_ask(comparison *c, const comparison_choice *choice, sac_error *err) {
    sac_status st = SAC_OK;
    bool stopped = false;
    progress_update(&c->line, "questions", c->done, c->todo);
    for (size_t v = 0; v < c->set.n_videos; v++) {
        const eval_video *video = &c->set.videos[v];
        for (size_t from = video->first; from < video->first + video->n_questions && st == SAC_OK && !stopped;) {
            const turn t = turn_at(&c->set, v, from);
            st = ask_turn(c, &t, choice, &stopped, err);
            from = t.end;
        }
    }
    progress_clear(&c->line);
    return st;
}

/* ---------------------------------------------------------------- afterwards */

sac_status comparison_keep(comparison *c, const bool *keep, sac_error *err) {
    size_t n = c->set.n_questions;
    SAC_TRY(eval_set_keep(&c->set, keep, err));
    for (size_t i = 0; i < c->n_rows; i++) {
        json_t **records = c->rows[i].records;
        size_t kept = 0;
        for (size_t k = 0; k < n && records; k++) {
            json_t *record = records[k];
            records[k] = NULL;
            if (keep[k])
                records[kept++] = record;
            else
                json_decref(record);
        }
    }
    return SAC_OK;
}

sac_status comparison_count(comparison *c, sac_error *err) {
    c->resampled = false;
    for (size_t i = 0; i < c->n_rows; i++) {
        compare_row *row = &c->rows[i];
        if (row->refused != SAC_OK) continue;
        SAC_TRY(compare_score_make(&row->score, &c->task, row->records, err));
        c->resampled = c->resampled || compare_score_is_fraction(&row->score, &c->set);
    }
    for (size_t i = 0; i < c->n_rows; i++)
        SAC_TRY(compare_row_count(&c->rows[i], &c->rows[0], &c->task, c->resampled, err));
    return SAC_OK;
}

void comparison_note_failed(const comparison *c) {
    int64_t n_errors = 0;
    const char *first = NULL;
    bool refused = false;
    for (size_t i = 0; i < c->n_rows; i++) {
        const compare_row *row = &c->rows[i];
        n_errors += row->score.n_errors;
        if (!first) first = row->score.first_error;
        refused = refused || row->refused != SAC_OK;
    }
    if (first)
        fprintf(stderr, "saccade: %s could not be asked; the first: %s\n",
                report_counted(n_errors, "question"), first);
    if (refused || first) app_note_partial();
}

void comparison_free(comparison *c) {
    for (size_t i = 0; i < c->n_rows; i++) compare_row_free(&c->rows[i], c->set.n_questions);
    free(c->rows);
    eval_task_free(&c->task);
    eval_set_free(&c->set);
    method_list_free(&c->list);
    *c = (comparison){.s = c->s, .set_path = c->set_path, .r = c->r};
}
