/* Packed formats in pages: the bits of sessions that have memory for their whole context, parked and brought back, and as many pages as
 * bits. On a card, where there is one. */
#include "paged_test.h"

enum { N_HOGS = 6 };

/* One step of each in turns; the one in pages is parked now and then and comes back with its step. Several blocks are packed while it
 * answers, by formats that leave 32 tokens to each. */
static void answer_both(sac_session *whole, sac_session *paged, const char *text, int n, bool parks) {
    asked q;
    sac_error err;
    sac_result r;
    bool done = false;
    int n_parked = 0;
    const sac_sampling o = sampling(n);
    const sac_message *m = ask_about(&q, NULL, 0, text);
    assert_ok(sac_session_begin(whole, m, 1, &o, NULL, &err), err);
    assert_ok(sac_session_begin(paged, m, 1, &o, NULL, &err), err);
    for (int i = 0; !done; i++) {
        int32_t a, b;
        if (parks && i % 13 == 5) {
            assert_ok(sac_session_park(paged, &err), err);
            assert_int_equal(sac_session_paged_bytes(paged), 0);
            if (sac_session_is_parked(paged)) assert_true(sac_session_lacks(paged) > 0); /* not all are in a tail yet */
            n_parked += sac_session_is_parked(paged);
        }
        if (parks && i % 7 == 3) sac_session_trim(paged);
        assert_ok(sac_session_step(whole, NULL, &a, &done, &err), err);
        assert_ok(sac_session_step(paged, NULL, &b, &done, &err), err);
        assert_int_equal(a, b);
        if (!on_card) assert_memory_equal(sac_session_logits(whole), sac_session_logits(paged), (size_t)info.vocab * sizeof(float));
    }
    sac_session_end(whole, &r);
    sac_session_end(paged, &r);
    assert_int_equal(r.n_tokens, n);
    assert_true(!parks || n_parked > 0);
}

/* Pages of a session that is trimmed; of rows whose bits are known in advance no more than they take. */
static void has_what_it_uses(const sac_session *s) {
    const sac_kv_cache *c = &s->decoder.cache;
    const sac_kv_in_planes *in = c->choice.format->packing->in_planes;
    const size_t page = sac_page_pool_page_bytes(c->pool);
    size_t most = 0;
    for (int layer = 0; layer < c->shape->n_layers; layer++) {
        const size_t used = in->used(c->packing, layer);
        most = used > most ? used : most;
    }
    assert_true(most > 0 && c->planes.n_taken * page >= most);
    if (in->by_layer && !on_card) assert_int_equal(c->planes.n_taken, (most + page - 1) / page);
}

static void packed_rows_are_those_of_whole_memory(void **state) {
    (void)state;
    static const choice choices[] = {
        {NULL, NULL, "mixed", true},
        {NULL, NULL, "mixed:gap=32,k_group=16", true},
        {NULL, NULL, "mixed:gap=40,plain=9,high=8,low=2,tau=0.5", false},
        {NULL, NULL, "mixed:gap=32,rope=before", false},
        {NULL, NULL, "mixed:gap=32,low=0,tau=0.5", false},
        {NULL, NULL, "mixed:gap=32,top_p=0.8", false},
        {NULL, NULL, "mixed:gap=32,high=8,low=2,tau=0.01", false},
        {"zipvl:min=0,recent=4,random=4,tau=0.8", NULL, "mixed:gap=32", false},
        {"zipvl:min=0,recent=4,random=4,tau=0.5", NULL, "mixed:gap=32,low=0", false},
        {"zipcache", NULL, "zipcache:gap=32", false},
        {"zipcache", NULL, "zipcache:gap=32,requantise=0,k_group=16", false},
        {NULL, NULL, "zipcache:gap=32,rope=before,high=2,low=8", false},
        {NULL, NULL, "int4", true},
        {NULL, NULL, "int4:bits=8", false},
        {NULL, NULL, "kivi:group=16,residual=16", true},
        {NULL, NULL, "kivi:bits=4,group=32,residual=64", false},
        {"fastv:layer=1,ratio=0.5", NULL, "int4:bits=2", false},
        {"fastv:layer=1,ratio=0.5", NULL, "kivi:group=16,residual=16", false},
    };
    sac_model *whole = open_there(), *paged = open_paged(4.02);
    for (size_t i = 0; i < SAC_COUNT(choices); i++) {
        if (on_card && !choices[i].anywhere) continue;
        sac_session *s = make(whole, &choices[i]), *t = make(paged, &choices[i]);
        assert_int_equal(sac_session_paged_bytes(t), 0);
        answer_both(s, t, LONG_TEXT "what is this?", 90, true);
        answer_both(s, t, LONG_TEXT LONG_TEXT LONG_TEXT LONG_TEXT LONG_TEXT "is it?", 3, false); /* anew: of more bits than what goes */
        answer_both(s, t, LONG_TEXT LONG_TEXT "and the dog?", 40, true);
        sac_session_trim(t);
        has_what_it_uses(t);
        sac_session_reset(t);
        all_free(paged);
        sac_session_free(s);
        sac_session_free(t);
    }
    sac_model_free(whole);
    sac_model_free(paged);
}

/* kvarn turns heads of a power of two, which the other model has not. On the CPU. */
static void tiles_are_those_of_whole_memory(void **state) {
    (void)state;
    static const char *const formats[] = {"kvarn", "kvarn:k=8,first=2"};
    const bool had_card = on_card;
    const sac_model_info had = info;
    on_card = false;
    for (size_t i = 0; i < SAC_COUNT(formats); i++) {
        sac_model *m[2];
        sac_session *s[2];
        sac_error err;
        for (int k = 0; k < 2; k++) {
            assert_ok(sac_model_open(&m[k], FOLDER "granitemoe", NULL, &err), err);
            if (k) assert_ok(sac_model_page_kv(m[k], (size_t)1 << 20, &err), err);
            s[k] = make(m[k], &(choice){NULL, NULL, formats[i], false});
        }
        sac_model_get_info(m[0], &info);
        answer_both(s[0], s[1], LONG_TEXT "what is this?", 200, true);
        answer_both(s[0], s[1], LONG_TEXT LONG_TEXT LONG_TEXT "is it?", 20, true);
        assert_true(sac_session_paged_bytes(s[1]) > 0);
        sac_session_reset(s[1]);
        all_free(m[1]);
        for (int k = 0; k < 2; k++) sac_session_free(s[k]), sac_model_free(m[k]);
    }
    on_card = had_card;
    info = had;
}

/* What a prompt has packed is known behind it: what it could have taken goes back. So many bits, so many pages. */
static void packed_rows_take_fewer_pages(void **state) {
    (void)state;
    static const char *const formats[] = {"f16", "mixed:high=4,low=2", "mixed:high=2,low=2", "int4:bits=8", "int4", "int4:bits=2", "kivi:group=16,residual=16"};
    size_t took[SAC_COUNT(formats)];
    sac_model *m = open_paged(4.02);
    for (size_t i = 0; i < SAC_COUNT(formats) && !on_card; i++) { /* there a page holds a whole context */
        sac_session *s = make(m, &(choice){"zipvl:min=0,recent=4,random=4,tau=0.4", NULL, formats[i], false});
        fill(s, CTX - 32);
        took[i] = sac_session_paged_bytes(s);
        sac_session_free(s);
        all_free(m);
    }
    if (!on_card) {
        assert_true(took[1] < took[0] / 2);
        assert_true(took[2] < took[1]);
        assert_true(took[3] < took[0]);
        assert_true(took[4] < took[0] * 2 / 3 && took[4] < took[3]);
        assert_true(took[5] < took[4] && took[6] < took[4]);
    }
    sac_model_free(m);
}

/* A conversation in few bits is forgotten for a prompt in many: it waits before anything is lost, not in the middle. */
static void a_prompt_anew_waits_for_all_its_bits(void **state) {
    (void)state;
    sac_model *m = open_paged(2.02);
    sac_session *a = make(m, &(choice){0}), *b = make(m, &(choice){NULL, NULL, "mixed:gap=32,high=8,low=2,tau=0.01", false});
    sac_error err;
    sac_result r;
    asked q;
    bool done = false;
    const sac_sampling many = sampling(100), few = sampling(2);
    assert_ok(sac_session_generate(b, ask_about(&q, NULL, 0, "How many?"), 1, &many, NULL, &r, &err), err);
    sac_session_trim(b);
    const int64_t held = sac_session_n_tokens(b);
    for (sac_status st = SAC_OK; st == SAC_OK && sac_session_n_tokens(a) < CTX - 9;) {
        int32_t id = 9;
        st = sac_session_append(a, &id, 1, NULL, &err);
    }
    sac_session *hogs[N_HOGS] = {NULL};
    for (int i = 0; i < N_HOGS && !on_card; i++) {
        int32_t id = 9;
        hogs[i] = make(m, &(choice){0});
        while (sac_session_append(hogs[i], &id, 1, NULL, &err) == SAC_OK && sac_session_n_tokens(hogs[i]) < CTX - 9) {
        }
    }
    sac_session_wait_for_pages(b, true);
    const sac_message *long_one = ask_about(&q, NULL, 0, LONG_TEXT "why?");
    assert_ok(sac_session_begin_work(b, &(sac_input){.messages = long_one, .n_messages = 1}, &few, NULL, &err), err);
    for (int i = 0; i < 3 && !on_card; i++) { /* there a page holds a whole context */
        assert_ok(sac_session_work_next(b, &done, &err), err);
        assert_true(!done && sac_session_lacks(b) > 0);
        assert_int_equal(sac_session_n_tokens(b), held);
    }
    sac_session_free(a);
    for (int i = 0; i < N_HOGS; i++) sac_session_free(hogs[i]);
    while (!done) assert_ok(sac_session_work_next(b, &done, &err), err);
    sac_session_end(b, &r);
    assert_true(r.n_prompt_tokens > 32 && r.n_prompt_tokens < held);
    sac_session_free(b);
    all_free(m);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_rows_are_those_of_whole_memory),
        cmocka_unit_test(tiles_are_those_of_whole_memory),
        cmocka_unit_test(packed_rows_take_fewer_pages),
        cmocka_unit_test(a_prompt_anew_waits_for_all_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
