#include "prompt_scores.h"
#include "clock.h"
#include "status.h"
#include "token_probs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logits of a chunk, and log probabilities of a request: 100 bytes each, and some 200 a token. */
enum { CHUNK_LOGITS = 1 << 22, MIN_CHUNK = 16, MAX_CHUNK = 256, MAX_ENTRIES = 1 << 20, MAX_PIECE_ENTRIES = 1 << 13 };

struct serve_prompt_scores {
    sac_session *session;
    const serve_tokens *tokens;
    const int32_t *ids; /* [n] */
    int32_t *own_ids;   /* of a text; NULL = the prompt's */
    int64_t n, at, chunk;
    int64_t n_run, n_scored; /* of the chunk that begins at `at`: tokens that are run (0 = none yet), and of these scored */
    bool running;            /* they are being run */
    int64_t n_copies;
    int n_top, n_vocab;
    float *logits;   /* [chunk][n_vocab]; NULL = none are wanted */
    json_t *entries; /* one a token that was scored */
    int64_t offset;  /* characters before the next token */
};

/* ---------------------------------------------------------------- its beginning */

/* As sac_session_begin_text reads it. */
static sac_status read_ids(serve_prompt_scores *p, const serve_prompt *prompt, sac_error *err) {
    const sac_model *m = p->tokens->model;
    size_t n = prompt->n;
    p->ids = prompt->ids;
    if (!prompt->ids) {
        sac_status st = sac_tokenize_text(m, prompt->text, prompt->n, true, false, NULL, 0, &n, err);
        if (st != SAC_OK && st != SAC_TOO_LONG) return st;
        p->ids = p->own_ids = calloc(n + 1, sizeof *p->own_ids);
        if (!p->ids) return sac_fail(err, SAC_NO_MEMORY, "no memory for the prompt's tokens");
        SAC_TRY(sac_tokenize_text(m, prompt->text, prompt->n, true, false, p->own_ids, n, &n, err));
    }
    p->n = (int64_t)n;
    return SAC_OK;
}

static sac_status check_size(const serve_prompt_scores *p, int64_t n_copies, int64_t *n_given, int64_t n_ctx,
                             sac_error *err) {
    if (p->n == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "the prompt has no tokens");
    if (p->n >= n_ctx)
        return sac_fail(err, SAC_TOO_LONG, "the prompt has %lld tokens, and the context has %lld",
                        (long long)p->n, (long long)n_ctx);
    if (p->n_top < 0) return SAC_OK;
    *n_given += p->n * (p->n_top + 1) * n_copies;
    if (*n_given <= MAX_ENTRIES) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG,
                    "'echo' with 'logprobs': %d log probabilities of %lld tokens in %lld choices, with the "
                    "prompts before "
                    "%lld; at most %d a request are given",
                    p->n_top + 1, (long long)p->n, (long long)n_copies, (long long)*n_given, MAX_ENTRIES);
}

/* No chunk of a long prompt is much shorter than the others: few rows go another way through the processor's kernels, and one
 * alone would be a step of an answer. */
static int64_t choose_chunk(int64_t n, int n_vocab) {
    int64_t most = CHUNK_LOGITS / n_vocab;
    if (most < MIN_CHUNK) most = MIN_CHUNK;
    if (most > MAX_CHUNK) most = MAX_CHUNK;
    int64_t n_chunks = (n + most - 1) / most;
    return (n + n_chunks - 1) / n_chunks;
}

static sac_status begin(serve_prompt_scores *p, const serve_prompt *prompt, int64_t n_copies,
                        int64_t *n_given, int64_t n_ctx, sac_error *err) {
    SAC_TRY(read_ids(p, prompt, err));
    SAC_TRY(check_size(p, n_copies, n_given, n_ctx, err));
    p->chunk = choose_chunk(p->n, p->n_vocab);
    p->entries = json_array();
    if (p->n_top >= 0) p->logits = malloc((size_t)p->chunk * (size_t)p->n_vocab * sizeof *p->logits);
    if (!p->entries || (p->n_top >= 0 && !p->logits))
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the prompt's log probabilities");
    sac_session_reset(p->session);
    return SAC_OK;
}

sac_status serve_prompt_scores_open(serve_prompt_scores **out, sac_session *s, const serve_tokens *tokens,
                                    const serve_prompt *prompt, int n_top, int64_t n_copies, int64_t *n_given,
                                    int64_t n_ctx, sac_error *err) {
    serve_prompt_scores *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for the request");
    *p = (serve_prompt_scores){.session = s, .tokens = tokens, .n_copies = n_copies, .n_top = n_top, .n_vocab = tokens->n};
    sac_status st = begin(p, prompt, n_copies, n_given, n_ctx, err);
    if (st == SAC_OK) *out = p;
    if (st != SAC_OK) serve_prompt_scores_free(p);
    return st;
}

void serve_prompt_scores_free(serve_prompt_scores *p) {
    if (!p) return;
    free(p->own_ids);
    free(p->logits);
    json_decref(p->entries);
    free(p);
}

/* ---------------------------------------------------------------- a chunk */

static double log_of_sum(const float *logits, int n) {
    float most = -INFINITY;
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > most) most = logits[i];
    for (int i = 0; i < n; i++) sum += exp((double)(logits[i] - most));
    return most + log(sum);
}

/* The likeliest, falling; of equal ones the lower id first. Returns how many. */
static int find_top(const float *logits, int n, int n_top, sac_logprob *top) {
    int found = 0;
    for (int id = 0; n_top > 0 && id < n; id++) {
        if (found == n_top && !(logits[id] > top[found - 1].logprob)) continue;
        int at = found < n_top ? found++ : found - 1;
        for (; at > 0 && logits[id] > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (sac_logprob){id, logits[id]};
    }
    return found;
}

static bool add(serve_prompt_scores *p, const sac_token_event *token, bool known) {
    json_t *entry = serve_probs_of_text(p->tokens, token, known, p->offset);
    p->offset += serve_probs_n_characters(p->tokens, token->id);
    return json_array_append_new(p->entries, entry) == 0;
}

/* What the logits behind a token say of the next one. */
static bool score(serve_prompt_scores *p, const float *logits, int32_t next) {
    sac_logprob top[SAC_MAX_TOP_LOGPROBS];
    double sum = log_of_sum(logits, p->n_vocab);
    int n_top = find_top(logits, p->n_vocab, p->n_top, top);
    for (int i = 0; i < n_top; i++) top[i].logprob = (float)(top[i].logprob - sum);
    return add(
        p, &(sac_token_event){.id = next, .logprob = (float)(logits[next] - sum), .top = top, .n_top = n_top},
        true);
}

/* Tokens of the chunk whose logits say something of the next one. */
static int64_t n_to_score(const serve_prompt_scores *p) {
    if (!p->logits) return 0;
    return p->at + p->n_run == p->n ? p->n_run - 1 : p->n_run;
}

static bool score_some(serve_prompt_scores *p, double seconds) {
    const int64_t start_ns = sac_now_ns(), to = n_to_score(p);
    int64_t left = MAX_PIECE_ENTRIES / ((p->n_top + 1) * p->n_copies);
    do {
        const int64_t i = p->n_scored++;
        if (!score(p, p->logits + i * p->n_vocab, p->ids[p->at + i + 1])) return false;
    } while (p->n_scored < to && --left > 0 && (seconds <= 0 || sac_seconds_since(start_ns) < seconds));
    return true;
}

static sac_status run_some(serve_prompt_scores *p, double seconds, const sac_events *events, sac_error *err) {
    bool done = false;
    if (!p->running) {
        p->n_run = p->n - p->at < p->chunk ? p->n - p->at : p->chunk;
        p->n_scored = 0;
        SAC_TRY(sac_session_begin_append(p->session, p->ids + p->at, (size_t)p->n_run, p->logits, events, err));
        p->running = true;
        if (p->logits && p->at == 0 && !add(p, &(sac_token_event){.id = p->ids[0]}, false))
            return sac_fail(err, SAC_NO_MEMORY, "no memory for the prompt's log probabilities");
    }
    SAC_TRY(sac_session_work_within(p->session, seconds, &done, err));
    p->running = !done;
    return SAC_OK;
}

sac_status serve_prompt_scores_next(serve_prompt_scores *p, double seconds, const sac_events *events, bool *done, sac_error *err) {
    if (p->running || p->n_run == 0)
        SAC_TRY(run_some(p, seconds, events, err));
    else if (!score_some(p, seconds))
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the prompt's log probabilities");
    if (!p->running && p->n_scored >= n_to_score(p)) {
        p->at += p->n_run;
        p->n_run = 0;
    }
    *done = p->at == p->n;
    return SAC_OK;
}

double serve_prompt_scores_left(const serve_prompt_scores *p) {
    return (double)(p->n - p->at - p->n_run) + (p->running ? sac_session_work_left(p->session) : 0);
}

int64_t serve_prompt_scores_n(const serve_prompt_scores *p) {
    return p->n;
}

json_t *serve_prompt_scores_take(serve_prompt_scores *p, int64_t *n_characters) {
    json_t *entries = p->entries;
    p->entries = json_array();
    *n_characters = p->offset;
    return entries;
}
