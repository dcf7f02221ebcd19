/* pages_probe.c - how many sessions fit, and what their steps take, with keys and values in pages or with memory for whole contexts.
 *
 *   pages_probe MODEL N_THREADS DEVICE CTX SESSIONS PROMPT_TOKENS STEPS [PAGES_MIB [KV]]
 *
 * SESSIONS sessions of CTX tokens, as many as fit; a prompt of PROMPT_TOKENS in each; STEPS steps of all together, each timed. With
 * PAGES_MIB keys and values are in pages of so much memory, without (or 0) every session has its own. One JSON object: sessions that
 * were made, seconds of making memory, of the sessions and of the prompts, MiB that a session has for rows then, the median, the 99th
 * percentile and the largest of the steps in milliseconds, and a sum of all tokens to compare runs by. */
#define _GNU_SOURCE
#include "saccade/saccade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 4096 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(sac_status st, const sac_error *err) {
    if (st == SAC_OK) return;
    fprintf(stderr, "pages_probe: %s\n", err->text);
    exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sac_session *sessions[MOST];
static sac_batch_item items[MOST];

static size_t make_sessions(const sac_model *m, const sac_session_config *c, size_t n) {
    sac_error err;
    for (size_t i = 0; i < n; i++) {
        const sac_status st = sac_session_create(&sessions[i], m, c, &err);
        if (st == SAC_NO_MEMORY && i) return i;
        need(st, &err);
    }
    return n;
}

static void begin(size_t n, int64_t n_prompt, int vocab) {
    sac_error err;
    sac_sampling o;
    int32_t *ids = malloc((size_t)n_prompt * sizeof *ids);
    sac_sampling_default(&o);
    o.max_tokens = 1 << 20;
    o.ignore_eos = true;
    for (size_t i = 0; i < n && ids; i++) {
        for (int64_t k = 0; k < n_prompt; k++) ids[k] = (int32_t)((k * 7 + (int64_t)i * 13) % (vocab / 2) + 5);
        sac_session_leave_logits(sessions[i], true);
        need(sac_session_begin_tokens(sessions[i], ids, (size_t)n_prompt, &o, NULL, &err), &err);
        items[i] = (sac_batch_item){.session = sessions[i]};
    }
    free(ids);
}

static unsigned long long run(sac_batch *b, size_t n, int steps, double *took) {
    unsigned long long sum = 0;
    sac_error err;
    for (int k = 0; k < steps; k++) {
        const double start = seconds();
        need(sac_batch_step(b, items, n, &err), &err);
        took[k] = 1e3 * (seconds() - start);
        for (size_t i = 0; i < n; i++) {
            need(items[i].status, &items[i].error);
            sum = 31 * sum + (unsigned long long)items[i].token;
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    sac_error err;
    sac_model *m;
    sac_model_options o;
    sac_model_info info;
    sac_session_config c;
    sac_batch *b;
    if (argc < 8) {
        fprintf(stderr, "usage: pages_probe MODEL N_THREADS DEVICE CTX SESSIONS PROMPT_TOKENS STEPS [PAGES_MIB [KV]]\n");
        return 64;
    }
    const size_t wanted = (size_t)atoi(argv[5]) < MOST ? (size_t)atoi(argv[5]) : MOST;
    const int64_t n_prompt = atoi(argv[6]);
    const int steps = atoi(argv[7]);
    const size_t pages = argc > 8 ? (size_t)atoll(argv[8]) << 20 : 0;
    sac_model_options_default(&o);
    o.n_threads = atoi(argv[2]);
    if (strcmp(argv[3], "cpu")) o.device = argv[3];
    need(sac_model_open(&m, argv[1], &o, &err), &err);
    sac_model_get_info(m, &info);
    sac_session_config_default(&c);
    c.n_ctx = atoi(argv[4]);
    if (argc > 9) c.kv = argv[9];
    double times[4] = {seconds()};
    if (pages) need(sac_model_page_kv(m, pages, &err), &err);
    times[1] = seconds();
    need(sac_batch_create(&b, m, wanted, &err), &err); /* before sessions take what it needs */
    const size_t n = make_sessions(m, &c, wanted);
    times[2] = seconds();
    begin(n, n_prompt, info.vocab);
    times[3] = seconds();
    double *took = calloc((size_t)steps + 1, sizeof *took);
    const size_t had = sac_session_paged_bytes(sessions[0]);
    const unsigned long long sum = run(b, n, 1, took) + run(b, n, steps, took); /* a first one, which is not counted */
    qsort(took, (size_t)steps, sizeof *took, by_value);
    printf("{\"sessions\": %zu, \"pages_mib\": %zu, \"pages_s\": %.3f, \"sessions_s\": %.3f, \"prompts_s\": %.3f, \"mib_each\": %.2f, "
           "\"mib_each_after\": %.2f, \"step_ms\": %.3f, \"p99_ms\": %.3f, \"most_ms\": %.3f, \"sum\": %llu}\n",
           n, pages >> 20, times[1] - times[0], times[2] - times[1], times[3] - times[2], (double)had / (1 << 20),
           (double)sac_session_paged_bytes(sessions[0]) / (1 << 20), took[steps / 2], took[steps * 99 / 100], took[steps ? steps - 1 : 0], sum);
    free(took);
    for (size_t i = 0; i < n; i++) sac_session_free(sessions[i]);
    sac_batch_free(b);
    sac_model_free(m);
    return 0;
}
