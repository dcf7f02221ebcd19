/* eval.c - `saccade eval`: a benchmark, asked, recorded and scored. */
#define _GNU_SOURCE
#include "commands.h"
#include "draft.h"
#include "eval_bench.h"
#include "eval_header.h"
#include "eval_html.h"
#include "eval_journal.h"
#include "eval_marks.h"
#include "eval_open.h"
#include "eval_report.h"
#include "eval_table.h"
#include "eval_text.h"
#include "exit_code.h"
#include "interrupt.h"
#include "method_record.h"
#include "needle_table.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct evaluation {
    const settings *s;
    const char *set_path;
    eval_set set;
    eval_task task;
    run r;
    json_t *header;
    json_t **records; /* [set.n_questions] */
    eval_journal journal;
    eval_outcome outcome; /* of Video-MME */
    eval_marks marks;     /* of other benchmarks */
} evaluation;

/* ---------------------------------------------------------------- asking */

static sac_status open_run(evaluation *e, sac_error *err) {
    SAC_TRY(eval_task_open(&e->task, e->s, &e->set, e->set_path, err));
    e->records = calloc(e->set.n_questions, sizeof(json_t *));
    if (!e->records) return sac_fail_no_memory(err);
    SAC_TRY(eval_open_model(&e->r, e->s, &e->task, err));
    SAC_TRY(run_create_session(&e->r, err));
    e->header = eval_header(&e->r, &e->task, e->set_path, err);
    return e->header ? SAC_OK : err->status;
}

static sac_status open_journal(evaluation *e, sac_error *err) {
    if (!e->s->out) return SAC_OK;
    interrupt_goes_on();
    SAC_TRY(run_files_make_folder(e->s->out, err));
    char *path = run_files_path(e->s->out, "journal.jsonl");
    if (!path) return sac_fail_no_memory(err);
    sac_status st = eval_journal_open(&e->journal, path, e->header, &e->set, e->s->retry, e->records, err);
    free(path);
    if (st == SAC_OK) run_files_sync_folder(e->s->out);
    return st;
}

static sac_status keep_record(void *ctx, size_t question, const json_t *record, sac_error *err) {
    evaluation *e = ctx;
    (void)question;
    return e->s->out ? eval_journal_write(&e->journal, record, err) : SAC_OK;
}

/* What there is reaches the disk also when the run was cut short. */
static sac_status ask_and_close(evaluation *e, sac_error *err) {
    sac_error at_close;
    sac_status st = open_journal(e, err);
    if (st == SAC_OK && e->journal.n_resumed && e->r.progress.on)
        fprintf(stderr, "%s[%zu of %zu questions were answered before]%s\n", progress_dim(&e->r.progress),
                e->journal.n_resumed, e->set.n_questions, progress_plain(&e->r.progress));
    if (st == SAC_OK) st = eval_run(&e->r, &e->task, NULL, e->records, keep_record, e, err);
    sac_status closed = eval_journal_close(&e->journal, &at_close);
    if (st == SAC_OK && closed != SAC_OK) *err = at_close;
    return st == SAC_OK ? closed : st;
}

/* ---------------------------------------------------------------- results */

/* Seconds of all questions by part, over the records that have them. */
static json_t *total_seconds(const evaluation *e) {
    static const char *const parts[] = {"media", "vision", "prefill", "decode", "total", "select", "attend"};
    json_t *j = json_object();
    for (size_t p = 0; j && p < SAC_COUNT(parts); p++) {
        double sum = 0;
        for (size_t i = 0; i < e->set.n_questions; i++)
            sum += json_real_value(json_object_get(json_object_get(e->records[i], "seconds"), parts[p]));
        if (!json_object_set_new(j, parts[p], json_real(sum))) continue;
        json_decref(j);
        j = NULL;
    }
    return j;
}

static void mean_methods(const evaluation *e, method_summary *m) {
    sac_session_methods(e->r.session, &m->lines);
    method_record_mean(e->records, e->set.n_questions, m);
}

static json_t *methods_did(const evaluation *e) {
    method_summary m;
    mean_methods(e, &m);
    return method_summary_json(&m);
}

/* {"header", "questions", ..., "scores", "methods", "seconds"} */
static json_t *summary(const evaluation *e) {
    json_t *j = e->set.bench ? eval_marks_scores(&e->marks) : eval_outcome_scores(&e->outcome);
    if (!j) return NULL;
    bool ok = true;
    if (e->header)
        ok = !json_object_set(j, "header", e->header) && !json_object_set_new(j, "methods", methods_did(e)) &&
             !json_object_set_new(j, "seconds", total_seconds(e));
    if (ok) return j;
    json_decref(j);
    return NULL;
}

static void print_methods(const evaluation *e) {
    method_summary m;
    mean_methods(e, &m);
    printf("methods  prefill=%s kv=%s decode=%s rope=%s reduce=%s\n", m.lines.prefill, m.lines.kv,
           m.lines.decode, m.lines.rope, m.lines.reduce);
    if (isfinite(m.kept)) /* a question was answered */
        printf("         kept %.3f, attention FLOPs saved %.1f %%, KV %.0f bytes a token (%.2fx less than "
               "f16)\n",
               m.kept, 100 * m.flops_saved, m.kv_bytes_token, m.kv_factor);
    printf("\n");
}

static void print_heading(const evaluation *e) {
    if (!e->header) return;
    if (e->set.bench)
        printf("set      %s, %s: %s; prompt %s\n", e->set.bench->title, e->set_path,
               report_counted((int64_t)e->set.n_questions, "question"), eval_prompt_name(e->task.prompt));
    else
        printf("set      %s: %s about %s; prompt %s%s%s\n", e->set_path,
               report_counted((int64_t)e->set.n_questions, "question"),
               report_counted((int64_t)e->set.n_videos, "video"), eval_prompt_name(e->task.prompt),
               eval_prompt_is_open(e->task.prompt) ? " (not Video-MME's protocol: answers are texts)" : "",
               e->task.subtitles ? ", with subtitles" : "");
    printf("model    %s, %s\n", e->r.model_path, report_counted(e->r.info.n_threads, "thread"));
    print_methods(e);
}

static sac_status print_outcome(evaluation *e, sac_error *err) {
    if (e->s->json) return report_print(summary(e), err);
    print_heading(e);
    if (e->set.bench)
        eval_marks_print(&e->marks);
    else
        eval_outcome_print(&e->outcome);
    return output_finish(err);
}

static void note_errors(const evaluation *e) {
    int64_t n = e->set.bench ? e->marks.n_errors : e->outcome.n_errors;
    if (!n) return;
    fprintf(stderr, "saccade: %" PRId64 " of %s could not be asked; the first: %s\n", n,
            report_counted((int64_t)e->set.n_questions, "question"),
            e->set.bench ? e->marks.first_error : e->outcome.first_error);
    app_note_partial();
}

static sac_status write_results(const evaluation *e, sac_error *err) {
    if (!e->s->out) return SAC_OK;
    json_t *result = e->set.bench ? eval_marks_result(&e->marks) : eval_outcome_result(&e->outcome);
    SAC_TRY(run_files_write_json(e->s->out, "result.json", result, err));
    return run_files_write_json(e->s->out, "scores.json", summary(e), err);
}

/* Marks or letters of all records. */
static sac_status count(evaluation *e, sac_error *err) {
    if (e->set.bench)
        return eval_marks_make(&e->marks, &e->set, e->records, eval_prompt_is_open(e->task.prompt), err);
    e->outcome = (eval_outcome){.set = &e->set, .records = e->records, .prompt = e->task.prompt};
    return eval_outcome_count(&e->outcome, err);
}

static sac_status write_html(const evaluation *e, sac_error *err) {
    if (!e->s->html) return SAC_OK;
    if (!e->set.bench) return eval_html_videomme(&e->outcome, e->task.videos, e->s->html, err);
    return eval_html_marks(&e->marks, e->task.videos, e->s->html, err);
}

/* A page that cannot be written takes no answers with it: they are printed first. */
static sac_status show(evaluation *e, sac_error *err) {
    SAC_TRY(print_outcome(e, err));
    note_errors(e);
    return write_html(e, err);
}

/* ---------------------------------------------------------------- the command */

static sac_status ask_set(evaluation *e, sac_error *err) {
    eval_set_cut(&e->set, (size_t)e->s->limit);
    if (e->s->html) SAC_TRY(draft_check(e->s->html, err));
    SAC_TRY(open_run(e, err));
    SAC_TRY(ask_and_close(e, err));
    SAC_TRY(count(e, err));
    SAC_TRY(write_results(e, err));
    return show(e, err);
}

/* ---------------------------------------------------------------- answers of others */

/* One row of the file: {"question_id", "response"}, as a record. */
static sac_status take_answer(evaluation *e, const char *path, size_t number, const json_t *row,
                              sac_error *err) {
    const json_t *id = json_object_get(row, "question_id"), *said = json_object_get(row, "response");
    char digits[32] = "";
    if (json_is_integer(id)) snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    const char *name = json_is_string(id) ? json_string_value(id) : digits;
    if (!*name || !json_is_string(said))
        return sac_fail(err, SAC_BAD_FILE,
                        "%s: row %zu: expected {\"question_id\", \"response\"}, both texts", path, number);
    size_t at = eval_set_find(&e->set, name);
    if (at == SIZE_MAX)
        return sac_fail(err, SAC_BAD_FILE, "%s: row %zu: the set has no question '%.60s'", path, number,
                        name);
    json_decref(e->records[at]);
    e->records[at] = json_pack("{s:s, s:s}", "question_id", name, "response", json_string_value(said));
    return e->records[at] ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status take_answers(evaluation *e, const json_t *rows, sac_error *err) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        SAC_TRY(take_answer(e, e->s->answers, i + 1, json_array_get(rows, i), err));
    return json_is_array(rows) ? SAC_OK : take_answer(e, e->s->answers, 1, rows, err);
}

/* Scores the answers of another program, or of a run before (its result.json); asks nothing. */
static sac_status score_answers(evaluation *e, sac_error *err) {
    char *text;
    size_t n;
    json_t *rows = NULL;
    eval_set_cut(&e->set, (size_t)e->s->limit);
    SAC_TRY(eval_task_open(&e->task, e->s, &e->set, e->set_path, err));
    if (!(e->records = calloc(e->set.n_questions, sizeof(json_t *)))) return sac_fail_no_memory(err);
    SAC_TRY(eval_table_bytes(&text, &n, e->s->answers, EVAL_TABLE_MAX_BYTES, err));
    sac_status st = eval_table_parse(&rows, text, n, e->s->answers, err);
    free(text);
    if (st == SAC_OK) st = take_answers(e, rows, err);
    json_decref(rows);
    if (st == SAC_OK) st = count(e, err);
    return st == SAC_OK ? show(e, err) : st;
}

/* A result file, of this command or another program's: its responses are scored as they are. */
static sac_status score_result(evaluation *e, sac_error *err) {
    bool any = false;
    if (e->set.bench)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--score is for Video-MME's result files; for %s give the set and --answers FILE",
                        e->set.bench->title);
    for (size_t i = 0; i < e->set.n_videos; i++)
        for (size_t k = 0; k < e->set.videos[i].n_questions; k++)
            any = any || e->set.videos[i].questions[k].response;
    if (!any)
        return sac_fail(err, SAC_BAD_FILE, "%s: no question in it has a response to score", e->set_path);
    e->outcome = (eval_outcome){.set = &e->set, .prompt = EVAL_PROMPT_OFFICIAL};
    SAC_TRY(eval_outcome_count(&e->outcome, err));
    e->task.videos = e->s->videos; /* thumbnails of the page; without, it has none */
    return show(e, err);
}

static void free_evaluation(evaluation *e) {
    eval_scores_free(&e->outcome.scores);
    eval_marks_free(&e->marks);
    for (size_t i = 0; e->records && i < e->set.n_questions; i++) json_decref(e->records[i]);
    free(e->records);
    json_decref(e->header);
    run_close(&e->r);
    eval_set_free(&e->set);
    eval_task_free(&e->task);
}

static sac_status check_options(const settings *s, sac_error *err) {
    static const size_t of_set[] = {
        offsetof(settings, videos),  offsetof(settings, out),    offsetof(settings, subtitles),
        offsetof(settings, limit),   offsetof(settings, prompt), offsetof(settings, reuse),
        offsetof(settings, retry),   offsetof(settings, score),  offsetof(settings, benchmark),
        offsetof(settings, answers), offsetof(settings, html)};
    static const size_t of_text[] = {offsetof(settings, length), offsetof(settings, samples),
                                     offsetof(settings, pairs), offsetof(settings, tail)};
    static const size_t of_score[] = {offsetof(settings, answers)}, of_answers[] = {offsetof(settings, out)};
    if (s->score) SAC_TRY(settings_refuse_given(s, of_score, 1, "is in place of --score", err));
    if (s->answers)
        SAC_TRY(
            settings_refuse_given(s, of_answers, 1, "keeps what is asked; with --answers nothing is", err));
    return s->text ? settings_refuse_given(s, of_set, SAC_COUNT(of_set),
                                           "is for a question set, not for --text", err)
                   : settings_refuse_given(s, of_text, SAC_COUNT(of_text),
                                           "is for --text, not for a question set", err);
}

static sac_status ask_text(const settings *s, int n_words, sac_error *err) {
    if (n_words) return sac_fail(err, SAC_BAD_ARGUMENT, "--text TASK is in place of a question set");
    text_task task = {.name = s->text,
                      .length = s->length,
                      .samples = s->samples,
                      .pairs = s->pairs,
                      .tail = s->tail,
                      .seed = s->seed};
    run r;
    sac_status st = run_open(&r, s, 0, err);
    if (st == SAC_OK) st = eval_text(&r, &task, err);
    run_close(&r);
    return st;
}

static sac_status eval_command(const settings *s, char **words, int n_words, sac_error *err) {
    SAC_TRY(check_options(s, err));
    if (s->text) return ask_text(s, n_words, err);
    if (n_words != 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "one question set is expected, found %d words; see 'saccade eval --help'", n_words);
    if (needle_set_is(words[0])) return needle_table_command(s, words[0], NULL, err);
    evaluation e = {.s = s, .set_path = words[0]};
    sac_status st = eval_bench_read(&e.set, words[0], s->benchmark, err);
    if (st == SAC_OK)
        st = s->score ? score_result(&e, err) : s->answers ? score_answers(&e, err) : ask_set(&e, err);
    free_evaluation(&e);
    return st;
}

const command command_eval = {
    .name = "eval",
    .mask = COMMAND_EVAL,
    .brief = "ask and score a benchmark of pictures, videos or texts",
    .synopsis = "[options] SET",
    .summary =
        "Asks the questions of a benchmark in its official file (or folder of files) and scores the "
        "answers by its\n"
        "official rule: Video-MME, MVBench, MLVU, LongVideoBench, EgoSchema, NExT-QA, TempCompass, "
        "StreamingBench;\n"
        "MMMU, MMBench, TextVQA, DocVQA, ChartQA, POPE, ScienceQA, COCO captions, VQAv2, GQA, MME; of texts "
        "GSM8K,\n"
        "LongBench, InfiniteBench. Answers are greedy and short unless told otherwise. With --out a run that "
        "was stopped or killed goes on where it was.",
    .examples = "  saccade eval samples/drawn/set.json --prompt open --out runs/dense\n"
                "  saccade eval -m MODEL videomme.json --videos data --subtitles subtitle \\\n"
                "    --num-frames 32 --out runs/m32\n"
                "  saccade eval -m MODEL videomme.json --videos data --prompt lmms-eval \\\n"
                "    --max-frames 64 --out runs/lmms\n"
                "  saccade eval -m MODEL coco_pope_random.json --videos val2014 --out runs/pope \\\n"
                "    --html pope.html\n"
                "  saccade eval -m MODEL.gguf --text passkey --length 8192 --decode tokenselect\n"
                "  saccade eval --score runs/m32/result.json --json\n",
    .run = eval_command,
};
