/* compare.c - `saccade compare`: a question set under several attention methods, in one table.
 *
 * Video by video, every method in turn: so a cache of visual embeddings that holds one video is enough to
 * encode each once, and one session is there at a time. Every method line has its own journal. */
#include "commands.h"
#include "compare_plot.h"
#include "compare_report.h"
#include "exit_code.h"
#include "interrupt.h"
#include "method_list_read.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"
#include "suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    comparison c;
    progress line;
    int64_t done, todo; /* questions, of all methods */
} state;

/* ---------------------------------------------------------------- before any work */

/* A comparison's methods are its lines; a policy from a settings file would hide in all of them. */
static sac_status check_settings(const settings *s, sac_error *err) {
    const size_t parts[] = {offsetof(settings, prefill), offsetof(settings, kv), offsetof(settings, decode),
                            offsetof(settings, rope), offsetof(settings, reduce)};
    for (size_t i = 0; i < SAC_COUNT(parts); i++)
        if (settings_given(s, parts[i]))
            return sac_fail(
                err, SAC_BAD_CONFIG,
                "%s: session: %s is not for a comparison, whose methods are lines of --method and "
                "--methods",
                s->config, method_part_names[i]);
    if (!s->methods && s->method.n == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "no methods to compare: give --method LINE or --methods FILE");
    return SAC_OK;
}

/* A name that does not exist is a slip of the pen, not a row of the table. What a line asks beyond names shows when its
 * session is tried. */
static sac_status check_name(const char *line, const char *part, const char *const *names, sac_error *err) {
    size_t n = line ? strcspn(line, ":") : 0;
    char typed[64];
    suggestion near = {.typed = typed};
    if (!line) return SAC_OK;
    snprintf(typed, sizeof typed, "%.*s", (int)(n < 60 ? n : 60), line);
    for (size_t i = 0; names[i]; i++) {
        if (strlen(names[i]) == n && !strncmp(line, names[i], n)) return SAC_OK;
        suggest_offer(&near, names[i]);
    }
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    "method line with %s=%.80s: \"%s\" is not known%s%s%s 'saccade help ask'", part,
                    line, typed, near.best ? "; did you mean " : "", near.best ? near.best : "",
                    near.best ? "? See" : "; see");
}

static sac_status check_names(const method_list *list, sac_error *err) {
    for (size_t i = 0; i < list->n; i++) {
        char *const *part = list->lines[i].part;
        SAC_TRY(check_name(part[METHOD_PREFILL], "prefill", sac_prefill_names(), err));
        SAC_TRY(check_name(part[METHOD_KV], "kv", sac_kv_names(), err));
        SAC_TRY(check_name(part[METHOD_DECODE], "decode", sac_decode_names(), err));
    }
    return SAC_OK;
}

/* Lines that no session can be had for are rows of the table, too; without dense there is nothing to compare
 * with. */
static sac_status open_rows(comparison *c, sac_error *err) {
    c->rows = calloc(c->list.n, sizeof *c->rows);
    if (!c->rows) return sac_fail_no_memory(err);
    for (; c->n_rows < c->list.n; c->n_rows++) {
        compare_row *row = &c->rows[c->n_rows];
        row->line = &c->list.lines[c->n_rows];
        const json_t *like = c->n_rows ? c->rows[0].header : NULL;
        sac_status st = compare_row_open(row, &c->r, &c->task, c->set_path, like, err);
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

/* Before the others are asked, which may take days. */
static void note_refused(const comparison *c) {
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

static sac_status open_journals(state *a, sac_error *err) {
    comparison *c = &a->c;
    if (!c->s->out) return SAC_OK;
    interrupt_goes_on();
    char *folder = run_files_path(c->s->out, "journals");
    sac_status st = folder ? run_files_make_folder(c->s->out, err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = run_files_make_folder(folder, err);
    for (size_t i = 0; i < c->n_rows && st == SAC_OK; i++)
        if (c->rows[i].refused == SAC_OK)
            st = compare_row_resume(&c->rows[i], folder, &c->set, c->s->retry, err);
    if (st == SAC_OK) run_files_sync_folder(folder);
    if (st == SAC_OK) run_files_sync_folder(c->s->out);
    free(folder);
    return st;
}

static void note_resumed(const state *a) {
    size_t n = 0, n_rows = 0;
    for (size_t i = 0; i < a->c.n_rows; i++) {
        n += a->c.rows[i].journal.n_resumed;
        n_rows += a->c.rows[i].refused == SAC_OK;
    }
    if (n && a->line.on)
        fprintf(stderr, "%s[%zu of %zu answers were there before]%s\n", progress_dim(&a->line), n,
                n_rows * a->c.set.n_questions, progress_plain(&a->line));
}

/* ---------------------------------------------------------------- asking */

typedef struct asking {
    state *a;
    compare_row *row;
} asking;

static sac_status keep_record(void *ctx, size_t question, const json_t *record, sac_error *err) {
    asking *k = ctx;
    state *a = k->a;
    (void)question;
    progress_update(&a->line, "questions", ++a->done, a->todo);
    return a->c.s->out ? eval_journal_write(&k->row->journal, record, err) : SAC_OK;
}

static sac_status ask_row(state *a, size_t row, const eval_part *part, sac_error *err) {
    comparison *c = &a->c;
    asking k = {.a = a, .row = &c->rows[row]};
    if (k.row->refused != SAC_OK || !eval_run_missing(&c->set, part, k.row->records)) return SAC_OK;
    snprintf(a->line.label, sizeof a->line.label, "method %zu of %zu", row + 1, c->n_rows);
    snprintf(a->line.note, sizeof a->line.note, "%s", k.row->line->name);
    progress_update(&a->line, "questions", a->done, a->todo);
    c->r.session_config = k.row->config;
    sac_status st = run_create_session(&c->r, err);
    if (st == SAC_OK) st = eval_run(&c->r, &c->task, part, k.row->records, keep_record, &k, err);
    run_free_session(&c->r);
    return st == SAC_OK || st == SAC_CANCELLED
               ? st
               : sac_fail_prefix(err, err->status, "%.60s", k.row->line->name);
}

static sac_status ask_all(state *a, sac_error *err) {
    comparison *c = &a->c;
    const eval_part all = {.n = c->set.n_videos};
    sac_status st = SAC_OK;
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].refused == SAC_OK) a->todo += eval_run_missing(&c->set, &all, c->rows[i].records);
    progress_update(&a->line, "questions", 0, a->todo);
    for (size_t v = 0; v < c->set.n_videos && st == SAC_OK; v++)
        for (size_t i = 0; i < c->n_rows && st == SAC_OK; i++)
            st = ask_row(a, i, &(eval_part){.first = v, .n = 1}, err);
    progress_clear(&a->line);
    return st;
}

/* What there is reaches the disk also when the run was cut short. */
static sac_status ask_and_close(state *a, sac_error *err) {
    sac_error at_close;
    sac_status st = open_journals(a, err);
    if (st == SAC_OK) note_resumed(a);
    if (st == SAC_OK) st = ask_all(a, err);
    for (size_t i = 0; i < a->c.n_rows; i++) {
        if (eval_journal_close(&a->c.rows[i].journal, &at_close) == SAC_OK || st != SAC_OK) continue;
        *err = at_close;
        st = at_close.status;
    }
    return st;
}

/* ---------------------------------------------------------------- results */

static void note_what_failed(const comparison *c) {
    int64_t n_errors = 0;
    const char *first = NULL;
    bool refused = false;
    for (size_t i = 0; i < c->n_rows; i++) {
        const compare_row *row = &c->rows[i];
        n_errors += row->outcome.n_errors;
        if (!first) first = row->outcome.first_error;
        refused = refused || row->refused != SAC_OK;
    }
    if (first)
        fprintf(stderr, "saccade: %s could not be asked; the first: %s\n",
                report_counted(n_errors, "question"), first);
    if (refused || first) app_note_partial();
}

static sac_status write_results(const comparison *c, const char *table, sac_error *err) {
    if (!c->s->out) return SAC_OK;
    SAC_TRY(run_files_write_text(c->s->out, "table.md", table, err));
    SAC_TRY(compare_plot_write(c, c->s->out, err));
    return run_files_write_json(c->s->out, "compare.json", compare_report_json(c), err);
}

static sac_status show(const comparison *c, sac_error *err) {
    char *table = compare_report_table(c);
    sac_status st = table ? write_results(c, table, err) : sac_fail_no_memory(err);
    if (st == SAC_OK && c->s->json) st = report_print(compare_report_json(c), err);
    if (st == SAC_OK && !c->s->json) {
        output_piece(table, strlen(table));
        st = output_finish(err);
    }
    free(table);
    if (st == SAC_OK) note_what_failed(c);
    return st;
}

/* ---------------------------------------------------------------- the command */

static sac_status compare(state *a, sac_error *err) {
    comparison *c = &a->c;
    SAC_TRY(check_settings(c->s, err));
    SAC_TRY(method_list_read(&c->list, c->s->methods, &c->s->method, err));
    SAC_TRY(check_names(&c->list, err));
    SAC_TRY(eval_set_read(&c->set, c->set_path, err));
    eval_set_cut(&c->set, (size_t)c->s->limit);
    SAC_TRY(eval_task_open(&c->task, c->s, &c->set, c->set_path, err));
    c->task.title = NULL;
    SAC_TRY(eval_open_model(&c->r, c->s, &c->task, err));
    SAC_TRY(open_rows(c, err));
    note_refused(c);
    SAC_TRY(ask_and_close(a, err));
    for (size_t i = 0; i < c->n_rows; i++)
        SAC_TRY(compare_row_count(&c->rows[i], &c->rows[0], &c->task, err));
    return show(c, err);
}

static sac_status compare_command_run(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words != 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "one question set is expected, found %d words; see 'saccade compare --help'",
                        n_words);
    state a = {.c = {.s = s, .set_path = words[0]}};
    progress_init(&a.line, s->quiet);
    sac_status st = compare(&a, err);
    comparison *c = &a.c;
    for (size_t i = 0; i < c->n_rows; i++) compare_row_free(&c->rows[i], c->set.n_questions);
    free(c->rows);
    run_close(&c->r);
    eval_task_free(&c->task);
    eval_set_free(&c->set);
    method_list_free(&c->list);
    return st;
}

const command command_compare = {
    .name = "compare",
    .mask = COMMAND_COMPARE,
    .brief = "the same set under several attention methods, in one table",
    .synopsis = "[options] SET.json",
    .summary = "Asks a question set (see 'saccade eval --help') once with dense attention and once with each "
               "method line,\n"
               "and prints one table: accuracy with its interval, the difference to dense, what was left out "
               "and what it\n"
               "saved. With --out also as JSON and as drawings, and a run that was stopped or killed goes on "
               "there.",
    .examples = "  saccade compare samples/drawn/set.json --prompt open \\\n"
                "    --method prefill=zipvl --method \"prefill=zipvl:tau=0.9 kv=mixed\"\n"
                "  saccade compare samples/drawn/set.json --prompt open \\\n"
                "    --methods methods.yaml --out runs/table\n"
                "  saccade compare samples/drawn/set.json --prompt open \\\n"
                "    --methods methods.yaml --measure-mass --json\n",
    .run = compare_command_run,
};
