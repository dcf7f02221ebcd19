/* adapters_probe.c - adapters that are kept apart, on a device: how far its logits lie from the CPU's, and what they cost.
 *
 *   adapters_probe MODEL DEVICE ACTIVATIONS ADAPTER ADAPTER      folders of peft's, two of them; "bf16" or "f32"
 *
 * For the model, and with each adapter: |device - CPU| / |CPU| of the logits after a prompt and a step, alone and in
 * a batch of all kinds; the same for the first adapter merged on the device; and how far the adapter moves the
 * logits. Seconds of a step, alone and of 8 sessions: without adapters in the model, with some but none used, all with
 * one, mixed. One JSON object. Exit status 1 where an adapter's distance is more than three times the model's own, or an
 * adapter moves nothing. */
#define _GNU_SOURCE
#include "saccade/saccade.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KINDS = 3, SESSIONS = 8, PROMPT = 100, STEPS = 40, ROUNDS = 3 };

static const char *const names[KINDS] = {NULL, "a", "b"};

static void need(sac_status st, const sac_error *err) {
    if (st == SAC_OK) return;
    fprintf(stderr, "adapters_probe: %s\n", err->text);
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sac_model *open_model(char **words, bool on_device, const char *merged, const char *const *kept,
                             size_t n_kept) {
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    if (on_device) {
        o.device = words[1];
        o.activations = words[2];
    }
    o.adapters = &merged;
    o.n_adapters = merged ? 1 : 0;
    o.kept_adapters = kept;
    o.n_kept_adapters = n_kept;
    need(sac_model_open(&m, words[0], &o, &err), &err);
    return m;
}

static int vocab_of(const sac_model *m) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    return info.vocab;
}

static sac_session *begin(const sac_model *m, const char *adapter) {
    sac_session_config c;
    sac_sampling o;
    sac_session *s;
    sac_error err;
    int32_t ids[PROMPT], token;
    bool done;
    sac_session_config_default(&c);
    sac_sampling_default(&o);
    c.n_ctx = 2 * PROMPT + STEPS;
    o.temperature = 0;
    o.max_tokens = PROMPT + STEPS;
    o.ignore_eos = true;
    for (int k = 0; k < PROMPT; k++) ids[k] = (k * 7) % (vocab_of(m) / 2) + 5;
    need(sac_session_create(&s, m, &c, &err), &err);
    need(sac_session_set_adapter(s, adapter, &err), &err);
    need(sac_session_begin_tokens(s, ids, PROMPT, &o, NULL, &err), &err);
    need(sac_session_step(s, NULL, &token, &done, &err), &err);
    return s;
}

static float *keep(const sac_session *s, int vocab) {
    float *x = malloc((size_t)vocab * sizeof *x);
    if (!x) exit(1);
    memcpy(x, sac_session_logits(s), (size_t)vocab * sizeof *x);
    return x;
}

/* Logits after a prompt and a token that is the same for all. */
static float *logits_alone(const sac_model *m, const char *adapter) {
    sac_session *s = begin(m, adapter);
    sac_error err;
    int32_t id = 5;
    sac_session_end(s, NULL);
    need(sac_session_append(s, &id, 1, NULL, &err), &err);
    float *x = keep(s, vocab_of(m));
    sac_session_free(s);
    return x;
}

static double distance(const float *x, const float *want, int n) {
    double diff = 0, all = 0;
    for (int i = 0; i < n; i++) {
        diff += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    return sqrt(diff / all);
}

static void step_together(sac_batch *b, sac_batch_item *items) {
    sac_error err;
    need(sac_batch_step(b, items, SESSIONS, &err), &err);
    for (int i = 0; i < SESSIONS; i++) need(items[i].status, &items[i].error);
}

static void begin_all(const sac_model *m, const int *kinds, sac_batch **b, sac_batch_item *items) {
    sac_error err;
    need(sac_batch_create(b, m, SESSIONS, &err), &err);
    for (int i = 0; i < SESSIONS; i++) items[i] = (sac_batch_item){.session = begin(m, names[kinds[i]])};
}

static void free_all(sac_batch *b, const sac_batch_item *items) {
    for (int i = 0; i < SESSIONS; i++) sac_session_free(items[i].session);
    sac_batch_free(b);
}

/* The worst session's, between a step in the batch and the same alone. */
static double batch_distance(const sac_model *m, const int *kinds) {
    sac_batch *b;
    sac_batch_item items[SESSIONS];
    sac_error err;
    double worst = 0;
    int n = vocab_of(m);
    begin_all(m, kinds, &b, items);
    step_together(b, items);
    for (int i = 0; i < SESSIONS; i++) {
        sac_session *s = begin(m, names[kinds[i]]);
        int32_t token;
        bool done;
        need(sac_session_step(s, NULL, &token, &done, &err), &err);
        worst = fmax(worst, distance(sac_session_logits(items[i].session), sac_session_logits(s), n));
        sac_session_free(s);
    }
    free_all(b, items);
    return worst;
}

/* The best of some rounds. */
static double seconds_together(const sac_model *m, const int *kinds) {
    sac_batch *b;
    sac_batch_item items[SESSIONS];
    double best = INFINITY;
    begin_all(m, kinds, &b, items);
    for (int r = 0; r < ROUNDS; r++) {
        step_together(b, items);
        double start = seconds();
        for (int k = 0; k < STEPS / ROUNDS; k++) step_together(b, items);
        best = fmin(best, (seconds() - start) / (STEPS / ROUNDS));
    }
    free_all(b, items);
    return best;
}

static double seconds_alone(const sac_model *m, const char *adapter) {
    sac_session *s = begin(m, adapter);
    sac_error err;
    int32_t token;
    bool done;
    double best = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        double start = seconds();
        for (int k = 0; k < STEPS / ROUNDS; k++) need(sac_session_step(s, NULL, &token, &done, &err), &err);
        best = fmin(best, (seconds() - start) / (STEPS / ROUNDS));
    }
    sac_session_free(s);
    return best;
}

static const int none[SESSIONS] = {0}, same[SESSIONS] = {1, 1, 1, 1, 1, 1, 1, 1},
                 mixed[SESSIONS] = {0, 1, 2, 1, 0, 0, 2, 2};

static void print_times(const sac_model *plain, const sac_model *m) {
    printf(", \"step_alone\": {\"no adapters\": %.6f, \"none used\": %.6f, \"a\": %.6f}",
           seconds_alone(plain, NULL), seconds_alone(m, NULL), seconds_alone(m, "a"));
    printf(", \"step_of_8\": {\"no adapters\": %.6f, \"none used\": %.6f, \"all a\": %.6f, \"mixed\": %.6f}",
           seconds_together(plain, none), seconds_together(m, none), seconds_together(m, same),
           seconds_together(m, mixed));
}

int main(int argc, char **argv) {
    char a[600], b[600];
    if (argc != 6) {
        fprintf(stderr, "adapters_probe MODEL DEVICE ACTIVATIONS ADAPTER ADAPTER\n");
        return 2;
    }
    snprintf(a, sizeof a, "a=%.590s", argv[4]);
    snprintf(b, sizeof b, "b=%.590s", argv[5]);
    const char *const kept[] = {a, b};
    sac_model *cpu = open_model(argv + 1, false, NULL, kept, 2),
              *device = open_model(argv + 1, true, NULL, kept, 2);
    int n = vocab_of(cpu);
    float *want[KINDS], *found[KINDS];
    double apart[KINDS];
    bool good = true;
    for (int k = 0; k < KINDS; k++) {
        want[k] = logits_alone(cpu, names[k]);
        found[k] = logits_alone(device, names[k]);
        apart[k] = distance(found[k], want[k], n);
        good = good && apart[k] <= 3 * apart[0] + 1e-6;
    }
    double moved[2] = {distance(found[1], found[0], n), distance(found[2], found[0], n)};
    good = good && moved[0] > 5 * apart[1] && moved[1] > 5 * apart[2];
    double together = batch_distance(device, mixed), alike = batch_distance(device, none);
    good = good && together <= 3 * fmax(alike, apart[0]) + 1e-6;
    printf("{\"from the CPU\": [%.2e, %.2e, %.2e], \"moved by\": [%.2e, %.2e], \"batch from alone\": "
           "{\"none\": %.2e, "
           "\"mixed\": %.2e}",
           apart[0], apart[1], apart[2], moved[0], moved[1], alike, together);
    sac_model_free(cpu);
    sac_model *merged = open_model(argv + 1, true, argv[4], NULL, 0),
              *plain = open_model(argv + 1, true, NULL, NULL, 0);
    float *x = logits_alone(merged, NULL);
    printf(", \"merged from the CPU\": %.2e", distance(x, want[1], n));
    sac_model_free(merged);
    print_times(plain, device);
    printf(", \"good\": %s}\n", good ? "true" : "false");
    sac_model_free(plain);
    sac_model_free(device);
    for (int k = 0; k < KINDS; k++) {
        free(want[k]);
        free(found[k]);
    }
    free(x);
    return !good;
}
