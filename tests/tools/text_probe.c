/* text_probe.c - a language model on token ids, for the comparisons with llama.cpp and transformers
 * (tools/compare_llamacpp.py, tools/compare_transformers.py).
 *
 *   text_probe MODEL N_CTX N_THREADS [DEVICE [prefill=LINE] [decode=LINE] [kv=LINE] [draft=LINE]]
 *
 * Each line of standard input is a request, answered by a line of JSON:
 *   tokenize TEXT         ids of TEXT (\n is a line end), control tokens recognised
 *   greedy N ID...        N greedy tokens after the prompt
 *   logits ID... : ID...  after the prompt, logits of the ids behind the colon
 *   dump FILE N ID...     logits after the first N ids and after each of the others, f32 rows, to FILE
 *   nll ID...             sum of -ln p of every id but the first
 *   speed N ID...         seconds of prefill of the prompt, and of N greedy tokens after it, appended one by one; of the clock and of
 *                         processors (all threads)
 *   answer N ID...        the same of an answer, N steps long; what its first token is, a sum of all, and tokens that were drafted and
 *                         accepted: "draft" is for answers alone */
#define _GNU_SOURCE
#include "saccade/saccade.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_IDS = 1 << 20, NLL_ROWS = 128 };

typedef struct probe {
    sac_model *model;
    sac_session *session;
    int vocab;
    int32_t ids[MAX_IDS];
    size_t n_ids;
    char *rest;    /* of the line, behind the ids */
    float *logits; /* [NLL_ROWS][vocab] */
} probe;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void read_ids(probe *p, char *at) {
    char *end;
    for (p->n_ids = 0; p->n_ids < MAX_IDS; p->n_ids++, at = end) {
        long id = strtol(at, &end, 10);
        if (end == at) break;
        p->ids[p->n_ids] = (int32_t)id;
    }
    p->rest = at;
}

static int32_t best_of(const float *logits, int n) {
    int32_t best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static sac_status prefill(probe *p, sac_error *err) {
    sac_session_reset(p->session);
    return sac_session_append(p->session, p->ids, p->n_ids, NULL, err);
}

/* *spent: seconds in the appends, without the choice of tokens. */
static sac_status greedy(probe *p, long n, bool print, double *spent, sac_error *err) {
    *spent = 0;
    for (long i = 0; i < n; i++) {
        int32_t id = best_of(sac_session_logits(p->session), p->vocab);
        if (print) printf("%s%d", i ? ", " : "", id);
        double start = seconds();
        sac_status st = sac_session_append(p->session, &id, 1, NULL, err);
        *spent += seconds() - start;
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

static sac_status answer_greedy(probe *p, char *at, sac_error *err) {
    long n = strtol(at, &at, 10);
    read_ids(p, at);
    sac_status st = prefill(p, err);
    if (st != SAC_OK) return st;
    printf("{\"tokens\": [");
    double spent;
    st = greedy(p, n, true, &spent, err);
    printf("]}\n");
    return st;
}

static sac_status answer_speed(probe *p, char *at, sac_error *err) {
    long n = strtol(at, &at, 10);
    read_ids(p, at);
    double start = seconds(), cpu_start = processor_seconds();
    sac_status st = prefill(p, err);
    double middle = seconds(), cpu_middle = processor_seconds();
    double spent;
    if (st == SAC_OK) st = greedy(p, n, false, &spent, err);
    if (st == SAC_OK)
        printf("{\"prefill_s\": %.6f, \"decode_s\": %.6f, \"prefill_cpu_s\": %.6f, \"decode_cpu_s\": %.6f}\n", middle - start, spent,
               cpu_middle - cpu_start, processor_seconds() - cpu_middle);
    return st;
}

/* One more token is chosen than is run. Logits may stay on a card. */
static sac_status answer_steps(probe *p, char *at, sac_error *err) {
    sac_sampling o;
    sac_sampling_default(&o);
    const long n = strtol(at, &at, 10);
    o.max_tokens = (int)n + 1, o.ignore_eos = true;
    read_ids(p, at);
    sac_session_reset(p->session);
    sac_session_leave_logits(p->session, true);
    const double start = seconds();
    int32_t first, token;
    uint64_t sum = 0;
    bool done;
    sac_status st = sac_session_begin_tokens(p->session, p->ids, p->n_ids, &o, NULL, err);
    if (st == SAC_OK) st = sac_session_step(p->session, NULL, &first, &done, err);
    const double middle = seconds();
    for (long i = 0; i < n && st == SAC_OK; i++) {
        st = sac_session_step(p->session, NULL, &token, &done, err);
        sum = 31 * sum + (uint64_t)token;
    }
    const double end = seconds();
    sac_result result;
    sac_session_end(p->session, &result);
    if (st == SAC_OK)
        printf("{\"prefill_s\": %.6f, \"decode_s\": %.6f, \"first\": %d, \"sum\": %llu, \"drafted\": %lld, \"accepted\": %lld}\n",
               middle - start, end - middle, first, (unsigned long long)sum, (long long)result.n_drafted_tokens,
               (long long)result.n_accepted_tokens);
    return st;
}

static sac_status answer_logits(probe *p, char *at, sac_error *err) {
    read_ids(p, at);
    at = strchr(p->rest, ':');
    sac_status st = prefill(p, err);
    if (st != SAC_OK) return st;
    read_ids(p, at ? at + 1 : p->rest);
    printf("{\"logits\": [");
    for (size_t i = 0; i < p->n_ids; i++)
        printf("%s%.9g", i ? ", " : "", (double)sac_session_logits(p->session)[p->ids[i] % p->vocab]);
    printf("]}\n");
    return SAC_OK;
}

static sac_status answer_dump(probe *p, char *at, sac_error *err) {
    char *path = strtok_r(at, " ", &at);
    size_t n_prompt = (size_t)strtoul(at, &at, 10);
    FILE *f = path ? fopen(path, "wb") : NULL;
    read_ids(p, at);
    if (!f || n_prompt == 0 || n_prompt > p->n_ids) {
        if (f) fclose(f);
        fprintf(stderr, "text_probe: dump wants FILE N ID...\n");
        return SAC_BAD_ARGUMENT;
    }
    sac_session_reset(p->session);
    sac_status st = sac_session_append(p->session, p->ids, n_prompt, NULL, err);
    for (size_t i = n_prompt; st == SAC_OK; i++) {
        fwrite(sac_session_logits(p->session), sizeof(float), (size_t)p->vocab, f);
        if (i == p->n_ids) break;
        st = sac_session_append(p->session, &p->ids[i], 1, NULL, err);
    }
    fclose(f);
    printf("{\"rows\": %zu}\n", p->n_ids - n_prompt + 1);
    return st;
}

static sac_status answer_memory(probe *p, char *at, sac_error *err) {
    sac_memory_report m;
    (void)at, (void)err;
    sac_session_memory(p->session, &m);
    printf("{\"ctx\": %lld, \"host_bytes\": %zu, \"device_bytes\": %zu, \"weight_bytes\": %zu, "
           "\"kv_bytes_per_token\": %zu, \"kv_bytes\": %zu}\n",
           (long long)m.n_ctx, m.total_bytes + m.workspace_bytes, m.device_bytes + m.workspace_device_bytes,
           m.weight_bytes, m.kv_bytes_per_token, sac_session_kv_bytes(p->session));
    return SAC_OK;
}

static double log_sum_exp(const float *x, int n) {
    double max = (double)x[best_of(x, n)], sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return max + log(sum);
}

static sac_status answer_nll(probe *p, char *at, sac_error *err) {
    double nll = 0;
    read_ids(p, at);
    sac_session_reset(p->session);
    for (size_t first = 0; first + 1 < p->n_ids; first += NLL_ROWS) {
        size_t n = p->n_ids - 1 - first < NLL_ROWS ? p->n_ids - 1 - first : NLL_ROWS;
        sac_status st = sac_session_append(p->session, p->ids + first, n, p->logits, err);
        if (st != SAC_OK) return st;
        for (size_t i = 0; i < n; i++) {
            const float *row = p->logits + i * (size_t)p->vocab;
            nll += log_sum_exp(row, p->vocab) - (double)row[p->ids[first + i + 1] % p->vocab];
        }
    }
    printf("{\"nll\": %.9g, \"n\": %zu}\n", nll, p->n_ids ? p->n_ids - 1 : 0);
    return SAC_OK;
}

static sac_status answer_tokenize(probe *p, char *text, sac_error *err) {
    size_t n = 0;
    for (char *c = text; *c; c++, n++) {
        bool line_end = c[0] == '\\' && c[1] == 'n';
        text[n] = line_end ? '\n' : *c;
        c += line_end;
    }
    sac_status st = sac_tokenize_text(p->model, text, n, false, true, p->ids, MAX_IDS, &p->n_ids, err);
    if (st != SAC_OK) return st;
    printf("{\"tokens\": [");
    for (size_t i = 0; i < p->n_ids && i < MAX_IDS; i++) printf("%s%d", i ? ", " : "", p->ids[i]);
    printf("]}\n");
    return SAC_OK;
}

static sac_status answer(probe *p, char *line, sac_error *err) {
    static const struct {
        const char *name;
        sac_status (*fn)(probe *, char *, sac_error *);
    } requests[] = {{"tokenize ", answer_tokenize}, {"greedy ", answer_greedy}, {"logits ", answer_logits},
                    {"dump ", answer_dump},         {"nll ", answer_nll},       {"speed ", answer_speed},
                    {"memory", answer_memory},      {"answer ", answer_steps}};
    line[strcspn(line, "\n")] = 0;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        size_t n = strlen(requests[i].name);
        if (strncmp(line, requests[i].name, n) == 0) return requests[i].fn(p, line + n, err);
    }
    fprintf(stderr, "text_probe: no such request: %.20s\n", line);
    return SAC_BAD_ARGUMENT;
}

int main(int argc, char **argv) {
    static probe p;
    sac_error err = {0};
    if (argc < 4) {
        fprintf(stderr,
                "usage: text_probe MODEL N_CTX N_THREADS [DEVICE [prefill=LINE] [decode=LINE] [kv=LINE] [draft=LINE]]\n");
        return 64;
    }
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = atoi(argv[3]);
    if (argc > 4) o.device = argv[4];
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = atol(argv[2]);
    for (int i = 5; i < argc; i++) {
        if (strncmp(argv[i], "prefill=", 8) == 0) c.prefill = argv[i] + 8;
        if (strncmp(argv[i], "decode=", 7) == 0) c.decode = argv[i] + 7;
        if (strncmp(argv[i], "kv=", 3) == 0) c.kv = argv[i] + 3;
        if (strncmp(argv[i], "draft=", 6) == 0) c.draft = argv[i] + 6;
    }
    sac_status st = sac_model_open(&p.model, argv[1], &o, &err);
    if (st == SAC_OK) st = sac_session_create(&p.session, p.model, &c, &err);
    if (st == SAC_OK) {
        sac_model_info info;
        sac_model_get_info(p.model, &info);
        p.vocab = info.vocab;
        p.logits = malloc((size_t)NLL_ROWS * (size_t)p.vocab * sizeof *p.logits);
    }
    char *line = NULL;
    size_t n_line = 0;
    while (st == SAC_OK && p.logits && getline(&line, &n_line, stdin) > 0) {
        st = answer(&p, line, &err);
        fflush(stdout);
    }
    if (st != SAC_OK) fprintf(stderr, "text_probe: %s\n", err.text);
    free(line);
    free(p.logits);
    sac_session_free(p.session);
    sac_model_free(p.model);
    return sac_status_exit_code(st);
}
