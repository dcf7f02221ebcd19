/* quantize_command.c - `saccade quantize`: a model written anew with its language half in fewer bits. */
#include "commands.h"
#include "calibration.h"
#include "clock.h"
#include "interrupt.h"
#include "output.h"
#include "progress.h"
#include "prompt_list.h"
#include "quantize.h"
#include "report.h"
#include "status.h"

#include "commit.h" /* made by cmake/commit.cmake */

#include <saccade/saccade.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct quantize_run {
    const settings *s;
    const char *out;
    progress progress;
    sac_quantize_plan plan;
    sac_calibration_report calibrated;
    prompt_list prompts;
    sac_calibration *calibration; /* or NULL */
} quantize_run;

/* Exactly, and as people read it. */
static void print_plan(void *ctx, const sac_quantize_plan *plan) {
    quantize_run *q = ctx;
    q->plan = *plan;
    interrupt_goes_on(); /* what is finished is kept */
    if (q->s->json || q->s->quiet) return;
    printf("%s: %s, %" PRIu64 " bytes (%s)", q->out, q->s->quantize_format, plan->n_bytes,
           report_bytes((double)plan->n_bytes));
    printf("; %s of weights are read", report_bytes((double)plan->weights_before));
    printf(", %s is free\n", report_bytes((double)plan->bytes_free));
    if (plan->bytes_done)
        printf("taken up again: %s of %s.part\n", report_bytes((double)plan->bytes_done), q->out);
    const sac_calibration_plan *c = &plan->calibration;
    if (c->n_rows) {
        printf("calibrated by %" PRId64 " prompts, %" PRId64 " rows: %s of memory besides the model", c->n_prompts, c->n_rows,
               report_bytes((double)c->memory_bytes));
        if (c->disk_bytes) printf(", %s of the disk for a time", report_bytes((double)c->disk_bytes));
        printf("\n");
    }
    if (plan->n_kept)
        printf("left as they are: %d matrices whose rows are no whole groups, the first is %s\n",
               plan->n_kept, plan->first_kept);
    if (plan->drops_vision) printf("the pictures' half is not written: the file is the language model alone\n");
    if (plan->chat_lost[0])
        printf("the folder has no chat template, and the file is read with the format %s in place of %s: give --chat %s\n",
               plan->chat_instead, plan->chat_lost, plan->chat_lost);
    fflush(stdout);
}

static void tell(void *ctx, const char *stage, int64_t done, int64_t total) {
    quantize_run *q = ctx;
    progress_update(&q->progress, stage, done, total);
}

/* What the prompts said. */
static void print_calibrated(const sac_calibration_report *r) {
    if (r->n_unseen)
        printf("rounded to nearest: %d matrices that no row of the prompts met, or of which the model reads a copy, the first is %s\n",
               r->n_unseen, r->first_unseen);
    if (r->n_scalable) printf("inputs scaled by channel: %d of %d groups of matrices\n", r->n_scaled, r->n_scalable);
    if (r->n_calibrated && r->error > 0)
        printf("error of what %d matrices make of the prompts: %.3f of rounding to nearest\n", r->n_calibrated, r->error);
}

static json_t *calibrated_json(const quantize_run *q) {
    const sac_calibration_report *r = &q->calibrated;
    const sac_calibration_plan *p = &q->plan.calibration;
    if (!q->calibration) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:i, s:o, s:i, s:o, s:i, s:i}", "prompts", (json_int_t)p->n_prompts,
                     "rows", (json_int_t)p->n_rows,
                     "memory_bytes", (json_int_t)p->memory_bytes, "disk_bytes", (json_int_t)p->disk_bytes, "matrices", r->n_calibrated,
                     "error", r->error > 0 ? json_real(r->error) : json_null(), "unseen", r->n_unseen, "first_unseen",
                     r->n_unseen ? report_text(r->first_unseen) : json_null(), "scaled", r->n_scaled, "scalable", r->n_scalable);
}

static sac_status report(const quantize_run *q, const char *in, double seconds, sac_error *err) {
    const sac_quantize_plan *p = &q->plan;
    if (!q->s->json) {
        if (!q->s->quiet) print_calibrated(&q->calibrated);
        if (!q->s->quiet)
            printf("%s: written, %d matrices rounded, %.1f s\n", q->out, p->n_rounded, seconds);
        return output_finish(err);
    }
    json_t *left = p->n_kept ? report_text(p->first_kept) : json_null();
    json_t *chat = p->chat_lost[0] ? json_string(p->chat_lost) : json_null();
    return report_print(json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:i, s:i, s:o, s:b, s:o, s:o, s:f}", "source", report_text(in), "path",
                                  report_text(q->out), "format", q->s->quantize_format, "bytes",
                                  (json_int_t)p->n_bytes, "bytes_taken_up", (json_int_t)p->bytes_done,
                                  "weight_bytes_read", (json_int_t)p->weights_before, "rounded", p->n_rounded,
                                  "left", p->n_kept, "first_left", left, "without_vision", (int)p->drops_vision,
                                  "lost_chat_format", chat, "calibration", calibrated_json(q), "seconds",
                                  seconds),
                        err);
}

static sac_status open_calibration(quantize_run *q, const char *model, sac_error *err) {
    const sac_calibration_options o = {.n_threads = (int)q->s->threads,
                                       .n_ctx = q->s->ctx,
                                       .chat = q->s->chat,
                                       .progress = tell,
                                       .ctx = q};
    if (!q->s->calibrate_list) return SAC_OK;
    SAC_TRY(prompt_list_read(&q->prompts, q->s->calibrate_list, q->s, err));
    return sac_calibration_open(&q->calibration, model, q->prompts.prompts, q->prompts.n, &o, err);
}

/* Options of prompts have nothing to say without any. */
static sac_status check_options(const settings *s, sac_error *err) {
    static const size_t of_prompts[] = {offsetof(settings, chat), offsetof(settings, ctx), offsetof(settings, num_frames),
                                        offsetof(settings, limit)};
    if (s->calibrate_list) return SAC_OK;
    return settings_refuse_given(s, of_prompts, SAC_COUNT(of_prompts), "is of the prompts of --calibrate, which is not given", err);
}

/* What can be refused is before the model is run. */
static sac_status quantize_with(quantize_run *q, const char *in, sac_quantize_options *options, sac_error *err) {
    SAC_TRY(check_options(q->s, err));
    if (q->s->calibrate_list) SAC_TRY(sac_quantize_check(in, q->out, options, err));
    SAC_TRY(open_calibration(q, in, err));
    if (q->calibration) options->calibrator = sac_calibration_calibrator(q->calibration);
    SAC_TRY(sac_quantize(in, q->out, options, err));
    if (q->calibration) options->calibrator->report(options->calibrator->ctx, &q->calibrated);
    return SAC_OK;
}

static sac_status quantize(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words != 2)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "a model and what to write are expected, found %s; see 'saccade quantize --help'",
                        report_counted(n_words, "word"));
    if (!s->quantize_format)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--format is missing, e.g. --format q4_k_m; see 'saccade quantize --help'");
    quantize_run q = {.s = s, .out = words[1]};
    sac_quantize_options options = {.format = s->quantize_format,
                                          .program = SAC_VERSION " " SAC_COMMIT,
                                          .n_threads = (int)s->threads,
                                          .is_calibrated = s->calibrate_list != NULL,
                                          .planned = print_plan,
                                          .progress = tell,
                                          .ctx = &q};
    const int64_t start = sac_now_ns();
    progress_init(&q.progress, s->quiet);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is a failed write like any other */
    sac_status st = quantize_with(&q, words[0], &options, err);
    progress_clear(&q.progress);
    if (st == SAC_OK) st = report(&q, words[0], sac_seconds_since(start), err);
    sac_calibration_close(q.calibration);
    prompt_list_free(&q.prompts);
    return st;
}

const command command_quantize = {
    .name = "quantize",
    .mask = COMMAND_QUANTIZE,
    .brief = "write a model anew with its weights in fewer bits",
    .synopsis = "[options] MODEL OUT --format FORMAT",
    .summary =
        "Writes a model anew with the language model's matrices in fewer bits, rounded to nearest or, with "
        "--calibrate, by what they make of prompts of yours: a GGUF file "
        "(q8_0, q4_0, q4_1, q5_0, q5_1, q4_k_s, q4_k_m, q5_k_s, q5_k_m, q6_k, f16, bf16), or a Hugging Face folder in "
        "compressed-tensors' layout (w4a16[:g=N], w8a16, int8, fp8), in which tower, projector, embedding and head stay as "
        "they are. MODEL is in 16 or 32 bits. Nothing is at OUT until all of it is on the disk: it grows as OUT.part; the "
        "same command after an interruption goes on with the first unfinished file of a folder, or tensor of a GGUF "
        "file.",
    .examples = "  saccade quantize MODEL model-w4 --format w4a16\n"
                "  saccade quantize MODEL model-w4 --format w4a16:g=64\n"
                "  saccade quantize MODEL model-w4 --format w4a16 --calibrate prompts.jsonl\n"
                "  saccade quantize MODEL model-fp8 --format fp8\n"
                "  saccade quantize MODEL model-q4.gguf --format q4_k_m\n"
                "  saccade quantize model-f16.gguf model-q8.gguf --format q8_0\n"
                "  saccade ask -m model-w4 --image cat.jpg \"What is this?\"\n"
                "  saccade ask -m MODEL --weights w4a16 \"the same without a file\"\n",
    .run = quantize,
};
