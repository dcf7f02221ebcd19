/* bench.c - `saccade bench`: how long each part takes and what it reads, as the median of repeats.
 *
 * Without media: a prompt of exactly prompt-tokens ids through sac_session_append, then one append for each
 * generated token (the likeliest), so prefill and decode stand alone. With media: a whole question through
 * sac_session_generate, whose result has the times of media decode and vision too; the cache of visual
 * embeddings is off, and each repeat starts from an empty session. "pictures" is both, from the first picture
 * to the last embedding: of a tower on a device batches run while the host decodes the next ones, so that
 * neither part alone is a rate there. With --draft and no media the same answer is given a second time, in drafted steps
 * ("drafted"): "decode" stays what it is without. */
#define _GNU_SOURCE
#include "clock.h"
#include "commands.h"
#include "interrupt.h"
#include "largest.h"
#include "method_summary.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef enum part_id {
    PART_LOAD,
    PART_MEDIA,
    PART_VISION,
    PART_PICTURES,
    PART_PREFILL,
    PART_DECODE,
    PART_DRAFTED,
    PART_COUNT
} part_id;
static const char *const part_names[PART_COUNT] = {"load",    "media",  "vision", "pictures",
                                                   "prefill", "decode", "drafted"};

typedef struct part {
    double *seconds; /* [n] of each repeat */
    int64_t n;
    int64_t work;      /* items of one repeat: frames or tokens */
    const char *unit;  /* "tokens" */
    double read_bytes; /* read from memory in one repeat; 0 = not known */
    bool overlaps;     /* with another part: time that is not all of its work's, so no rate */
} part;

typedef struct bench {
    run r;
    const settings *s;
    part parts[PART_COUNT];
    int64_t n_prompt, n_generated;
    int64_t n_drafted, n_accepted; /* of one repeat */
    double read_bandwidth;         /* bytes a second */
} bench;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the repeats. */
static double median(part *p) {
    qsort(p->seconds, (size_t)p->n, sizeof *p->seconds, by_value);
    return 0.5 * (p->seconds[(p->n - 1) / 2] + p->seconds[p->n / 2]);
}

/* Half the distance of the extremes, as a part of the median. */
static double spread(part *p) {
    double m = median(p);
    return m > 0 ? 0.5 * (p->seconds[p->n - 1] - p->seconds[0]) / m : 0;
}

static void add_time(bench *b, part_id id, double seconds) {
    b->parts[id].seconds[b->parts[id].n++] = seconds;
}

/* Bytes of weights that one decode step reads: all of the language model, but of an input embedding only a
 * row, unless it is the output head as well, and of a layer's experts those that a row goes to. Told by the names that checkpoints and GGUF files use. */
static double decode_weight_bytes(const sac_model *m, const sac_model_info *info) {
    static const char *const not_read[] = {"vision", "mm_projector", "multi_modal_projector",
                                           "image_newline"};
    double total = 0, embedding = 0;
    bool has_head = false;
    sac_tensor_info t;
    for (int64_t i = 0; sac_model_get_tensor(m, i, &t); i++) {
        bool read = true;
        for (size_t k = 0; k < SAC_COUNT(not_read); k++) read = read && !strstr(t.name, not_read[k]);
        if (!read) continue;
        const bool is_expert = info->n_experts && strstr(t.name, ".experts.");
        total += is_expert ? (double)t.n_bytes * info->n_experts_used / info->n_experts : (double)t.n_bytes;
        if (strstr(t.name, "embed_tokens") || !strncmp(t.name, "token_embd", 10))
            embedding += (double)t.n_bytes;
        if (strstr(t.name, "lm_head") || !strcmp(t.name, "output.weight")) has_head = true;
    }
    return has_head ? total - embedding : total;
}

/* Keys and values that a step reads: the rows that the method chose. Of a packed cache a row is as long as it
 * turned out, of a plain one as planned. What choosing them reads is not counted. */
static double step_row_bytes(const bench *b) {
    static const char *const plain[] = {"f32", "f16", "bf16"};
    sac_memory_report memory;
    method_summary did;
    sac_session_memory(b->r.session, &memory);
    method_summary_read(b->r.session, &b->r.info, &did);
    double row_bytes = did.kv_bytes_token;
    for (size_t i = 0; i < SAC_COUNT(plain); i++)
        if (!strcmp(did.lines.kv, plain[i])) row_bytes = (double)memory.kv_bytes_per_token;
    return did.decode_rows * row_bytes;
}

static double decode_read_bytes(const bench *b) {
    return (double)b->n_generated * (decode_weight_bytes(b->r.model, &b->r.info) + step_row_bytes(b));
}

/* Load is repeated first, before anything else warms or evicts; the last model stays. */
static sac_status measure_load(bench *b, sac_error *err) {
    for (int64_t i = 0; i < b->s->repeat; i++) {
        run_close(&b->r);
        SAC_TRY(run_open(&b->r, b->s, 0, err));
        add_time(b, PART_LOAD, b->r.load_seconds);
    }
    b->parts[PART_LOAD].work = (int64_t)b->r.info.weight_bytes;
    b->parts[PART_LOAD].unit = "bytes";
    return SAC_OK;
}

/* n ids of ordinary text, over and over. */
static sac_status make_prompt(const bench *b, int32_t **out, sac_error *err) {
    static const char text[] =
        "The eye does not see a scene at once; it jumps to what is worth looking at next. ";
    int32_t ids[256];
    size_t n_ids, n = (size_t)b->s->prompt_tokens;
    *out = NULL;
    SAC_TRY(
        sac_tokenize_text(b->r.model, text, sizeof text - 1, false, false, ids, SAC_COUNT(ids), &n_ids, err));
    if (n_ids > SAC_COUNT(ids)) n_ids = SAC_COUNT(ids);
    if (!n_ids)
        return sac_fail(err, SAC_BAD_FILE, "%s: the tokenizer makes nothing of a text", b->r.model_path);
    if (!(*out = malloc(n * sizeof **out))) return sac_fail_no_memory(err);
    for (size_t i = 0; i < n; i++) (*out)[i] = ids[i % n_ids];
    return SAC_OK;
}

static sac_status run_text(bench *b, const int32_t *prompt, double seconds[PART_COUNT], sac_error *err) {
    sac_session *s = b->r.session;
    sac_session_reset(s);
    int64_t start = sac_now_ns();
    SAC_TRY(sac_session_append(s, prompt, (size_t)b->s->prompt_tokens, NULL, err));
    seconds[PART_PREFILL] = sac_seconds_since(start);
    for (int64_t i = 0; i < b->s->gen_tokens; i++) {
        progress_update(&b->r.progress, "decode", i, b->s->gen_tokens);
        int32_t id = sac_largest_at(sac_session_logits(s), b->r.info.vocab);
        SAC_TRY(sac_session_append(s, &id, 1, NULL, err));
    }
    seconds[PART_DECODE] = sac_seconds_since(start) - seconds[PART_PREFILL];
    b->n_prompt = b->s->prompt_tokens;
    b->n_generated = b->s->gen_tokens;
    return SAC_OK;
}

/* The same tokens as run_text's, on a card but for rounding. */
static sac_status run_drafted(bench *b, const int32_t *prompt, double seconds[PART_COUNT], sac_error *err) {
    sac_session *s = b->r.session;
    sac_result result;
    int32_t token;
    sac_session_reset(s);
    SAC_TRY(sac_session_begin_tokens(s, prompt, (size_t)b->s->prompt_tokens, &b->r.sampling, NULL, err));
    sac_status st = SAC_OK;
    for (bool done = false; st == SAC_OK && !done;) st = sac_session_step(s, NULL, &token, &done, err);
    sac_session_end(s, &result);
    seconds[PART_DRAFTED] = result.seconds.decode;
    b->n_drafted = result.n_drafted_tokens;
    b->n_accepted = result.n_accepted_tokens;
    b->parts[PART_DRAFTED].work = result.n_tokens;
    return st;
}

static bool drafts(const bench *b) {
    return b->s->draft && strcmp(b->s->draft, "none") != 0;
}

static sac_status run_media(bench *b, const conversation *c, double seconds[PART_COUNT], sac_error *err) {
    answer a = {.quiet = true};
    sac_result result;
    sac_session_reset(b->r.session);
    sac_status st = run_answer(&b->r, c, &a, &result, err);
    answer_free(&a);
    if (st != SAC_OK) return st;
    seconds[PART_MEDIA] = result.seconds.media;
    seconds[PART_VISION] = result.seconds.vision;
    seconds[PART_PICTURES] = result.seconds.media + result.seconds.vision;
    seconds[PART_PREFILL] = result.seconds.prefill;
    seconds[PART_DECODE] = result.seconds.decode;
    int64_t frames = 0;
    for (size_t i = 0; i < result.n_media; i++) frames += result.media[i].n_frames;
    for (part_id id = PART_MEDIA; id <= PART_PICTURES; id++) b->parts[id].work = frames;
    b->n_prompt = result.n_prompt_tokens;
    b->n_generated = result.n_tokens;
    b->n_drafted = result.n_drafted_tokens;
    b->n_accepted = result.n_accepted_tokens;
    return SAC_OK;
}

static sac_status measure(bench *b, sac_error *err) {
    conversation c = {0};
    int32_t *prompt = NULL;
    bool with_media = b->s->media.n > 0;
    sac_status st = with_media ? conversation_ask(&c, b->s, &b->s->media, "Describe what you see.", err)
                               : make_prompt(b, &prompt, err);
    for (int64_t i = -1; st == SAC_OK && i < b->s->repeat; i++) { /* the first, -1, warms up */
        double seconds[PART_COUNT] = {0};
        interrupt_begin(b->r.session);
        st = with_media ? run_media(b, &c, seconds, err) : run_text(b, prompt, seconds, err);
        if (st == SAC_OK && !with_media && drafts(b)) st = run_drafted(b, prompt, seconds, err);
        if (interrupt_end() && st == SAC_OK) st = sac_fail(err, SAC_CANCELLED, "cancelled");
        if (st != SAC_OK || i < 0) continue;
        for (part_id id = with_media ? PART_MEDIA : PART_PREFILL; id <= PART_DECODE; id++)
            add_time(b, id, seconds[id]);
        if (!with_media && drafts(b)) add_time(b, PART_DRAFTED, seconds[PART_DRAFTED]);
    }
    progress_clear(&b->r.progress);
    free(prompt);
    conversation_free(&c);
    if (st != SAC_OK) return st;
    sac_memory_report memory;
    sac_session_memory(b->r.session, &memory);
    b->parts[PART_MEDIA].overlaps = b->parts[PART_VISION].overlaps = memory.device_vision_bytes > 0;
    for (part_id id = PART_MEDIA; id <= PART_PICTURES; id++) b->parts[id].unit = "frames";
    b->parts[PART_PREFILL].unit = b->parts[PART_DECODE].unit = b->parts[PART_DRAFTED].unit = "tokens";
    b->parts[PART_PREFILL].work = b->n_prompt;
    b->parts[PART_DECODE].work = b->n_generated;
    b->parts[PART_DECODE].read_bytes = decode_read_bytes(b);
    return SAC_OK;
}

static double peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : 1024.0 * (double)usage.ru_maxrss;
}

static void print_part(bench *b, part_id id) {
    part *p = &b->parts[id];
    double s = median(p);
    printf("%-8s %10.3f ms  +-%3.0f %%  ", part_names[id], 1e3 * s, 100 * spread(p));
    if (id != PART_LOAD) printf("%6" PRId64 " %-6s", p->work, p->unit);
    if (id != PART_LOAD && !p->overlaps) printf(" %8.1f/s", s > 0 ? (double)p->work / s : 0);
    if (p->read_bytes > 0 && s > 0)
        printf("   %s/s read, %.0f %% of the bandwidth", report_bytes(p->read_bytes / s),
               100 * p->read_bytes / s / b->read_bandwidth);
    putchar('\n');
}

static void print_result(bench *b) {
    const sac_model_info *m = &b->r.info;
    printf("model    %s: %s, %.1f M parameters, %s, %s\n", b->r.model_path, m->family,
           (double)m->n_parameters / 1e6, m->dtype, report_bytes((double)m->weight_bytes));
    printf("machine  %s, %s, reads %s/s\n", m->cpu, report_counted(m->n_threads, "thread"),
           report_bytes(b->read_bandwidth));
    printf("repeats  %" PRId64 " after one to warm up; median, half the range\n\n", b->s->repeat);
    for (part_id id = 0; id < PART_COUNT; id++)
        if (b->parts[id].n) print_part(b, id);
    if (drafts(b))
        printf("drafts   %" PRId64 " tokens, %" PRId64 " of them in the answer\n", b->n_drafted,
               b->n_accepted);
    sac_memory_report memory;
    sac_session_memory(b->r.session, &memory);
    printf("\nmemory   session %s and workspace %s for %s tokens, peak of the process %s\n",
           report_bytes((double)memory.total_bytes), report_bytes((double)memory.workspace_bytes),
           report_count(memory.n_ctx), report_bytes(peak_bytes()));
}

static json_t *part_as_json(const bench *b, part *p) {
    double s = median(p);
    json_t *j = json_pack("{s:f, s:f, s:I, s:s}", "median_s", s, "spread", spread(p), "work",
                          (json_int_t)p->work, "unit", p->unit);
    if (j && s > 0 && !p->overlaps) json_object_set_new(j, "per_s", report_real((double)p->work / s));
    if (!j || p->read_bytes <= 0 || s <= 0) return j;
    json_object_set_new(j, "read_bytes_per_s", report_real(p->read_bytes / s));
    json_object_set_new(j, "of_bandwidth", report_real(p->read_bytes / s / b->read_bandwidth));
    return j;
}

static sac_status print_json(bench *b, sac_error *err) {
    sac_memory_report memory;
    sac_session_memory(b->r.session, &memory);
    json_t *parts = json_object();
    for (part_id id = 0; parts && id < PART_COUNT; id++) {
        if (!b->parts[id].n || !json_object_set_new(parts, part_names[id], part_as_json(b, &b->parts[id])))
            continue;
        json_decref(parts);
        parts = NULL;
    }
    json_t *j = json_pack("{s:o, s:s?, s:i, s:f, s:I, s:o, s:o, s:f}", "model", report_model(&b->r), "cpu",
                          b->r.info.cpu, "threads", b->r.info.n_threads, "read_bandwidth", b->read_bandwidth,
                          "repeats", (json_int_t)b->s->repeat, "parts", parts, "memory",
                          report_memory(&memory), "peak_bytes", peak_bytes());
    if (j && drafts(b)) {
        json_object_set_new(j, "drafted_tokens", json_integer(b->n_drafted));
        json_object_set_new(j, "accepted_tokens", json_integer(b->n_accepted));
    }
    return report_print(j, err);
}

static sac_status print_plan(bench *b, sac_error *err) {
    sac_memory_report memory;
    SAC_TRY(run_open(&b->r, b->s, 0, err));
    SAC_TRY(sac_session_plan(b->r.model, &b->r.session_config, &memory, err));
    if (b->s->json) return report_print(report_memory(&memory), err);
    report_print_memory(&memory);
    return output_finish(err);
}

static sac_status bench_model(bench *b, sac_error *err) {
    if (b->s->plan) return print_plan(b, err);
    SAC_TRY(media_list_check(&b->s->media, err));
    for (part_id id = 0; id < PART_COUNT; id++)
        if (!(b->parts[id].seconds = calloc((size_t)b->s->repeat, sizeof(double))))
            return sac_fail_no_memory(err);
    SAC_TRY(measure_load(b, err));
    b->read_bandwidth = sac_measure_read_bandwidth(b->r.model);
    if (!b->s->media.n && !settings_given(b->s, offsetof(settings, ctx)))
        b->r.session_config.n_ctx = b->s->prompt_tokens + b->s->gen_tokens;
    b->r.sampling = (sac_sampling){0};
    sac_sampling_default(&b->r.sampling);
    b->r.sampling.max_tokens = (int)b->s->gen_tokens;
    b->r.sampling.ignore_eos = true;
    SAC_TRY(run_create_session(&b->r, err));
    SAC_TRY(measure(b, err));
    if (b->s->json) return print_json(b, err);
    print_result(b);
    return output_finish(err);
}

static sac_status bench_run(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words)
        return sac_fail(err, SAC_BAD_ARGUMENT, "'%.80s' is not expected; see 'saccade bench --help'",
                        words[0]);
    bench b = {.s = s};
    sac_status st = bench_model(&b, err);
    run_close(&b.r);
    for (part_id id = 0; id < PART_COUNT; id++) free(b.parts[id].seconds);
    return st;
}

const command command_bench = {
    .name = "bench",
    .mask = COMMAND_BENCH,
    .brief = "measure how fast each part is",
    .synopsis = "[options]",
    .summary =
        "Measures loading, decoding of media, vision, prefill and decode, with the share of the machine's\n"
        "memory bandwidth that decode reaches.",
    .examples = "  saccade bench\n"
                "  saccade bench -m MODEL --prompt-tokens 2048 --gen-tokens 64 --repeat 5\n"
                "  saccade bench --video clip.mp4 --num-frames 64 --json\n"
                "  saccade bench -m MODEL --plan --ctx 32768\n",
    .run = bench_run,
};
