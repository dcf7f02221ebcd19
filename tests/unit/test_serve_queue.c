/* Whose turn it is, and when to come again: the fair queue, weights, priorities, numbers of clients. */
#include "client.h"
#include "clock.h"
#include "queue.h"
#include "state.h"

#include "test.h"

static void queue_is_fair(void **state) {
    (void)state;
    serve_queue *q = calloc(1, sizeof *q);
    serve_job jobs[6] = {{.client = 1}, {.client = 1}, {.client = 1},
                         {.client = 2}, {.client = 3}, {.client = 1}};
    const int wanted[] = {0, 3, 4, 1, 2, 5};
    assert_null(serve_queue_take(q));
    for (int i = 0; i < 6; i++) serve_queue_add(q, &jobs[i]);
    for (int i = 0; i < 6; i++) assert_ptr_equal(serve_queue_take(q), &jobs[wanted[i]]);
    assert_true(q->n == 0 && !q->first && !q->last);
    free(q);
}

/* What a job weighs is where it stands in this list. */
static double weights[12];

static const serve_job *weighed;

static double weigh(serve_job *j, void *ctx) {
    (void)ctx;
    return weights[j - weighed];
}

static int take_weighed(serve_queue *q) {
    const serve_judge judge = {.weigh = weigh};
    serve_job *j = serve_queue_next(q, &judge);
    if (!j) return -1;
    serve_queue_serve(q, &judge, j, weights[j - weighed]);
    return (int)(j - weighed);
}

/* Of one client the light ones first, and in their order where they are alike. */
static void the_lightest_is_taken_first(void **state) {
    (void)state;
    serve_queue *q = calloc(1, sizeof *q);
    serve_job jobs[4] = {{.client = 1}, {.client = 1}, {.client = 1}, {.client = 2}};
    const double w[] = {1000, 20, 20, 300};
    const int wanted[] = {1, 2, 3, 0};
    weighed = jobs;
    memcpy(weights, w, sizeof w);
    for (int i = 0; i < 4; i++) serve_queue_add(q, &jobs[i]);
    for (int i = 0; i < 4; i++) assert_int_equal(take_weighed(q), wanted[i]);
    assert_int_equal(take_weighed(q), -1);
    free(q);
}

enum { FOUND = 3 };

static double weigh_first_ones(serve_job *j, void *ctx) {
    (void)ctx;
    return j - weighed <= FOUND ? 1e6 : 1;
}

/* However many light ones come, of its own client or each of another: a job is taken after SERVE_OLDEST_TURN times as many as
 * it found waiting, itself counted. */
static void a_heavy_one_is_not_put_off_for_ever(void **state) {
    enum { MOST = SERVE_OLDEST_TURN * (FOUND + 1), N = FOUND + 1 + 2 * MOST };
    const serve_judge judge = {.weigh = weigh_first_ones}, between = {.weigh = weigh_first_ones, .between = true};
    (void)state;
    for (int others = 0; others < 2; others++) {
        serve_queue *q = calloc(1, sizeof *q);
        serve_job jobs[N] = {{0}}, *j;
        int n = 0, n_taken = 0;
        weighed = jobs;
        for (; n <= FOUND; n++) serve_queue_add(q, &jobs[n]);
        do {
            for (int i = 0; i < 2; i++, n++) { /* two come for each that goes */
                jobs[n].client = others ? (uint64_t)n : 0;
                serve_queue_add(q, &jobs[n]);
            }
            if (n_taken < MOST - 1) assert_true(serve_queue_next(q, &between) - jobs > FOUND);
            j = serve_queue_next(q, &judge);
            serve_queue_serve(q, &judge, j, weigh_first_ones(j, NULL));
        } while (++n_taken < MOST && j != &jobs[FOUND]);
        assert_ptr_equal(j, &jobs[FOUND]);
        assert_int_equal(n_taken, MOST);
        free(q);
    }
}

/* A client with many jobs takes turns with one that has a few as heavy ones, by what they weigh. */
static void clients_share_by_weight(void **state) {
    (void)state;
    serve_queue *q = calloc(1, sizeof *q);
    serve_job jobs[12] = {{0}};
    int n_of[2] = {0};
    weighed = jobs;
    for (int i = 0; i < 12; i++) {
        jobs[i].client = i < 8 ? 1 : 2;
        weights[i] = i < 8 ? 100 : 200;
        serve_queue_add(q, &jobs[i]);
    }
    for (int i = 0; i < 6; i++) n_of[take_weighed(q) >= 8]++;
    assert_true(n_of[1] == 2 && n_of[0] == 4); /* as much of each */
    free(q);
}

/* Lower ones first: of the client that gives them, or of all where they are shared. */
static void priorities(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        serve_queue *q = calloc(1, sizeof *q);
        serve_job jobs[4] = {{.client = 1, .priority = 5}, {.client = 1, .priority = -5}, {.client = 2}, {.client = 2, .priority = 3}};
        const double w[] = {1, 500, 20, 10};
        const int wanted[2][4] = {{2, 3, 1, 0}, {1, 2, 3, 0}};
        weighed = jobs;
        memcpy(weights, w, sizeof w);
        q->shared_priorities = shared;
        for (int i = 0; i < 4; i++) serve_queue_add(q, &jobs[i]);
        for (int i = 0; i < 4; i++) assert_int_equal(take_weighed(q), wanted[shared][i]);
        free(q);
    }
    serve_queue *q = calloc(1, sizeof *q); /* a client that shares the bucket is another one */
    serve_job strangers[2] = {{.client = 1}, {.client = 1 + SERVE_CLIENT_BUCKETS, .priority = -5}};
    weighed = strangers;
    weights[0] = 1;
    weights[1] = 2;
    for (int i = 0; i < 2; i++) serve_queue_add(q, &strangers[i]);
    for (int i = 0; i < 2; i++) assert_int_equal(take_weighed(q), i);
    free(q);
    assert_true(serve_precedes(false, 1, -1, 1, 0) && !serve_precedes(false, 1, -1, 2, 0));
    assert_true(serve_precedes(true, 1, -1, 2, 0) && !serve_precedes(true, 1, 0, 2, 0));
}

/* When to come again: as the ends of jobs have followed one another, not as a rule of thumb. */
static void when_to_come_again(void **state) {
    (void)state;
    serve_server *s = calloc(1, sizeof *s);
    s->n_jobs = 8;
    s->ended_ns = sac_now_ns();
    assert_int_equal(serve_server_retry_after(s, 8), 1); /* nothing has ended, nothing is known: soon */
    s->end_gap_s = 2.5;
    assert_int_equal(serve_server_retry_after(s, 8), 3);
    assert_int_equal(serve_server_retry_after(s, 2), 10); /* only every fourth end is this client's */
    s->ended_ns -= 7500000000;
    assert_int_equal(serve_server_retry_after(s, 8), 8); /* it takes longer than it did */
    s->end_gap_s = 1e6;
    assert_int_equal(serve_server_retry_after(s, 8), 600);
    free(s);
}

/* Against the vectors of the paper's own implementation; with another key another number. */
static void numbers_of_clients(void **state) {
    (void)state;
    uint8_t key[SERVE_SEED_BYTES], other[SERVE_SEED_BYTES], text[64];
    for (int i = 0; i < 64; i++) text[i] = (uint8_t)i;
    memcpy(key, text, sizeof key);
    assert_true(serve_client_hash(key, text, 0) == 0x726fdb47dd0e0e31u);
    assert_true(serve_client_hash(key, text, 1) == 0x74f839c593dc67fdu);
    assert_true(serve_client_hash(key, text, 15) == 0xa129ca6149be45e5u);
    serve_client_seed(key);
    serve_client_seed(other);
    assert_memory_not_equal(key, other, sizeof key);
    assert_true(serve_client_hash(key, text, 4) != serve_client_hash(other, text, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_is_fair),
        cmocka_unit_test(the_lightest_is_taken_first),
        cmocka_unit_test(a_heavy_one_is_not_put_off_for_ever),
        cmocka_unit_test(clients_share_by_weight),
        cmocka_unit_test(priorities),
        cmocka_unit_test(when_to_come_again),
        cmocka_unit_test(numbers_of_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
