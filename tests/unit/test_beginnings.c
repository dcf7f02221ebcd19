/* Prompts that begin alike, in several sessions: rows are taken over, and the answer has the bits that it has without;
 * where one identity, position, adapter or setting differs they are not. */
#include "shared_rows_test.h"

#include "engine.h"

#include <pthread.h>

enum { FRAMES = 3, FRAME_TOKENS = 64 };

static sac_beginnings *open_beginnings(const sac_model *m) {
    sac_beginnings *b;
    sac_error err;
    assert_ok(sac_beginnings_open(&b, m, &err), err);
    return b;
}

static void join(sac_session *s, sac_beginnings *b) {
    sac_error err;
    assert_ok(sac_session_join(s, b, &err), err);
}

/* ---------------------------------------------------------------- methods and formats */

typedef struct method {
    const char *prefill, *decode, *kv;
    bool shares;
} method;

static const method methods[] = {
    {NULL, NULL, NULL, true},
    {NULL, NULL, "f32", true},
    {NULL, NULL, "bf16", true},
    {"streaming:start=4,recent=100", NULL, NULL, true},
    {"streaming:start=0,recent=50,pos=orig", NULL, NULL, true},
    {"selfextend:group=2,window=128", NULL, "f32", true},
    {NULL, "streaming:start=4,recent=100", NULL, true},
    {NULL, "selfextend:group=2,window=128", NULL, true},
    {NULL, "quest:budget=64,page=16", NULL, true},
    {NULL, "quest:budget=64,page=16,heads=union", "bf16", true},
    {NULL, "tokenselect:init=16,k=64,local=32", NULL, true},
    {NULL, "twilight:p=0.9", NULL, true},
    {NULL, "twilight:base=quest,base.budget=64", "f32", true},
    {NULL, "duo:start=4,recent=40,heads=model", NULL, true},
    {"zipvl:min=0", NULL, NULL, false},
    {"fastv", NULL, NULL, false},
    {"tokenselect:init=16,k=64,local=32,chunk=32", NULL, NULL, false},
    {NULL, "snapkv:cap=64", NULL, false},
    {NULL, "h2o:heavy=32,recent=32", NULL, false},
    {NULL, "adore:m=64,r=8", NULL, false},
    {NULL, NULL, "int4", false},
    {NULL, NULL, "kivi", false},
    {NULL, NULL, "mixed", false},
};

/* Each of three sessions asks something else about one video, the second one before the first has answered; all answer
 * as one does that shares nothing. */
static void a_video_is_run_once(void **state) {
    static const char *questions[] = {"How many numbers appear?", "Describe the video.", "What is the first number here?"};
    static heard alone[3], h;
    sac_sampling o = step_sampling(24);
    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const method *m = &methods[i];
        sac_beginnings *b = open_beginnings(model);
        sac_session *s[3], *t = step_session(model, m->prefill, m->decode, m->kv, 1024);
        asked q[3];
        for (int k = 0; k < 3; k++) {
            s[k] = step_session(model, m->prefill, m->decode, m->kv, 1024);
            join(s[k], b);
            sac_session_reset(t);
            hear_alone(&alone[k], model, t, ask_about(&q[k], STEP_VIDEO, FRAMES, questions[k]), &o);
            assert_int_equal(alone[k].n_reused, 0);
        }
        sac_error err;
        assert_ok(sac_session_begin(s[0], &q[0].message, 1, &o, NULL, &err), err);
        hear_alone(&h, model, s[1], &q[1].message, &o);
        heard_equal(&h, &alone[1]);
        if (m->shares)
            assert_true(h.n_reused >= FRAMES * FRAME_TOKENS);
        else
            assert_int_equal(h.n_reused, 0);
        hear_alone(&h, model, s[2], &q[2].message, &o);
        heard_equal(&h, &alone[2]);
        hear_alone(&h, model, s[0], &q[0].message, &o); /* its own again, or another's */
        heard_equal(&h, &alone[0]);
        hear_alone(&h, model, s[0], &q[2].message, &o);
        heard_equal(&h, &alone[2]);
        sac_beginnings_report r;
        sac_beginnings_get_report(b, &r);
        assert_true(m->shares ? r.n_taken_rows >= 2 * FRAMES * FRAME_TOKENS : r.n_taken == 0);
        for (int k = 0; k < 3; k++) sac_session_free(s[k]);
        sac_session_free(t);
        sac_beginnings_close(b);
    }
}

/* An answer's rows are a conversation's own; the next turn does not give them to others, and takes what it lacks. */
static void answers_are_not_shared(void **state) {
    static heard first, h, fresh;
    (void)state;
    sac_sampling o = step_sampling(30);
    sac_beginnings *b = open_beginnings(model);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024), *t = step_session(model, NULL, NULL, NULL, 1024),
                *alone = step_session(model, NULL, NULL, NULL, 1024);
    join(s, b);
    join(t, b);
    asked q;
    sac_message turns[3] = {*ask_about(&q, STEP_VIDEO, FRAMES, "How many numbers appear?")};
    hear_alone(&first, model, s, turns, &o);
    static const char next[] = "Describe the video, and what comes after it, and what was there before.";
    sac_part answer = {.kind = SAC_PART_TEXT, .text = first.text}, text = {.kind = SAC_PART_TEXT, .text = next};
    turns[1] = (sac_message){"assistant", &answer, 1, NULL};
    turns[2] = (sac_message){"user", &text, 1, NULL};
    sac_error err;
    sac_result r;
    sac_events e = hear(&h);
    assert_ok(sac_session_generate(t, turns, 3, &o, &e, &r, &err), err);
    hear_end(&h, t, model, &r);
    assert_true(r.n_reused_tokens >= FRAMES * FRAME_TOKENS && r.n_reused_tokens <= first.n_prompt);
    e = hear(&fresh);
    assert_ok(sac_session_generate(alone, turns, 3, &o, &e, &r, &err), err);
    hear_end(&fresh, alone, model, &r);
    heard_equal(&h, &fresh);
    e = hear(&h); /* the conversation's own session has the answer's rows, but t has the turn's whole prompt */
    assert_ok(sac_session_generate(s, turns, 3, &o, &e, &r, &err), err);
    hear_end(&h, s, model, &r);
    assert_true(r.n_reused_tokens > first.n_prompt);
    heard_equal(&h, &fresh);
    sac_session_free(s);
    sac_session_free(t);
    sac_session_free(alone);
    sac_beginnings_close(b);
}

static int64_t taken_of(sac_session *s, const sac_message *m) {
    static heard h;
    sac_sampling o = step_sampling(2);
    hear_alone(&h, model, s, m, &o);
    return h.n_reused;
}

/* What looks alike but is not: other frames, another picture, other settings; and what is held no more. */
static void others_are_not_taken(void **state) {
    static const struct {
        const char *prefill, *decode, *kv;
        int64_t n_ctx;
        bool shares;
    } others[] = {{NULL, NULL, NULL, 1024, true},       {NULL, NULL, NULL, 700, true},
                  {NULL, "quest:budget=64,page=16", NULL, 1024, true},
                  {NULL, NULL, "f32", 1024, false},     {"streaming:start=4,recent=300", NULL, NULL, 1024, false},
                  {NULL, NULL, "kivi", 1024, false},    {NULL, "snapkv:cap=64", NULL, 1024, false}};
    (void)state;
    asked q;
    sac_beginnings *b = open_beginnings(model);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024), *t;
    join(s, b);
    taken_of(s, ask_about(&q, STEP_VIDEO, FRAMES, "How many numbers appear?"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        t = step_session(model, others[i].prefill, others[i].decode, others[i].kv, others[i].n_ctx);
        join(t, b);
        int64_t n = taken_of(t, ask_about(&q, STEP_VIDEO, FRAMES, "Describe the video."));
        assert_true(others[i].shares ? n >= FRAMES * FRAME_TOKENS : n == 0);
        sac_session_free(t);
    }
    t = step_session(model, NULL, NULL, NULL, 1024);
    join(t, b);
    assert_true(taken_of(t, ask_about(&q, STEP_VIDEO, FRAMES + 1, "Describe the video.")) < 16);
    sac_session_reset(t);
    assert_true(taken_of(t, ask_about(&q, STEP_PICTURE, 0, "Describe the image.")) < 16);
    sac_session_reset(t);
    sac_session_reset(s);
    assert_int_equal(taken_of(t, ask_about(&q, STEP_VIDEO, FRAMES, "Describe the video.")), 0);
    sac_error err;
    assert_int_equal(sac_session_join(t, b, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s); /* before t takes of what is left: it is not asked any more */
    sac_session_reset(t);
    assert_int_equal(taken_of(t, ask_about(&q, STEP_VIDEO, FRAMES, "Describe the video.")), 0);
    sac_session_free(t);
    sac_beginnings_close(b);
}

/* A prompt that is given up in the middle leaves nothing to take; what it had taken stays. */
static void a_prompt_that_is_given_up(void **state) {
    static heard h, fresh;
    (void)state;
    asked q[2];
    sac_error err;
    sac_sampling o = step_sampling(8);
    sac_beginnings *b = open_beginnings(model);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024), *t = step_session(model, NULL, NULL, NULL, 1024);
    join(s, b);
    join(t, b);
    ask_about(&q[0], STEP_VIDEO, FRAMES, "How many numbers appear?");
    ask_about(&q[1], STEP_VIDEO, FRAMES, "Describe the video.");
    hear_alone(&fresh, model, t, &q[1].message, &o);
    sac_session_reset(t);
    for (int n_pieces = 1;; n_pieces++) {
        bool done = false;
        sac_input in = {.messages = &q[0].message, .n_messages = 1};
        assert_ok(sac_session_begin_work(s, &in, &o, NULL, &err), err);
        for (int i = 0; i < n_pieces && !done; i++) assert_ok(sac_session_work_next(s, &done, &err), err);
        if (done) break;
        sac_session_end(s, NULL);
        hear_alone(&h, model, t, &q[1].message, &o);
        assert_int_equal(h.n_reused, 0);
        heard_equal(&h, &fresh);
        sac_session_reset(t);
        sac_session_reset(s);
    }
    hear_alone(&h, model, t, &q[1].message, &o);
    assert_true(h.n_reused >= FRAMES * FRAME_TOKENS);
    heard_equal(&h, &fresh);
    sac_session_free(s);
    sac_session_free(t);
    sac_beginnings_close(b);
}

/* ---------------------------------------------------------------- families, and chunks of every size */

static const struct {
    const char *path, *chat;
    bool has_vision;
} families[] = {{FOLDER "llama_f32", NULL, false},     {FOLDER "qwen2", NULL, false},
                {FOLDER "qwen2_vl", "plain", true},    {FOLDER "qwen2_5_vl", "plain", true},
                {FOLDER "qwen3_vl", "plain", true},    {FOLDER "gemma3", "plain", true},
                {FOLDER "gguf_llama_q8_0/q8_0.gguf", NULL, false}, {FOLDER "qwen3_moe", NULL, false},
                {FOLDER "qwen3_vl_moe", "plain", true},            {FOLDER "glm46v", NULL, true},
                {FOLDER "glm4_moe", NULL, false},
                {FOLDER "deepseek_v3", NULL, false},               {FOLDER "kimi_vl", NULL, true}};

static void every_family_and_chunk(void **state) {
    static said want, got;
    static const char *texts[] = {LONG_TEXT LONG_TEXT "one", LONG_TEXT LONG_TEXT "two and more of the same, but longer",
                                  LONG_TEXT LONG_TEXT "?"};
    static const int chunks[] = {3, 8, 12, 16, 17, 40, 256};
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        sac_model_options mo;
        sac_model *m;
        sac_error err;
        sac_model_options_default(&mo);
        mo.n_threads = 2;
        mo.chat_format = families[f].chat ? families[f].chat : "plain";
        assert_ok(sac_model_open(&m, families[f].path, &mo, &err), err);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            sac_beginnings *b = open_beginnings(m);
            sac_session *s = chunked(m, chunks[c], "f32"), *t = chunked(m, chunks[c], "f32"),
                        *alone = chunked(m, chunks[c], "f32");
            pictures p;
            join(s, b);
            join(t, b);
            say(m, s, about(&p, families[f].has_vision, texts[0]), &want);
            for (int k = 1; k < 3; k++) {
                int64_t n = say(m, t, about(&p, families[f].has_vision, texts[k]), &got);
                if (n < 80) fail_msg("%s, chunks of %d: %lld rows", families[f].path, chunks[c], (long long)n);
                sac_session_reset(alone);
                assert_int_equal(say(m, alone, &p.message, &want), 0);
                assert_memory_equal(&got, &want, sizeof got);
                sac_session_reset(t);
            }
            sac_session_free(s);
            sac_session_free(t);
            sac_session_free(alone);
            sac_beginnings_close(b);
        }
        sac_model_free(m);
    }
}

/* Of a prompt of few tokens that is asked again one row is run alone. */
static void short_prompts_asked_again(void **state) {
    static said first, again;
    static const char *texts[] = {"a", "the", "the dog", "the lazy dog", "the lazy dog runs", "over the lazy dog", LONG_TEXT};
    static const int chunks[] = {12, 256};
    (void)state;
    sac_model_options mo;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&mo);
    mo.chat_format = "plain";
    assert_ok(sac_model_open(&m, FOLDER "llama_f32", &mo, &err), err);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            sac_session *s = chunked(m, chunks[c], "f32");
            pictures p;
            assert_int_equal(say(m, s, about(&p, false, texts[i]), &first), 0);
            say(m, s, &p.message, &again);
            assert_memory_equal(&again, &first, sizeof first);
            sac_session_free(s);
        }
    sac_model_free(m);
}

/* ---------------------------------------------------------------- adapters, threads */

#define ADAPTERS "tests/golden/adapters/llama_f32/"

static void adapters_do_not_share(void **state) {
    static const char *const kept[] = {"a=" ADAPTERS "attention", "b=" ADAPTERS "all_linear:1.5"};
    static said want, got;
    (void)state;
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    o.chat_format = "plain";
    o.kept_adapters = kept;
    o.n_kept_adapters = 2;
    assert_ok(sac_model_open(&m, FOLDER "llama_f32", &o, &err), err);
    const char *names[] = {NULL, "a", "b"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            sac_beginnings *b = open_beginnings(m);
            sac_session *s = chunked(m, 256, "f32"), *t = chunked(m, 256, "f32"), *alone = chunked(m, 256, "f32");
            pictures p;
            join(s, b);
            join(t, b);
            assert_ok(sac_session_set_adapter(s, names[i], &err), err);
            assert_ok(sac_session_set_adapter(t, names[k], &err), err);
            assert_ok(sac_session_set_adapter(alone, names[k], &err), err);
            say(m, s, about(&p, false, LONG_TEXT "one"), &want);
            int64_t n = say(m, t, about(&p, false, LONG_TEXT "two and more of it"), &got);
            assert_true(i == k ? n > 20 : n == 0);
            say(m, alone, &p.message, &want);
            assert_memory_equal(&got, &want, sizeof got);
            sac_session_free(s);
            sac_session_free(t);
            sac_session_free(alone);
            sac_beginnings_close(b);
        }
    sac_model_free(m);
}

enum { THREADS = 3, ROUNDS = 12, QUESTIONS = 4 };
static said thread_want[QUESTIONS];
static const char *const thread_texts[QUESTIONS] = {LONG_TEXT "one two three four five", LONG_TEXT "two of them, not three",
                                                    LONG_TEXT LONG_TEXT "three", "another text that begins like nothing else"};
typedef struct asker {
    pthread_t thread;
    const sac_model *m;
    sac_session *s;
    int number;
} asker;

static void *ask_round_and_round(void *ctx) {
    asker *a = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        pictures p;
        said *got = malloc(sizeof *got);
        int k = (i * 5 + a->number * 3) % QUESTIONS;
        say(a->m, a->s, about(&p, false, thread_texts[k]), got);
        assert_memory_equal(got, &thread_want[k], sizeof *got);
        free(got);
        if (i % 5 == a->number) sac_session_reset(a->s);
    }
    return NULL;
}

static void sessions_of_several_threads(void **state) {
    (void)state;
    sac_model_options o;
    sac_model *m;
    sac_error err;
    asker a[THREADS];
    pictures p;
    sac_model_options_default(&o);
    o.chat_format = "plain";
    o.n_threads = 1;
    assert_ok(sac_model_open(&m, FOLDER "llama_f32", &o, &err), err);
    sac_session *alone = chunked(m, 32, "f16");
    for (int k = 0; k < QUESTIONS; k++) {
        sac_session_reset(alone);
        say(m, alone, about(&p, false, thread_texts[k]), &thread_want[k]);
    }
    sac_session_free(alone);
    sac_beginnings *b = open_beginnings(m);
    for (int i = 0; i < THREADS; i++) {
        a[i] = (asker){.m = m, .s = chunked(m, 32, "f16"), .number = i};
        join(a[i].s, b);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&a[i].thread, NULL, ask_round_and_round, &a[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(a[i].thread, NULL);
    sac_beginnings_report r;
    sac_beginnings_get_report(b, &r);
    assert_true(r.n_taken > 0);
    for (int i = 0; i < THREADS; i++) sac_session_free(a[i].s);
    sac_beginnings_close(b);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_video_is_run_once),       cmocka_unit_test(answers_are_not_shared),
        cmocka_unit_test(others_are_not_taken),      cmocka_unit_test(a_prompt_that_is_given_up),
        cmocka_unit_test(every_family_and_chunk),
        cmocka_unit_test(short_prompts_asked_again),    cmocka_unit_test(adapters_do_not_share),
        cmocka_unit_test(sessions_of_several_threads),
    };
    return cmocka_run_group_tests_name("beginnings", tests, open_model, close_model);
}
