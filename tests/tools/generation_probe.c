/* generation_probe.c - a long conversation about one picture or video, given token by token under a method
 * (tools/demo/compare_generation.py).
 *
 *   generation_probe MODEL FILE N_THREADS PREFILL KV DECODE N...
 *
 * Standard input: lines "question<TAB>answer", \n for a line's end within. The first question is the prompt,
 * all that follows runs as an answer's tokens do, one step each: the right answer, the next question, and so
 * on. After N steps (ascending) a line of JSON tells how many tokens of answers there were, how many of them
 * the model would have said itself, the mean of their -ln p, and the steps a second. */
#define _GNU_SOURCE
#include "saccade/saccade.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_IDS = 1 << 16 };

static int32_t ids[MAX_IDS];
static bool is_answer[MAX_IDS];
static size_t n_ids;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sac_status add_text(const sac_model *m, const char *text, bool answer, sac_error *err) {
    size_t n = 0;
    sac_status st =
        sac_tokenize_text(m, text, strlen(text), false, true, ids + n_ids, MAX_IDS - n_ids, &n, err);
    for (size_t i = 0; i < n && n_ids < MAX_IDS; i++) is_answer[n_ids++] = answer;
    return st;
}

/* \n becomes a line's end. */
static void unescape(char *text) {
    char *to = text;
    for (const char *c = text; *c; c++) {
        bool line_end = c[0] == '\\' && c[1] == 'n';
        *to++ = line_end ? '\n' : *c;
        c += line_end;
    }
    *to = 0;
}

/* The first question into `first`; the turns behind it into ids. */
static sac_status read_turns(const sac_model *m, char **first, sac_error *err) {
    char *line = NULL;
    size_t room = 0;
    sac_status st = SAC_OK;
    while (st == SAC_OK && getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *answer = strchr(line, '\t');
        if (!answer) continue;
        *answer++ = 0;
        unescape(line);
        if (!*first) {
            *first = strdup(line);
        } else {
            st = add_text(m, "<|user|>", false, err);
            if (st == SAC_OK) st = add_text(m, line, false, err);
            if (st == SAC_OK) st = add_text(m, "<|assistant|>", false, err);
        }
        if (st == SAC_OK) st = add_text(m, answer, true, err);
        if (st == SAC_OK) st = add_text(m, "<|end|>", true, err);
    }
    free(line);
    return st;
}

/* -ln p of the token; *best: whether it is the likeliest. */
static double surprise(const float *logits, int n, int32_t id, bool *best) {
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    *best = (double)logits[id] >= max;
    return log(sum) + max - (double)logits[id];
}

static sac_status run(sac_session *s, int vocab, char **marks, int n_marks, sac_error *err) {
    double nll = 0, start = seconds(), asked = 0, right = 0;
    int mark = 0;
    for (size_t i = 0; i < n_ids && mark < n_marks; i++) {
        if (is_answer[i]) {
            bool best;
            nll += surprise(sac_session_logits(s), vocab, ids[i], &best);
            right += best;
            asked++;
        }
        sac_status st = sac_session_append(s, &ids[i], 1, NULL, err);
        if (st != SAC_OK) return st;
        if (i + 1 != (size_t)atol(marks[mark])) continue;
        printf("{\"steps\": %zu, \"asked\": %.0f, \"right\": %.0f, \"nll\": %.6f, \"tokens_per_second\": "
               "%.3f, \"kv_bytes\": %zu}\n",
               i + 1, asked, right, nll / fmax(asked, 1), (double)(i + 1) / (seconds() - start),
               sac_session_kv_bytes(s));
        mark++;
    }
    return SAC_OK;
}

int main(int argc, char **argv) {
    if (argc < 8) {
        fprintf(stderr, "usage: generation_probe MODEL FILE N_THREADS PREFILL KV DECODE N...\n");
        return 64;
    }
    sac_error err = {0};
    sac_model *model = NULL;
    sac_session *session = NULL;
    sac_model_options o;
    sac_session_config c;
    sac_model_info info;
    char *question = NULL;
    sac_model_options_default(&o);
    o.n_threads = atoi(argv[3]);
    sac_session_config_default(&c);
    c.prefill = argv[4];
    c.kv = argv[5];
    c.decode = argv[6];
    sac_status st = sac_model_open(&model, argv[1], &o, &err);
    if (st == SAC_OK) st = read_turns(model, &question, &err);
    if (st == SAC_OK) st = sac_session_create(&session, model, &c, &err);
    if (st == SAC_OK) {
        const char *dot = strrchr(argv[2], '.');
        sac_part parts[] = {
            {.kind = dot && !strcmp(dot, ".mp4") ? SAC_PART_VIDEO : SAC_PART_IMAGE, .path = argv[2]},
            {.kind = SAC_PART_TEXT, .text = question ? question : ""}};
        sac_message message = {.role = "user", .parts = parts, .n_parts = 2};
        sac_model_get_info(model, &info);
        st = sac_session_prefill(session, &message, 1, NULL, &err);
        if (st == SAC_OK) st = run(session, info.vocab, argv + 7, argc - 7, &err);
    }
    if (st != SAC_OK) fprintf(stderr, "generation_probe: %s\n", err.text);
    free(question);
    sac_session_free(session);
    sac_model_free(model);
    return sac_status_exit_code(st);
}
