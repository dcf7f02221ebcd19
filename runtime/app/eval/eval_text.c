/* Perplexity: windows of the text; the prompt is a window's beginning, run under the prefill policy, and the
 * tail's tokens are given one at a time under the decode policy, so both are measured as they are used.
 * Retrieval: a needle among filler, the question at the end; the answer's tokens are given one at a time,
 * which yields whether the model would have said each of them and how likely it found them. */
#define _GNU_SOURCE
#include "eval_text.h"
#include "status.h"

#include "clock.h"
#include "method_summary.h"
#include "output.h"
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX_BYTES ((size_t)256 << 20)

typedef struct text_eval {
    run *r;
    const text_task *t;
    int32_t *ids; /* of the whole text, or of the prompt at hand */
    size_t n_ids;
    char *text;
    double nll, n_tokens; /* of the measured tokens */
    double n_found, n_asked;
    double seconds_prefill, seconds_decode;
    double depth_found[10], depth_asked[10]; /* by tenth of the prompt where the needle lies */
} text_eval;

/* ---------------------------------------------------------------- tokens */

static sac_status tokenize(text_eval *e, const char *text, size_t n_bytes, bool start, sac_error *err) {
    size_t n = 0;
    free(e->ids);
    e->ids = malloc((n_bytes + 8) * sizeof *e->ids); /* a token is a byte or more */
    if (!e->ids) return sac_fail_no_memory(err);
    SAC_TRY(sac_tokenize_text(e->r->model, text, n_bytes, start, false, e->ids, n_bytes + 8, &n, err));
    e->n_ids = n;
    return SAC_OK;
}

/* -log p of the token in the logits at hand; *best: whether it is the likeliest. */
static double surprise(const text_eval *e, int32_t id, bool *best) {
    const float *logits = sac_session_logits(e->r->session);
    int vocab = e->r->info.vocab;
    float likeliest = logits[0];
    for (int i = 1; i < vocab; i++) likeliest = fmaxf(likeliest, logits[i]); /* as doubles gcc 12 fails for aarch64 */
    double max = (double)likeliest, sum = 0;
    for (int i = 0; i < vocab; i++) sum += exp((double)logits[i] - max);
    *best = (double)logits[id] == max;
    return log(sum) + max - (double)logits[id];
}

/* Prompt ids, then the measured ids; adds to the sums. *all_best: every measured token was the likeliest. */
static sac_status measure(text_eval *e, const int32_t *prompt, size_t n_prompt, const int32_t *next,
                          size_t n_next, bool *all_best, sac_error *err) {
    sac_session *s = e->r->session;
    sac_session_reset(s);
    int64_t start = sac_now_ns();
    SAC_TRY(sac_session_append(s, prompt, n_prompt, NULL, err));
    double prefill = sac_seconds_since(start);
    *all_best = true;
    for (size_t i = 0; i < n_next; i++) {
        bool best;
        e->nll += surprise(e, next[i], &best);
        e->n_tokens++;
        *all_best = *all_best && best;
        if (i + 1 < n_next) SAC_TRY(sac_session_append(s, &next[i], 1, NULL, err));
    }
    e->seconds_prefill += prefill;
    e->seconds_decode += sac_seconds_since(start) - prefill;
    return SAC_OK;
}

/* ---------------------------------------------------------------- perplexity */

static sac_status read_text(text_eval *e, sac_error *err) {
    FILE *f = fopen(e->t->name, "rbe");
    if (!f)
        return sac_fail(err, SAC_NOT_FOUND, "--text %s: %s; give a text file, passkey or kv", e->t->name,
                        strerror(errno));
    size_t room = 1 << 16, n = 0;
    e->text = malloc(room);
    while (e->text && room <= TEXT_MAX_BYTES) {
        n += fread(e->text + n, 1, room - n, f);
        if (n < room) break;
        char *more = realloc(e->text, room *= 2);
        if (!more) free(e->text);
        e->text = more;
    }
    bool bad = ferror(f);
    fclose(f);
    if (!e->text) return sac_fail_no_memory(err);
    if (bad) return sac_fail(err, SAC_IO, "--text %s: cannot be read", e->t->name);
    if (room > TEXT_MAX_BYTES)
        return sac_fail(err, SAC_TOO_LONG, "--text %s: more than %zu MB", e->t->name, TEXT_MAX_BYTES >> 20);
    return tokenize(e, e->text, n, false, err);
}

static sac_status run_perplexity(text_eval *e, sac_error *err) {
    size_t length = (size_t)e->t->length, tail = (size_t)e->t->tail;
    SAC_TRY(read_text(e, err));
    if (tail >= length)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--tail %zu must be less than --length %zu", tail, length);
    if (e->n_ids < length)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--text %s has %zu tokens, --length asks for windows of %zu",
                        e->t->name, e->n_ids, length);
    size_t windows = e->n_ids / length, wanted = (size_t)e->t->samples;
    if (wanted && wanted < windows) windows = wanted;
    for (size_t w = 0; w < windows; w++) {
        const int32_t *ids = e->ids + w * length;
        bool unused;
        progress_update(&e->r->progress, "text", (int64_t)w, (int64_t)windows);
        SAC_TRY(measure(e, ids, length - tail, ids + length - tail, tail, &unused, err));
        e->n_asked++;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- retrieval */

/* splitmix64 */
static uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A text in the making. */
typedef struct writer {
    char *text;
    size_t n, room;
} writer;

static bool put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool put(writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->text + w->n, w->room - w->n, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= w->room - w->n) return false;
    w->n += (size_t)n;
    return true;
}

static const char FILLER[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";

static bool write_filler(writer *w, size_t n) {
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = put(w, "%s", FILLER);
    return ok;
}

/* n pieces, the needle before piece `at`. The passkey test of Mohtashami and Jaggi, arXiv:2305.16300. */
static bool write_passkey(writer *w, size_t n, size_t at, int key) {
    return put(w,
               "There is important information hidden inside a lot of irrelevant text. Find it and memorize "
               "it. ") &&
           write_filler(w, at) && put(w, "The pass key is %d. Remember it. %d is the pass key. ", key, key) &&
           write_filler(w, n - at) && put(w, "What is the pass key? The pass key is");
}

/* The needle of a retrieval prompt: one of the pairs, and where it lies. */
typedef struct needle {
    int key, value;
    size_t at;
} needle;

/* n pairs of a JSON object, the needle's one of them. Liu et al., arXiv:2307.03172, with short numbers. */
static bool write_pairs(writer *w, size_t n, const needle *x, uint64_t *state) {
    bool ok = put(w, "JSON data:\n{");
    for (size_t i = 0; i < n && ok; i++) {
        int k = 10000 + (int)(draw(state) % 90000), v = 10000 + (int)(draw(state) % 90000);
        if (k == x->key) k++; /* the question has one answer */
        if (i == x->at) k = x->key, v = x->value;
        ok = put(w, "%s\"%d\": \"%d\"", i ? ", " : "", k, v);
    }
    return ok && put(w, "}\n");
}

/* n pairs; or, where n_pairs are asked for, n pieces of filler with the pairs before piece `at`. */
static bool write_kv(writer *w, size_t n, size_t n_pairs, needle x, uint64_t *state) {
    bool ok;
    if (n_pairs) {
        size_t before = x.at;
        x.at = (size_t)(draw(state) % n_pairs);
        ok = write_filler(w, before) && write_pairs(w, n_pairs, &x, state) && write_filler(w, n - before);
    } else {
        ok = write_pairs(w, n, &x, state);
    }
    return ok && put(w, "The value of key \"%d\" is \"", x.key);
}

static bool write_prompt(const text_eval *e, writer *w, size_t n, double depth, uint64_t seed,
                         char expected[16]) {
    uint64_t state = seed;
    needle x = {.key = 10000 + (int)(draw(&state) % 90000), .value = 10000 + (int)(draw(&state) % 90000)};
    bool kv = !strcmp(e->t->name, "kv");
    x.at = (size_t)(depth * (double)n);
    if (kv && x.at == n && !e->t->pairs) x.at--; /* the last pair, not after it */
    w->n = 0;
    snprintf(expected, 16, kv ? "%d" : " %d", kv ? x.value : x.key);
    return kv ? write_kv(w, n, (size_t)e->t->pairs, x, &state) : write_passkey(w, n, x.at, x.key);
}

/* The longest prompt of at most `length` tokens: the number of pieces by bisection. */
static sac_status fill_prompt(text_eval *e, writer *w, double depth, uint64_t seed, char expected[16],
                              sac_error *err) {
    size_t low = 1, high = (size_t)e->t->length;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        bool fits = write_prompt(e, w, middle, depth, seed, expected);
        if (fits) SAC_TRY(tokenize(e, w->text, w->n, true, err));
        if (fits && e->n_ids <= (size_t)e->t->length)
            low = middle;
        else
            high = middle - 1;
    }
    bool fits = write_prompt(e, w, low, depth, seed, expected);
    if (fits) SAC_TRY(tokenize(e, w->text, w->n, true, err));
    if (fits && e->n_ids <= (size_t)e->t->length) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "--length %" PRId64 " is too short for this task", e->t->length);
}

static sac_status run_retrieval(text_eval *e, sac_error *err) {
    writer w = {.room = (size_t)e->t->length * 16 + 4096};
    e->text = w.text = malloc(w.room);
    if (!w.text) return sac_fail_no_memory(err);
    for (int64_t i = 0; i < e->t->samples; i++) {
        double depth = e->t->samples > 1 ? (double)i / (double)(e->t->samples - 1) : 0.5;
        int tenth = depth < 1 ? (int)(depth * 10) : 9;
        char expected[16];
        int32_t ids[32];
        size_t n = 0;
        bool found;
        progress_update(&e->r->progress, "text", i, e->t->samples);
        SAC_TRY(fill_prompt(e, &w, depth, e->t->seed * 1000003u + (uint64_t)i, expected, err));
        SAC_TRY(sac_tokenize_text(e->r->model, expected, strlen(expected), false, false, ids, 32, &n, err));
        SAC_TRY(measure(e, e->ids, e->n_ids, ids, n, &found, err));
        e->n_asked++;
        e->n_found += found;
        e->depth_asked[tenth]++;
        e->depth_found[tenth] += found;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- results */

static bool is_retrieval(const text_task *t) {
    return !strcmp(t->name, "passkey") || !strcmp(t->name, "kv");
}

static json_t *depths_json(const text_eval *e) {
    json_t *list = json_array();
    for (int i = 0; i < 10; i++)
        json_array_append_new(list, e->depth_asked[i] > 0 ? json_real(e->depth_found[i] / e->depth_asked[i])
                                                          : json_null());
    return list;
}

static sac_status print_json(const text_eval *e, const method_summary *m, sac_error *err) {
    const text_task *t = e->t;
    json_t *o = json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "model", report_model(e->r), "task",
                          report_text(t->name), "length", (json_int_t)t->length, "samples",
                          (json_int_t)e->n_asked, "nll", report_real(e->nll / e->n_tokens), "seconds_prefill",
                          report_real(e->seconds_prefill / e->n_asked), "seconds_decode",
                          report_real(e->seconds_decode / e->n_asked), "methods", method_summary_json(m));
    if (o && is_retrieval(t)) {
        json_object_set_new(o, "pairs", json_integer((json_int_t)t->pairs));
        json_object_set_new(o, "found", json_real(e->n_found / e->n_asked));
        json_object_set_new(o, "found_by_depth", depths_json(e));
    } else if (o) {
        json_object_set_new(o, "perplexity", report_real(exp(e->nll / e->n_tokens)));
        json_object_set_new(o, "tail", json_integer((json_int_t)t->tail));
    }
    return report_print(o, err);
}

static void print_table(const text_eval *e, const method_summary *m) {
    const text_task *t = e->t;
    printf("model    %s\n", e->r->model_path);
    printf("task     %s, %s of %s\n", t->name, report_counted((int64_t)e->n_asked, "prompt"),
           report_counted(t->length, "token"));
    printf("methods  prefill %s, kv %s, decode %s, rope %s\n", m->lines.prefill, m->lines.kv, m->lines.decode,
           m->lines.rope);
    if (is_retrieval(t))
        printf("found    %.0f of %.0f (%.3f); -log p of an answer's token %.3f\n", e->n_found, e->n_asked,
               e->n_found / e->n_asked, e->nll / e->n_tokens);
    else
        printf("perplexity %.4f over %.0f tokens, each after %" PRId64 " to %" PRId64 "\n",
               exp(e->nll / e->n_tokens), e->n_tokens, t->length - t->tail, t->length - 1);
    printf("prefill  kept %.3f, attention FLOPs saved %.1f %%\n", m->kept, 100 * m->flops_saved);
    printf("decode   %.0f rows a step (%.3f of those there), KV %.0f bytes a token (%.2fx less than f16)\n",
           m->decode_rows, m->decode_read, m->kv_bytes_token, m->kv_factor);
    if (isfinite(m->prefill_mass)) printf("mass     %.4f of dense attention's in prompts\n", m->prefill_mass);
    if (isfinite(m->decode_mass)) printf("mass     %.4f of dense attention's in steps\n", m->decode_mass);
    printf("time     %.2f s a prompt, %.2f s of steps\n", e->seconds_prefill / e->n_asked,
           e->seconds_decode / e->n_asked);
}

sac_status eval_text(run *r, const text_task *t, sac_error *err) {
    enum { ROOM = 64 }; /* answer and what the tokenizer adds */
    text_eval e = {.r = r, .t = t};
    r->session_config.n_ctx = t->length + ROOM;
    sac_status st = run_create_session(r, err);
    if (st == SAC_OK) st = is_retrieval(t) ? run_retrieval(&e, err) : run_perplexity(&e, err);
    progress_clear(&r->progress);
    if (st == SAC_OK) {
        method_summary m;
        method_summary_read(r->session, &r->info, &m);
        if (r->s->json)
            st = print_json(&e, &m, err);
        else
            print_table(&e, &m);
    }
    free(e.ids);
    free(e.text);
    return st == SAC_OK ? output_finish(err) : st;
}
