/* Sessions that have pages in common, in an order that is drawn: they begin, wait, are parked, leave and end as it comes, and the pages run
 * out. Every token and all logits are those of a session alone, and at any time the pages that are gone are those that sessions hold. */
#include "shared_pages_test.h"

enum { GUESTS = 5, TEXTS = 8, ROUNDS = 1500 };

typedef enum phase { IDLE, PROMPT, ANSWER } phase;

typedef struct guest {
    sac_session *s;
    phase at;
    int text, n_steps;
    sac_input in;
} guest;

typedef struct crowd {
    sac_model *m;
    guest g[GUESTS];
    sac_message messages[TEXTS][3];
    sac_part parts[TEXTS][3];
    size_t n_messages[TEXTS];
    oracle o[TEXTS];
    uint32_t seed;
    int n_ends, n_waits, n_parked, n_twice, n_left;
    size_t most_saved;
} crowd;

static int draw(crowd *c, int n) {
    c->seed = c->seed * 1664525u + 1013904223u;
    return (int)((c->seed >> 8) % (uint32_t)n);
}

static void write_texts(crowd *c) {
    static const char *const texts[TEXTS] = {BEGINNING "what is this?", BEGINNING "and that?", BEGINNING LONG_TEXT "why?",
                                             LONG_TEXT LONG_TEXT "what?", "Something else. " LONG_TEXT LONG_TEXT, "What is seen?", BEGINNING "what is this?",
                                             LONG_TEXT LONG_TEXT "what?"};
    for (int i = 0; i < TEXTS; i++) {
        const bool goes_on = i >= TEXTS - 2; /* a conversation behind that of another text */
        const char *const lines[] = {texts[i], "It is a fox that jumps.", "And what comes after that, when it runs back home again?"};
        static const char *const roles[] = {"user", "assistant", "user"};
        c->n_messages[i] = goes_on ? 3 : 1;
        for (size_t k = 0; k < c->n_messages[i]; k++) {
            c->parts[i][k] = (sac_part){.kind = SAC_PART_TEXT, .text = lines[k]};
            c->messages[i][k] = (sac_message){roles[k], &c->parts[i][k], 1, NULL};
        }
    }
}

static bool at_rest(const guest *g) {
    return g->at != PROMPT || sac_session_lacks(g->s) > 0;
}

static void park(crowd *c, guest *g) {
    sac_error err;
    if (!at_rest(g)) return;
    const bool again = sac_session_is_parked(g->s) && sac_session_paged_bytes(g->s);
    const sac_status st = sac_session_park(g->s, &err);
    assert_true(st == SAC_OK || st == SAC_NO_MEMORY); /* the host has no room either */
    c->n_parked += st == SAC_OK;
    c->n_twice += st == SAC_OK && again;
}

/* Somebody gives something, so that not all wait. */
static void give(crowd *c, const guest *to) {
    for (int i = 0; i < GUESTS; i++) {
        guest *g = &c->g[(i + draw(c, GUESTS)) % GUESTS];
        if (g == to) continue;
        if (g->at == IDLE && draw(c, 2))
            sac_session_reset(g->s);
        else
            park(c, g);
        if (draw(c, 2)) return;
    }
}

static void leave(crowd *c, guest *g) {
    sac_session_end(g->s, NULL);
    if (sac_session_is_parked(g->s) && draw(c, 2)) sac_session_reset(g->s);
    g->at = IDLE;
    c->n_left++;
}

static void run_prompt(crowd *c, guest *g) {
    sac_error err;
    bool done = false;
    for (int n = 1 + draw(c, 60); n > 0 && !done; n--) {
        assert_ok(sac_session_work_next(g->s, &done, &err), err);
        if (done || !sac_session_lacks(g->s)) continue;
        c->n_waits++;
        give(c, g);
        return;
    }
    if (!done) return;
    g->at = ANSWER;
    g->n_steps = 0;
}

static void run_step(crowd *c, guest *g) {
    sac_error err;
    int32_t id;
    bool done;
    const sac_status st = sac_session_step(g->s, NULL, &id, &done, &err);
    if (st == SAC_NO_MEMORY) {
        assert_true(sac_session_lacks(g->s) > 0);
        c->n_waits++;
        give(c, g);
        return;
    }
    assert_ok(st, err);
    compare(g->s, &c->o[g->text], g->n_steps++, id);
    if (g->n_steps < STEPS) return;
    sac_session_end(g->s, NULL);
    g->at = IDLE;
    c->n_ends++;
}

static void begin_one(crowd *c, guest *g) {
    const sac_sampling how = sampling(STEPS);
    sac_error err;
    g->text = draw(c, TEXTS);
    g->in = (sac_input){.messages = c->messages[g->text], .n_messages = c->n_messages[g->text]};
    assert_ok(sac_session_begin_work(g->s, &g->in, &how, NULL, &err), err);
    g->at = PROMPT;
}

static void check_pages(crowd *c) {
    const sac_session *all[GUESTS];
    size_t sum = 0;
    for (int i = 0; i < GUESTS; i++) all[i] = c->g[i].s, sum += sac_session_paged_bytes(all[i]);
    const size_t once = sac_sessions_hold(all, GUESTS);
    assert_int_equal(once, used(c->m));
    if (sum - once > c->most_saved) c->most_saved = sum - once;
}

static void go(crowd *c) {
    guest *g = &c->g[draw(c, GUESTS)];
    const int dice = draw(c, 20);
    if (dice == 0)
        park(c, g);
    else if (dice == 1)
        sac_session_trim(g->s);
    else if (dice == 2 && g->at != IDLE)
        leave(c, g);
    else if (dice == 3 && g->at == IDLE)
        sac_session_reset(g->s);
    else if (g->at == IDLE)
        begin_one(c, g);
    else if (g->at == PROMPT)
        run_prompt(c, g);
    else
        run_step(c, g);
    check_pages(c);
}

static void a_drawn_crowd(void **state) {
    (void)state;
    static crowd c;
    sac_error err;
    for (uint32_t seed = 1; seed <= 3; seed++) {
        sac_beginnings *b;
        memset(&c, 0, sizeof c);
        c.seed = seed;
        write_texts(&c);
        sac_model *own = open_there();
        for (int i = 0; i < TEXTS; i++) ask_oracle(&c.o[i], own, c.messages[i], c.n_messages[i], &(choice){0});
        sac_model_free(own);
        c.m = open_paged(on_card ? 2.02 : 1.3);
        assert_ok(sac_beginnings_open(&b, c.m, &err), err);
        const sac_store_options kept = {.memory_bytes = (size_t)1 << 20}; /* rows come out of there, too */
        if (seed == 2) assert_ok(sac_beginnings_keep(b, &kept, &err), err);
        for (int i = 0; i < GUESTS; i++) {
            c.g[i].s = make(c.m, &(choice){0});
            assert_ok(sac_session_join(c.g[i].s, b, &err), err);
            sac_session_wait_for_pages(c.g[i].s, true);
        }
        for (int i = 0; i < ROUNDS; i++) go(&c);
        assert_true(on_card || (c.n_ends > 10 && c.n_waits > 10 && c.n_parked > 10 && c.n_twice > 0 && c.n_left > 10 && c.most_saved > 0));
        for (int i = 0; i < GUESTS; i++) sac_session_free(c.g[(i + (int)seed) % GUESTS].s);
        all_free(c.m);
        sac_beginnings_close(b);
        sac_model_free(c.m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_drawn_crowd)};
    return cmocka_run_group_tests_name("shared_pages_drawn", tests, NULL, NULL);
}
