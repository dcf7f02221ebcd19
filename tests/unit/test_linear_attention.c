/* Models whose layers have linear attention, which keep a state of a sequence in the place of keys and values: answers depend
 * neither on how a prompt is cut, nor on what runs beside, nor on what the session held before. */
#include "kvquant.h"
#include "policy.h"
#include "step_test.h"

#include <math.h>
#include <stdlib.h>

static const char *const texts[] = {"Say something about owls, and about the mouse that saw them.", "Was it there?",
                                    "the owl and the mouse saw that this one was on the wire."};
enum { N_CTX = 256 };

static sac_sampling sampling(void) {
    sac_sampling o = step_sampling(24);
    o.ignore_eos = true;
    o.logprobs = true;
    return o;
}

static sac_model *open_named(const char *path) {
    sac_model *m;
    sac_error err;
    assert_ok(sac_model_open(&m, path, NULL, &err), err);
    return m;
}

static sac_status create(sac_session **s, const sac_model *m, const char *prefill, const char *decode, const char *kv,
                         int64_t chunk, const char *draft, sac_error *err) {
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = N_CTX, c.prefill_chunk = chunk, c.draft = draft;
    if (prefill) c.prefill = prefill;
    if (decode) c.decode = decode;
    if (kv) c.kv = kv;
    return sac_session_create(s, m, &c, err);
}

static void close_to(const heard *a, const heard *b, float most) {
    assert_string_equal(a->text, b->text);
    for (size_t i = 0; i < STEP_VOCAB; i++)
        if (!(fabsf(a->logits[i] - b->logits[i]) <= most))
            fail_msg("logit %zu is %g, not %g", i, (double)a->logits[i], (double)b->logits[i]);
}

/* ---------------------------------------------------------------- cuts */

static void chunks_change_nothing(void **state) {
    static heard whole, cut;
    static const int64_t chunks[] = {17, 20, 33, 64, 100};
    sac_model *m = open_named(*state);
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    char text[600] = "";
    for (int i = 0; i < 2; i++) strcat(text, texts[2 * i]);
    sac_session *s;
    assert_ok(create(&s, m, NULL, NULL, "f32", 256, NULL, &err), err);
    hear_alone(&whole, m, s, ask_about(&q, NULL, 0, text), &o);
    sac_session_free(s);
    assert_true(whole.n_prompt > 66);
    for (size_t i = 0; i < SAC_COUNT(chunks); i++) {
        assert_ok(create(&s, m, NULL, NULL, "f32", chunks[i], NULL, &err), err);
        hear_alone(&cut, m, s, ask_about(&q, NULL, 0, text), &o);
        heard_equal(&whole, &cut);
        sac_session_free(s);
    }
    for (int64_t few = 1; few <= 5; few += 2) { /* chunks of few rows have other roundings */
        assert_ok(create(&s, m, NULL, NULL, "f32", few, NULL, &err), err);
        hear_alone(&cut, m, s, ask_about(&q, NULL, 0, text), &o);
        close_to(&whole, &cut, 1e-3f);
        sac_session_free(s);
    }
    sac_model_free(m);
}

/* ---------------------------------------------------------------- batches */

typedef struct guest {
    const char *prefill, *decode, *kv;
} guest;
static const guest guests[] = {
    {NULL, NULL, "f32"},          {NULL, NULL, "bf16"},
    {"zipvl:min=0", NULL, NULL},  {NULL, "tokenselect:k=32", NULL},
    {NULL, "twilight", NULL},     {NULL, "quest:budget=32", NULL},
    {NULL, "h2o", NULL},          {NULL, NULL, "mixed"},
    {"fastv:ratio=0", NULL, NULL}, {NULL, NULL, "kivi:group=16,residual=16"},
};
enum { N_GUESTS = 40 }; /* more than go together */

/* All at once in a batch, then each in a session of its own. */
static void answers_together_are_those_alone(void **state) {
    static heard alone, together[N_GUESTS];
    sac_session *sessions[N_GUESTS], *s;
    sac_batch_item items[N_GUESTS];
    sac_events events[N_GUESTS];
    sac_model *m = open_named(*state);
    sac_batch *b;
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    assert_ok(sac_batch_create(&b, m, N_GUESTS, &err), err);
    for (int i = 0; i < N_GUESTS; i++) {
        const guest *g = &guests[i % (int)SAC_COUNT(guests)];
        assert_ok(create(&sessions[i], m, g->prefill, g->decode, g->kv, 0, NULL, &err), err);
        events[i] = hear(&together[i]);
        items[i] = (sac_batch_item){.session = sessions[i], .events = &events[i]};
        assert_ok(sac_session_begin(sessions[i], ask_about(&q, NULL, 0, texts[i % 3]), 1, &o, &events[i], &err), err);
    }
    for (int n_done = 0; n_done < N_GUESTS;) {
        n_done = 0;
        assert_ok(sac_batch_step(b, items, N_GUESTS, &err), err);
        for (int i = 0; i < N_GUESTS; i++) n_done += items[i].done;
    }
    for (int i = 0; i < N_GUESTS; i++) {
        const guest *g = &guests[i % (int)SAC_COUNT(guests)];
        sac_result r;
        assert_ok(items[i].status, items[i].error);
        sac_session_end(sessions[i], &r);
        hear_end(&together[i], sessions[i], m, &r);
        sac_session_free(sessions[i]);
        assert_ok(create(&s, m, g->prefill, g->decode, g->kv, 0, NULL, &err), err);
        hear_alone(&alone, m, s, ask_about(&q, NULL, 0, texts[i % 3]), &o);
        heard_equal(&alone, &together[i]);
        sac_session_free(s);
    }
    sac_batch_free(b);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- what a session holds */

/* A state is of all rows, so of a prompt of one chunk no beginning is kept: another question runs from its first token. */
static void another_question_gets_its_own_answer(void **state) {
    static heard first, again, fresh;
    static const char other[] = "Say something about owls, and about me.";
    sac_model *m = open_named(*state);
    asked q;
    const sac_sampling o = sampling();
    sac_session *s = step_session(m, NULL, NULL, "f32", N_CTX), *t = step_session(m, NULL, NULL, "f32", N_CTX);
    hear_alone(&first, m, s, ask_about(&q, NULL, 0, texts[0]), &o);
    hear_alone(&again, m, s, ask_about(&q, NULL, 0, other), &o);
    hear_alone(&fresh, m, t, ask_about(&q, NULL, 0, other), &o);
    assert_int_equal(again.n_reused, 0);
    heard_equal(&again, &fresh);
    sac_session_reset(s);
    hear_alone(&again, m, s, ask_about(&q, NULL, 0, texts[0]), &o);
    heard_equal(&again, &first);
    sac_session_free(s);
    sac_session_free(t);
    sac_model_free(m);
}

/* Of a prompt of several chunks the states are saved where one or two of them are left: what begins alike up to there goes on from
 * there, with the bits of a session that held nothing; what does not, from its first token. */
static void long_beginnings_are_kept(void **state) {
    static heard h, fresh;
    static const struct {
        const char *text;
        bool keeps;
    } asked_then[] = {{"one, and then?", true}, {"two and more of the same, but longer than before, and longer than a chunk", true},
                      {"?", false /* saved behind what both share */}, {NULL, false}, {"one, and then?", false}, {"two?", true}};
    static const char shared[] = "the owl and the mouse saw that this one was on the wire, and the owl saw the mouse.";
    sac_model *m = open_named(*state);
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    sac_session *s, *t;
    char text[300];
    assert_ok(create(&s, m, NULL, NULL, "f32", 20, NULL, &err), err);
    assert_ok(create(&t, m, NULL, NULL, "f32", 20, NULL, &err), err);
    snprintf(text, sizeof text, "%s first", shared);
    hear_alone(&h, m, s, ask_about(&q, NULL, 0, text), &o);
    for (size_t i = 0; i < SAC_COUNT(asked_then); i++) {
        snprintf(text, sizeof text, "%s %s", asked_then[i].text ? shared : "Which of them", asked_then[i].text ? asked_then[i].text : "?");
        hear_alone(&h, m, s, ask_about(&q, NULL, 0, text), &o);
        if (asked_then[i].keeps != (h.n_reused >= 20)) fail_msg("%s: %lld rows reused", text, (long long)h.n_reused);
        sac_session_reset(t);
        hear_alone(&fresh, m, t, ask_about(&q, NULL, 0, text), &o);
        heard_equal(&h, &fresh);
    }
    sac_session_free(s);
    sac_session_free(t);
    sac_model_free(m);
}

/* Between the pieces of a prompt that was given up, and after it, nothing of it is left. */
static void a_prompt_that_is_dropped_leaves_nothing(void **state) {
    static heard h, fresh;
    sac_model *m = open_named(*state);
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    char text[400];
    snprintf(text, sizeof text, "%s %s", texts[0], texts[2]);
    sac_session *s, *t;
    assert_ok(create(&s, m, NULL, NULL, "f32", 20, NULL, &err), err);
    assert_ok(create(&t, m, NULL, NULL, "f32", 20, NULL, &err), err);
    hear_alone(&fresh, m, t, ask_about(&q, NULL, 0, text), &o);
    for (int n_pieces = 1; n_pieces < 30; n_pieces += 4) {
        bool done = false;
        hear_alone(&h, m, s, ask_about(&q, NULL, 0, texts[0]), &o);
        const sac_input input = {.messages = ask_about(&q, NULL, 0, text), .n_messages = 1};
        assert_ok(sac_session_begin_work(s, &input, &o, NULL, &err), err);
        for (int i = 0; i < n_pieces && !done; i++) assert_ok(sac_session_work_next(s, &done, &err), err);
        sac_session_end(s, NULL);
        hear_alone(&h, m, s, ask_about(&q, NULL, 0, text), &o);
        heard_equal(&h, &fresh);
    }
    sac_session_free(s);
    sac_session_free(t);
    sac_model_free(m);
}

/* A conversation that goes on from all that the session holds runs what is new alone. */
static void conversations_go_on(void **state) {
    sac_model *m = open_named(*state);
    sac_error err;
    sac_result r;
    int32_t ids[200], more[8] = {70, 71, 72, 73, 74, 75, 76, 77}, token;
    size_t n = 0;
    bool done = false;
    const sac_sampling o = sampling();
    sac_model_info info;
    sac_model_get_info(m, &info);
    sac_session *s = step_session(m, NULL, NULL, "f32", N_CTX), *t = step_session(m, NULL, NULL, "f32", N_CTX);
    for (; n < 40; n++) ids[n] = (int32_t)(40 + n * 7 % 200);
    assert_ok(sac_session_begin_tokens(s, ids, n, &o, NULL, &err), err);
    while (!done) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, &r);
    for (int i = 0; i + 1 < r.n_tokens; i++) ids[n++] = r.tokens[i]; /* the last one is not run */
    const int32_t last = r.tokens[r.n_tokens - 1];
    ids[n++] = last;
    for (size_t i = 0; i < 2 * SAC_COUNT(more); i++) ids[n++] = more[i % SAC_COUNT(more)];
    float *logits[2];
    sac_session *both[] = {s, t};
    for (int i = 0; i < 2; i++) {
        assert_ok(sac_session_begin_tokens(both[i], ids, n, &o, NULL, &err), err);
        logits[i] = malloc((size_t)info.vocab * sizeof(float));
        memcpy(logits[i], sac_session_logits(both[i]), (size_t)info.vocab * sizeof(float));
        sac_session_end(both[i], &r);
        assert_int_equal(r.n_reused_tokens, i ? 0 : (int64_t)(40 + 23));
    }
    for (int i = 0; i < info.vocab; i++) assert_true(fabsf(logits[0][i] - logits[1][i]) < 1e-3f);
    for (int i = 0; i < 2; i++) free(logits[i]);
    sac_session_free(s);
    sac_session_free(t);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- methods */

/* Each with settings that choose all there is, and with its usual ones. */
static const struct {
    guest g;
    bool is_all; /* reads everything: answers as dense attention does */
} methods[] = {
    {{"fastv:ratio=0", NULL, NULL}, true},
    {{"fastv", NULL, NULL}, true}, /* no pictures: nothing to drop */
    {{"infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL, NULL}, false},
    {{"minference:pattern=block_sparse,blocks=2", NULL, NULL}, false},
    {{"selfextend:group=2,window=32", NULL, NULL}, false},
    {{"selfextend:group=2,window=32", "selfextend:group=2,window=32", NULL}, false},
    {{"streaming:start=4,recent=300", NULL, NULL}, true},
    {{"streaming:start=4,recent=20", NULL, NULL}, false},
    {{"tokenselect:init=16,k=64,local=32,chunk=32", NULL, NULL}, false},
    {{"zipcache", NULL, "zipcache"}, false},
    {{"zipvl:min=0", NULL, NULL}, false},
    {{"zipvl:min=0,tau=1", NULL, NULL}, true},
    {{NULL, "adore:m=64,sigma=attention,r=0", NULL}, false},
    {{NULL, "doublesparse:k=16", NULL}, false},
    {{NULL, "doublesparse:k=256", NULL}, true},
    {{NULL, "duo:start=4,recent=20,heads=prompt", NULL}, false},
    {{NULL, "h2o:heavy=32,recent=32", NULL}, false},
    {{NULL, "infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL}, false},
    {{NULL, "pyramidkv:cap=40", NULL}, false},
    {{NULL, "quest:budget=32,page=16", NULL}, false},
    {{NULL, "quest:budget=256,page=16", NULL}, true},
    {{NULL, "snapkv:cap=40", NULL}, false},
    {{NULL, "streaming:start=4,recent=20", NULL}, false},
    {{NULL, "tokenselect:k=32", NULL}, false},
    {{NULL, "twilight", NULL}, false},
    {{NULL, "twilight:p=1", NULL}, true},
    {{NULL, NULL, "mixed"}, false},
    {{NULL, NULL, "kivi:group=16,residual=16"}, false},
    {{NULL, NULL, "int4"}, false},
};

static void every_method_answers(void **state) {
    static heard dense, other;
    sac_model *m = open_named(*state);
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    sac_session *s = step_session(m, NULL, NULL, NULL, N_CTX);
    hear_alone(&dense, m, s, ask_about(&q, NULL, 0, texts[0]), &o);
    sac_session_free(s);
    for (size_t i = 0; i < SAC_COUNT(methods); i++) {
        const guest *g = &methods[i].g;
        sac_status st = create(&s, m, g->prefill, g->decode, g->kv, 0, NULL, &err);
        if (st != SAC_OK) fail_msg("%s %s %s: %s", g->prefill, g->decode, g->kv, err.text);
        hear_alone(&other, m, s, ask_about(&q, NULL, 0, texts[0]), &o);
        assert_int_equal(other.n_ids, 24);
        for (size_t k = 0; k < STEP_VOCAB; k++) assert_true(isfinite(other.logits[k]));
        if (methods[i].is_all) close_to(&dense, &other, 1e-3f);
        sac_session_free(s);
    }
    sac_model_free(m);
}

static void what_would_take_back_rows_is_refused(void **state) {
    static const struct {
        const char *decode, *draft, *why;
    } refused[] = {{NULL, "lookup", "keep one state of all tokens"}, {"adore:m=64,sigma=attention,r=8", NULL, "use r=0"}};
    sac_model *m = open_named(*state);
    sac_error err;
    sac_session *s;
    for (size_t i = 0; i < SAC_COUNT(refused); i++) {
        assert_int_equal(create(&s, m, NULL, refused[i].decode, "f32", 0, refused[i].draft, &err), SAC_UNSUPPORTED);
        if (!strstr(err.text, refused[i].why)) fail_msg("\"%s\" does not say \"%s\"", err.text, refused[i].why);
    }
    sac_model_free(m);
}

/* Rows of keys and values are those of the layers that have any; states have a part of their own, of one size. */
static void memory_is_planned(void **state) {
    sac_model *m = open_named(*state);
    sac_memory_report r[2];
    sac_session_config c;
    sac_error err;
    size_t bytes[2] = {0, 0};
    sac_session_config_default(&c);
    c.kv = "f32";
    for (int i = 0; i < 2; i++) {
        c.n_ctx = i ? 512 : 64;
        assert_ok(sac_session_plan(m, &c, &r[i], &err), err);
        for (int k = 0; k < r[i].n_parts; k++)
            if (!strcmp(r[i].parts[k].tag, "states of linear attention")) bytes[i] = r[i].parts[k].n_bytes;
    }
    /* 3 layers of 3 - 1 rows of 44 channels and 4 heads of 6 by 5, twice, in a block of the arena; 2 of one head of 8 */
    const size_t states = 2 * 3 * (2 * 44 + 4 * 6 * 5) * sizeof(float);
    assert_true(bytes[0] >= states && bytes[0] < states + 512);
    assert_int_equal(bytes[0], bytes[1]);
    assert_true(r[1].kv_bytes_per_token >= 2 * 2 * 8 * sizeof(float) && r[1].kv_bytes_per_token < 2 * 2 * 8 * sizeof(float) + 16);
    sac_model_free(m);
}

#define TEXT "tests/golden/models/qwen3_5_text"
#define MOE  "tests/golden/models/qwen3_5_moe_text"
#define OF_MODEL(test, path)                                                                                 \
    { #test " " path, test, NULL, NULL, path }
int main(void) {
    const struct CMUnitTest tests[] = {
        OF_MODEL(chunks_change_nothing, TEXT),
        OF_MODEL(answers_together_are_those_alone, TEXT),
        OF_MODEL(another_question_gets_its_own_answer, TEXT),
        OF_MODEL(long_beginnings_are_kept, TEXT),
        OF_MODEL(a_prompt_that_is_dropped_leaves_nothing, TEXT),
        OF_MODEL(conversations_go_on, TEXT),
        OF_MODEL(every_method_answers, TEXT),
        OF_MODEL(what_would_take_back_rows_is_refused, TEXT),
        OF_MODEL(memory_is_planned, TEXT),
        OF_MODEL(every_method_answers, "tests/golden/models/qwen3_next"),
        OF_MODEL(chunks_change_nothing, MOE),
        OF_MODEL(another_question_gets_its_own_answer, MOE),
        OF_MODEL(long_beginnings_are_kept, MOE),
        OF_MODEL(every_method_answers, MOE),
        OF_MODEL(what_would_take_back_rows_is_refused, MOE),
        OF_MODEL(every_method_answers, "tests/golden/models/deepseek_v3"), /* whose values end in zeros */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
