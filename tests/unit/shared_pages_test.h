/* For tests of sessions that have pages in common: what a question is answered alone, to the bit. */
#ifndef SHARED_PAGES_TEST_H
#define SHARED_PAGES_TEST_H

#include "paged_test.h"

enum { STEPS = 10, VOCAB = 1024 };

#define BEGINNING LONG_TEXT LONG_TEXT LONG_TEXT LONG_TEXT

/* Logits behind a prompt and its steps, made alone in memory of its own. */
typedef struct oracle {
    float logits[STEPS][VOCAB];
    int32_t ids[STEPS];
    int64_t n_prompt;
} oracle;

static inline void compare(const sac_session *s, const oracle *o, int step, int32_t id) {
    if (on_card) return; /* rounding */
    assert_int_equal(id, o->ids[step]);
    assert_memory_equal(sac_session_logits(s), o->logits[step], (size_t)info.vocab * sizeof(float));
}

static inline void ask_oracle(oracle *o, const sac_model *m, const sac_message *q, size_t n_messages, const choice *c) {
    sac_session *s = make(m, c);
    const sac_sampling how = sampling(STEPS);
    sac_error err;
    sac_result r;
    bool done = false;
    assert_true(info.vocab <= VOCAB);
    assert_ok(sac_session_begin(s, q, n_messages, &how, NULL, &err), err);
    for (int i = 0; i < STEPS; i++) {
        assert_ok(sac_session_step(s, NULL, &o->ids[i], &done, &err), err);
        memcpy(o->logits[i], sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    }
    sac_session_end(s, &r);
    o->n_prompt = r.n_prompt_tokens;
    sac_session_free(s);
}

static inline size_t used(const sac_model *m) {
    sac_kv_pages p;
    sac_model_kv_pages(m, &p);
    return (p.n_pages - p.n_free) * p.page_bytes;
}

#endif
