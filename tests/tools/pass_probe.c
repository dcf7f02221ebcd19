/* pass_probe.c - how long answers pause while a prompt is run, and how long the prompt takes.
 *
 *   pass_probe MODEL N_THREADS PROMPT_TOKENS [DEVICE [sessions=N] [held=N] [target=MS] [rows=N] [rounds=N] [ways=NAMES]
 *                                                    [kv=LINE] [decode=LINE]]
 *
 * So many sessions (8) that hold so many tokens (2048) each step together while one prompt is run as the server's scheduler runs it
 * (rounds.c): "pass" takes rows of it along with steps, at most `rows`, as many as come back within the target for the time between
 * two tokens (50 ms); "apart" runs pieces of it between steps; "alone" has nobody step. Each is run once before, with a short prompt.
 * ways=alone,pass names those that are wanted. One JSON object a line: seconds of the prompt, a step without one, steps meanwhile,
 * the median, the 99th of a hundred and the longest of the times between two, how many of the prompt's first eight tokens are those
 * of "alone", passes and rows that each took along. */
#define _GNU_SOURCE
#include "pass_cost.h"
#include "saccade/saccade.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, MOST_STEPS = 16384, WARM_PROMPT = 4096, BARE_STEPS = 24, FIRST_TOKENS = 8 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void need(sac_status st, const sac_error *err) {
    if (st == SAC_OK) return;
    fprintf(stderr, "pass_probe: %s\n", err->text);
    exit(1);
}

static const char *value_of(int argc, char **argv, const char *name) {
    size_t n = strlen(name);
    for (int i = 5; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=') return argv[i] + n + 1;
    return NULL;
}

static int64_t number_of(int argc, char **argv, const char *name, int64_t otherwise) {
    const char *v = value_of(argc, argv, name);
    return v ? atoll(v) : otherwise;
}

typedef enum way { ALONE, APART, PASS, WAYS } way;
static const char *const names[WAYS] = {"alone", "apart", "pass"};

typedef struct run {
    sac_batch *b;
    sac_session *s[MOST], *prompt;
    sac_batch_item items[MOST];
    int n, vocab;
    double target_s;
    int64_t most;
    size_t tile;
    serve_pass_cost cost;
    int64_t stepped_ns, due_ns;
    double gaps[MOST_STEPS];
    int n_gaps;
    int64_t n_passes, n_rows;
    int32_t *ids;
    int32_t first[WAYS][FIRST_TOKENS];
} run;

static void draw(run *r, int64_t n, int seed) {
    for (int64_t k = 0; k < n; k++) r->ids[k] = (int32_t)((k * 7 + (int64_t)seed * 13 + k * k % 101) % (r->vocab / 2) + 5);
}

static sac_sampling sampling(int max_tokens) {
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = max_tokens;
    o.ignore_eos = true;
    o.temperature = 0;
    return o;
}

/* A step of all, with rows of the prompt or 0; how many it took. */
static size_t step(run *r, size_t rows) {
    sac_batch_prompt p = {.session = r->prompt, .rows = rows};
    sac_error err;
    const int64_t start_ns = now_ns();
    need(sac_batch_step_with(r->b, r->items, (size_t)r->n, &p, rows > 0, &err), &err);
    for (int i = 0; i < r->n; i++) need(r->items[i].status, &r->items[i].error);
    if (rows) need(p.status, &p.error);
    const int64_t end_ns = now_ns();
    if (r->n_gaps < MOST_STEPS) r->gaps[r->n_gaps++] = (double)(end_ns - r->stepped_ns) * 1e-9;
    r->stepped_ns = end_ns;
    serve_pass_ran ran = {.took_s = (double)(end_ns - start_ns) * 1e-9, .n_prompt = rows ? p.rows : 0};
    ran.n_rows = sac_batch_ran(r->b, &ran.n_guessed);
    serve_pass_learn(&r->cost, &ran);
    r->due_ns = ran.n_prompt ? 0 : (int64_t)(serve_pause_share(r->target_s, r->cost.step_s) * 1e9);
    return ran.n_prompt;
}

/* Sessions are back at their prompts and a step is measured. */
static void begin_answers(run *r, int64_t held) {
    const sac_sampling o = sampling(MOST_STEPS + BARE_STEPS + 8);
    sac_error err;
    for (int i = 0; i < r->n; i++) {
        draw(r, held, i);
        sac_session_reset(r->s[i]);
        need(sac_session_begin_tokens(r->s[i], r->ids, (size_t)held, &o, NULL, &err), &err);
        r->items[i] = (sac_batch_item){.session = r->s[i]};
    }
    for (int i = 0; i < BARE_STEPS; i++) step(r, 0);
    r->n_gaps = 0;
}

static bool piece(run *r, way w) {
    sac_error err;
    bool done;
    const double since_s = (double)(now_ns() - r->stepped_ns) * 1e-9;
    const double most_s = w == ALONE ? 0 : serve_pause_piece(r->target_s, r->cost.step_s, since_s);
    need(sac_session_work_within(r->prompt, most_s, &done, &err), &err);
    return done;
}

static size_t pass_rows(run *r, bool *apart) {
    if (!sac_session_pass_rows(r->prompt, (size_t)r->most)) return 0;
    const size_t room = (size_t)serve_pass_ask(&r->cost, r->target_s, apart, r->most);
    return room ? sac_session_pass_rows(r->prompt, serve_pass_whole(room, (size_t)r->n, r->tile)) : 0;
}

static double run_prompt(run *r, way w, int64_t n) {
    const sac_sampling o = sampling(FIRST_TOKENS);
    bool done = false, apart = false;
    sac_error err;
    draw(r, n, 99);
    sac_session_reset(r->prompt);
    r->n_passes = r->n_rows = 0;
    const sac_input in = {.ids = r->ids, .n_ids = (size_t)n};
    const int64_t start_ns = r->stepped_ns = now_ns();
    need(sac_session_begin_work(r->prompt, &in, &o, NULL, &err), &err);
    while (!done) {
        const size_t rows = w == PASS ? pass_rows(r, &apart) : 0;
        if (rows) {
            r->n_rows += (int64_t)step(r, rows);
            r->n_passes++;
        } else if (w != ALONE && now_ns() - r->stepped_ns >= r->due_ns && sac_session_work_cost(r->prompt) > 0) {
            step(r, 0);
        } else {
            done = piece(r, w);
        }
    }
    const double took_s = (double)(now_ns() - start_ns) * 1e-9;
    if (w != ALONE) step(r, 0);
    for (int i = 0; i < FIRST_TOKENS; i++) need(sac_session_step(r->prompt, NULL, &r->first[w][i], &done, &err), &err);
    sac_session_end(r->prompt, NULL);
    return took_s;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(run *r, way w, int64_t held, int64_t n_prompt) {
    begin_answers(r, held);
    printf("{\"way\": \"%s\", \"prompt\": %lld, \"sessions\": %d, \"held\": %lld, ", names[w], (long long)n_prompt, r->n, (long long)held);
    const double bare_ms = 1e3 * r->cost.step_s, took_s = run_prompt(r, w, n_prompt);
    const int n = r->n_gaps;
    qsort(r->gaps, (size_t)n, sizeof *r->gaps, by_value);
    printf("\"prompt_s\": %.3f, \"step_ms\": %.2f, \"steps\": %d", took_s, bare_ms, n);
    if (n)
        printf(", \"pause_ms\": %.2f, \"p99_ms\": %.2f, \"longest_ms\": %.2f", 1e3 * r->gaps[n / 2],
               1e3 * r->gaps[(int)ceil(0.99 * n) - 1], 1e3 * r->gaps[n - 1]);
    int n_same = 0;
    while (n_same < FIRST_TOKENS && r->first[w][n_same] == r->first[ALONE][n_same]) n_same++;
    printf(", \"same_tokens\": %d", n_same);
    if (r->n_passes) printf(", \"passes\": %lld, \"rows_a_pass\": %.0f", (long long)r->n_passes, (double)r->n_rows / (double)r->n_passes);
    printf("}\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    static run r;
    sac_error err;
    sac_model *m;
    sac_model_options o;
    sac_model_info info;
    sac_session_config c;
    size_t device_bytes;
    if (argc < 4) {
        fprintf(stderr, "usage: pass_probe MODEL N_THREADS PROMPT_TOKENS [DEVICE [NAME=VALUE]...]\n");
        return 64;
    }
    const int64_t n_prompt = atoll(argv[3]), held = number_of(argc, argv, "held", 2048), n_rounds = number_of(argc, argv, "rounds", 2);
    r.n = (int)number_of(argc, argv, "sessions", 8);
    r.target_s = 1e-3 * (double)number_of(argc, argv, "target", 50);
    if (r.n < 1 || r.n > MOST || n_prompt < 64 || held < 1) {
        fprintf(stderr, "pass_probe: sessions are 1 to %d, a prompt has 64 tokens or more\n", MOST);
        return 64;
    }
    sac_model_options_default(&o);
    o.n_threads = atoi(argv[2]);
    if (argc > 4) o.device = argv[4];
    need(sac_model_open(&m, argv[1], &o, &err), &err);
    sac_model_get_info(m, &info);
    sac_batch_plan(m, 1, &device_bytes);
    r.vocab = info.vocab;
    r.most = number_of(argc, argv, "rows", device_bytes ? 1152 : 128);
    r.tile = device_bytes ? SERVE_PASS_TILE : 1;
    r.cost.n_unlearnt = device_bytes > 0;
    need(sac_batch_create_mixed(&r.b, m, (size_t)r.n, (size_t)r.most, &err), &err);
    sac_session_config_default(&c);
    if (value_of(argc, argv, "kv")) c.kv = value_of(argc, argv, "kv");
    if (value_of(argc, argv, "decode")) c.decode = value_of(argc, argv, "decode");
    c.n_ctx = held + MOST_STEPS + BARE_STEPS + 16;
    for (int i = 0; i < r.n; i++) need(sac_session_create(&r.s[i], m, &c, &err), &err);
    const int64_t warm = n_prompt < WARM_PROMPT ? n_prompt : WARM_PROMPT, longest = n_prompt > held ? n_prompt : held;
    c.n_ctx = n_prompt + FIRST_TOKENS + 8;
    need(sac_session_create(&r.prompt, m, &c, &err), &err);
    r.ids = malloc((size_t)longest * sizeof *r.ids);
    if (!r.ids) return 71;
    const char *ways = value_of(argc, argv, "ways");
    for (int64_t round = -1; round < n_rounds; round++)
        for (int w = 0; w < WAYS; w++)
            if (!ways || strstr(ways, names[w])) measure(&r, (way)w, held, round < 0 ? warm : n_prompt);
    free(r.ids);
    sac_batch_free(r.b);
    for (int i = 0; i < r.n; i++) sac_session_free(r.s[i]);
    sac_session_free(r.prompt);
    sac_model_free(m);
    return 0;
}
