/* Rows of prompts in passes with steps on a card: logits are those of running apart within what its products round, and tokens are
 * the same but where two lie that close. Without a card the same on the CPU, where they are the same bits. */
#include "shared_rows_test.h"

#include "card_test.h"

#include <math.h>

enum { ROOM = 256, ANSWERING = 3, ANSWER = 24 };

static const char question[] = LONG_TEXT LONG_TEXT "what is this?",
                  long_question[] = LONG_TEXT LONG_TEXT LONG_TEXT LONG_TEXT LONG_TEXT "and that?";

typedef struct answer {
    int32_t tokens[ANSWER];
    float logits[ANSWER][MOST_VOCAB];
    int n;
} answer;

static sac_model *open_there(const char *path) {
    sac_model *m = open_on_card(path);
    assert_true(info.vocab <= MOST_VOCAB);
    return m;
}

static void note(answer *a, const sac_session *s, int32_t token) {
    assert_true(a->n < ANSWER);
    a->tokens[a->n] = token;
    memcpy(a->logits[a->n++], sac_session_logits(s), (size_t)info.vocab * sizeof(float));
}

static sac_sampling sampling(void) {
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    o.temperature = 0;
    return o;
}

static void step_to_end(sac_session *s, answer *a) {
    sac_error err;
    int32_t token;
    for (bool done = false; !done; note(a, s, token)) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, NULL);
}

static void alone(sac_session *s, const sac_message *q, answer *a) {
    const sac_sampling o = sampling();
    sac_error err;
    memset(a, 0, sizeof *a);
    assert_ok(sac_session_begin(s, q, 1, &o, NULL, &err), err);
    step_to_end(s, a);
    sac_session_reset(s);
}

/* As far as both have chosen the same tokens: of a trained model to the end, or to one whose likeliest tokens lie closer than the
 * rounding. */
static void expect(const answer *want, const answer *got) {
    const double most = 4e-2; /* of bf16 through all layers */
    assert_int_equal(want->n, got->n);
    for (int i = 0; i < want->n; i++) {
        double off = 0, all = 0;
        for (int c = 0; c < info.vocab; c++) {
            const double x = (double)want->logits[i][c], d = x - (double)got->logits[i][c];
            off += d * d;
            all += x * x;
        }
        if (!on_card) assert_true(!(off > 0)); /* the same bits */
        if (!(off <= most * most * all)) fail_msg("logits of token %d are %.2e of their size from those apart", i, sqrt(off / all));
        const int32_t x = want->tokens[i], y = got->tokens[i];
        if (x == y) continue;
        const double gap = (double)want->logits[i][x] - (double)want->logits[i][y];
        if (!(gap <= most * sqrt(all))) fail_msg("token %d is %d and apart %d, whose logit is larger by %.2e", i, y, x, gap);
        return;
    }
}

/* Three sessions answer while a prompt goes along: first of few rows, which methods and tiles take otherwise, then of many; what is
 * left goes on in pieces. */
static void compare(const char *path) {
    static answer want[ANSWERING], got[ANSWERING], want_p, got_p;
    static const size_t sizes[] = {9, 17, 64, 100, ROOM};
    static const char *const decode[ANSWERING] = {"dense", "streaming:start=4,recent=100", "dense"};
    sac_model *m = open_there(path);
    sac_session *s[ANSWERING], *p = step_session(m, NULL, NULL, NULL, 2048);
    sac_batch_item items[ANSWERING];
    sac_batch *b;
    pictures x, y;
    const sac_message *q = about(&x, false, question), *u = about(&y, false, long_question);
    const sac_sampling o = sampling();
    sac_error err;
    size_t taken = 0, device;
    assert_ok(sac_batch_create_mixed(&b, m, ANSWERING, ROOM, &err), err);
    const size_t host = sac_batch_plan_mixed(m, ANSWERING, ROOM, &device);
    assert_int_equal(sac_batch_bytes(b), host + device);
    assert_int_equal(device > 0, on_card);
    alone(p, u, &want_p);
    memset(got, 0, sizeof got);
    memset(&got_p, 0, sizeof got_p);
    for (int i = 0; i < ANSWERING; i++) {
        s[i] = step_session(m, NULL, decode[i], NULL, 2048);
        alone(s[i], q, &want[i]);
        assert_ok(sac_session_begin(s[i], q, 1, &o, NULL, &err), err);
        items[i] = (sac_batch_item){.session = s[i]};
    }
    const sac_input in = {.messages = u, .n_messages = 1};
    assert_ok(sac_session_begin_work(p, &in, &o, NULL, &err), err);
    to_next_pass(p, ROOM);
    for (int k = 0; k < ANSWER; k++) {
        sac_batch_prompt one = {.session = p};
        if (k > 0 && k <= (int)(sizeof sizes / sizeof *sizes)) one.rows = sac_session_pass_rows(p, sizes[k - 1]);
        assert_ok(sac_batch_step_with(b, items, ANSWERING, &one, one.rows > 0, &err), err);
        if (one.rows) assert_ok(one.status, one.error);
        taken += one.rows;
        for (int i = 0; i < ANSWERING; i++) {
            assert_ok(items[i].status, items[i].error);
            note(&got[i], s[i], items[i].token);
        }
    }
    assert_true(taken > 190);
    for (bool done = false; !done;) assert_ok(sac_session_work_next(p, &done, &err), err);
    step_to_end(p, &got_p);
    expect(&want_p, &got_p);
    for (int i = 0; i < ANSWERING; i++) {
        expect(&want[i], &got[i]);
        sac_session_free(s[i]);
    }
    sac_session_free(p);
    sac_batch_free(b);
    sac_model_free(m);
}

static void passes_round_as_running_apart_does(void **state) {
    (void)state;
    compare("models/demo");
    compare(FOLDER "qwen2");
    compare(FOLDER "qwen3_moe");
    compare(FOLDER "gguf_llama_q8_0/q8_0.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_round_as_running_apart_does)};
    return cmocka_run_group_tests_name("passes on a card", tests, NULL, NULL);
}
