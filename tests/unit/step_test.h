/* step_test.h - what the tests of steps and of batches share: conversations, and answers to compare. */
#ifndef SAC_STEP_TEST_H
#define SAC_STEP_TEST_H

#include "saccade/saccade.h"
#include "test.h"

#define STEP_PICTURE "samples/picture0000.png"
#define STEP_VIDEO   "samples/video0000_16.mp4"
#define STEP_VOCAB   1024

static inline sac_model *step_model(int n_threads) {
    sac_model_options o;
    sac_error err;
    sac_model *m;
    sac_model_options_default(&o);
    o.n_threads = n_threads;
    assert_ok(sac_model_open(&m, "models/demo", &o, &err), err);
    return m;
}

/* The model of a whole test program. */
static sac_model *model;

static inline int open_model(void **state) {
    (void)state;
    model = step_model(2);
    return 0;
}

static inline int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

/* NULL = the default. */
static inline sac_session *step_session(const sac_model *m, const char *prefill, const char *decode,
                                        const char *kv, int64_t n_ctx) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = n_ctx;
    if (prefill) c.prefill = prefill;
    if (decode) c.decode = decode;
    if (kv) c.kv = kv;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

/* A question about a picture, about frames of a video, or about nothing. */
typedef struct asked {
    sac_part parts[2];
    sac_message message;
} asked;

static inline const sac_message *ask_about(asked *q, const char *path, int n_frames, const char *text) {
    size_t n = 0;
    memset(q, 0, sizeof *q);
    if (path) q->parts[n++] = (sac_part){.kind = n_frames ? SAC_PART_VIDEO : SAC_PART_IMAGE, .path = path};
    if (n_frames) q->parts[0].video.num_frames = n_frames;
    q->parts[n++] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
    q->message = (sac_message){"user", q->parts, n, NULL};
    return &q->message;
}

/* An answer with all that came with it. */
typedef struct heard {
    char text[4096]; /* of events.text */
    size_t n_text;
    int32_t ids[512]; /* of events.token */
    float logprobs[512];
    sac_logprob top[512][SAC_MAX_TOP_LOGPROBS];
    int n_top, n_ids;
    float logits[STEP_VOCAB]; /* of the last token run */
    char finish[16];
    int64_t n_prompt, n_reused;
    size_t kv_bytes;
    int stop_after; /* pieces of text, 0 = never */
    int n_pieces;
} heard;

static inline bool hear_text(void *ctx, const char *utf8, size_t n) {
    heard *h = ctx;
    assert_true(h->n_text + n < sizeof h->text);
    memcpy(h->text + h->n_text, utf8, n);
    h->n_text += n;
    h->text[h->n_text] = 0;
    return ++h->n_pieces != h->stop_after;
}

static inline void hear_token(void *ctx, const sac_token_event *t) {
    heard *h = ctx;
    assert_true(h->n_ids < 512);
    h->logprobs[h->n_ids] = t->logprob;
    memcpy(h->top[h->n_ids], t->top, (size_t)t->n_top * sizeof *t->top);
    h->n_top = t->n_top;
    h->ids[h->n_ids++] = t->id;
}

static inline sac_events hear(heard *h) {
    memset(h, 0, sizeof *h);
    return (sac_events){.ctx = h, .text = hear_text, .token = hear_token};
}

static inline void hear_end(heard *h, const sac_session *s, const sac_model *m, const sac_result *r) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    assert_true(info.vocab <= STEP_VOCAB);
    memcpy(h->logits, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    snprintf(h->finish, sizeof h->finish, "%s", r->finish_reason);
    assert_string_equal(h->text, r->text);
    assert_int_equal(h->n_text, r->n_text_bytes);
    assert_int_equal(h->n_ids, r->n_tokens);
    assert_memory_equal(h->ids, r->tokens, (size_t)r->n_tokens * sizeof *r->tokens);
    h->n_prompt = r->n_prompt_tokens;
    h->n_reused = r->n_reused_tokens;
    h->kv_bytes = sac_session_kv_bytes(s);
}

static inline void heard_equal(const heard *a, const heard *b) {
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->finish, b->finish);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
    assert_int_equal(a->n_prompt, b->n_prompt);
    assert_int_equal(a->kv_bytes, b->kv_bytes);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_memory_equal(a->logprobs, b->logprobs, (size_t)a->n_ids * sizeof *a->logprobs);
}

static inline sac_sampling step_sampling(int max_tokens) {
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = max_tokens;
    return o;
}

/* The whole answer in one call, in a session of its own. */
static inline void hear_alone(heard *h, const sac_model *m, sac_session *s, const sac_message *q,
                              const sac_sampling *o) {
    sac_error err;
    sac_result r;
    sac_events e = hear(h);
    assert_ok(sac_session_generate(s, q, 1, o, &e, &r, &err), err);
    hear_end(h, s, m, &r);
}

#endif
