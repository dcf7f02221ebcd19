/* Sessions whose prompts begin alike have the pages of the beginning in common: each page is counted once, whoever ends first, and who
 * changes what it has takes a copy before. Answers are, bit for bit, those of sessions that share nothing. */
#include "shared_pages_test.h"

#include <pthread.h>

enum { ENDS = 4 };

static const char *const ends[] = {BEGINNING "what is this?", BEGINNING "and that?", BEGINNING "which one comes first, and why is it so?",
                                   BEGINNING "?"};

static void step(sac_session *s, const oracle *o, int i) {
    sac_error err;
    int32_t id;
    bool done;
    assert_ok(sac_session_step(s, NULL, &id, &done, &err), err);
    compare(s, o, i, id);
}

/* A model with pages, sessions that share beginnings, and what their questions are answered alone. */
typedef struct room {
    sac_model *m;
    sac_beginnings *b;
    sac_session *s[ENDS];
    asked q[ENDS];
    oracle o[ENDS];
} room;

static void open_room_of(room *r, double contexts, const choice *c) {
    sac_model *own = open_there();
    sac_error err;
    memset(r, 0, sizeof *r);
    for (int i = 0; i < ENDS; i++) ask_oracle(&r->o[i], own, ask_about(&r->q[i], NULL, 0, ends[i]), 1, c);
    sac_model_free(own);
    r->m = open_paged(contexts);
    assert_ok(sac_beginnings_open(&r->b, r->m, &err), err);
    for (int i = 0; i < ENDS; i++) {
        r->s[i] = make(r->m, c);
        assert_ok(sac_session_join(r->s[i], r->b, &err), err);
    }
}

static void open_room(room *r, double contexts, const char *kv) {
    open_room_of(r, contexts, &(choice){NULL, NULL, kv, true});
}

static void close_room(room *r) {
    for (int i = 0; i < ENDS; i++) sac_session_free(r->s[i]);
    all_free(r->m);
    sac_beginnings_close(r->b);
    sac_model_free(r->m);
}

static void begin(room *r, int i, int which) {
    const sac_sampling how = sampling(STEPS);
    sac_error err;
    assert_ok(sac_session_begin(r->s[i], &r->q[which].message, 1, &how, NULL, &err), err);
}

/* No page behind its rows stays but those that a kernel may touch. */
static void trim_all(room *r) {
    for (int i = 0; i < ENDS; i++)
        if (r->s[i]) sac_session_end(r->s[i], NULL), sac_session_trim(r->s[i]);
}

/* ---------------------------------------------------------------- once */

/* Rows of what begins alike are there once, and the sessions' own pages hold what is their own. */
static void pages_are_counted_once(void **state) {
    (void)state;
    static const char *const formats[] = {NULL, "f32", "bf16"};
    for (size_t k = 0; k < SAC_COUNT(formats); k++) {
        static room r;
        if (on_card && k) continue;
        open_room(&r, 8, formats[k]);
        begin(&r, 0, 0);
        sac_session_end(r.s[0], NULL);
        sac_session_trim(r.s[0]);
        const size_t one = used(r.m);
        assert_int_equal(one, sac_session_paged_bytes(r.s[0]));
        for (int i = 1; i < ENDS; i++) {
            begin(&r, i, i);
            for (int j = 0; j < STEPS; j++) step(r.s[i], &r.o[i], j);
        }
        trim_all(&r);
        const sac_kv_cache *c = &r.s[1]->decoder.cache;
        const int64_t shared = sac_kv_cache_shared_rows(c);
        assert_true(on_card || shared >= 64);
        size_t sum = 0;
        for (int i = 0; i < ENDS; i++) {
            sum += sac_session_paged_bytes(r.s[i]);
            assert_int_equal(sac_session_paged_bytes(r.s[i]) - sac_sessions_hold((const sac_session *const[]){r.s[i]}, 1),
                             sac_kv_cache_kept_bytes(c, shared));
        }
        assert_int_equal(sum - used(r.m), (ENDS - 1) * sac_kv_cache_kept_bytes(c, shared));
        assert_int_equal(sac_sessions_hold((const sac_session *const *)r.s, ENDS), used(r.m));
        sac_beginnings_report report;
        sac_beginnings_get_report(r.b, &report);
        assert_int_equal(report.n_taken, ENDS - 1); /* pages, and the rows behind them that fill none */
        assert_true(report.n_taken_rows >= (ENDS - 1) * shared);
        close_room(&r);
    }
}

/* Methods that leave the rows of a prompt as they are have pages in common, whatever they read of them; the others have none. */
static void methods(void **state) {
    (void)state;
    static const struct {
        choice of;
        bool shares;
    } all[] = {{{"streaming:start=4,recent=100", NULL, NULL, false}, true},
               {{"selfextend:group=2,window=64", NULL, NULL, false}, true},
               {{NULL, "streaming:start=2,recent=60", NULL, false}, true},
               {{NULL, "quest:page=8,budget=40,skip=0", NULL, false}, true},
               {{NULL, "tokenselect:init=8,k=32,local=16", "f32", false}, true},
               {{NULL, "twilight:p=0.9", NULL, false}, true},
               {{"zipvl:min=0", NULL, NULL, false}, false},
               {{NULL, "snapkv:cap=64,window=4", NULL, false}, false},
               {{NULL, "h2o:heavy=32,recent=32", NULL, false}, false},
               {{NULL, "adore:m=40,r=3,sigma=attention", NULL, false}, false},
               {{NULL, NULL, "mixed:gap=32", false}, false}};
    for (size_t k = 0; k < SAC_COUNT(all) && !on_card; k++) {
        static room r;
        open_room_of(&r, 6, &all[k].of);
        for (int i = 0; i < 3; i++) {
            begin(&r, i, i);
            for (int j = 0; j < STEPS / 2; j++) step(r.s[i], &r.o[i], j);
            assert_true((sac_kv_cache_shared_rows(&r.s[i]->decoder.cache) > 0) == (i > 0 && all[k].shares));
        }
        sac_session_reset(r.s[0]);
        for (int i = 1; i < 3; i++)
            for (int j = STEPS / 2; j < STEPS; j++) step(r.s[i], &r.o[i], j);
        close_room(&r);
    }
}

/* Both orders, and in the middle of the other's answer. */
static void whoever_ends_first(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        static room r;
        open_room(&r, 4, NULL);
        begin(&r, 0, 0);
        for (int j = 0; j < 4; j++) step(r.s[0], &r.o[0], j);
        begin(&r, 1, 1);
        for (int j = 0; j < 4; j++) step(r.s[1], &r.o[1], j);
        sac_session_end(r.s[first], NULL);
        const size_t before = used(r.m);
        if (first)
            sac_session_reset(r.s[first]);
        else
            sac_session_free(r.s[first]), r.s[first] = NULL;
        assert_true(used(r.m) < before && used(r.m) == sac_session_paged_bytes(r.s[1 - first]));
        begin(&r, 2, 2); /* and what is free is taken by somebody else */
        for (int j = 4; j < STEPS; j++) step(r.s[1 - first], &r.o[1 - first], j), step(r.s[2], &r.o[2], j - 4);
        close_room(&r);
    }
}

/* ---------------------------------------------------------------- copies */

/* A prompt that has less in common: rows behind that are written again, in pages that the other reads. */
static void who_writes_takes_a_copy(void **state) {
    (void)state;
    for (int who = 0; who < 2; who++) {
        static room r;
        static oracle other;
        asked q;
        open_room(&r, 4, NULL);
        const sac_message *less = ask_about(&q, NULL, 0, LONG_TEXT "the quick brown fox looks at something else than the lazy dog, which is a cat here");
        sac_model *own = open_there();
        ask_oracle(&other, own, less, 1, &(choice){0});
        sac_model_free(own);
        begin(&r, 0, 0);
        begin(&r, 1, 1);
        const int64_t shared = sac_kv_cache_shared_rows(&r.s[0]->decoder.cache);
        const sac_sampling how = sampling(STEPS);
        sac_error err;
        sac_session_end(r.s[who], NULL);
        assert_ok(sac_session_begin(r.s[who], less, 1, &how, NULL, &err), err);
        assert_true(sac_kv_cache_shared_rows(&r.s[0]->decoder.cache) < shared || on_card);
        for (int j = 0; j < STEPS; j++) step(r.s[who], &other, j), step(r.s[1 - who], &r.o[1 - who], j);
        begin(&r, 2, 2); /* of what is left of it */
        for (int j = 0; j < STEPS; j++) step(r.s[2], &r.o[2], j);
        close_room(&r);
    }
}

/* ---------------------------------------------------------------- parking */

/* What others have stays, and takes nothing of the host; asked once more it goes, and all comes back. */
static void parked_and_brought_back(void **state) {
    (void)state;
    for (int who = 0; who < 2; who++)
        for (int times = 1; times <= 3; times++) {
            static room r;
            sac_error err;
            if (on_card) continue; /* a page of it holds all rows */
            open_room(&r, 4, NULL);
            for (int i = 0; i < 2; i++) {
                begin(&r, i, i);
                for (int j = 0; j < 3; j++) step(r.s[i], &r.o[i], j);
            }
            const sac_session *parked = r.s[who];
            const size_t shared = sac_kv_cache_kept_bytes(&parked->decoder.cache, sac_kv_cache_shared_rows(&parked->decoder.cache));
            const size_t before = used(r.m), had = sac_session_paged_bytes(parked);
            assert_true(shared > 0 && shared < had);
            for (int i = 0; i < times; i++) assert_ok(sac_session_park(r.s[who], &err), err);
            assert_true(sac_session_is_parked(parked));
            assert_int_equal(sac_session_paged_bytes(parked), times > 1 ? 0 : shared);
            assert_int_equal(used(r.m), before - (had - shared)); /* the other still has them */
            for (int j = 3; j < 6; j++) step(r.s[1 - who], &r.o[1 - who], j);
            if (times == 3) sac_session_end(r.s[1 - who], NULL), sac_session_reset(r.s[1 - who]);
            for (int j = 3; j < STEPS; j++) step(r.s[who], &r.o[who], j);
            assert_false(sac_session_is_parked(parked));
            begin(&r, 2, 2); /* whose rows are those that came back */
            for (int j = 0; j < STEPS; j++) step(r.s[2], &r.o[2], j);
            close_room(&r);
        }
}

static void take_all(sac_session *s) {
    sac_error err;
    int32_t id = 7;
    while (sac_session_n_tokens(s) < CTX - 9 && sac_session_append(s, &id, 1, NULL, &err) == SAC_OK) {
    }
}

/* Of two pages that others have one is to be copied and one to be replaced, and there is none left: the prompt waits, the other's rows
 * stay what they are, and it goes on when there is one. */
static void a_copy_waits_for_a_page(void **state) {
    (void)state;
    static room r;
    static oracle other;
    asked q;
    sac_error err;
    bool done = false;
    if (on_card) return;
    open_room(&r, 2.02, NULL);
    const sac_message *less = ask_about(&q, NULL, 0, LONG_TEXT LONG_TEXT "a cat " LONG_TEXT LONG_TEXT LONG_TEXT);
    sac_model *own = open_there();
    ask_oracle(&other, own, less, 1, &(choice){0});
    sac_model_free(own);
    begin(&r, 0, 0);
    begin(&r, 1, 1);
    sac_session_end(r.s[0], NULL);
    sac_session_wait_for_pages(r.s[0], true);
    sac_session_trim(r.s[0]);
    take_all(r.s[2]);
    take_all(r.s[3]);
    const sac_sampling how = sampling(STEPS);
    const sac_input in = {.messages = less, .n_messages = 1};
    assert_ok(sac_session_begin_work(r.s[0], &in, &how, NULL, &err), err);
    for (int i = 0; i < 5; i++) {
        assert_ok(sac_session_work_next(r.s[0], &done, &err), err);
        assert_true(!done && sac_session_lacks(r.s[0]) > 0);
        step(r.s[1], &r.o[1], i);
    }
    sac_session_reset(r.s[2]);
    sac_session_reset(r.s[3]);
    while (!done) assert_ok(sac_session_work_next(r.s[0], &done, &err), err);
    for (int j = 0; j < STEPS; j++) step(r.s[0], &other, j);
    for (int j = 5; j < STEPS; j++) step(r.s[1], &r.o[1], j);
    close_room(&r);
}

/* A prompt that waits for pages, parked or not, and is given up takes nothing from those who ask after it. */
static void who_waited_in_vain_is_asked(void **state) {
    (void)state;
    for (int parks = 0; parks < 2; parks++) {
        static room r;
        asked q;
        sac_error err;
        bool done = false;
        if (on_card) return;
        open_room(&r, 1.8, NULL);
        begin(&r, 0, 0);
        sac_session_end(r.s[0], NULL);
        sac_session_wait_for_pages(r.s[0], true);
        sac_session_trim(r.s[0]);
        take_all(r.s[2]);
        take_all(r.s[3]);
        const sac_message *more = ask_about(&q, NULL, 0, BEGINNING LONG_TEXT LONG_TEXT LONG_TEXT "?");
        const sac_sampling how = sampling(STEPS);
        const sac_input in = {.messages = more, .n_messages = 1};
        assert_ok(sac_session_begin_work(r.s[0], &in, &how, NULL, &err), err);
        for (int i = 0; i < 3; i++) assert_ok(sac_session_work_next(r.s[0], &done, &err), err);
        assert_true(!done && sac_session_lacks(r.s[0]) > 0);
        const int64_t held = sac_session_n_tokens(r.s[0]);
        assert_true(held > 64);
        if (parks) assert_ok(sac_session_park(r.s[0], &err), err);
        sac_session_reset(r.s[2]);
        sac_session_reset(r.s[3]);
        if (parks) assert_ok(sac_session_work_next(r.s[0], &done, &err), err);
        sac_session_end(r.s[0], NULL);
        begin(&r, 1, 1);
        assert_true(sac_kv_cache_shared_rows(&r.s[1]->decoder.cache) > 0);
        for (int j = 0; j < STEPS; j++) step(r.s[1], &r.o[1], j);
        close_room(&r);
    }
}

/* ---------------------------------------------------------------- threads */

enum { THREADS = 3, ASKED = 10 };

typedef struct asker {
    pthread_t thread;
    room *r;
    int number;
} asker;

static void *ask_in_turns(void *ctx) {
    asker *a = ctx;
    for (int i = 0; i < ASKED; i++) {
        const int which = (i * 3 + a->number) % ENDS;
        begin(a->r, a->number, which);
        for (int j = 0; j < STEPS; j++) step(a->r->s[a->number], &a->r->o[which], j);
        sac_session_end(a->r->s[a->number], NULL);
        if (i % 4 == a->number) sac_session_reset(a->r->s[a->number]);
    }
    return NULL;
}

static void sessions_of_several_threads(void **state) {
    (void)state;
    static room r;
    asker a[THREADS];
    open_room(&r, 6, NULL);
    for (int i = 0; i < THREADS; i++) {
        a[i] = (asker){.r = &r, .number = i};
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask_in_turns, &a[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(a[i].thread, NULL);
    sac_beginnings_report report;
    sac_beginnings_get_report(r.b, &report);
    assert_true(report.n_taken > 0);
    close_room(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_counted_once),
        cmocka_unit_test(methods),
        cmocka_unit_test(whoever_ends_first),
        cmocka_unit_test(who_writes_takes_a_copy),
        cmocka_unit_test(parked_and_brought_back),
        cmocka_unit_test(a_copy_waits_for_a_page),
        cmocka_unit_test(who_waited_in_vain_is_asked),
        cmocka_unit_test(sessions_of_several_threads),
    };
    return cmocka_run_group_tests_name("shared_pages", tests, NULL, NULL);
}
