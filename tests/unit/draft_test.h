/* draft_test.h - what the tests of drafts share: answers with the logits of every step, to compare. */
#ifndef SAC_DRAFT_TEST_H
#define SAC_DRAFT_TEST_H

#include "draft.h"
#include "step_test.h"

#include <math.h>

#define MOST_TOKENS 200

/* Logits of every step; tokens may be forced. */
typedef struct seen {
    float *logits; /* [MOST_TOKENS][vocab] */
    int n, vocab;
    const int32_t *forced; /* [n_forced] or NULL */
    int n_forced;
    int32_t ids[MOST_TOKENS];
    sac_result result;
    int64_t n_first; /* guesses taken that were the first of their pass */
} seen;

static inline void see(void *ctx, float *logits, int n_vocab) {
    seen *x = ctx;
    assert_true(x->n < MOST_TOKENS);
    if (!x->logits) x->logits = malloc((size_t)MOST_TOKENS * (size_t)n_vocab * sizeof(float));
    x->vocab = n_vocab;
    memcpy(x->logits + (size_t)x->n * (size_t)n_vocab, logits, (size_t)n_vocab * sizeof(float));
    if (x->forced && x->n < x->n_forced)
        for (int i = 0; i < n_vocab; i++)
            if (i != x->forced[x->n]) logits[i] = -INFINITY;
    x->n++;
}

static inline sac_session *session_of(const sac_model *m, const char *kv, int64_t n_ctx, const char *draft) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = n_ctx, c.kv = kv, c.draft = draft;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

static inline void answer(seen *x, sac_session *s, const int32_t *ids, size_t n, const sac_sampling *o) {
    sac_error err;
    int32_t token;
    sac_events e = {.ctx = x, .logits = see};
    free(x->logits);
    x->logits = NULL, x->n = 0;
    assert_ok(sac_session_begin_tokens(s, ids, n, o, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
    sac_session_end(s, &x->result);
    int64_t n_accepted = 0;
    x->n_first = sac_session_accepted_at(s, 0);
    for (int place = -1; place <= SAC_DRAFT_MOST; place++) n_accepted += sac_session_accepted_at(s, place);
    assert_int_equal(n_accepted, x->result.n_accepted_tokens);
    memcpy(x->ids, x->result.tokens, (size_t)x->result.n_tokens * sizeof *x->ids);
}

static inline void same(const seen *a, const seen *b) {
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->result.n_tokens, b->result.n_tokens);
    assert_memory_equal(a->ids, b->ids, (size_t)a->result.n_tokens * sizeof *a->ids);
    assert_memory_equal(a->logits, b->logits, (size_t)a->n * (size_t)a->vocab * sizeof(float));
    assert_string_equal(a->result.finish_reason, b->result.finish_reason);
    assert_int_equal(a->result.n_drafted_tokens, 0);
    assert_true(b->result.n_accepted_tokens <= b->result.n_drafted_tokens);
}

static inline void drop(seen *x) {
    free(x->logits);
    *x = (seen){0};
}

#define N_PROMPT 40
static inline const int32_t *repeated(int period) {
    static int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = 5 + i % period;
    return ids;
}

#define GOLDEN_MODELS "tests/golden/models/"

static inline sac_model *open_threads(const char *path, int n_threads) {
    sac_model_options o;
    sac_error err;
    sac_model *m;
    sac_model_options_default(&o);
    o.n_threads = n_threads;
    assert_ok(sac_model_open(&m, path, &o, &err), err);
    return m;
}

static inline sac_model *open_golden(const char *name) {
    char path[200];
    snprintf(path, sizeof path, GOLDEN_MODELS "%s", name);
    return open_threads(path, 0);
}

#endif
