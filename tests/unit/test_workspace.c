/* Workspaces that the sessions of a model take in turn: whatever stood in them before, in turns and in two threads at
 * once, every session answers as it does alone; and what is taken is what the plan says. */
#include "step_test.h"
#include "workspace.h"

#include <pthread.h>

typedef struct kind {
    int64_t n_ctx, chunk;
    const char *prefill, *decode, *kv, *path, *text;
    int n_frames;
} kind;

/* Of different sizes and with all that is lent: a packed format's staging area, picked queries, tokens that are
 * computed again, more rows than a chunk has. */
static const kind kinds[] = {
    {1024, 100, NULL, NULL, NULL, STEP_VIDEO, "How many numbers appear?", 6},
    {700, 64, NULL, NULL, "kivi", STEP_PICTURE, "What is this?", 0},
    {900, 256, "zipvl:min=0,recent=4,random=4,tau=0.8", NULL, NULL, STEP_VIDEO, "What is seen?", 4},
    {600, 16, NULL, "adore", NULL, STEP_PICTURE, "Which number?", 0},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], TOKENS = 8 };

static sac_session *make(const sac_model *m, const kind *k) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = k->n_ctx, c.prefill_chunk = k->chunk, c.kv = k->kv;
    if (k->prefill) c.prefill = k->prefill;
    if (k->decode) c.decode = k->decode;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

/* A session of a kind among others, and what one of a model of its own has answered. */
typedef struct guest {
    sac_session *s;
    asked q;
    const sac_message *m;
    sac_sampling o;
    sac_events events;
    heard alone, here;
    bool begun, done;
} guest;

static void ask(guest *g, const sac_model *m, const kind *k) {
    sac_model *own = step_model(2);
    memset(g, 0, sizeof *g);
    g->m = ask_about(&g->q, k->path, k->n_frames, k->text);
    g->o = step_sampling(TOKENS);
    g->s = make(own, k);
    hear_alone(&g->alone, own, g->s, g->m, &g->o);
    sac_session_free(g->s);
    sac_model_free(own);
    g->s = make(m, k);
    g->events = hear(&g->here);
}

/* Nothing of what stands in n workspaces that are idle is a number. */
static void spoil(const sac_model *m, sac_decoder_use use, int n) {
    const sac_workspace_need need = {.vision = use == SAC_FOR_PROMPT};
    sac_workspace *w[KINDS];
    sac_error err;
    for (int i = 0; i < n; i++) {
        assert_ok(sac_workspace_borrow(m, &need, use, &w[i], &err), err);
        size_t n_bytes = w[i]->rows.capacity_bytes - 128;
        memset(sac_arena_take(&w[i]->rows, n_bytes), 0xff, n_bytes);
        if (w[i]->vision.features) memset(w[i]->vision.features, 0xff, 4096);
    }
    while (n-- > 0) sac_workspace_give_back(m, w[n]);
}

static void end(guest *g, const sac_model *m) {
    sac_result r;
    sac_session_end(g->s, &r);
    hear_end(&g->here, g->s, m, &r);
    heard_equal(&g->alone, &g->here);
}

static void turns_give_the_answers_of_one_alone(void **state) {
    static guest g[KINDS];
    sac_error err;
    int32_t token;
    (void)state;
    for (int i = 0; i < KINDS; i++) ask(&g[i], model, &kinds[i]);
    spoil(model, SAC_FOR_PROMPT, KINDS);
    for (int i = 0; i < KINDS; i++) {
        sac_input in = {.messages = g[i].m, .n_messages = 1};
        assert_ok(sac_session_begin_work(g[i].s, &in, &g[i].o, &g[i].events, &err), err);
    }
    for (int left = KINDS; left > 0;) { /* a piece of one, then a piece or a step of the next */
        left = 0;
        for (int i = 0; i < KINDS; i++) {
            if (!g[i].begun)
                assert_ok(sac_session_work_next(g[i].s, &g[i].begun, &err), err);
            else if (!g[i].done)
                assert_ok(sac_session_step(g[i].s, &g[i].events, &token, &g[i].done, &err), err);
            left += !g[i].done;
            spoil(model, SAC_FOR_STEP, 1);
        }
    }
    for (int i = 0; i < KINDS; i++) end(&g[i], model);
    for (int i = 0; i < KINDS; i++) sac_session_free(g[i].s);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), 0);
}

static void *answer_often(void *ctx) {
    guest *g = ctx;
    sac_error err;
    int32_t token;
    for (int i = 0; i < 3; i++) {
        sac_session_reset(g->s);
        memset(&g->here, 0, sizeof g->here);
        g->events = hear(&g->here);
        assert_ok(sac_session_begin(g->s, g->m, 1, &g->o, &g->events, &err), err);
        for (bool done = false; !done;)
            assert_ok(sac_session_step(g->s, &g->events, &token, &done, &err), err);
        end(g, g->s->model);
    }
    return NULL;
}

static void two_threads_at_once_have_a_workspace_each(void **state) {
    static guest g[2];
    pthread_t other;
    (void)state;
    for (int i = 0; i < 2; i++) ask(&g[i], model, &kinds[i]);
    assert_int_equal(pthread_create(&other, NULL, answer_often, &g[1]), 0);
    answer_often(&g[0]);
    pthread_join(other, NULL);
    for (int i = 0; i < 2; i++) sac_session_free(g[i].s);
}

/* ---------------------------------------------------------------- what is taken */

static size_t bytes_for(int64_t n_ctx) {
    sac_session_config c;
    sac_memory_report r;
    sac_error err;
    sac_session_config_default(&c);
    c.n_ctx = n_ctx;
    assert_ok(sac_session_plan(model, &c, &r, &err), err);
    return r.workspace_bytes;
}

static void the_plan_is_what_is_taken(void **state) {
    sac_error err;
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        sac_session *s = make(model, &kinds[i]), *t = make(model, &kinds[i]);
        sac_memory_report r;
        size_t device;
        sac_session_memory(s, &r);
        assert_int_equal(s->arena.used_bytes, r.total_bytes);
        assert_int_equal(s->arena.capacity_bytes, r.total_bytes);
        assert_int_equal(sac_model_workspace_bytes(model, &device), r.workspace_bytes); /* one for both */
        assert_int_equal(device, r.workspace_device_bytes);
        assert_ok(sac_session_borrow(s, SAC_FOR_PROMPT, &err), err);
        assert_int_equal(s->workspace->fixed.used_bytes, s->workspace->fixed.capacity_bytes);
        assert_int_equal(s->workspace->rows.used_bytes, s->workspace->rows.capacity_bytes);
        sac_session_give_back(s);
        sac_session_free(t);
        sac_session_free(s);
    }
    size_t n = sac_batch_plan(model, 5, NULL);
    sac_batch *b;
    assert_ok(sac_batch_create(&b, model, 5, &err), err);
    assert_int_equal(sac_batch_bytes(b), n);
    sac_batch_free(b);
}

static void there_are_as_many_as_run_at_once(void **state) {
    sac_session *s[3];
    sac_error err;
    size_t one = bytes_for(500), large = bytes_for(1000);
    (void)state;
    assert_true(large > one);
    for (int i = 0; i < 3; i++) s[i] = step_session(model, NULL, NULL, NULL, 500);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), one);
    assert_ok(sac_session_borrow(s[0], SAC_FOR_PROMPT, &err), err);
    assert_ok(sac_session_borrow(s[1], SAC_FOR_PROMPT, &err), err);
    assert_true(s[0]->workspace != s[1]->workspace);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), 2 * one);
    sac_session_free(s[2]);
    s[2] = step_session(model, NULL, NULL, NULL,
                        1000); /* those of the others are at work, and too small for it */
    assert_int_equal(sac_model_workspace_bytes(model, NULL), 2 * one + large);
    sac_session_give_back(s[0]);
    sac_session_give_back(s[1]);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), large);
    assert_ok(sac_session_borrow(s[2], SAC_FOR_PROMPT, &err), err);
    assert_ok(sac_session_borrow(s[0], SAC_FOR_STEP, &err), err);
    assert_in_range(sac_model_workspace_bytes(model, NULL) - large, 1, one - 1); /* a step has few rows */
    for (int i = 0; i < 3; i++) sac_session_free(s[i]);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), 0);
}

static void reserved_ones_are_there_before(void **state) {
    sac_error err;
    size_t one = bytes_for(500);
    (void)state;
    assert_int_equal(sac_model_reserve_workspaces(model, 0, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_model_reserve_workspaces(model, 3, &err), err);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), 0); /* there is no session */
    sac_session *s = step_session(model, NULL, NULL, NULL, 500);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), 3 * one);
    sac_session_free(s);
    assert_ok(sac_model_reserve_workspaces(model, 1, &err), err);
}

/* A session may go in the middle of a prompt; the next has its workspace. */
static void a_session_that_goes_gives_back(void **state) {
    static guest g;
    sac_error err;
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024);
    size_t one = sac_model_workspace_bytes(model, NULL);
    (void)state;
    ask(&g, model, &kinds[0]);
    sac_input in = {.messages = g.m, .n_messages = 1};
    assert_ok(sac_session_begin_work(g.s, &in, &g.o, &g.events, &err), err);
    for (int i = 0; i < 6; i++) assert_ok(sac_session_work_next(g.s, &g.begun, &err), err);
    assert_false(g.begun);
    assert_non_null(g.s->workspace);
    sac_session_free(g.s);
    assert_ok(sac_session_prefill(s, g.m, 1, NULL, &err), err);
    assert_int_equal(sac_model_workspace_bytes(model, NULL), one);
    assert_null(s->workspace);
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_give_the_answers_of_one_alone),
        cmocka_unit_test(two_threads_at_once_have_a_workspace_each),
        cmocka_unit_test(the_plan_is_what_is_taken),
        cmocka_unit_test(there_are_as_many_as_run_at_once),
        cmocka_unit_test(reserved_ones_are_there_before),
        cmocka_unit_test(a_session_that_goes_gives_back),
    };
    return cmocka_run_group_tests_name("workspaces", tests, open_model, close_model);
}
