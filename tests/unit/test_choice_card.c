/* Answers whose logits may be left where they are, on the CPU, where nothing changes, and on a card, where there is one: the
 * tokens are those of answers whose logits all come to the host. */
#include "saccade/saccade.h"
#include "test.h"

enum { SESSIONS = 3, STEPS = 24, CASES = 8, TOP = 4 };

/* Of each token: its log probability, those of the best, and what they are of. */
static float seen[STEPS * SESSIONS][1 + 2 * TOP];
static int n_seen, n_masks;

static void see(void *ctx, const sac_token_event *t) {
    (void)ctx;
    float *s = seen[n_seen++];
    memset(s, 0, sizeof seen[0]);
    s[0] = t->logprob;
    for (int i = 0; i < t->n_top; i++) s[1 + 2 * i] = (float)t->top[i].id, s[2 + 2 * i] = t->top[i].logprob;
}

static void mask(void *ctx, uint32_t *allowed, int n_vocab) {
    (void)ctx;
    for (int id = n_masks++ % 5; id < n_vocab; id += 5) allowed[id / 32] &= ~(1u << (id % 32));
}

static const sac_events plain = {.token = see}, masked = {.token = see, .mask = mask};

static void answer(sac_session *const *s, sac_batch *b, const sac_sampling *o, const sac_events *e, int32_t token[STEPS][SESSIONS]) {
    sac_error err;
    n_seen = n_masks = 0;
    for (int i = 0; i < SESSIONS; i++) {
        int32_t ids[40];
        for (int t = 0; t < 40; t++) ids[t] = 10 + (t * (7 + 4 * i) + i) % 250;
        sac_session_reset(s[i]);
        assert_ok(sac_session_begin_tokens(s[i], ids, (size_t)(20 + 9 * i), &o[i], NULL, &err), err);
    }
    for (int t = 0; t < STEPS; t++) {
        sac_batch_item items[SESSIONS] = {{0}};
        for (int i = 0; i < SESSIONS; i++) items[i].session = s[i], items[i].events = e;
        if (b) assert_ok(sac_batch_step(b, items, SESSIONS, &err), err);
        for (int i = 0; i < SESSIONS; i++) {
            if (!b) items[i].status = sac_session_step(s[i], e, &items[i].token, &items[i].done, &items[i].error);
            assert_ok(items[i].status, items[i].error);
            token[t][i] = items[i].token;
        }
    }
}

static void compare(const char *device) {
    static int32_t want[STEPS][SESSIONS], got[STEPS][SESSIONS];
    static float first[STEPS * SESSIONS][1 + 2 * TOP];
    static const sac_logit_bias twice[] = {{11, 1}, {11, -2}};
    sac_error err;
    sac_model *m;
    sac_batch *b;
    sac_session *s[SESSIONS];
    sac_model_options options;
    sac_model_options_default(&options);
    options.n_threads = 1;
    options.device = device;
    const sac_status st = sac_model_open(&m, "tests/golden/models/qwen2", &options, &err);
    if (st == SAC_UNSUPPORTED && device) {
        print_message("%s\n", err.text);
        skip();
    }
    assert_ok(st, err);
    for (int i = 0; i < SESSIONS; i++) {
        sac_session_config c;
        sac_session_config_default(&c);
        c.n_ctx = 100;
        assert_ok(sac_session_create(&s[i], m, &c, &err), err);
    }
    assert_ok(sac_batch_create(&b, m, SESSIONS, &err), err);
    for (int k = 0; k < CASES; k++)
        for (int together = 0; together < 2; together++) {
            sac_sampling o[SESSIONS];
            for (int i = 0; i < SESSIONS; i++) {
                sac_sampling_default(&o[i]);
                o[i].max_tokens = STEPS, o[i].ignore_eos = true, o[i].seed = (uint64_t)(3 + i);
                if (k == 1 || (k == 2 && i == 1)) o[i].temperature = 1.5, o[i].top_k = 40 + 30 * i, o[i].top_p = 0.95;
                if (k == 3 && i == 2) o[i].logit_bias = twice, o[i].n_logit_bias = 2; /* which needs them all */
                if (k > 3) o[i].logprobs = i != 1, o[i].top_logprobs = TOP, o[i].repetition_penalty = 1.3 - 0.2 * i;
                if (k > 4) o[i].temperature = 0.7, o[i].presence_penalty = 0.4 * i;
                if (k > 5 && i > 0) o[i].top_p = 0.8, o[i].frequency_penalty = 0.2;
            }
            const sac_events *e = k == 7 ? &masked : &plain;
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(s[i], false);
            answer(s, together ? b : NULL, o, e, want);
            memcpy(first, seen, sizeof first);
            for (int i = 0; i < SESSIONS; i++) assert_non_null(sac_session_logits(s[i]));
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(s[i], true);
            answer(s, together ? b : NULL, o, e, got);
            assert_memory_equal(want, got, sizeof want);
            assert_memory_equal(first, seen, sizeof first);
            for (int i = 0; i < SESSIONS; i++) assert_true(!sac_session_logits(s[i]) == (device && !(k == 3 && i == 2)));
        }
    sac_batch_free(b);
    for (int i = 0; i < SESSIONS; i++) sac_session_free(s[i]);
    sac_model_free(m);
}

static void on_the_cpu(void **state) {
    (void)state;
    compare(NULL);
}

static void on_a_card(void **state) {
    (void)state;
    compare("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_cpu), cmocka_unit_test(on_a_card)};
    return cmocka_run_group_tests_name("choice on a card", tests, NULL, NULL);
}
