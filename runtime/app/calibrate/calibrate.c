/* calibrate.c - `saccade calibrate`: which heads of a model look far back, measured on the prompts of a question
 * set, for decode method duo (DuoAttention). Writes duo.safetensors: one tensor, lost [layers][n_kv_heads] of
 * F32, the mean over all prompts of what a head would lose as a streaming head. */
#include "commands.h"
#include "draft.h"
#include "eval_open.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct calibration {
    settings s; /* the command's, with the decode method that measures; borrows but for `decode` */
    char decode[400];
    eval_set set;
    eval_task task;
    run r;
    json_t **records; /* [set.n_questions] */
    int n_layers;     /* that have keys and values */
    size_t n_heads;   /* of all layers */
    double *lost;     /* [n_heads] sums */
    int64_t *n;       /* [n_heads] prompts that told */
    int64_t n_failed; /* prompts that could not be run */
    char first_error[300];
} calibration;

/* ---------------------------------------------------------------- measuring */

/* The method line with ranking by each prompt, whatever the model brought along. */
static sac_status choose_method(calibration *c, const settings *s, sac_error *err) {
    const char *line = s->decode ? s->decode : "duo";
    size_t n = strcspn(line, ":");
    if (n != 3 || memcmp(line, "duo", 3) != 0)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--decode %s: only duo has heads to calibrate, e.g. --decode duo:start=64,recent=256",
                        line);
    int used = snprintf(c->decode, sizeof c->decode, "%s%sheads=prompt", line, line[n] ? "," : ":");
    if (used < 0 || (size_t)used >= sizeof c->decode)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--decode: the line is longer than %zu bytes",
                        sizeof c->decode);
    c->s = *s;
    c->s.decode = c->decode;
    return SAC_OK;
}

static sac_status open_all(calibration *c, const char *set_path, sac_error *err) {
    eval_set_cut(&c->set, (size_t)c->s.limit);
    SAC_TRY(eval_task_open(&c->task, &c->s, &c->set, set_path, err));
    c->task.title = "prompts";
    SAC_TRY(eval_open_model(&c->r, &c->s, &c->task, err));
    c->r.sampling.max_tokens = 1; /* the prompt is all that counts */
    SAC_TRY(run_create_session(&c->r, err));
    sac_layer_report l;
    while (sac_session_layer_stats(c->r.session, c->n_layers, &l)) c->n_layers++;
    c->n_heads = (size_t)c->n_layers * (size_t)c->r.info.n_kv_heads;
    c->records = calloc(c->set.n_questions, sizeof *c->records);
    c->lost = calloc(c->n_heads, sizeof *c->lost);
    c->n = calloc(c->n_heads, sizeof *c->n);
    return c->records && c->lost && c->n ? SAC_OK : sac_fail_no_memory(err);
}

/* After each prompt. */
static sac_status add_losses(void *ctx, size_t question, const json_t *record, sac_error *err) {
    calibration *c = ctx;
    (void)question;
    const char *error = eval_record_error(record);
    if (error) {
        if (c->n_failed++ == 0) snprintf(c->first_error, sizeof c->first_error, "%s", error);
        return SAC_OK;
    }
    const double *lost = sac_session_head_losses(c->r.session);
    if (!lost)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%s means dense attention here: nothing to measure",
                        c->decode);
    for (size_t h = 0; h < c->n_heads; h++) {
        if (lost[h] < 0) continue;
        c->lost[h] += lost[h];
        c->n[h]++;
    }
    return SAC_OK;
}

static sac_status take_means(calibration *c, sac_error *err) {
    if (c->n_failed == (int64_t)c->set.n_questions)
        return sac_fail(err, SAC_BAD_ARGUMENT, "no prompt could be run; the first: %s", c->first_error);
    for (size_t h = 0; h < c->n_heads; h++) {
        if (c->n[h] == 0)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "no prompt is long enough to tell about head %zu of layer %zu: more frames, or "
                            "smaller start, recent and window in --decode duo:...",
                            h % (size_t)c->r.info.n_kv_heads, h / (size_t)c->r.info.n_kv_heads);
        c->lost[h] /= (double)c->n[h];
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- results */

/* Layout of safetensors: 8 bytes of length, a header of JSON padded to 8 bytes, the numbers, little-endian. */
static sac_status write_file(const calibration *c, const char *path, sac_error *err) {
    char header[256];
    int used = snprintf(header, sizeof header - 8,
                        "{\"lost\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]}}",
                        c->n_layers, c->r.info.n_kv_heads, c->n_heads * sizeof(float));
    while (used % 8) header[used++] = ' ';
    uint64_t length = (uint64_t)used;
    draft d = {0};
    SAC_TRY(draft_open(&d, path, err));
    fwrite(&length, sizeof length, 1, d.f);
    fwrite(header, 1, (size_t)used, d.f);
    for (size_t h = 0; h < c->n_heads; h++) {
        float lost = (float)c->lost[h];
        fwrite(&lost, sizeof lost, 1, d.f);
    }
    return draft_close(&d, err); /* which looks at all writes */
}

static json_t *outcome(const calibration *c, const char *path) {
    json_t *rows = json_array();
    size_t n_kv = (size_t)c->r.info.n_kv_heads;
    for (size_t h = 0; rows && h < c->n_heads; h += n_kv) {
        json_t *row = json_array();
        for (size_t i = 0; i < n_kv; i++) json_array_append_new(row, json_real(c->lost[h + i]));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:s, s:I, s:I, s:o}", "file", report_text(path), "method", c->decode, "prompts",
                     (json_int_t)c->set.n_questions - (json_int_t)c->n_failed, "failed",
                     (json_int_t)c->n_failed, "lost", rows);
}

static sac_status print_outcome(const calibration *c, const char *path, sac_error *err) {
    if (c->s.json) return report_print(outcome(c, path), err);
    int n_kv = c->r.info.n_kv_heads;
    printf("%s: %s with %s\n", path, report_counted((int64_t)c->set.n_questions - c->n_failed, "prompt"),
           c->decode);
    printf("layer  attention that each key-value head would lose as a streaming head, %%\n");
    for (int l = 0; l < c->n_layers; l++) {
        printf("%5d ", l);
        for (int h = 0; h < n_kv; h++) printf(" %6.2f", 100 * c->lost[l * n_kv + h]);
        printf("\n");
    }
    return output_finish(err);
}

/* ---------------------------------------------------------------- the command */

static sac_status calibrate(calibration *c, char **words, sac_error *err) {
    SAC_TRY(eval_set_read(&c->set, words[0], err));
    SAC_TRY(draft_check(words[1], err));
    SAC_TRY(open_all(c, words[0], err));
    SAC_TRY(eval_run(&c->r, &c->task, NULL, c->records, add_losses, c, err));
    SAC_TRY(take_means(c, err));
    SAC_TRY(write_file(c, words[1], err));
    if (c->n_failed)
        fprintf(stderr, "saccade: %" PRId64 " of %zu prompts could not be run; the first: %s\n", c->n_failed,
                c->set.n_questions, c->first_error);
    return print_outcome(c, words[1], err);
}

static void free_calibration(calibration *c) {
    for (size_t i = 0; c->records && i < c->set.n_questions; i++) json_decref(c->records[i]);
    free(c->records);
    free(c->lost);
    free(c->n);
    run_close(&c->r);
    eval_set_free(&c->set);
    eval_task_free(&c->task);
}

static sac_status calibrate_command(const settings *s, char **words, int n_words, sac_error *err) {
    static calibration c; /* zeroed: what was not opened is not freed */
    if (n_words != 2)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "a question set and the file to write are expected, found %s; see 'saccade "
                        "calibrate --help'",
                        report_counted(n_words, "word"));
    SAC_TRY(choose_method(&c, s, err));
    sac_status st = calibrate(&c, words, err);
    free_calibration(&c);
    return st;
}

const command command_calibrate = {
    .name = "calibrate",
    .mask = COMMAND_CALIBRATE,
    .brief = "measure which heads look far back, for --decode duo",
    .synopsis = "[options] SET.json DUO.safetensors",
    .summary =
        "Measures on the prompts of a question set which heads of a model look far back, and writes the file "
        "that\n"
        "--decode duo (DuoAttention) reads from the model's folder: put it there as duo.safetensors. Use "
        "other "
        "questions\n"
        "than those that will judge the method.",
    .examples = "  saccade calibrate -m MODEL questions.json MODEL/duo.safetensors --limit 100\n"
                "  saccade calibrate -m MODEL questions.json duo.safetensors --num-frames 64 \\\n"
                "    --decode duo:start=64,recent=448\n",
    .run = calibrate_command,
};
