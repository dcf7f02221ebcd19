/* Sessions whose keys and values are in pages: answers are those of sessions that have memory for their whole context, more contexts
 * than there is memory for are open at a time, and where pages run out nothing is lost. On a card, where there is one. */
#include "paged_test.h"

#include <math.h>

enum { ANSWER = 8, MOST = 6 };

/* On a card a product's kernel may be another where rows lie otherwise. */
static void equal(const heard *a, const heard *b) {
    if (!on_card) {
        heard_equal(a, b);
        return;
    }
    assert_int_equal(a->n_ids, b->n_ids);
    assert_int_equal(a->ids[0], b->ids[0]);
    double off = 0, all = 0;
    for (int i = 0; i < info.vocab; i++) {
        off += pow((double)a->logits[i] - (double)b->logits[i], 2);
        all += pow((double)b->logits[i], 2);
    }
    if (!memcmp(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids)) assert_true(off <= 4e-4 * all);
}

static const char *const texts[MOST] = {LONG_TEXT "what is this?", LONG_TEXT LONG_TEXT "and that?", "How many numbers appear?",
                                        LONG_TEXT "which one comes first?", LONG_TEXT LONG_TEXT LONG_TEXT "why?", "What is seen?"};

/* ---------------------------------------------------------------- the same answers */

static void answers_are_those_of_whole_memory(void **state) {
    (void)state;
    static const choice choices[] = {
        {NULL, NULL, NULL, true},
        {NULL, NULL, "f32", false},
        {NULL, NULL, "bf16", false},
        {"zipvl:min=0,recent=4,random=4,tau=0.8", NULL, NULL, false},
        {"minference", NULL, NULL, false},
        {"tokenselect", NULL, NULL, false},
        {"fastv", NULL, NULL, false},
        {"xattn", NULL, NULL, false},
        {NULL, "tokenselect:k=8,init=2,local=4", NULL, false},
        {NULL, "quest:page=3,budget=12,skip=0", NULL, true},
        {NULL, "streaming:start=2,recent=9", NULL, true},
        {NULL, "snapkv:cap=16,window=4", NULL, false},
        {NULL, "h2o:heavy=8,recent=8", NULL, false},
        {NULL, "adore:m=40,r=3,sigma=attention", NULL, false},
        {NULL, "doublesparse", NULL, false},
        {"infllm:init=2,local=12,block=6,topk=2,chunk=8", "infllm:init=2,local=12,block=6,topk=2", NULL, false},
        {"selfextend", "selfextend", NULL, false},
        {NULL, "twilight:base=quest,base.page=3,base.budget=12,skip=0", NULL, false},
    };
    sac_model *whole = open_there(), *paged = open_paged(2.02); /* f32 takes two */
    const sac_sampling o = sampling(ANSWER);
    for (size_t i = 0; i < SAC_COUNT(choices); i++) {
        static heard a, b;
        asked q;
        if (on_card && !choices[i].anywhere) continue;
        sac_session *s = make(whole, &choices[i]), *t = make(paged, &choices[i]);
        assert_int_equal(sac_session_paged_bytes(t), 0);
        for (int k = 0; k < 2; k++) { /* the second keeps rows of the first, where it may */
            const sac_message *m = ask_about(&q, NULL, 0, k ? LONG_TEXT "what is that?" : LONG_TEXT "what is this?");
            hear_alone(&a, whole, s, m, &o);
            hear_alone(&b, paged, t, m, &o);
            equal(&a, &b);
            assert_int_equal(a.n_reused, b.n_reused);
        }
        assert_true(sac_session_paged_bytes(t) > 0);
        sac_session_reset(t);
        all_free(paged);
        sac_session_free(s);
        sac_session_free(t);
    }
    sac_model_free(whole);
    sac_model_free(paged);
}

/* ---------------------------------------------------------------- what there is */

static void memory_is_taken_as_rows_come(void **state) {
    (void)state;
    sac_model *m = open_paged(on_card ? 2.02 : 3.5);
    sac_session *s[MOST];
    sac_error err;
    sac_result r;
    const sac_sampling o = sampling(4);
    for (int i = 0; i < MOST; i++) s[i] = make(m, &(choice){0}); /* more than there is */
    assert_int_equal(sac_model_page_kv(m, (size_t)1 << 20, &err), SAC_BAD_ARGUMENT);
    size_t sum = 0, one = 0;
    for (int i = 0; i < (on_card ? 2 : MOST); i++) {
        asked q;
        assert_ok(sac_session_generate(s[i], ask_about(&q, NULL, 0, texts[i % 2 ? 2 : 5]), 1, &o, NULL, &r, &err), err);
        const size_t had = sac_session_paged_bytes(s[i]);
        sac_session_trim(s[i]); /* those that were there before steps reached them */
        one = sac_session_paged_bytes(s[i]);
        assert_true(one <= had);
        assert_true(one > 0 && (on_card || one < context_bytes() / 3 * 2));
        sum += one;
    }
    sac_kv_pages p;
    sac_model_kv_pages(m, &p);
    assert_int_equal((p.n_pages - p.n_free) * p.page_bytes, sum);
    for (int i = 0; i < MOST; i++) sac_session_free(s[i]);
    all_free(m);
    sac_model_free(m);
}

static void what_never_fits_is_refused(void **state) {
    (void)state;
    sac_model *m = open_paged(0.9);
    sac_session *s;
    sac_error err;
    sac_session_config c;
    sac_session_config_default(&c);
    c.n_ctx = CTX;
    if (!on_card) { /* there a page holds it */
        assert_int_equal(sac_session_create(&s, m, &c, &err), SAC_NO_MEMORY);
        assert_non_null(strstr(err.text, "smaller context"));
    }
    for (int i = 0; i < 2; i++) { /* in fewer bits it fits */
        c.kv = i ? "int4" : "kivi:group=16,residual=16";
        assert_ok(sac_session_create(&s, m, &c, &err), err);
        assert_int_equal(sac_session_paged_bytes(s), 0);
        sac_session_free(s);
    }
    sac_model_free(m);
    m = open_there();
    assert_int_equal(sac_model_page_kv(m, 100, &err), SAC_BAD_ARGUMENT);
    s = make(m, &(choice){0});
    assert_int_equal(sac_model_page_kv(m, (size_t)64 << 20, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_park(s, &err), SAC_UNSUPPORTED);
    assert_int_equal(sac_session_paged_bytes(s), 0);
    assert_int_equal(sac_session_lacks(s), 0);
    sac_session_free(s);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- where they run out */

static void a_prompt_without_memory_fails_alone(void **state) {
    (void)state;
    sac_model *m = open_paged(1.01), *own = open_there();
    sac_session *a = make(m, &(choice){0}), *b = make(m, &(choice){0}), *c = make(own, &(choice){0});
    const sac_sampling o = sampling(ANSWER);
    static heard first, second, alone;
    asked q;
    sac_error err;
    sac_result r;
    fill(a, CTX - 32);
    const sac_message *of = ask_about(&q, NULL, 0, texts[1]);
    assert_int_equal(sac_session_generate(b, of, 1, &o, NULL, &r, &err), SAC_NO_MEMORY);
    assert_non_null(strstr(err.text, "are needed for keys and values"));
    assert_int_equal(sac_session_paged_bytes(b), 0);
    assert_true(sac_session_lacks(b) > 0);
    int32_t id = 9;
    assert_ok(sac_session_append(a, &id, 1, NULL, &err), err); /* the other one goes on */
    sac_session_reset(a);
    hear_alone(&first, m, b, of, &o);
    assert_int_equal(sac_session_lacks(b), 0);
    sac_session_reset(b);
    hear_alone(&second, m, a, of, &o);
    hear_alone(&alone, own, c, of, &o);
    equal(&alone, &first);
    equal(&alone, &second);
    sac_session_free(a);
    sac_session_free(b);
    sac_session_free(c);
    sac_model_free(m);
    sac_model_free(own);
}

/* In the middle of an answer: without waiting it ends, and the session begins anew. */
static void a_step_without_memory_ends_its_answer(void **state) {
    (void)state;
    sac_model *m = open_paged(1.01);
    if (on_card) { /* there a page holds a whole context */
        sac_model_free(m);
        return;
    }
    sac_session *a = make(m, &(choice){0}), *b = make(m, &(choice){0});
    const sac_sampling o = sampling(400);
    asked q;
    sac_error err;
    sac_result r;
    bool done = false;
    int32_t token;
    int n = 0;
    assert_ok(sac_session_begin(b, ask_about(&q, NULL, 0, texts[2]), 1, &o, NULL, &err), err);
    fill(a, 150);
    sac_status st = SAC_OK;
    for (; st == SAC_OK && !done; n++) st = sac_session_step(b, NULL, &token, &done, &err);
    assert_int_equal(st, SAC_NO_MEMORY);
    assert_true(n > 8 && !done);
    assert_int_equal(sac_session_step(b, NULL, &token, &done, &err), SAC_BAD_ARGUMENT);
    sac_session_end(b, &r);
    assert_int_equal(r.n_tokens, n - 1);
    sac_session_reset(a);
    const sac_sampling few = sampling(4);
    assert_ok(sac_session_generate(b, &q.message, 1, &few, NULL, &r, &err), err);
    sac_session_free(a);
    sac_session_free(b);
    all_free(m);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- waiting and parking */

typedef struct guest {
    sac_session *s;
    asked q;
    sac_input in;
    sac_events events;
    heard alone, here;
    bool begun, done;
} guest;

static bool run_prompt(guest *g) {
    sac_error err;
    bool done = false;
    while (!done) {
        assert_ok(sac_session_work_next(g->s, &done, &err), err);
        if (!done && sac_session_lacks(g->s)) return false;
    }
    return g->begun = true;
}

/* Somebody who has pages loses them: who waits first may have more than who came last. */
static bool park_one(guest *g, int n, int but) {
    sac_error err;
    for (int i = n - 1; i >= 0; i--) {
        if (i == but || g[i].done || !sac_session_paged_bytes(g[i].s)) continue;
        assert_ok(sac_session_park(g[i].s, &err), err);
        assert_int_equal(sac_sessions_hold((const sac_session *const[]){g[i].s}, 1), 0); /* what it still has others have too */
        assert_true(sac_session_lacks(g[i].s) > 0);
        return true;
    }
    return false;
}

static void end(guest *g, const sac_model *m) {
    sac_result r;
    sac_session_end(g->s, &r);
    hear_end(&g->here, g->s, m, &r);
    equal(&g->alone, &g->here);
    sac_session_reset(g->s);
    g->done = true;
}

/* As many as do not fit, in a batch, with room for one and a half: all come to their ends, and say what they say alone. */
static void wait_in_turns(const char *kv, double contexts, bool drafts) {
    static guest g[MOST];
    sac_model *own = open_there(), *m = open_paged(on_card ? 2.02 : contexts);
    memset(g, 0, sizeof g);
    const sac_sampling o = sampling(60);
    sac_beginnings *shared;
    sac_batch *batch;
    sac_batch_item items[MOST];
    sac_error err;
    int n_parked = 0, n_done = 0, n_short = 0;
    assert_ok(sac_batch_create(&batch, m, MOST, &err), err);
    assert_ok(sac_beginnings_open(&shared, m, &err), err);
    for (int i = 0; i < MOST; i++) {
        sac_session *alone = make(own, &(choice){NULL, NULL, kv, false});
        const sac_message *q = ask_about(&g[i].q, NULL, 0, texts[i]);
        hear_alone(&g[i].alone, own, alone, q, &o);
        sac_session_free(alone);
        sac_session_config config;
        sac_session_config_default(&config);
        config.n_ctx = CTX;
        config.kv = kv;
        config.draft = drafts && i % 2 && !on_card ? "lookup" : NULL; /* its answers are the same */
        assert_ok(sac_session_create(&g[i].s, m, &config, &err), err);
        assert_ok(sac_session_join(g[i].s, shared, &err), err);
        sac_session_wait_for_pages(g[i].s, true);
        g[i].events = hear(&g[i].here);
        g[i].in = (sac_input){.messages = q, .n_messages = 1};
        assert_ok(sac_session_begin_work(g[i].s, &g[i].in, &o, &g[i].events, &err), err);
    }
    for (int round = 0; n_done < MOST; round++) {
        assert_true(round < 20000);
        int oldest = 0, n = 0, of[MOST];
        while (g[oldest].done) oldest++;
        for (int i = 0; i < MOST; i++) {
            if (!g[i].begun && !run_prompt(&g[i]) && i == oldest) n_parked += park_one(g, MOST, i);
            if (g[i].begun && !g[i].done) of[n] = i, items[n++] = (sac_batch_item){.session = g[i].s, .events = &g[i].events};
        }
        if (round % 17 == 5) n_parked += park_one(g, MOST, -1); /* it comes back with its step */
        assert_ok(sac_batch_step(batch, items, (size_t)n, &err), err);
        for (int k = 0; k < n; k++) {
            guest *one = &g[of[k]];
            if (items[k].status == SAC_NO_MEMORY) {
                assert_true(sac_session_lacks(one->s) > 0);
                n_short++;
                if (of[k] == oldest) n_parked += park_one(g, MOST, oldest);
                continue;
            }
            assert_int_equal(items[k].status, SAC_OK);
            if (items[k].done) end(one, m), n_done++;
        }
    }
    assert_true(n_parked > 0 && (on_card || (n_parked > 3 && n_short > 3)));
    for (int i = 0; i < MOST; i++) sac_session_free(g[i].s);
    all_free(m);
    sac_beginnings_close(shared);
    sac_batch_free(batch);
    sac_model_free(m);
    sac_model_free(own);
}

static void those_who_wait_lose_nothing(void **state) {
    (void)state;
    wait_in_turns(NULL, 1.4, true);
}

static void those_with_packed_rows_wait_too(void **state) {
    (void)state;
    wait_in_turns("mixed:gap=32", 0.6, false);
    if (!on_card) wait_in_turns("zipcache:gap=32", 0.6, false);
    wait_in_turns("int4", 0.6, false);
    if (!on_card) wait_in_turns("kivi:group=16,residual=16", 0.6, false);
}

/* The host takes as many rows as the pages hold. */
static void as_much_is_parked_as_there_are_pages(void **state) {
    (void)state;
    sac_model *m = open_paged(1.01);
    sac_session *a = make(m, &(choice){0}), *b = make(m, &(choice){0});
    sac_error err;
    int32_t id = 9;
    for (int round = 0; round < 3 && !on_card; round++) { /* of a card a page has many times as many rows */
        sac_session_reset(b);
        fill(a, CTX - 60);
        assert_ok(sac_session_park(a, &err), err);
        fill(b, CTX - 60);
        const size_t had = sac_session_paged_bytes(b);
        assert_int_equal(sac_session_park(b, &err), SAC_NO_MEMORY);
        assert_non_null(strstr(err.text, "parked"));
        assert_int_equal(sac_session_paged_bytes(b), had);
        assert_ok(sac_session_append(b, &id, 1, NULL, &err), err);
        assert_int_equal(sac_session_append(a, &id, 1, NULL, &err), SAC_NO_MEMORY);
        if (round == 1) sac_session_reset(b); /* then the first comes back */
        if (round == 1) assert_ok(sac_session_append(a, &id, 1, NULL, &err), err);
        sac_session_reset(a);
        assert_true(round == 1 || sac_session_park(b, &err) == SAC_OK);
    }
    sac_session_free(a);
    sac_session_free(b);
    all_free(m);
    sac_model_free(m);
}

/* Tokens that are appended, in pieces: these wait too, and what was held before stays. */
static void appended_tokens_wait(void **state) {
    (void)state;
    sac_model *m = open_paged(on_card ? 2.02 : 1.01), *own = open_there();
    sac_session *a = make(m, &(choice){0}), *b = make(m, &(choice){0}), *c = make(own, &(choice){0});
    sac_error err;
    int32_t ids[150];
    bool done = false;
    for (int i = 0; i < 150; i++) ids[i] = 5 + i * 11 % (info.vocab / 2);
    fill(c, 40);
    assert_ok(sac_session_append(c, ids, 150, NULL, &err), err);
    fill(b, 40);
    fill(a, 170);
    sac_session_wait_for_pages(b, true);
    assert_ok(sac_session_begin_append(b, ids, 150, NULL, NULL, &err), err);
    for (int i = 0; i < 3 && !on_card; i++) { /* there a page holds a whole context */
        assert_ok(sac_session_work_next(b, &done, &err), err);
        assert_true(!done && sac_session_lacks(b) > 0);
        assert_ok(sac_session_park(b, &err), err);
    }
    assert_int_equal(sac_session_n_tokens(b), 40);
    sac_session_reset(a);
    while (!done) assert_ok(sac_session_work_next(b, &done, &err), err);
    assert_int_equal(sac_session_lacks(b), 0);
    if (!on_card) assert_memory_equal(sac_session_logits(b), sac_session_logits(c), (size_t)info.vocab * sizeof(float));
    sac_session_free(a);
    sac_session_free(b);
    sac_session_free(c);
    sac_model_free(m);
    sac_model_free(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_whole_memory),
        cmocka_unit_test(memory_is_taken_as_rows_come),
        cmocka_unit_test(what_never_fits_is_refused),
        cmocka_unit_test(a_prompt_without_memory_fails_alone),
        cmocka_unit_test(a_step_without_memory_ends_its_answer),
        cmocka_unit_test(those_who_wait_lose_nothing),
        cmocka_unit_test(those_with_packed_rows_wait_too),
        cmocka_unit_test(as_much_is_parked_as_there_are_pages),
        cmocka_unit_test(appended_tokens_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
