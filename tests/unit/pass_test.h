/* pass_test.h - answers that take part in passes with rows of prompts: what they are asked, and the logits of each token. */
#ifndef SAC_PASS_TEST_H
#define SAC_PASS_TEST_H

#include "shared_rows_test.h"

enum { ROOM = 96, ANSWERING = 3, PASSES = 5, ANSWER = PASSES + 1 };

static const char question[] = LONG_TEXT LONG_TEXT "what is this?", other[] = LONG_TEXT "and what is that?";

/* Logits of an answer, token by token. */
typedef struct answer {
    float logits[ANSWER][MOST_VOCAB];
    int n;
} answer;

static inline void note(answer *a, const sac_model *m, const sac_session *s) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    assert_true(a->n < ANSWER && info.vocab <= MOST_VOCAB);
    memcpy(a->logits[a->n++], sac_session_logits(s), (size_t)info.vocab * sizeof(float));
}

static inline sac_sampling sampling(void) {
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    return o;
}

static inline void step_to_end(const sac_model *m, sac_session *s, answer *a) {
    sac_error err;
    int32_t token;
    for (bool done = false; !done; note(a, m, s)) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, NULL);
}

static inline void finish_prompt(sac_session *s) {
    sac_error err;
    for (bool done = false; !done;) assert_ok(sac_session_work_next(s, &done, &err), err);
}

#endif
