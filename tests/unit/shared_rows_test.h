/* For tests of rows that sessions share: a prompt of any family, sessions by chunk, and what is said step by step. */
#ifndef SHARED_ROWS_TEST_H
#define SHARED_ROWS_TEST_H

#include "step_test.h"

#define FOLDER "tests/golden/models/"
enum { MOST_VOCAB = 1024, N_STEPS = 4, N_IMAGES = 5 };

typedef struct pictures {
    sac_part parts[N_IMAGES + 2];
    sac_frame frames[N_IMAGES];
    char paths[N_IMAGES][64];
    sac_message message;
} pictures;

/* A picture, and frames of a video where the family takes them. */
static inline const sac_message *about(pictures *p, bool has_vision, const char *text) {
    memset(p, 0, sizeof *p);
    size_t n = 0;
    if (has_vision) {
        p->parts[n++] = (sac_part){.kind = SAC_PART_IMAGE, .path = FOLDER "tall.png"};
        for (int i = 0; i < N_IMAGES; i++) {
            snprintf(p->paths[i], sizeof p->paths[i], FOLDER "frame%d.png", i);
            p->frames[i] = (sac_frame){.path = p->paths[i], .time_s = i / 2.0};
        }
        p->parts[n++] = (sac_part){.kind = SAC_PART_FRAMES, .frames = p->frames, .n_frames = N_IMAGES};
    }
    p->parts[n++] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
    p->message = (sac_message){.role = "user", .parts = p->parts, .n_parts = n};
    return &p->message;
}

static inline sac_session *chunked(const sac_model *m, int chunk, const char *kv) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = 1024;
    c.prefill_chunk = chunk;
    c.kv = kv;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

typedef struct said {
    float logits[1 + N_STEPS][MOST_VOCAB];
} said;

static inline int64_t say(const sac_model *m, sac_session *s, const sac_message *q, said *x) {
    sac_model_info info;
    sac_sampling o = step_sampling(N_STEPS + 1);
    sac_error err;
    sac_result r;
    bool done = false;
    int32_t token;
    memset(x, 0, sizeof *x);
    o.ignore_eos = true;
    sac_model_get_info(m, &info);
    assert_ok(sac_session_begin(s, q, 1, &o, NULL, &err), err);
    for (int i = 0; !done; i++) {
        assert_true(i <= N_STEPS && info.vocab <= MOST_VOCAB);
        assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
        memcpy(x->logits[i], sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    }
    sac_session_end(s, &r);
    return r.n_reused_tokens;
}

#define LONG_TEXT "the quick brown fox jumps over the lazy dog and then runs back home again to sleep "

/* Up to where its next rows may go into a pass. */
static inline size_t to_next_pass(sac_session *s, size_t most) {
    sac_error err;
    size_t n;
    bool done = false;
    while (!(n = sac_session_pass_rows(s, most))) {
        assert_ok(sac_session_work_next(s, &done, &err), err);
        assert_false(done);
    }
    return n;
}

#endif
