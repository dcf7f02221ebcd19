/* method_session.h - a method in a whole session: the demo model answers a question about a video's frames,
 * and answers are compared bit by bit. */
#ifndef SAC_METHOD_SESSION_H
#define SAC_METHOD_SESSION_H

#include "saccade/saccade.h"
#include "test.h"

typedef struct told {
    char text[512];
    float logits[1024];
    size_t kv_bytes;
    sac_layer_report layer; /* of the last layer */
    int n_layers;
    sac_session_method_lines lines;
} told;

/* Frames of the sample video that are asked about: 64 visual tokens each. */
#define TOLD_FRAMES 4
#define TOLD_TOKENS 24

static inline sac_model *told_model(int n_threads) {
    sac_model_options o;
    sac_error err;
    sac_model *m;
    sac_model_options_default(&o);
    o.n_threads = n_threads;
    assert_ok(sac_model_open(&m, "models/demo", &o, &err), err);
    return m;
}

/* Answers with TOLD_TOKENS tokens, end tokens or not. */
static inline void tell(const sac_model *m, const sac_session_config *config, told *t) {
    sac_error err;
    sac_session *s;
    sac_result r;
    sac_sampling o;
    sac_model_info info;
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "How many numbers appear?"}};
    parts[0].video.num_frames = TOLD_FRAMES;
    sac_message message = {"user", parts, 2, NULL};
    memset(t, 0, sizeof *t);
    sac_sampling_default(&o);
    o.max_tokens = TOLD_TOKENS;
    o.ignore_eos = true;
    assert_ok(sac_session_create(&s, m, config, &err), err);
    assert_ok(sac_session_generate(s, &message, 1, &o, NULL, &r, &err), err);
    assert_int_equal(r.n_tokens, TOLD_TOKENS);
    snprintf(t->text, sizeof t->text, "%s", r.text);
    sac_model_get_info(m, &info);
    assert_true(info.vocab <= 1024);
    memcpy(t->logits, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    t->kv_bytes = sac_session_kv_bytes(s);
    t->n_layers = info.n_layers;
    assert_true(sac_session_layer_stats(s, info.n_layers - 1, &t->layer));
    sac_session_methods(s, &t->lines);
    sac_session_free(s);
}

static inline sac_session_config told_config(const char *prefill, const char *decode, const char *kv) {
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = 1000;
    if (prefill) c.prefill = prefill;
    if (decode) c.decode = decode;
    if (kv) c.kv = kv;
    return c;
}

static inline void told_equal(const told *a, const told *b) {
    assert_string_equal(a->text, b->text);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
}

/* Settings that mean dense give dense's bits. */
static inline void told_as_dense(const char *prefill, const char *decode) {
    static told dense, off;
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, NULL, NULL), d = told_config(prefill, decode, NULL);
    tell(m, &c, &dense);
    tell(m, &d, &off);
    told_equal(&dense, &off);
    sac_model_free(m);
}

/* Three runs, with one thread and with two, say the same; the last goes to t. */
static inline void told_again(const char *prefill, const char *decode, told *t) {
    static told first;
    sac_session_config c = told_config(prefill, decode, NULL);
    for (int run = 0; run < 3; run++) {
        sac_model *m = told_model(run == 2 ? 1 : 2);
        tell(m, &c, t);
        if (run == 0)
            first = *t;
        else
            told_equal(&first, t);
        sac_model_free(m);
    }
}

#endif
