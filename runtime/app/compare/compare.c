/* compare.c - `saccade compare`: a question set under several attention methods, in one table. */
#include "commands.h"
#include "compare_plot.h"
#include "compare_report.h"
#include "method_list_read.h"
#include "needle_table.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- before any work */

static sac_status check_settings(const settings *s, sac_error *err) {
    SAC_TRY(comparison_check_settings(s, err));
    if (!s->methods && s->method.n == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "no methods to compare: give --method LINE or --methods FILE");
    return SAC_OK;
}

static void note_resumed(const comparison *c) {
    size_t n = 0, n_rows = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        n += c->rows[i].journal.n_resumed;
        n_rows += c->rows[i].refused == SAC_OK;
    }
    if (n && c->line.on)
        fprintf(stderr, "%s[%zu of %zu answers were there before]%s\n", progress_dim(&c->line), n,
                n_rows * c->set.n_questions, progress_plain(&c->line));
}

/* ---------------------------------------------------------------- asking */

/* What there is reaches the disk also when the run was cut short. */
static sac_status ask_and_close(comparison *c, sac_error *err) {
    sac_status st = c->s->out ? comparison_open_journals(c, c->s->out, "journals", err) : SAC_OK;
    if (st == SAC_OK) note_resumed(c);
    c->todo = comparison_missing(c, NULL);
    if (st == SAC_OK) st = comparison_ask(c, NULL, err);
    return comparison_close_journals(c, st, err);
}

/* ---------------------------------------------------------------- results */

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
    if (st == SAC_OK) comparison_note_failed(c);
    return st;
}

/* ---------------------------------------------------------------- the command */

static sac_status compare(comparison *c, sac_error *err) {
    SAC_TRY(check_settings(c->s, err));
    SAC_TRY(method_list_read(&c->list, c->s->methods, &c->s->method, err));
    SAC_TRY(comparison_check_names(&c->list, err));
    if (needle_set_is(c->set_path)) return needle_table_command(c->s, c->set_path, &c->list, err);
    SAC_TRY(eval_bench_read(&c->set, c->set_path, c->s->benchmark, err));
    eval_set_cut(&c->set, (size_t)c->s->limit);
    SAC_TRY(eval_task_open(&c->task, c->s, &c->set, c->set_path, err));
    c->task.title = NULL;
    SAC_TRY(eval_open_model(c->r, c->s, &c->task, err));
    SAC_TRY(comparison_open_rows(c, err));
    comparison_note_refused(c);
    SAC_TRY(ask_and_close(c, err));
    SAC_TRY(comparison_count(c, err));
    return show(c, err);
}

static sac_status compare_command_run(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words != 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "one question set is expected, found %d words; see 'saccade compare --help'",
                        n_words);
    run r = {0};
    comparison c = {.s = s, .set_path = words[0], .r = &r};
    progress_init(&c.line, s->quiet);
    sac_status st = compare(&c, err);
    comparison_free(&c);
    run_close(&r);
    return st;
}

const command command_compare = {
    .name = "compare",
    .mask = COMMAND_COMPARE,
    .brief = "the same set under several attention methods, in one table",
    .synopsis = "[options] SET",
    .summary = "Asks a question set (see 'saccade eval --help') once with dense attention and once with each "
               "method line,\n"
               "and prints one table: the set's own figure with its interval, the difference to dense, what "
               "was left out "
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
