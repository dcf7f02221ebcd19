/* tower_probe.c - vision towers beside transformers' (tools/compare_towers.py): rows and times.
 *
 *   tower_probe MODEL N_CTX DEVICE [keep=1] [prefill=LINE] [decode=LINE] [kv=LINE] [rope=LINE]
 *
 * Each line of standard input is a request, answered by a line of JSON. Files are pictures that the tower takes in their own
 * size. Times of pictures and frames begin with their patch rows on the host; decoding and cutting is a time of its own:
 *   pictures N FILE...    N times a prompt of these pictures and a token after it
 *   frames N FILE...      the same, as the frames of a video, half a second apart
 *   rows OUT FILE...      the merger's rows of the last picture, f32, to OUT, and behind them those of DeepStack; with keep=1
 *   video OUT FILE...     the same of frames
 *   long OUT N TIMES FILE...  TIMES times a prompt of these frames, then N greedy tokens: seconds of both; to OUT.ids and OUT the
 *                             prompt's ids and the logits behind it, f32. With keep=1 all but the first time are without the tower
 *   session [prefill=LINE] ...  another session in the place of the one that there is; what keep=1 keeps stays */
#define _GNU_SOURCE
#include "engine.h"
#include "vision_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_FILES = 2048 };

typedef struct probe {
    sac_model *model;
    sac_session *session;
    int64_t n_ctx;
    sac_prepared *ready[MOST_FILES];
    sac_frame frames[MOST_FILES];
    sac_part parts[MOST_FILES + 1];
    size_t n_files, n_parts;
    char *named; /* of which files they are, and as what */
    double cut_s; /* of decoding and cutting all files */
} probe;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void forget_files(probe *p) {
    for (size_t i = 0; i < p->n_files; i++) sac_prepared_free(p->ready[i]);
    p->n_files = p->n_parts = 0;
    free(p->named);
    p->named = NULL;
}

/* Whether the files of the prompt before are asked for again. */
static bool are_read(probe *p, const char *at, bool is_video) {
    char *named = NULL;
    if (asprintf(&named, "%d %s", is_video, at) < 0) named = NULL;
    if (named && p->named && strcmp(named, p->named) == 0) {
        free(named);
        return true;
    }
    forget_files(p);
    p->named = named;
    return false;
}

/* The prompt of the files that are named from `at` on. */
static sac_status read_files(probe *p, char *at, bool is_video, sac_error *err) {
    if (are_read(p, at, is_video)) return SAC_OK;
    const double start = seconds();
    for (char *path; p->n_files < MOST_FILES && (path = strtok_r(NULL, " ", &at)); p->n_files++) {
        const sac_part picture = {.kind = SAC_PART_IMAGE, .path = path};
        sac_status st = sac_prepared_create(&p->ready[p->n_files], p->model, &picture, is_video, err);
        if (st != SAC_OK) return st;
        p->frames[p->n_files] = (sac_frame){.prepared = p->ready[p->n_files], .time_s = 0.5 * (double)p->n_files};
        if (!is_video) p->parts[p->n_parts++] = (sac_part){.kind = SAC_PART_IMAGE, .prepared = p->ready[p->n_files]};
    }
    p->cut_s = seconds() - start;
    if (is_video) p->parts[p->n_parts++] = (sac_part){.kind = SAC_PART_FRAMES, .frames = p->frames, .n_frames = p->n_files};
    p->parts[p->n_parts++] = (sac_part){.kind = SAC_PART_TEXT, .text = "What is it?"};
    return SAC_OK;
}

static sac_status ask(probe *p, sac_result *r, sac_error *err) {
    const sac_message question = {.role = "user", .parts = p->parts, .n_parts = p->n_parts};
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = 1, o.ignore_eos = true;
    sac_session_reset(p->session);
    return sac_session_generate(p->session, &question, 1, &o, NULL, r, err);
}

/* Of all repeats but the first, which warms up, that with the least time before the first token. */
static sac_status answer_times(probe *p, char *at, bool is_video, sac_error *err) {
    const long n = strtol(at, &at, 10);
    sac_result r, best = {0}, first = {0};
    sac_status st = read_files(p, at, is_video, err);
    for (long i = -1; st == SAC_OK && i < n; i++) {
        st = ask(p, &r, err);
        if (i < 0) first = r;
        if (i == 0 || (i > 0 && r.seconds.first_token < best.seconds.first_token)) best = r;
    }
    if (st != SAC_OK) return st;
    printf("{\"tokens\": %lld, \"cut_s\": %.6f, \"media_s\": %.6f, \"vision_s\": %.6f, \"prefill_s\": %.6f, "
           "\"first_token_s\": %.6f, \"cold_vision_s\": %.6f}\n",
           (long long)best.n_prompt_tokens, p->cut_s, best.seconds.media, best.seconds.vision, best.seconds.prefill,
           best.seconds.first_token, first.seconds.media + first.seconds.vision);
    return SAC_OK;
}
static sac_status answer_pictures(probe *p, char *at, sac_error *err) {
    return answer_times(p, at, false, err);
}
static sac_status answer_frames(probe *p, char *at, sac_error *err) {
    return answer_times(p, at, true, err);
}

static float as_float(const void *rows, sac_dtype t, size_t i) {
    if (t == SAC_DTYPE_F32) return ((const float *)rows)[i];
    const uint16_t h = ((const uint16_t *)rows)[i];
    return t == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

/* What the cache of visual rows was given last. */
static sac_status write_kept(const probe *p, FILE *f, sac_error *err) {
    const sac_session *s = p->session;
    const sac_vision_entry *e = p->model->vision_cache->newest;
    void *rows = e ? malloc(e->n_bytes) : NULL;
    if (!rows) return sac_fail(err, SAC_BAD_ARGUMENT, "no rows are kept: rows and video want keep=1");
    const sac_device *d = &p->model->device;
    sac_status st = SAC_OK;
    if (sac_model_on_device(p->model)) {
        sac_stream stream = {0}; /* a session has one only while a prompt runs */
        st = d->stream_open(d, &stream, 0, err);
        if (st == SAC_OK) st = d->download(&stream, rows, e->rows, e->n_bytes);
        if (st == SAC_OK) st = d->stream_sync(&stream, err);
        d->stream_close(&stream);
    } else
        memcpy(rows, e->rows, e->n_bytes);
    const size_t n = e->n_bytes / sac_dtype_row_bytes(s->decoder.dtype, 1);
    for (size_t i = 0; st == SAC_OK && i < n; i++) {
        const float x = as_float(rows, s->decoder.dtype, i);
        if (fwrite(&x, sizeof x, 1, f) != 1) st = sac_fail(err, SAC_BAD_ARGUMENT, "the rows could not be written");
    }
    free(rows);
    if (st == SAC_OK) printf("{\"numbers\": %zu}\n", n);
    return st;
}

static sac_status answer_rows(probe *p, char *at, bool is_video, sac_error *err) {
    const char *path = strtok_r(NULL, " ", &at);
    sac_result r;
    sac_status st = read_files(p, at, is_video, err);
    if (st == SAC_OK) st = ask(p, &r, err);
    FILE *f = st == SAC_OK && path ? fopen(path, "wb") : NULL;
    if (st == SAC_OK && !f) return sac_fail(err, SAC_BAD_ARGUMENT, "rows and video want a file to write to");
    if (st == SAC_OK) st = write_kept(p, f, err);
    if (f) fclose(f);
    return st;
}
static sac_status answer_picture_rows(probe *p, char *at, sac_error *err) {
    return answer_rows(p, at, false, err);
}
static sac_status answer_video_rows(probe *p, char *at, sac_error *err) {
    return answer_rows(p, at, true, err);
}

static sac_status write_file(const char *path, const char *end, const void *data, size_t n, sac_error *err) {
    char name[4200];
    snprintf(name, sizeof name, "%s%s", path, end);
    FILE *f = fopen(name, "wb");
    if (!f) return sac_fail(err, SAC_BAD_ARGUMENT, "%.100s cannot be written", name);
    const bool whole = fwrite(data, 1, n, f) == n;
    return fclose(f) == 0 && whole ? SAC_OK : sac_fail(err, SAC_BAD_ARGUMENT, "%.100s cannot be written", name);
}

static int32_t likeliest(const float *logits, int n) {
    int32_t best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static sac_status write_ids(probe *p, const sac_message *question, const char *out, sac_error *err) {
    enum { MOST = 1 << 20 };
    int32_t *ids = malloc(MOST * sizeof *ids);
    size_t n = 0;
    if (!ids) return sac_fail(err, SAC_NO_MEMORY, "no memory for ids");
    sac_status st = sac_session_prompt(p->session, question, 1, ids, MOST, &n, err);
    if (st == SAC_OK) st = write_file(out, ".ids", ids, n * sizeof *ids, err);
    free(ids);
    return st;
}

/* Seconds of the prompt and of n steps behind it; the logits between them go to `out`. */
static sac_status run_long(probe *p, const sac_message *question, long n, const char *out, double took[2], sac_error *err) {
    sac_model_info info;
    sac_model_get_info(p->model, &info);
    sac_session_reset(p->session);
    const double start = seconds();
    SAC_TRY(sac_session_prefill(p->session, question, 1, NULL, err));
    took[0] = seconds() - start;
    SAC_TRY(write_file(out, "", sac_session_logits(p->session), (size_t)info.vocab * sizeof(float), err));
    const double before = seconds();
    for (long i = 0; i < n; i++) {
        const int32_t id = likeliest(sac_session_logits(p->session), info.vocab);
        SAC_TRY(sac_session_append(p->session, &id, 1, NULL, err));
    }
    took[1] = seconds() - before;
    return SAC_OK;
}

static sac_status answer_long(probe *p, char *at, sac_error *err) {
    enum { MOST_TIMES = 16 };
    double took[MOST_TIMES][2];
    const char *out = strtok_r(NULL, " ", &at);
    const long n = strtol(at, &at, 10), times = strtol(at, &at, 10);
    if (!out || times < 1 || times > MOST_TIMES)
        return sac_fail(err, SAC_BAD_ARGUMENT, "long wants OUT N TIMES FILE..., TIMES from 1 to %d", MOST_TIMES);
    SAC_TRY(read_files(p, at, true, err));
    const sac_message question = {.role = "user", .parts = p->parts, .n_parts = p->n_parts};
    SAC_TRY(write_ids(p, &question, out, err));
    for (long i = 0; i < times; i++) SAC_TRY(run_long(p, &question, n, out, took[i], err));
    printf("{\"tokens\": %lld", (long long)sac_session_n_tokens(p->session) - n);
    for (int what = 0; what < 2; what++) {
        printf(", \"%s_s\": [", what ? "steps" : "prompt");
        for (long i = 0; i < times; i++) printf("%s%.6f", i ? ", " : "", took[i][what]);
        printf("]");
    }
    printf("}\n");
    return SAC_OK;
}

/* Whether it is one of the session's options. */
static bool take_option(sac_session_config *c, const char *o) {
    const struct {
        const char *name;
        const char **to;
    } all[] = {{"prefill=", &c->prefill}, {"decode=", &c->decode}, {"kv=", &c->kv}, {"rope=", &c->rope}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t n = strlen(all[i].name);
        if (strncmp(o, all[i].name, n) != 0) continue;
        *all[i].to = o + n;
        return true;
    }
    return false;
}

static sac_status open_session(probe *p, const sac_session_config *c, sac_error *err) {
    sac_session_free(p->session);
    p->session = NULL;
    return sac_session_create(&p->session, p->model, c, err);
}

static sac_status answer_session(probe *p, char *at, sac_error *err) {
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = p->n_ctx;
    for (char *o; (o = strtok_r(NULL, " ", &at));)
        if (!take_option(&c, o)) return sac_fail(err, SAC_BAD_ARGUMENT, "no such option of a session: %.40s", o);
    SAC_TRY(open_session(p, &c, err));
    printf("{\"n_ctx\": %lld}\n", (long long)p->n_ctx);
    return SAC_OK;
}

static sac_status answer(probe *p, char *line, sac_error *err) {
    static const struct {
        const char *name;
        sac_status (*fn)(probe *, char *, sac_error *);
    } requests[] = {{"pictures ", answer_pictures}, {"frames ", answer_frames}, {"rows ", answer_picture_rows}, {"video ", answer_video_rows},
                  {"long ", answer_long},         {"session ", answer_session}};
    line[strcspn(line, "\n")] = 0;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        size_t n = strlen(requests[i].name);
        if (strncmp(line, requests[i].name, n) == 0) return requests[i].fn(p, line + n, err);
    }
    return sac_fail(err, SAC_BAD_ARGUMENT, "no such request: %.20s", line);
}

int main(int argc, char **argv) {
    static probe p;
    sac_error err = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: tower_probe MODEL N_CTX DEVICE [keep=1] [prefill=LINE] [decode=LINE] [kv=LINE] [rope=LINE]\n");
        return 64;
    }
    sac_model_options o;
    sac_model_options_default(&o);
    o.device = argv[3];
    o.vision_cache_bytes = 0;
    o.chat_format = "chatml";
    sac_session_config c;
    sac_session_config_default(&c);
    p.n_ctx = c.n_ctx = atol(argv[2]);
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "keep=1") == 0) o.vision_cache_bytes = (size_t)2 << 30;
        take_option(&c, argv[i]);
    }
    sac_status st = sac_model_open(&p.model, argv[1], &o, &err);
    if (st == SAC_OK) st = open_session(&p, &c, &err);
    char *line = NULL;
    size_t n_line = 0;
    while (st == SAC_OK && getline(&line, &n_line, stdin) > 0) {
        st = answer(&p, line, &err);
        fflush(stdout);
    }
    if (st != SAC_OK) fprintf(stderr, "tower_probe: %s\n", err.text);
    free(line);
    forget_files(&p);
    sac_session_free(p.session);
    sac_model_free(p.model);
    return sac_status_exit_code(st);
}
