/* tune.c - `saccade tune`: the attention methods and settings that suit a model and its user's own questions. */
#include "commands.h"
#include "method_list_read.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"
#include "tune_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- before any work */

static sac_status read_aim(const settings *s, tune_aim *aim, sac_error *err) {
    const char *want = s->want ? s->want : tune_want_names[0], *by = s->by ? s->by : "work";
    int found = -1;
    for (int i = 0; i < TUNE_WANTS; i++)
        if (!strcmp(want, tune_want_names[i])) found = i;
    if (found < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--want %.40s: prefill, memory or decode is expected", want);
    if (strcmp(by, "work") && strcmp(by, "time"))
        return sac_fail(err, SAC_BAD_ARGUMENT, "--by %.40s: work or time is expected", by);
    *aim = (tune_aim){(tune_want)found, !strcmp(by, "time")};
    return SAC_OK;
}

static sac_status check(const settings *s, int n_words, sac_error *err) {
    if (n_words != 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "one question set is expected, found %d words; see 'saccade tune --help'", n_words);
    if (!s->out) return sac_fail(err, SAC_BAD_ARGUMENT, "--out DIR is missing: what is found is kept there");
    return comparison_check_settings(s, err);
}

/* ---------------------------------------------------------------- results */

/* Takes the text over. */
static sac_status write_text(const char *folder, const char *name, char *text, sac_error *err) {
    if (text && *text && text[strlen(text) - 1] == '\n')
        text[strlen(text) - 1] = 0; /* the writer ends the line */
    sac_status st = text ? run_files_write_text(folder, name, text, err) : sac_fail_no_memory(err);
    free(text);
    return st;
}

static sac_status write_results(const tune_search *t, const tune_result *results, sac_error *err) {
    const char *out = t->s->out;
    SAC_TRY(write_text(out, "report.md", tune_report_text(t, results), err));
    SAC_TRY(write_text(out, "methods.yaml", tune_report_methods(t, results), err));
    SAC_TRY(write_text(out, "run.yaml", tune_report_config(t, results), err));
    SAC_TRY(run_files_write_json(out, "tune.json", tune_report_json(t, results), err));
    char *path = run_files_path(out, "front.svg");
    sac_status st = path ? tune_plot_write(t, results, path, err) : sac_fail_no_memory(err);
    free(path);
    return st;
}

static sac_status show(const tune_search *t, sac_error *err) {
    tune_result *results = tune_results(t);
    if (!results) return sac_fail_no_memory(err);
    sac_status st = write_results(t, results, err);
    if (st == SAC_OK && t->s->json) st = report_print(tune_report_json(t, results), err);
    if (st == SAC_OK && !t->s->json) {
        char *text = tune_report_text(t, results);
        if (text) {
            output_piece(text, strlen(text));
            st = output_finish(err);
        } else {
            st = sac_fail_no_memory(err);
        }
        free(text);
    }
    free(results);
    if (st == SAC_OK) comparison_note_failed(&t->test);
    return st;
}

/* ---------------------------------------------------------------- the command */

static sac_status tune_command_run(const settings *s, char **words, int n_words, sac_error *err) {
    SAC_TRY(check(s, n_words, err));
    tune_search t = {.s = s};
    t.tuning.set_path = t.test.set_path = words[0];
    progress_init(&t.tuning.line, s->quiet);
    sac_status st = read_aim(s, &t.aim, err);
    if (st == SAC_OK) st = method_list_read(&t.tuning.list, s->methods, &s->method, err);
    if (st == SAC_OK) st = comparison_check_names(&t.tuning.list, err);
    if (st == SAC_OK) st = tune_search_run(&t, err);
    if (st == SAC_OK) st = show(&t, err);
    tune_search_free(&t);
    return st;
}

const command command_tune = {
    .name = "tune",
    .mask = COMMAND_TUNE,
    .brief = "find the attention methods that suit a model and your questions",
    .synopsis = "[options] SET --out DIR",
    .summary =
        "Tries the settings of all methods that the model takes on one part of a question set (see 'saccade "
        "eval "
        "--help'),\n"
        "the better half of them on ever more questions, and judges the best on the other part, which shares "
        "no "
        "video with\n"
        "the first. DIR then has methods.yaml (for compare --methods), run.yaml (for --config of ask and "
        "serve), "
        "report.md,\n"
        "tune.json and front.svg. A search that was stopped or killed goes on there, with the same result.",
    .examples = "  saccade tune -m MODEL questions.json --videos data --out runs/prefill\n"
                "  saccade tune samples/drawn/set.json --prompt open --want memory \\\n"
                "    --lose 1 --minutes 20 --out runs/memory\n"
                "  saccade tune samples/drawn/set.json --prompt open --want decode --by time \\\n"
                "    --methods samples/drawn/methods_steps.yaml --out runs/decode\n"
                "  saccade ask --config runs/memory/run.yaml --video clip.mp4 \"What happens?\"\n",
    .run = tune_command_run,
};
