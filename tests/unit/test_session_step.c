#define _GNU_SOURCE
/* Answers step by step, on the demo model: equal to whole ones, and what may happen in between. */
#include "step_test.h"

#include <math.h>

static void hear_steps(heard *h, sac_session *s, const sac_message *q, const sac_sampling *o) {
    sac_error err;
    sac_result r;
    sac_events e = hear(h);
    int32_t token;
    assert_ok(sac_session_begin(s, q, 1, o, &e, &err), err);
    assert_int_equal(h->n_ids, 0);
    for (bool done = false; !done;) {
        int before = h->n_ids;
        assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
        assert_int_equal(h->n_ids, before + (token >= 0));
        if (token >= 0) assert_int_equal(token, h->ids[before]);
    }
    assert_int_equal(sac_session_step(s, &e, &token, &(bool){false}, &err), SAC_BAD_ARGUMENT);
    sac_session_end(s, &r);
    hear_end(h, s, model, &r);
}

static void steps_give_the_whole_answer(void **state) {
    (void)state;
    static heard whole, steps;
    asked q;
    const char *stops[] = {" at the ", "numbers"};
    for (int i = 0; i < 6; i++) {
        sac_session *a = step_session(model, NULL, i == 5 ? "quest" : NULL, i == 4 ? "kivi" : NULL, 2048);
        sac_session *b = step_session(model, NULL, i == 5 ? "quest" : NULL, i == 4 ? "kivi" : NULL, 2048);
        sac_sampling o = step_sampling(i == 2 ? 1 : 200);
        if (i == 1) {
            o.stop = stops;
            o.n_stop = 2;
        }
        if (i == 3) {
            o.temperature = 1.2;
            o.top_p = 0.9;
            o.seed = 7;
            o.logprobs = true;
        }
        const sac_message *m = i % 2 ? ask_about(&q, STEP_PICTURE, 0, "Describe the image.")
                                     : ask_about(&q, STEP_VIDEO, 4, "How many numbers appear?");
        hear_alone(&whole, model, a, m, &o);
        hear_steps(&steps, b, m, &o);
        heard_equal(&whole, &steps);
        assert_string_equal(whole.finish, i == 2 ? "length" : "stop");
        sac_session_free(a);
        sac_session_free(b);
    }
}

static void the_context_ends_an_answer(void **state) {
    (void)state;
    static heard whole, steps;
    asked q;
    sac_session *s = step_session(model, NULL, NULL, NULL, 128);
    sac_sampling o = step_sampling(0);
    o.ignore_eos = true;
    const sac_message *m = ask_about(&q, NULL, 0, "What color is the circle?");
    hear_alone(&whole, model, s, m, &o);
    sac_session_reset(s);
    hear_steps(&steps, s, m, &o);
    heard_equal(&whole, &steps);
    assert_string_equal(whole.finish, "length");
    assert_int_equal(whole.n_prompt + whole.n_ids, 129); /* the last token is not run */
    sac_session_free(s);
}

static void what_sampling_points_to_is_copied(void **state) {
    (void)state;
    static heard whole, steps;
    asked q;
    sac_error err;
    sac_result r;
    char stop[] = " at the ";
    const char *stops[] = {stop};
    sac_logit_bias bias[] = {{40, -100}, {41, 3}};
    sac_session *s = step_session(model, NULL, NULL, NULL, 2048);
    sac_sampling o = step_sampling(100);
    o.stop = stops;
    o.n_stop = 1;
    o.logit_bias = bias;
    o.n_logit_bias = 2;
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "Describe the image.");
    hear_alone(&whole, model, s, m, &o);
    sac_events e = hear(&steps);
    assert_ok(sac_session_begin(s, m, 1, &o, &e, &err), err);
    memset(stop, 'e', sizeof stop - 1);
    stops[0] = NULL;
    bias[0] = bias[1] = (sac_logit_bias){99999, 100};
    memset(&q, 0, sizeof q);
    int32_t token;
    for (bool done = false; !done;) assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
    sac_session_end(s, &r);
    assert_string_equal(r.text, whole.text);
    assert_string_equal(r.finish_reason, "stop");
    sac_session_free(s);
}

static void an_answer_can_be_left_at_any_step(void **state) {
    (void)state;
    static heard whole, part;
    asked q;
    sac_error err;
    sac_result r;
    bool done;
    int32_t token;
    sac_session *s = step_session(model, NULL, NULL, NULL, 2048);
    sac_sampling o = step_sampling(100);
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "Describe the image.");
    hear_alone(&whole, model, s, m, &o);
    for (int n = 0; n < 4; n++) {
        sac_events e = hear(&part);
        assert_ok(sac_session_begin(s, m, 1, &o, &e, &err), err);
        for (int i = 0; i < n; i++) assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
        sac_session_end(s, &r);
        assert_int_equal(r.n_tokens, n);
        assert_memory_equal(r.tokens, whole.ids, (size_t)n * sizeof *whole.ids);
        assert_string_equal(r.finish_reason, "cancelled");
        assert_int_equal(sac_session_step(s, NULL, &token, &done, &err), SAC_BAD_ARGUMENT);
    }
    sac_session_end(s, &r); /* nothing has begun */
    assert_null(r.text);
    /* Cancelled between two steps, then by the receiver of the text. */
    for (int by_receiver = 0; by_receiver < 2; by_receiver++) {
        sac_events e = hear(&part);
        part.stop_after = by_receiver;
        assert_ok(sac_session_begin(s, m, 1, &o, &e, &err), err);
        if (!by_receiver) {
            assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
            sac_session_cancel(s);
        }
        sac_status st = SAC_OK;
        for (int i = 0; i < 10 && st == SAC_OK; i++) st = sac_session_step(s, &e, &token, &done, &err);
        assert_int_equal(st, SAC_CANCELLED);
        assert_int_equal(sac_session_step(s, &e, &token, &done, &err), SAC_BAD_ARGUMENT);
        sac_session_end(s, &r);
        assert_string_equal(r.finish_reason, "cancelled");
        assert_int_equal(r.n_tokens, part.n_ids);
    }
    hear_steps(&part, s, m, &o); /* and the session goes on */
    assert_string_equal(part.text, whole.text);
    /* Another call in between gives the answer up. */
    assert_ok(sac_session_begin(s, m, 1, &o, NULL, &err), err);
    int32_t id = 5;
    assert_ok(sac_session_append(s, &id, 1, NULL, &err), err);
    assert_int_equal(sac_session_step(s, NULL, &token, &done, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_session_begin(s, m, 1, &o, NULL, &err), err);
    sac_session_free(s); /* while it answers */
}

/* ---------------------------------------------------------------- text and tokens as they stand */

static void text_and_tokens_without_chat_format(void **state) {
    (void)state;
    sac_error err;
    sac_result r;
    sac_session *s = step_session(model, NULL, NULL, NULL, 512),
                *t = step_session(model, NULL, NULL, NULL, 512);
    const char *text = "The circle is <|end|>";
    int32_t ids[64], token;
    size_t n;
    bool done;
    sac_sampling o = step_sampling(8);
    o.ignore_eos = true;
    assert_ok(sac_tokenize_text(model, text, strlen(text), true, false, ids, 64, &n, &err), err);
    assert_ok(sac_session_begin_text(s, text, strlen(text), &o, NULL, &err), err);
    assert_ok(sac_session_begin_tokens(t, ids, n, &o, NULL, &err), err);
    assert_int_equal(sac_session_n_tokens(s), n);
    assert_memory_equal(sac_session_logits(s), sac_session_logits(t), sizeof(float) * 200);
    int32_t other;
    for (done = false; !done;) {
        assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
        assert_ok(sac_session_step(t, NULL, &other, &done, &err), err);
        assert_int_equal(token, other);
    }
    sac_session_end(s, &r);
    assert_int_equal(r.n_tokens, 8);
    assert_int_equal(r.n_prompt_tokens, n);
    assert_int_equal(r.n_media, 0);
    /* Longer text goes on from what is held. */
    assert_ok(sac_session_begin_tokens(t, ids, n, &o, NULL, &err), err);
    sac_session_end(t, &r);
    assert_true(r.n_reused_tokens + 9 >= r.n_prompt_tokens); /* no last chunk is of few rows */
    ids[0] = 1 << 20;
    assert_int_equal(sac_session_begin_tokens(t, ids, n, &o, NULL, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_begin_tokens(t, ids, 0, &o, NULL, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_step(t, NULL, &token, &done, &err), SAC_BAD_ARGUMENT);
    char *longer = calloc(1, 10001);
    memset(longer, 'x', 10000);
    assert_int_equal(sac_session_begin_text(t, longer, 10000, &o, NULL, &err), SAC_TOO_LONG);
    free(longer);
    sac_session_free(s);
    sac_session_free(t);
}

/* ---------------------------------------------------------------- logits, log probabilities, penalties */

static void log_probabilities_are_softmax(void **state) {
    (void)state;
    static heard h;
    asked q;
    sac_error err;
    sac_model_info info;
    bool done = false;
    int32_t token;
    sac_model_get_info(model, &info);
    sac_session *s = step_session(model, NULL, NULL, NULL, 2048);
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "Describe the image.");
    for (int sampled = 0; sampled < 2; sampled++) {
        sac_sampling o = step_sampling(12);
        double t = sampled ? 0.7 : 1;
        o.temperature = sampled ? t : 0;
        o.top_k = 3; /* comes after */
        o.logprobs = true;
        o.top_logprobs = 4;
        sac_events e = hear(&h);
        assert_ok(sac_session_begin(s, m, 1, &o, &e, &err), err);
        for (done = false; !done;) {
            assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
            if (token < 0) break;
            const float *logits = sac_session_logits(s);
            double sum = 0;
            int n_higher = 0;
            for (int i = 0; i < info.vocab; i++) sum += exp(((double)logits[i] - logits[token]) / t);
            for (int i = 0; i < info.vocab; i++) n_higher += logits[i] > logits[token];
            int at = h.n_ids - 1;
            assert_true(fabs(h.logprobs[at] + log(sum)) < 1e-4);
            assert_int_equal(h.n_top, 4);
            assert_true(n_higher < 3);
            assert_int_equal(h.top[at][n_higher].id, token);
            assert_true(h.top[at][n_higher].logprob == h.logprobs[at]);
            for (int i = 1; i < 4; i++) assert_true(h.top[at][i].logprob <= h.top[at][i - 1].logprob);
        }
        sac_session_end(s, NULL);
    }
    sac_sampling o = step_sampling(1);
    o.top_logprobs = 21;
    assert_int_equal(sac_session_begin(s, m, 1, &o, NULL, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s);
}

typedef struct only {
    int32_t id[2];
    int n; /* tokens let through */
    int calls;
} only;

static void let_only(void *ctx, float *logits, int n_vocab) {
    only *o = ctx;
    o->calls++;
    for (int i = 0; i < n_vocab; i++) {
        bool allowed = false;
        for (int k = 0; k < o->n; k++) allowed |= o->id[k] == i;
        if (!allowed) logits[i] = -INFINITY;
    }
}

static void a_callback_rules_tokens_out(void **state) {
    (void)state;
    asked q;
    sac_error err;
    sac_result r;
    sac_session *s = step_session(model, NULL, NULL, NULL, 2048);
    sac_sampling o = step_sampling(6);
    o.ignore_eos = true;
    only two = {{50, 61}, 2, 0};
    sac_events e = {.ctx = &two, .logits = let_only};
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "Describe the image.");
    for (int sampled = 0; sampled < 3; sampled++) {
        o.temperature = sampled;
        o.top_p = sampled == 2 ? 0.9 : 1;
        two.calls = 0;
        assert_ok(sac_session_generate(s, m, 1, &o, &e, &r, &err), err);
        assert_int_equal(two.calls, 6);
        for (int i = 0; i < 6; i++) assert_true(r.tokens[i] == 50 || r.tokens[i] == 61);
        assert_true(isfinite(sac_session_logits(s)[0])); /* those of the model stay */
    }
    two.n = 0;
    assert_int_equal(sac_session_generate(s, m, 1, &o, &e, &r, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "no token"));
    sac_session_free(s);
}

static void bias_and_penalties(void **state) {
    (void)state;
    static heard plain, other;
    asked q;
    sac_error err;
    sac_session *s = step_session(model, NULL, NULL, NULL, 2048);
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "Describe the image.");
    sac_sampling o = step_sampling(40);
    o.ignore_eos = true;
    hear_alone(&plain, model, s, m, &o);
    sac_logit_bias bias = {plain.ids[0], -100};
    o.logit_bias = &bias;
    o.n_logit_bias = 1;
    hear_alone(&other, model, s, m, &o);
    for (int i = 0; i < other.n_ids; i++) assert_int_not_equal(other.ids[i], plain.ids[0]);
    bias = (sac_logit_bias){77, 100};
    hear_alone(&other, model, s, m, &o);
    for (int i = 0; i < other.n_ids; i++) assert_int_equal(other.ids[i], 77);
    o.frequency_penalty = 2; /* 77 loses 2 each time; the answer leaves it when the bias is used up */
    hear_alone(&other, model, s, m, &o);
    int n = 0;
    while (n < other.n_ids && other.ids[n] == 77) n++;
    assert_true(n > 30 && n < 60);
    o.frequency_penalty = 0;
    o.presence_penalty = -2; /* what came once comes more easily */
    o.n_logit_bias = 0;
    hear_alone(&other, model, s, m, &o);
    assert_int_equal(other.ids[0], plain.ids[0]); /* nothing came before */
    o.presence_penalty = 2.5;
    assert_int_equal(sac_session_begin(s, m, 1, &o, NULL, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "presence_penalty"));
    o.presence_penalty = 0;
    o.n_logit_bias = 1;
    bias.id = STEP_VOCAB;
    assert_int_equal(sac_session_begin(s, m, 1, &o, NULL, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_give_the_whole_answer),
        cmocka_unit_test(the_context_ends_an_answer),
        cmocka_unit_test(what_sampling_points_to_is_copied),
        cmocka_unit_test(an_answer_can_be_left_at_any_step),
        cmocka_unit_test(text_and_tokens_without_chat_format),
        cmocka_unit_test(log_probabilities_are_softmax),
        cmocka_unit_test(a_callback_rules_tokens_out),
        cmocka_unit_test(bias_and_penalties),
    };
    return cmocka_run_group_tests_name("session_step", tests, open_model, close_model);
}
