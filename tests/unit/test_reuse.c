#define _GNU_SOURCE
/* A second question: what a session holds of the first may serve it, where it is right for any question, and
 * must not elsewhere; and what was opened once is not opened again. */
#include "step_test.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static sac_model *model;

static int open_model(void **state) {
    (void)state;
    model = step_model(2);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

typedef struct method {
    const char *prefill, *decode, *kv;
    bool keeps;
} method;

static const method methods[] = {
    {NULL, NULL, NULL, true},
    {NULL, NULL, "f32", true},
    {"streaming:start=4,recent=300", NULL, NULL, true},
    {"selfextend:group=2,window=128", NULL, NULL, true},
    {NULL, "streaming:start=4,recent=100", NULL, true},
    {NULL, "selfextend:group=2,window=128", NULL, true},
    {NULL, "quest:budget=64,page=16", NULL, true},
    {NULL, "tokenselect:init=16,k=64,local=32", NULL, true},
    {NULL, "twilight:p=0.9", NULL, true},
    {NULL, "twilight:base=quest,base.budget=64", NULL, true},
    {"zipvl", NULL, NULL, false},
    {"fastv", NULL, NULL, false},
    {"minference:pattern=block_sparse,blocks=2", NULL, NULL, false},
    {NULL, "snapkv:cap=64", NULL, false},
    {NULL, "h2o:heavy=32,recent=32", NULL, false},
    {NULL, "doublesparse:k=64", NULL, false},
    {NULL, "adore:m=64,r=8", NULL, false},
    {NULL, "infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL, false},
    {"infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", "infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL, false},
    {"tokenselect:init=16,k=64,local=32,chunk=32", NULL, NULL, false},
    {"zipcache", NULL, "zipcache", false},
    {NULL, NULL, "kivi", false}, /* packed rows cannot be cut */
};

static void close_to(const heard *a, const heard *b) {
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n_prompt, b->n_prompt);
    for (size_t i = 0; i < STEP_VOCAB; i++) assert_true(fabsf(a->logits[i] - b->logits[i]) < 2e-2f);
}

static int64_t reusable(sac_session *s, const sac_message *m, size_t n) {
    sac_error err;
    int64_t n_prompt, n_reusable;
    assert_ok(sac_session_n_reusable(s, m, n, &n_prompt, &n_reusable, &err), err);
    assert_true(n_prompt > n_reusable);
    return n_reusable;
}

/* Two questions about one video, both ways: a session that was asked the other one before answers as one that
 * was not. */
static void another_question_gets_its_own_answer(void **state) {
    (void)state;
    static heard first, second, fresh;
    asked q;
    static const char *questions[] = {"How many numbers appear?", "Describe the video."};
    sac_sampling o = step_sampling(24);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int way = 0; way < 2; way++) {
            const method *m = &methods[i];
            sac_session *s = step_session(model, m->prefill, m->decode, m->kv, 1024);
            sac_session *t = step_session(model, m->prefill, m->decode, m->kv, 1024);
            hear_alone(&first, model, s, ask_about(&q, STEP_VIDEO, 6, questions[way]), &o);
            const sac_message *other = ask_about(&q, STEP_VIDEO, 6, questions[!way]);
            int64_t n = reusable(s, other, 1);
            hear_alone(&second, model, s, other, &o);
            hear_alone(&fresh, model, t, other, &o);
            assert_int_equal(second.n_reused, n);
            assert_int_equal(fresh.n_reused, 0);
            if (m->keeps)
                assert_true(n >= 6 * 64); /* the frames */
            else
                assert_int_equal(n, 0);
            if (m->keeps)
                close_to(&second, &fresh);
            else
                heard_equal(&second, &fresh);
            sac_session_free(s);
            sac_session_free(t);
        }
}

/* A conversation that goes on: the same rule. A packed format keeps it, as its rows serve any question. */
static void a_conversation_goes_on(void **state) {
    (void)state;
    static heard first, second, fresh;
    sac_sampling o = step_sampling(24);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const method *m = &methods[i];
        bool whole = m->kv && strcmp(m->kv, "kivi") == 0;
        sac_session *s = step_session(model, m->prefill, m->decode, m->kv, 1024);
        sac_session *t = step_session(model, m->prefill, m->decode, m->kv, 1024);
        asked q;
        sac_message turns[3] = {*ask_about(&q, STEP_VIDEO, 4, "How many numbers appear?")};
        hear_alone(&first, model, s, turns, &o);
        sac_part answer = {.kind = SAC_PART_TEXT, .text = first.text};
        sac_part text = {.kind = SAC_PART_TEXT, .text = "Describe the video."};
        turns[1] = (sac_message){"assistant", &answer, 1};
        turns[2] = (sac_message){"user", &text, 1};
        int64_t n = reusable(s, turns, 3);
        sac_error err;
        sac_result r;
        sac_events e = hear(&second);
        assert_ok(sac_session_generate(s, turns, 3, &o, &e, &r, &err), err);
        hear_end(&second, s, model, &r);
        assert_int_equal(r.n_reused_tokens, n);
        e = hear(&fresh);
        assert_ok(sac_session_generate(t, turns, 3, &o, &e, &r, &err), err);
        hear_end(&fresh, t, model, &r);
        if (m->keeps || whole)
            assert_true(n >= first.n_prompt);
        else
            assert_int_equal(n, 0);
        if (!m->keeps && !whole) heard_equal(&second, &fresh);
        if (i < 2) close_to(&second, &fresh); /* an answer's rows are what its decode method made them */
        sac_session_free(s);
        sac_session_free(t);
    }
}

static void a_scheduler_can_pick_a_session(void **state) {
    (void)state;
    static heard h;
    asked q;
    sac_error err;
    sac_sampling o = step_sampling(4);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024),
                *t = step_session(model, NULL, NULL, NULL, 1024);
    hear_alone(&h, model, s, ask_about(&q, STEP_VIDEO, 4, "How many numbers appear?"), &o);
    hear_alone(&h, model, t, ask_about(&q, STEP_PICTURE, 0, "Describe the image."), &o);
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "What color is the background?");
    assert_true(reusable(t, m, 1) >= 64);
    assert_true(reusable(s, m, 1) < 16);
    m = ask_about(&q, STEP_VIDEO, 4, "Describe the video.");
    assert_true(reusable(s, m, 1) >= 256);
    assert_true(reusable(t, m, 1) < 16);
    m = ask_about(&q, STEP_VIDEO, 5, "Describe the video."); /* other frames, another medium */
    assert_true(reusable(s, m, 1) < 16);
    assert_ok(sac_session_begin(s, m, 1, &o, NULL, &err), err);
    assert_int_equal(sac_session_n_reusable(s, m, 1, NULL, NULL, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s);
    sac_session_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_question_gets_its_own_answer),
        cmocka_unit_test(a_conversation_goes_on),
        cmocka_unit_test(a_scheduler_can_pick_a_session),
    };
    return cmocka_run_group_tests_name("reuse", tests, open_model, close_model);
}
