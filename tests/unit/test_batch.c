#define _GNU_SOURCE
/* Steps of several sessions together, on the demo model: the answers of lone sessions, whatever stands beside
 * them. */
#include "step_test.h"

#include <math.h>
#include <pthread.h>

#define MOST 8

/* One of the sessions: how it attends, what it is asked, how it samples. */
typedef struct guest {
    const char *prefill, *decode, *kv, *path;
    int n_frames;
    const char *text;
    int max_tokens;
    double temperature;
} guest;

static const guest guests[MOST] = {
    {NULL, NULL, "f32", STEP_PICTURE, 0, "Describe the image.", 200, 0},
    {NULL, NULL, NULL, STEP_VIDEO, 4, "How many numbers appear?", 30, 0},
    {NULL, NULL, "kivi:group=16,residual=16", "samples/picture0003.png", 0, "Describe the image.", 60, 0},
    {NULL, "quest:budget=64", NULL, STEP_VIDEO, 3, "Describe the video.", 40, 1.1},
    {NULL, "h2o", NULL, STEP_PICTURE, 0, "What color is the background?", 25, 0},
    {"zipvl:min=0", NULL, "bf16", STEP_VIDEO, 2, "How many numbers appear?", 8, 0},
    {NULL, "adore", NULL, STEP_VIDEO, 4, "How many numbers appear?", 20, 0},
    {NULL, "selfextend", NULL, NULL, 0, "What color is the circle?", 1, 0},
};

static sac_session *guest_session(const guest *g) {
    return step_session(model, g->prefill, g->decode, g->kv, 1024);
}

static sac_sampling guest_sampling(const guest *g, size_t i) {
    sac_sampling o = step_sampling(g->max_tokens);
    o.temperature = g->temperature;
    o.seed = i;
    o.logprobs = true;
    o.ignore_eos = i != 0 && i != 2;
    return o;
}

static void guest_alone(size_t i, heard *h) {
    asked q;
    sac_session *s = guest_session(&guests[i]);
    sac_sampling o = guest_sampling(&guests[i], i);
    hear_alone(h, model, s, ask_about(&q, guests[i].path, guests[i].n_frames, guests[i].text), &o);
    sac_session_free(s);
}

static void guest_begin(sac_session *s, size_t i, const sac_events *e) {
    asked q;
    sac_error err;
    sac_sampling o = guest_sampling(&guests[i], i);
    assert_ok(sac_session_begin(s, ask_about(&q, guests[i].path, guests[i].n_frames, guests[i].text), 1, &o,
                                e, &err),
              err);
}

static sac_batch *batch_of(size_t n) {
    sac_batch *b;
    sac_error err;
    assert_ok(sac_batch_create(&b, model, n, &err), err);
    assert_true(sac_batch_bytes(b) > 0);
    return b;
}

/* Sessions come in one after the other, go when they are done, and answer as if they were alone. */
static void batches_give_lone_answers(void **state) {
    (void)state;
    static heard alone[MOST], together[MOST];
    static const size_t sizes[] = {1, 2, 5, 8};
    for (size_t i = 0; i < MOST; i++) guest_alone(i, &alone[i]);
    for (size_t k = 0; k < 4; k++) {
        size_t n = sizes[k], first = k == 1 ? 3 : 0, n_items = 0, n_begun = 0, of[MOST];
        sac_batch *b = batch_of(n);
        sac_batch_item items[MOST];
        sac_session *sessions[MOST];
        sac_events events[MOST];
        sac_error err;
        for (size_t i = 0; i < n; i++) sessions[i] = guest_session(&guests[first + i]);
        while (n_items > 0 || n_begun < n) {
            if (n_begun < n) { /* one more each step */
                events[n_begun] = hear(&together[n_begun]);
                guest_begin(sessions[n_begun], first + n_begun, &events[n_begun]);
                of[n_items] = n_begun;
                items[n_items++] = (sac_batch_item){.session = sessions[n_begun], .events = &events[n_begun]};
                n_begun++;
            }
            assert_ok(sac_batch_step(b, items, n_items, &err), err);
            for (size_t i = 0; i < n_items;) {
                assert_ok(items[i].status, items[i].error);
                if (!items[i].done) {
                    i++;
                    continue;
                }
                sac_result r;
                sac_session_end(items[i].session, &r);
                hear_end(&together[of[i]], items[i].session, model, &r);
                of[i] = of[--n_items];
                items[i] = items[n_items];
            }
        }
        for (size_t i = 0; i < n; i++) {
            heard_equal(&alone[first + i], &together[i]);
            sac_session_free(sessions[i]);
        }
        sac_batch_free(b);
    }
}

/* More rows than the vector kernels take at once. */
static void large_batches_give_the_same_bits(void **state) {
    (void)state;
    enum { MANY = 30, STEPS = 6, PROMPT = 9 };
    sac_batch *b = batch_of(MANY);
    sac_session *s[MANY], *alone = step_session(model, NULL, NULL, NULL, 64);
    sac_batch_item items[MANY];
    sac_error err;
    sac_model_info info;
    sac_sampling o = step_sampling(STEPS + 1);
    int32_t ids[PROMPT], token;
    bool done;
    sac_model_get_info(model, &info);
    o.ignore_eos = true;
    for (int i = 0; i < MANY; i++) {
        s[i] = step_session(model, NULL, NULL, NULL, 64);
        items[i] = (sac_batch_item){.session = s[i]};
        for (int k = 0; k < PROMPT; k++) ids[k] = 5 + (k * 7 + i * 3) % 300;
        assert_ok(sac_session_begin_tokens(s[i], ids, PROMPT, &o, NULL, &err), err);
    }
    for (int step = 0; step <= STEPS; step++) assert_ok(sac_batch_step(b, items, MANY, &err), err);
    for (int i = 0; i < MANY; i++) {
        assert_ok(items[i].status, items[i].error);
        assert_true(items[i].done);
        for (int k = 0; k < PROMPT; k++) ids[k] = 5 + (k * 7 + i * 3) % 300;
        sac_session_reset(alone);
        assert_ok(sac_session_begin_tokens(alone, ids, PROMPT, &o, NULL, &err), err);
        for (done = false; !done;) assert_ok(sac_session_step(alone, NULL, &token, &done, &err), err);
        assert_int_equal(token, items[i].token);
        assert_memory_equal(sac_session_logits(alone), sac_session_logits(s[i]),
                            (size_t)info.vocab * sizeof(float));
        sac_session_free(s[i]);
    }
    sac_session_free(alone);
    sac_batch_free(b);
}

static void one_leaves_and_the_others_stay(void **state) {
    (void)state;
    static heard alone, parts[3];
    sac_batch *b = batch_of(3);
    sac_batch_item items[3];
    sac_session *sessions[3];
    sac_events events[3];
    sac_error err;
    guest_alone(0, &alone);
    for (size_t i = 0; i < 3; i++) {
        sessions[i] = guest_session(&guests[0]);
        events[i] = hear(&parts[i]);
        guest_begin(sessions[i], 0, &events[i]);
        items[i] = (sac_batch_item){.session = sessions[i], .events = &events[i]};
    }
    parts[1].stop_after = 3; /* its receiver goes */
    for (int step = 0; step < 20; step++) {
        if (step == 10) sac_session_cancel(sessions[2]);
        size_t n = 0;
        sac_batch_item now[3];
        for (size_t i = 0; i < 3; i++)
            if (items[i].status == SAC_OK) now[n++] = items[i];
        assert_ok(sac_batch_step(b, now, n, &err), err);
        for (size_t i = 0, k = 0; i < 3; i++)
            if (items[i].status == SAC_OK) items[i] = now[k++];
        assert_int_equal(items[2].status, step < 10 ? SAC_OK : SAC_CANCELLED);
    }
    assert_int_equal(items[1].status, SAC_CANCELLED);
    assert_int_equal(items[0].status, SAC_OK);
    sac_result r;
    sac_session_end(sessions[2], &r);
    assert_string_equal(r.finish_reason, "cancelled");
    assert_int_equal(r.n_tokens, 10);
    int32_t token;
    for (bool done = false; !done;) /* a lone step goes on where the batch was */
        assert_ok(sac_session_step(sessions[0], &events[0], &token, &done, &err), err);
    sac_session_end(sessions[0], &r);
    hear_end(&parts[0], sessions[0], model, &r);
    heard_equal(&alone, &parts[0]);
    for (int i = 0; i < 3; i++) sac_session_free(sessions[i]);
    sac_batch_free(b);
}

static void wrong_batches_are_refused_whole(void **state) {
    (void)state;
    sac_batch *b = batch_of(2);
    sac_model *other = step_model(1);
    sac_session *s = guest_session(&guests[0]), *t = guest_session(&guests[1]);
    sac_session *u = step_session(other, NULL, NULL, NULL, 512);
    sac_error err;
    guest_begin(s, 0, NULL);
    sac_batch_item twice[] = {{.session = s}, {.session = s}};
    sac_batch_item idle[] = {{.session = s}, {.session = t}};
    sac_batch_item foreign[] = {{.session = s}, {.session = u}};
    sac_batch_item many[] = {{.session = s}, {.session = t}, {.session = t}};
    assert_int_equal(sac_batch_step(b, twice, 2, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(twice[0].status, SAC_BAD_ARGUMENT);
    assert_int_equal(sac_batch_step(b, idle, 2, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_batch_step(b, foreign, 2, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_batch_step(b, many, 3, NULL), SAC_BAD_ARGUMENT);
    assert_ok(sac_batch_step(b, idle, 0, &err), err);
    assert_ok(sac_batch_step(b, idle, 1, &err), err); /* nothing was done to s */
    assert_true(idle[0].token >= 0);
    sac_batch *none;
    assert_int_equal(sac_batch_create(&none, model, 0, &err), SAC_BAD_ARGUMENT);
    assert_null(none);
    sac_session_free(s);
    sac_session_free(t);
    sac_session_free(u);
    sac_model_free(other);
    sac_batch_free(b);
}

/* ---------------------------------------------------------------- a long prompt that lets others run */

typedef struct waiting {
    sac_batch *b;
    sac_batch_item item;
    int n_steps, n_calls;
} waiting;

static void run_waiting(waiting *w) {
    sac_error err;
    if (w->item.done) return;
    assert_ok(sac_batch_step(w->b, &w->item, 1, &err), err);
    assert_ok(w->item.status, w->item.error);
    w->n_steps++;
}

static void others_run_within_a_prefill(void **state) {
    (void)state;
    static heard alone, long_alone, inside, outside;
    guest_alone(1, &alone);
    asked q;
    sac_error err;
    sac_result r;
    sac_session_config c;
    sac_session *s, *t = guest_session(&guests[1]);
    sac_session_config_default(&c);
    c.n_ctx = 2048;
    c.prefill_chunk = 100;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    const sac_message *m = ask_about(&q, STEP_VIDEO, 12, "How many numbers appear?");
    sac_sampling o = step_sampling(10);
    hear_alone(&long_alone, model, s, m, &o);
    sac_session_reset(s);
    sac_events e = hear(&outside);
    guest_begin(t, 1, &e);
    waiting w = {.b = batch_of(4), .item = {.session = t, .events = &e}};
    sac_input input = {.messages = m, .n_messages = 1};
    int n_pieces = 0;
    assert_ok(sac_session_begin_work(s, &input, &o, NULL, &err), err);
    for (bool done = false; !done; n_pieces++) {
        run_waiting(&w);
        assert_ok(sac_session_work_next(s, &done, &err), err);
    }
    assert_true(n_pieces > 20); /* layers and chunks */
    assert_true(w.n_steps > 2);
    sac_events steps = hear(&inside);
    int32_t token;
    for (bool done = false; !done;) assert_ok(sac_session_step(s, &steps, &token, &done, &err), err);
    sac_session_end(s, &r);
    hear_end(&inside, s, model, &r);
    heard_equal(&long_alone, &inside);
    for (bool done = w.item.done; !done;) assert_ok(sac_session_step(t, &e, &token, &done, &err), err);
    sac_session_end(t, &r);
    hear_end(&outside, t, model, &r);
    heard_equal(&alone, &outside);
    sac_session_free(s);
    sac_session_free(t);
    sac_batch_free(w.b);
}

static void step_myself(void *ctx, const char *what, int64_t n_done, int64_t n_total) {
    waiting *w = ctx;
    sac_error err;
    int32_t token;
    bool done;
    (void)what, (void)n_done, (void)n_total;
    w->n_calls++;
    assert_int_equal(sac_batch_step(w->b, &w->item, 1, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_step(w->item.session, NULL, &token, &done, &err), SAC_BAD_ARGUMENT);
}

static void a_session_at_work_is_refused(void **state) {
    (void)state;
    sac_session *s = guest_session(&guests[0]);
    waiting w = {.b = batch_of(1), .item = {.session = s}};
    sac_events e = {.ctx = &w, .progress = step_myself};
    guest_begin(s, 0, &e);
    assert_true(w.n_calls > 0);
    sac_session_free(s);
    sac_batch_free(w.b);
}

/* Two threads, each with a batch, and sessions of the one model. */
static void *whole_batch(void *arg) {
    heard *h = arg;
    sac_batch *b = batch_of(2);
    sac_session *s[2];
    sac_batch_item items[2];
    sac_events e[2];
    sac_error err;
    for (size_t i = 0; i < 2; i++) {
        s[i] = guest_session(&guests[i]);
        e[i] = hear(&h[i]);
        guest_begin(s[i], i, &e[i]);
        items[i] = (sac_batch_item){.session = s[i], .events = &e[i]};
    }
    for (size_t n = 2; n > 0;) {
        if (sac_batch_step(b, items, n, &err) != SAC_OK) break;
        for (size_t i = n; i-- > 0;)
            if (items[i].done || items[i].status != SAC_OK) items[i] = items[--n];
    }
    for (size_t i = 0; i < 2; i++) {
        sac_result r;
        sac_session_end(s[i], &r);
        snprintf(h[i].finish, sizeof h[i].finish, "%s", r.finish_reason);
        sac_session_free(s[i]);
    }
    sac_batch_free(b);
    return NULL;
}

static void batches_in_two_threads(void **state) {
    (void)state;
    static heard alone[2], a[2], b[2];
    pthread_t t;
    for (size_t i = 0; i < 2; i++) guest_alone(i, &alone[i]);
    assert_int_equal(pthread_create(&t, NULL, whole_batch, a), 0);
    whole_batch(b);
    pthread_join(t, NULL);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(a[i].text, alone[i].text);
        assert_string_equal(b[i].text, alone[i].text);
        assert_memory_equal(a[i].logprobs, alone[i].logprobs, (size_t)alone[i].n_ids * sizeof(float));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_batches_give_the_same_bits), cmocka_unit_test(batches_give_lone_answers),
        cmocka_unit_test(one_leaves_and_the_others_stay),   cmocka_unit_test(wrong_batches_are_refused_whole),
        cmocka_unit_test(others_run_within_a_prefill),      cmocka_unit_test(a_session_at_work_is_refused),
        cmocka_unit_test(batches_in_two_threads),
    };
    return cmocka_run_group_tests_name("batch", tests, open_model, close_model);
}
