/* caption.c - `saccade caption`: a large number of pictures and videos described, in parts, however often it
 * is cut short; and `saccade caption merge`, which proves the parts whole and writes the results. */
#define _GNU_SOURCE
#include "caption_errors.h"
#include "caption_list.h"
#include "caption_output.h"
#include "caption_run.h"
#include "caption_shard.h"
#include "commands.h"
#include "exit_code.h"
#include "interrupt.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct job {
    const settings *s;
    caption_input in;
    caption_shard shard;
    run r;
    caption_how how;
    caption_records records;
    caption_stats stats;
    json_t *errors; /* by kind, of all records */
    char *folder, *media_root;
} job;

/* ---------------------------------------------------------------- header */

static json_t *describe_model(const run *r, const char *fingerprint) {
    json_t *j = report_model(r);
    if (j && !json_object_set_new(j, "fingerprint", json_string(fingerprint))) return j;
    json_decref(j);
    return NULL;
}

/* A session is needed to describe its settings; it is given back, workers make their own. */
static sac_status describe_settings(job *j, json_t **out, sac_error *err) {
    SAC_TRY(run_create_session(&j->r, err));
    *out = report_settings(&j->r);
    run_free_session(&j->r);
    return *out ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status make_header(job *j, json_t **header, sac_error *err) {
    char fingerprint[17], started[32];
    time_t now = time(NULL);
    struct tm utc;
    SAC_TRY(run_files_fingerprint(j->r.model_path, fingerprint, err));
    json_t *used;
    SAC_TRY(describe_settings(j, &used, err));
    gmtime_r(&now, &utc);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    *header =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:b, s:[I, I], s:I, s:o, s:o, s:o, s:s, s:o}", "saccade_caption",
                  CAPTION_FORMAT, "version", SAC_VERSION, "started", started, "input",
                  caption_kind_name(j->in.kind), "sources", caption_input_json(&j->in), "by_source",
                  j->in.by_source, "shard", (json_int_t)j->shard.index, (json_int_t)j->shard.count, "limit",
                  (json_int_t)j->s->limit, "ask", report_text(j->s->ask), "system", report_text(j->s->system),
                  "model", describe_model(&j->r, fingerprint), "machine", j->r.info.cpu, "settings", used);
    return *header ? SAC_OK : sac_fail_no_memory(err);
}

/* ---------------------------------------------------------------- where it goes */

/* Shards of another number in the same folder are another job's. */
static sac_status check_folder(const job *j, sac_error *err) {
    DIR *d = opendir(j->s->out);
    if (!d) return sac_fail(err, SAC_IO, "%s: %s", j->s->out, strerror(errno));
    sac_status st = SAC_OK;
    caption_shard other;
    for (struct dirent *e; st == SAC_OK && (e = readdir(d));)
        if (caption_shard_parse_folder(e->d_name, &other) && other.count != j->shard.count)
            st = sac_fail(err, SAC_BAD_CONFIG,
                          "%s: holds a job of %" PRId64 " shards, this is one of %" PRId64
                          "; give another --out",
                          j->s->out, other.count, j->shard.count);
    closedir(d);
    return st;
}

static sac_status make_folder(job *j, sac_error *err) {
    char name[60];
    caption_shard_folder(&j->shard, name, sizeof name);
    SAC_TRY(run_files_make_folder(j->s->out, err));
    SAC_TRY(check_folder(j, err));
    j->folder = run_files_path(j->s->out, name);
    if (!j->folder) return sac_fail_no_memory(err);
    SAC_TRY(run_files_make_folder(j->folder, err));
    run_files_sync_folder(j->s->out);
    return SAC_OK;
}

/* What is not given is the batch file's own folder. */
static sac_status find_media_root(job *j, const char *batch_file, sac_error *err) {
    char *folder = NULL;
    const char *slash = strrchr(batch_file, '/'), *root = j->s->media_root;
    if (!root) root = folder = slash ? strndup(batch_file, (size_t)(slash - batch_file) + 1) : strdup(".");
    j->media_root = root ? realpath(root, NULL) : NULL;
    int failed = errno;
    free(folder);
    return j->media_root ? SAC_OK : sac_fail(err, SAC_NOT_FOUND, "--media-root: %s", strerror(failed));
}

static sac_status open_job(job *j, char **words, int n_words, sac_error *err) {
    const settings *s = j->s;
    SAC_TRY(caption_shard_find(&j->shard, s->shard, s->shards, err));
    SAC_TRY(caption_input_open(&j->in, words, n_words, s->column, err));
    if (!s->out)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--out DIR is needed: captions and the journal go there");
    SAC_TRY(caption_formats_check(&s->format, caption_kind_name(j->in.kind), err));
    if (j->in.kind == CAPTION_REQUESTS) SAC_TRY(find_media_root(j, j->in.sources[0].path, err));
    return caption_input_list(&j->in, &j->shard, (size_t)s->limit, err);
}

static sac_status open_model(job *j, sac_error *err) {
    const settings *s = j->s;
    /* each picture comes once: a cache of embeddings is for those who ask for it */
    bool wants_cache = settings_given(s, offsetof(settings, vision_cache_mib));
    SAC_TRY(run_open(&j->r, s, wants_cache ? (size_t)s->vision_cache_mib << 20 : 0, err));
    if (!j->r.info.has_vision && j->in.kind != CAPTION_REQUESTS)
        return sac_fail(err, SAC_UNSUPPORTED, "%s: reads text only; captions need a model that sees",
                        j->r.model_path);
    j->how =
        (caption_how){.s = s, .sampling = &j->r.sampling, .kind = j->in.kind, .media_root = j->media_root};
    return SAC_OK;
}

/* ---------------------------------------------------------------- report */

/* NULL = nothing. */
static json_t *skipped(const job *j) {
    return j->in.n_sources ? j->in.sources[0].skipped : NULL;
}

/* Totals are the shard's; "this_run" is what this process did. */
static json_t *report(const job *j) {
    const caption_stats *t = &j->stats;
    double here = (double)(t->n_captions + t->n_errors);
    return json_pack(
        "{s:O, s:I, s:I, s:I, s:I, s:O, s:o, s:o, s:b, s:{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:I, "
        "s:f, s:f, s:f, s:f}}",
        "header", j->records.header, "items", (json_int_t)t->n_items, "captions",
        (json_int_t)j->records.n_captions, "away", (json_int_t)j->records.n_away, "failed",
        (json_int_t)j->records.n_errors, "errors", j->errors, "skipped",
        skipped(j) ? json_incref(skipped(j)) : json_object(), "skipped_files",
        skipped(j) ? json_incref(j->in.sources[0].skipped_files) : json_array(), "complete",
        j->records.n_captions + j->records.n_errors == t->n_items, "this_run", "captions",
        (json_int_t)t->n_captions, "done_before", (json_int_t)t->n_before, "failed", (json_int_t)t->n_errors,
        "seconds", t->seconds, "items_per_second", t->seconds > 0 ? here / t->seconds : 0, "frames",
        (json_int_t)t->frames, "prompt_tokens", (json_int_t)t->prompt_tokens, "visual_tokens",
        (json_int_t)t->visual_tokens, "tokens", (json_int_t)t->tokens, "media_s", t->media_s, "vision_s",
        t->vision_s, "prefill_s", t->prefill_s, "decode_s", t->decode_s);
}

/* From the first-th on, of n in all. */
static void print_names(const json_t *names, size_t first, json_int_t n) {
    enum { SHOWN = 8 };
    size_t i = first;
    for (; i < json_array_size(names) && i < first + SHOWN; i++)
        printf("%s%s", i > first ? ", " : "", json_string_value(json_array_get(names, i)));
    printf("%s\n", (json_int_t)i < n ? ", ... (more in report.json)" : "");
}

static void print_skipped(const job *j) {
    const char *ending, *comma = "";
    json_t *n;
    json_int_t all = 0;
    json_object_foreach(skipped(j), ending, n) all += json_integer_value(n);
    if (!all) return;
    printf("skipped    %s %s: no pictures or videos that can be read (", report_count(all),
           all == 1 ? "file" : "files");
    json_object_foreach(skipped(j), ending, n) {
        printf("%s%s %s", comma, report_count(json_integer_value(n)), ending);
        comma = ", ";
    }
    printf(")\n");
    printf("           ");
    print_names(j->in.sources[0].skipped_files, 0, all);
}

static sac_status print_report(job *j, sac_error *err) {
    const caption_stats *t = &j->stats;
    int64_t here = t->n_captions + t->n_errors;
    if (j->s->json) return report_print(report(j), err);
    printf("captions   %s of %s", report_count(j->records.n_captions), report_counted(t->n_items, "item"));
    if (j->shard.count > 1) printf(" of shard %" PRId64 " of %" PRId64, j->shard.index, j->shard.count);
    printf("%s\n", t->n_before && here ? "" : here ? "" : ", all done before");
    if (t->n_before && here) printf("resumed    %s done before\n", report_counted(t->n_before, "item"));
    if (here)
        printf("rate       %.2f items a second, %.0f answer tokens a second, in %.1f s\n",
               (double)here / t->seconds, (double)t->tokens / t->seconds, t->seconds);
    if (j->records.n_errors) printf("failed     %s\n", report_counted(j->records.n_errors, "item"));
    const char *kind;
    json_t *e;
    json_object_foreach(j->errors, kind, e) {
        int64_t n = json_integer_value(json_object_get(e, "items"));
        printf("           %s %s, the first: %s: %s\n", report_count(n), kind,
               json_string_value(json_array_get(json_object_get(e, "ids"), 0)),
               json_string_value(json_object_get(e, "first")));
        if (n > 1) printf("           also ");
        if (n > 1) print_names(json_object_get(e, "ids"), 1, n);
    }
    if (j->records.n_errors) printf("           all of them: %s/%s\n", j->folder, CAPTION_ERRORS_FILE);
    if (j->records.n_away)
        printf(
            "away       %s of items that are not in the input now, or have changed: kept for their return\n",
            report_counted(j->records.n_away, "caption"));
    print_skipped(j);
    return output_finish(err);
}

static void note_errors(const caption_records *r) {
    if (!r->n_errors) return;
    fprintf(stderr, "saccade: %" PRId64 " of %" PRId64 " items failed; they are error lines of the result\n",
            r->n_errors, r->n_errors + r->n_captions);
    app_note_partial();
}

/* ---------------------------------------------------------------- the job */

static void say_start(const job *j) {
    if (j->s->quiet || j->shard.count < 2) return;
    fprintf(stderr, "saccade: shard %" PRId64 " of %" PRId64 " (%s)\n", j->shard.index, j->shard.count,
            j->shard.origin);
}

static sac_status run_job(job *j, sac_error *err) {
    json_t *header;
    SAC_TRY(make_header(j, &header, err));
    interrupt_goes_on();
    SAC_TRY(caption_records_open(&j->records, j->folder, header, &j->in, &j->shard, j->s->retry, err));
    SAC_TRY(caption_run(&j->r, &j->in, &j->shard, &j->how, &j->records, &j->stats, err));
    if (j->shard.count == 1) SAC_TRY(caption_output_write(&j->records, &j->s->format, j->s->out, err));
    SAC_TRY(caption_errors(&j->records, j->folder, &j->errors, err));
    SAC_TRY(run_files_write_json(j->folder, "report.json", report(j), err));
    SAC_TRY(print_report(j, err));
    note_errors(&j->records);
    return SAC_OK;
}

static sac_status caption_all(const settings *s, char **words, int n_words, sac_error *err) {
    job j = {.s = s};
    sac_error at_close;
    sac_status st = open_job(&j, words, n_words, err);
    if (st == SAC_OK) say_start(&j);
    if (st == SAC_OK) st = open_model(&j, err);
    if (st == SAC_OK) st = make_folder(&j, err);
    if (st == SAC_OK) st = run_job(&j, err);
    sac_status closed =
        caption_records_close(&j.records, &at_close); /* what there is reaches the disk in any case */
    if (st == SAC_OK && closed != SAC_OK) *err = at_close, st = closed;
    run_close(&j.r);
    caption_input_free(&j.in);
    json_decref(j.errors);
    free(j.folder);
    free(j.media_root);
    return st;
}

/* ---------------------------------------------------------------- merge */

/* Every journal stays open while results are written. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static sac_status print_merged(const settings *s, const caption_records *r, sac_error *err) {
    if (s->json)
        return report_print(json_pack("{s:I, s:I, s:I, s:I, s:O}", "shards", (json_int_t)r->n_journals,
                                      "items", (json_int_t)(r->n_captions + r->n_errors), "captions",
                                      (json_int_t)r->n_captions, "failed", (json_int_t)r->n_errors, "header",
                                      r->header),
                            err);
    printf("merged     %s of %s, each once\n", report_counted(r->n_captions + r->n_errors, "item"),
           report_counted((int64_t)r->n_journals, "shard"));
    if (r->n_errors) printf("failed     %s\n", report_counted(r->n_errors, "item"));
    return output_finish(err);
}

/* For a format that has pictures in it. */
static sac_status open_merged_input(caption_records *r, caption_input *in, const settings *s, char **words,
                                    int n_words, sac_error *err) {
    const caption_shard whole = {.count = 1};
    SAC_TRY(caption_input_open(in, words, n_words, s->column, err));
    SAC_TRY(
        caption_input_list(in, &whole, (size_t)json_integer_value(json_object_get(r->header, "limit")), err));
    bool same = in->n_sources == r->n_sources;
    for (size_t i = 0; same && i < r->n_sources; i++) same = in->sources[i].n_items == r->n_items[i];
    r->input = in;
    return same ? SAC_OK
                : sac_fail(err, SAC_BAD_CONFIG, "merge: %s: not the input of this job, or it has changed",
                           words[0]);
}

static sac_status merge(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "merge: one folder is expected, that of --out of the shards");
    caption_records r = {0};
    caption_input in = {0};
    sac_error at_close;
    raise_file_limit();
    sac_status st = caption_formats_check(&s->format, NULL, err);
    if (st == SAC_OK) st = caption_records_merge(&r, words[0], err);
    if (st == SAC_OK && n_words > 1) st = open_merged_input(&r, &in, s, words + 1, n_words - 1, err);
    if (st == SAC_OK) st = caption_output_write(&r, &s->format, s->out ? s->out : words[0], err);
    if (st == SAC_OK) st = print_merged(s, &r, err);
    if (st == SAC_OK) note_errors(&r);
    caption_records_close(&r, &at_close);
    caption_input_free(&in);
    return st;
}

static sac_status caption_command(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words && !strcmp(words[0], "merge")) return merge(s, words + 1, n_words - 1, err);
    return caption_all(s, words, n_words, err);
}

const command command_caption = {
    .name = "caption",
    .mask = COMMAND_CAPTION,
    .brief = "describe a folder, list or tar shards of pictures and videos",
    .synopsis = "[options] FOLDER|LIST|SHARD.tar...|PICTURE... --out DIR\n"
                "       saccade caption merge DIR [INPUT]",
    .summary =
        "Describes the pictures and videos of a folder, a manifest ({\"image\": FILE} a line), a CSV file,\n"
        "a list of names, WebDataset shards, an OpenAI batch file, or those that are named. A job that was\n"
        "stopped or killed goes on with the same command, and does what came to its input since. A file\n"
        "that cannot be read is an error line of the result. 'merge' proves that all shards are whole and\n"
        "writes the results.",
    .examples = "  saccade caption photos --out captions\n"
                "  saccade caption photos --ask \"Describe the scene in one sentence.\" \\\n"
                "    --format text --out captions\n"
                "  saccade caption 'cc3m-{00000..00331}.tar' \\\n"
                "    --format jsonl --format tar --out cc3m-captions\n"
                "  saccade caption items.jsonl --shard 0/4 --out captions  # and 1/4, 2/4, 3/4\n"
                "  saccade caption merge captions --format coco\n"
                "  saccade caption 'photos/*.jpg' more.png --format webdataset --out captions\n"
                "  saccade caption batch_input.jsonl --out results  # OpenAI's batch format\n",
    .run = caption_command,
};
