/* batch_probe.c - what steps of several sessions together gain over one by one.
 *
 *   batch_probe MODEL N_THREADS PROMPT_TOKENS STEPS [DEVICE [sessions=N] [rounds=N] [apart=1] [prefill=LINE]
 * [decode=LINE] [kv=LINE] [temperature=T] [top_p=P] [min_p=P] [top_k=K] [repetition_penalty=F] [presence_penalty=F] [logprobs=N]
 * [mask=1]]
 *
 * With one thread processor time is measured, which does not depend on what else the machine does.
 *
 * For 1, 2, 4, 8 and 16 sessions, or N: seconds of STEPS steps one by one and together, tokens a second, and
 * the ratio; the median of three rounds, alternating; how far the logits of the step before those lie apart
 * (the worst session's |together - lone| / |lone|: 0 where both run the same products, rounding on a card),
 * whether both gave the same tokens, and a sum of those of together, to compare runs by. With apart=1 the same again with each session in a thread of its
 * own, so that on a card their streams meet. With mask=1 every tenth token may not come. One JSON object a line. */
#define _GNU_SOURCE
#include "saccade/saccade.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16, ROUNDS = 3 };

static clockid_t which_clock = CLOCK_MONOTONIC;

static double seconds(void) {
    struct timespec t;
    clock_gettime(which_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(sac_status st, const sac_error *err) {
    if (st == SAC_OK) return;
    fprintf(stderr, "batch_probe: %s\n", err->text);
    exit(1);
}

static void begin_all(sac_session **s, size_t n, int64_t n_prompt, const sac_sampling *o, int vocab) {
    sac_error err;
    int32_t *ids = malloc((size_t)n_prompt * sizeof *ids), token;
    bool done;
    for (size_t i = 0; i < n && ids; i++) {
        for (int64_t k = 0; k < n_prompt; k++)
            ids[k] = (int32_t)((k * 7 + (int64_t)i * 13) % (vocab / 2) + 5);
        sac_session_reset(s[i]);
        need(sac_session_begin_tokens(s[i], ids, (size_t)n_prompt, o, NULL, &err), &err);
        need(sac_session_step(s[i], NULL, &token, &done, &err), &err); /* without work of the model */
    }
    free(ids);
}

/* What a way of stepping leaves: the logits of a first step, which is not timed, and tokens of the others. */
typedef struct trail {
    float *logits;   /* [session][vocab] */
    int32_t *tokens; /* [step][session] */
} trail;

static void keep_logits(void *to, float *logits, int vocab) {
    memcpy(to, logits, (size_t)vocab * sizeof *logits);
}

static void keep_from_tenths(void *ctx, uint32_t *allowed, int vocab) {
    (void)ctx;
    for (int id = 3; id < vocab; id += 10) allowed[id / 32] &= ~(1u << (id % 32));
}

static sac_events of_steps; /* of all that are timed */

/* Of each session: its logits come down from a card in a step that has these alone. */
static const sac_events *looks(trail *t, size_t n, int vocab) {
    static sac_events each[MOST];
    for (size_t i = 0; i < n; i++) each[i] = (sac_events){.ctx = t->logits + i * (size_t)vocab, .logits = keep_logits, .mask = of_steps.mask};
    return each;
}

/* looks: or NULL. */
static void step_each(sac_session **s, size_t n, int32_t *tokens, const sac_events *looks) {
    for (size_t i = 0; i < n; i++) {
        sac_error err;
        bool done;
        need(sac_session_step(s[i], looks ? &looks[i] : &of_steps, &tokens[i], &done, &err), &err);
    }
}

static double one_by_one(sac_session **s, size_t n, int steps, int vocab, trail *t) {
    step_each(s, n, t->tokens, looks(t, n, vocab));
    double start = seconds();
    for (int k = 0; k < steps; k++) step_each(s, n, t->tokens + (size_t)k * n, NULL);
    return seconds() - start;
}

static void step_all(sac_batch *b, sac_batch_item *items, size_t n, int32_t *tokens) {
    sac_error err;
    need(sac_batch_step(b, items, n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        need(items[i].status, &items[i].error);
        tokens[i] = items[i].token;
    }
}

static double together(sac_batch *b, sac_session **s, size_t n, int steps, int vocab, trail *t) {
    sac_batch_item items[MOST];
    const sac_events *its = looks(t, n, vocab);
    for (size_t i = 0; i < n; i++) items[i] = (sac_batch_item){.session = s[i], .events = &its[i]};
    step_all(b, items, n, t->tokens);
    for (size_t i = 0; i < n; i++) items[i].events = &of_steps;
    double start = seconds();
    for (int k = 0; k < steps; k++) step_all(b, items, n, t->tokens + (size_t)k * n);
    return seconds() - start;
}

/* ---------------------------------------------------------------- each in a thread of its own */

typedef struct lone_job {
    sac_session *session;
    int steps;
    size_t stride;
    int32_t *tokens; /* of step k: tokens[k * stride] */
    const sac_events *look; /* or NULL */
} lone_job;

static void *run_alone(void *arg) {
    lone_job *j = arg;
    for (int k = 0; k < j->steps; k++) step_each(&j->session, 1, j->tokens + (size_t)k * j->stride, j->look);
    return NULL;
}

/* Steps of all sessions at a time. */
static void run_apart(sac_session **s, size_t n, int steps, int32_t *tokens, const sac_events *looks) {
    pthread_t threads[MOST];
    lone_job jobs[MOST];
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (lone_job){s[i], steps, n, tokens + i, looks ? &looks[i] : NULL};
        if (pthread_create(&threads[i], NULL, run_alone, &jobs[i])) {
            fprintf(stderr, "batch_probe: no thread %zu\n", i);
            exit(1);
        }
    }
    for (size_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static double apart(sac_session **s, size_t n, int steps, int vocab, trail *t) {
    run_apart(s, n, 1, t->tokens, looks(t, n, vocab));
    double start = seconds();
    run_apart(s, n, steps, t->tokens, NULL);
    return seconds() - start;
}

/* ---------------------------------------------------------------- measuring */

/* Two runs that chose the same tokens have the same. */
static unsigned long long sum_of(const trail *t, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum = 31 * sum + (uint64_t)t->tokens[i];
    return sum;
}

static size_t n_same(const trail *a, const trail *b, size_t n) {
    size_t same = 0;
    for (size_t i = 0; i < n; i++) same += a->tokens[i] == b->tokens[i];
    return same;
}

/* The worst session's |a - b| / |b|. */
static double worst_error(const trail *a, const trail *b, size_t n, size_t vocab) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const float *x = a->logits + i * vocab, *y = b->logits + i * vocab;
        double off = 0, all = 0;
        for (size_t k = 0; k < vocab; k++) {
            off += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
            all += (double)y[k] * (double)y[k];
        }
        double error = sqrt(off / all);
        if (!isnan(worst) && !(error <= worst)) worst = error;
    }
    return worst;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value of argument name=, or NULL. */
static const char *value_of(int argc, char **argv, const char *name) {
    size_t n = strlen(name);
    for (int i = 6; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=') return argv[i] + n + 1;
    return NULL;
}

int main(int argc, char **argv) {
    sac_error err;
    sac_model *m;
    sac_model_options o;
    sac_model_info info;
    sac_session_config c;
    sac_session *s[MOST];
    sac_batch *b;
    if (argc < 5) {
        fprintf(stderr, "usage: batch_probe MODEL N_THREADS PROMPT_TOKENS STEPS [DEVICE [NAME=VALUE]...]\n");
        return 64;
    }
    const char *sessions = value_of(argc, argv, "sessions"), *rounds = value_of(argc, argv, "rounds");
    size_t least = sessions ? (size_t)atoi(sessions) : 1, most = sessions ? least : MOST;
    int n_rounds = rounds ? atoi(rounds) : ROUNDS;
    bool with_apart = value_of(argc, argv, "apart") && atoi(value_of(argc, argv, "apart"));
    if (least < 1 || most > MOST || n_rounds < 1 || n_rounds > ROUNDS) {
        fprintf(stderr, "batch_probe: sessions are 1 to %d, rounds 1 to %d\n", MOST, ROUNDS);
        return 64;
    }
    int64_t n_prompt = atoll(argv[3]);
    int steps = atoi(argv[4]);
    if (n_prompt < 1 || steps < 1) return 64;
    sac_model_options_default(&o);
    o.n_threads = atoi(argv[2]);
    if (argc > 5) o.device = argv[5];
    if (o.n_threads == 1 && !o.device) which_clock = CLOCK_PROCESS_CPUTIME_ID;
    need(sac_model_open(&m, argv[1], &o, &err), &err);
    sac_model_get_info(m, &info);
    sac_session_config_default(&c);
    c.n_ctx = n_prompt + steps + 16;
    if (value_of(argc, argv, "prefill")) c.prefill = value_of(argc, argv, "prefill");
    if (value_of(argc, argv, "decode")) c.decode = value_of(argc, argv, "decode");
    if (value_of(argc, argv, "kv")) c.kv = value_of(argc, argv, "kv");
    sac_sampling sampling;
    sac_sampling_default(&sampling);
    sampling.max_tokens = steps + 8;
    sampling.ignore_eos = true;
    if (value_of(argc, argv, "temperature")) sampling.temperature = atof(value_of(argc, argv, "temperature"));
    if (value_of(argc, argv, "top_p")) sampling.top_p = atof(value_of(argc, argv, "top_p"));
    if (value_of(argc, argv, "top_k")) sampling.top_k = atoi(value_of(argc, argv, "top_k"));
    if (value_of(argc, argv, "min_p")) sampling.min_p = atof(value_of(argc, argv, "min_p"));
    if (value_of(argc, argv, "repetition_penalty")) sampling.repetition_penalty = atof(value_of(argc, argv, "repetition_penalty"));
    if (value_of(argc, argv, "presence_penalty")) sampling.presence_penalty = atof(value_of(argc, argv, "presence_penalty"));
    if (value_of(argc, argv, "logprobs")) sampling.logprobs = true, sampling.top_logprobs = atoi(value_of(argc, argv, "logprobs"));
    if (value_of(argc, argv, "mask")) of_steps.mask = keep_from_tenths;
    for (size_t i = 0; i < most; i++) {
        need(sac_session_create(&s[i], m, &c, &err), &err);
        sac_session_leave_logits(s[i], true);
    }
    need(sac_batch_create(&b, m, most, &err), &err);
    size_t most_tokens = MOST * (size_t)steps, vocab = (size_t)info.vocab;
    trail lone = {malloc(most * vocab * sizeof(float)), malloc(most_tokens * sizeof(int32_t))};
    trail joined = {malloc(most * vocab * sizeof(float)), malloc(most_tokens * sizeof(int32_t))};
    if (!lone.logits || !lone.tokens || !joined.logits || !joined.tokens) return 71;
    for (size_t n = least; n <= most; n *= 2) {
        double alone[ROUNDS], joint[ROUNDS];
        size_t n_tokens = n * (size_t)steps;
        for (int round = 0; round < n_rounds; round++) {
            begin_all(s, n, n_prompt, &sampling, info.vocab);
            alone[round] = one_by_one(s, n, steps, info.vocab, &lone);
            begin_all(s, n, n_prompt, &sampling, info.vocab);
            joint[round] = together(b, s, n, steps, info.vocab, &joined);
        }
        qsort(alone, (size_t)n_rounds, sizeof *alone, by_value);
        qsort(joint, (size_t)n_rounds, sizeof *joint, by_value);
        double l = alone[n_rounds / 2], j = joint[n_rounds / 2];
        printf(
            "{\"sessions\": %zu, \"one_by_one_tokens_s\": %.1f, \"together_tokens_s\": %.1f, \"gain\": %.2f, "
            "\"first_logits_error\": %.2e, \"tokens\": %zu, \"equal_tokens\": %zu, \"sum_of_together\": %llu}\n",
            n, (double)n_tokens / l, (double)n_tokens / j, l / j, worst_error(&joined, &lone, n, vocab),
            n_tokens, n_same(&lone, &joined, n_tokens), sum_of(&joined, n_tokens));
        fflush(stdout);
        if (!with_apart) continue;
        begin_all(s, n, n_prompt, &sampling, info.vocab);
        double t = apart(s, n, steps, info.vocab, &joined);
        printf("{\"sessions\": %zu, \"apart_tokens_s\": %.1f, \"first_logits_error\": %.2e, \"tokens\": %zu, "
               "\"equal_tokens\": %zu}\n",
               n, (double)n_tokens / t, worst_error(&joined, &lone, n, vocab), n_tokens,
               n_same(&lone, &joined, n_tokens));
        fflush(stdout);
    }
    trail *trails[] = {&lone, &joined};
    for (int i = 0; i < 2; i++) free(trails[i]->logits), free(trails[i]->tokens);
    sac_batch_free(b);
    for (size_t i = 0; i < most; i++) sac_session_free(s[i]);
    sac_model_free(m);
    return 0;
}
