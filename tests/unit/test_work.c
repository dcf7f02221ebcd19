/* A prompt in pieces: pieces of several sessions in turns must give what each gives alone, bit for bit, and
 * work that is given up leaves a session that answers as before. */
#include "step_test.h"

#include <math.h>

static sac_session *session(const char *prefill, const char *decode) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = 1024;
    c.prefill_chunk = 100;
    if (prefill) c.prefill = prefill;
    if (decode) c.decode = decode;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    return s;
}

/* A question in a session, and its answer alone. */
typedef struct asking {
    sac_session *s;
    asked q;
    const sac_message *m;
    sac_sampling o;
    heard alone, here;
    sac_events events;
    bool done;
} asking;

static void ask(asking *a, const char *prefill, const char *decode, const char *path, int n_frames,
                const char *text) {
    memset(a, 0, sizeof *a);
    a->s = session(prefill, decode);
    a->m = ask_about(&a->q, path, n_frames, text);
    a->o = step_sampling(6);
    hear_alone(&a->alone, model, a->s, a->m, &a->o);
    sac_session_reset(a->s);
}

static void begin(asking *a) {
    sac_error err;
    a->done = false;
    a->events = hear(&a->here);
    assert_ok(sac_session_begin_work(a->s, &(sac_input){.messages = a->m, .n_messages = 1}, &a->o, &a->events,
                                     &err),
              err);
}

static void piece(asking *a) {
    sac_error err;
    assert_ok(sac_session_work_next(a->s, &a->done, &err), err);
}

static int all_pieces(asking *a) {
    int n = 0;
    for (begin(a); !a->done; n++) piece(a);
    return n;
}

static void answer(asking *a) {
    sac_error err;
    sac_result r;
    int32_t token;
    for (bool done = false; !done;) assert_ok(sac_session_step(a->s, &a->events, &token, &done, &err), err);
    sac_session_end(a->s, &r);
    hear_end(&a->here, a->s, model, &r);
    heard_equal(&a->alone, &a->here);
}

static void pieces_in_turns_give_the_same_answers(void **state) {
    static asking a[3];
    (void)state;
    ask(&a[0], NULL, NULL, STEP_VIDEO, 6, "How many numbers appear?");
    ask(&a[1], "zipvl:min=0,recent=4,random=4,tau=0.8", NULL, STEP_VIDEO, 4, "What is seen?");
    ask(&a[2], NULL, "snapkv:cap=60,window=16", STEP_PICTURE, 0, "What is this?");
    for (int i = 0; i < 3; i++) begin(&a[i]);
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < 3; i++) {
            if (!a[i].done) piece(&a[i]);
            any = any || !a[i].done;
        }
    }
    for (int i = 0; i < 3; i++) answer(&a[i]);
    for (int i = 0; i < 3; i++) sac_session_free(a[i].s);
}

/* Text and token ids go the same way. */
static void text_and_ids_go_in_pieces_too(void **state) {
    static heard want, got;
    static const char text[] = "The number is";
    sac_session *s = session(NULL, NULL), *t = session(NULL, NULL);
    sac_sampling o = step_sampling(5);
    sac_error err;
    sac_result r;
    int32_t token;
    (void)state;
    sac_events e = hear(&want);
    assert_ok(sac_session_begin_text(s, text, sizeof text - 1, &o, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
    sac_session_end(s, &r);
    hear_end(&want, s, model, &r);
    e = hear(&got);
    sac_input in = {.text = text, .n_text_bytes = sizeof text - 1};
    assert_ok(sac_session_begin_work(t, &in, &o, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_work_next(t, &done, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_step(t, &e, &token, &done, &err), err);
    sac_session_end(t, &r);
    hear_end(&got, t, model, &r);
    heard_equal(&want, &got);
    static const int32_t ids[] = {5, 6, 7};
    in = (sac_input){.ids = ids, .n_ids = 3};
    assert_ok(sac_session_begin_work(t, &in, &o, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_work_next(t, &done, &err), err);
    assert_int_equal(sac_session_n_tokens(t), 3);
    sac_session_free(s);
    sac_session_free(t);
}

static void a_session_at_work_does_nothing_else(void **state) {
    static asking a;
    sac_error err;
    int32_t token;
    int64_t n;
    size_t n_ids;
    bool done;
    (void)state;
    ask(&a, NULL, NULL, STEP_PICTURE, 0, "What is this?");
    assert_int_equal(sac_session_work_next(a.s, &done, &err), SAC_BAD_ARGUMENT); /* nothing has begun */
    begin(&a);
    for (int i = 0; i < 6; i++) piece(&a);
    assert_false(a.done);
    assert_int_equal(sac_session_step(a.s, NULL, &token, &done, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_n_reusable(a.s, a.m, 1, &n, &n, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_prompt(a.s, a.m, 1, NULL, 0, &n_ids, &err), SAC_BAD_ARGUMENT);
    while (!a.done) piece(&a);
    assert_int_equal(sac_session_work_next(a.s, &done, &err), SAC_BAD_ARGUMENT); /* all is done */
    answer(&a);
    sac_session_free(a.s);
}

static int n_nested;

static void step_on(void *ctx, const char *what, int64_t n_done, int64_t n_total) {
    bool done;
    sac_error err;
    (void)what, (void)n_done, (void)n_total;
    n_nested++;
    assert_int_equal(sac_session_work_next(ctx, &done, &err), SAC_BAD_ARGUMENT);
}

/* A callback of the session's own pieces may not run its pieces. */
static void pieces_do_not_nest(void **state) {
    static asking a;
    sac_error err;
    (void)state;
    ask(&a, NULL, NULL, STEP_PICTURE, 0, "What is this?");
    sac_events e = {.ctx = a.s, .progress = step_on};
    n_nested = 0;
    assert_ok(sac_session_begin(a.s, a.m, 1, &a.o, &e, &err), err);
    assert_true(n_nested > 0);
    sac_session_free(a.s);
}

/* What a mask callback tries, and the session of another model that it may run. */
typedef struct masked {
    asking *asked;      /* of the model: a prompt under way */
    sac_session *begun; /* between two steps */
    sac_batch *batch;
    sac_session *other, *inner; /* of another model; what its own mask tries to run */
    int n_masks, n_others;
} masked;

static void refused(sac_status st, const sac_error *err) {
    assert_int_equal(st, SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err->text, "sac_events.mask"));
}

static void from_within(void *ctx, uint32_t *allowed, int n_vocab) {
    masked *x = ctx;
    sac_error err;
    int32_t id = 5;
    (void)allowed, (void)n_vocab;
    refused(sac_session_append(x->inner, &id, 1, NULL, &err), &err);
    x->n_others++;
}

static void run_others(void *ctx, uint32_t *allowed, int n_vocab) {
    masked *x = ctx;
    sac_error err;
    sac_result r;
    bool done;
    int32_t token, id = 5;
    (void)allowed, (void)n_vocab;
    x->n_masks++;
    refused(sac_session_work_next(x->asked->s, &done, &err), &err);
    refused(sac_session_step(x->begun, NULL, &token, &done, &err), &err);
    refused(sac_session_append(x->begun, &id, 1, NULL, &err), &err);
    refused(sac_session_prefill(x->begun, x->asked->m, 1, NULL, &err), &err);
    refused(sac_session_generate(x->begun, x->asked->m, 1, NULL, NULL, &r, &err), &err);
    sac_batch_item item = {.session = x->begun};
    refused(sac_batch_step(x->batch, &item, 1, &err), &err);
    refused(item.status, &item.error);
    const sac_events e = {.ctx = x, .mask = from_within};
    const sac_sampling o = step_sampling(1);
    assert_ok(sac_session_generate(x->other, x->asked->m, 1, &o, &e, &r, &err), err);
}

/* On a GPU its step is at work meanwhile. Those that were refused go on as if they had not been asked. */
static void a_mask_runs_no_session_of_its_model(void **state) {
    static asking a, b, c;
    sac_model *small;
    sac_session_config config;
    sac_error err;
    sac_result r;
    (void)state;
    ask(&a, NULL, NULL, STEP_PICTURE, 0, "What is this?");
    ask(&b, NULL, NULL, NULL, 0, "How many?");
    ask(&c, NULL, NULL, NULL, 0, "What is seen?");
    assert_ok(sac_model_open(&small, "tests/golden/models/qwen3", NULL, &err), err);
    masked x = {.asked = &b, .begun = c.s, .inner = c.s};
    sac_session_config_default(&config);
    config.n_ctx = 256;
    assert_ok(sac_session_create(&x.other, small, &config, &err), err);
    assert_ok(sac_batch_create(&x.batch, model, 2, &err), err);
    begin(&b);
    piece(&b);
    all_pieces(&c);
    sac_events e = hear(&a.here);
    sac_sampling longer = step_sampling(4);
    longer.ignore_eos = true;
    for (int k = 0; k < 2; k++) { /* with the bits of logits that are here, and as a GPU asks for them */
        sac_events masks = {.ctx = &x, .mask = run_others};
        sac_session_leave_logits(a.s, k);
        assert_ok(sac_session_generate(a.s, a.m, 1, &longer, &masks, &r, &err), err);
    }
    assert_true(x.n_masks == 8 && x.n_others == x.n_masks);
    while (!b.done) piece(&b);
    answer(&b);
    answer(&c);
    sac_session_leave_logits(a.s, false);
    assert_ok(sac_session_generate(a.s, a.m, 1, &a.o, &e, &r, &err), err); /* after it everything runs again */
    hear_end(&a.here, a.s, model, &r);
    heard_equal(&a.alone, &a.here);
    sac_batch_free(x.batch);
    sac_session_free(x.other);
    sac_model_free(small);
    sac_session_free(a.s);
    sac_session_free(b.s);
    sac_session_free(c.s);
}

/* At every piece: given up by end, by reset, by a new question, cancelled; then the answer is as before. */
static void work_that_is_given_up_leaves_no_trace(void **state) {
    static asking a;
    sac_error err;
    (void)state;
    ask(&a, NULL, NULL, STEP_VIDEO, 4, "How many numbers appear?");
    int n_pieces = all_pieces(&a);
    answer(&a);
    for (int stop = 0; stop < n_pieces; stop += 1 + stop / 3) {
        sac_session_reset(a.s);
        begin(&a);
        for (int i = 0; i < stop; i++) piece(&a);
        if (stop % 4 == 0) sac_session_end(a.s, NULL);
        if (stop % 4 == 1) sac_session_reset(a.s);
        if (stop % 4 == 2) {
            sac_session_cancel(a.s);
            while (a.done == false && sac_session_work_next(a.s, &a.done, &err) == SAC_OK)
                ;
            assert_int_equal(err.status, SAC_CANCELLED);
        }
        all_pieces(&a);
        answer(&a);
    }
    sac_session_free(a.s);
}

/* The rows that two questions share are held still when the second is given up: the first is answered from
 * them as it is after the whole second one. */
static void what_was_cached_stays_when_work_is_given_up(void **state) {
    static asking a;
    asked q;
    sac_error err;
    bool done;
    (void)state;
    ask(&a, NULL, NULL, STEP_VIDEO, 4, "How many numbers appear?");
    const sac_message *other = ask_about(&q, STEP_VIDEO, 4, "What is the colour of the first of them?");
    sac_input in = {.messages = other, .n_messages = 1};
    assert_ok(sac_session_prefill(a.s, other, 1, NULL, &err), err);
    hear_alone(&a.alone, model, a.s, a.m, &a.o);
    for (int stop = 3; stop < 12; stop += 2) {
        assert_ok(sac_session_begin_work(a.s, &in, &a.o, NULL, &err), err);
        for (int i = 0; i < stop; i++) assert_ok(sac_session_work_next(a.s, &done, &err), err);
        assert_false(done);
        sac_session_end(a.s, NULL);
        all_pieces(&a);
        answer(&a);
        assert_int_equal(a.here.n_reused, a.alone.n_reused);
        assert_true(a.here.n_reused > a.here.n_prompt / 2);
    }
    sac_session_free(a.s);
}

static int by_cost(asking *a, double *all) {
    int n = 0;
    *all = 0;
    assert_true(sac_session_work_cost(a->s) == 0);
    for (begin(a); !a->done; piece(a)) {
        double cost = sac_session_work_cost(a->s);
        *all += cost;
        n += cost > 0;
    }
    assert_true(sac_session_work_cost(a->s) == 0);
    return n;
}

/* A longer prompt has more pieces and costs more; what the cache has costs nothing. */
static void pieces_tell_what_they_cost(void **state) {
    static asking a, b;
    double few, many, again;
    (void)state;
    ask(&a, NULL, NULL, STEP_VIDEO, 3, "How many numbers appear?");
    ask(&b, NULL, NULL, STEP_VIDEO, 6, "How many numbers appear?");
    int n_few = by_cost(&a, &few), n_many = by_cost(&b, &many);
    assert_true(n_few > 0 && n_many > n_few);
    assert_true(many > 1.8 * few);
    sac_session_end(b.s, NULL);
    by_cost(&b, &again);
    assert_true(again > 0 && again < 0.1 * many);
    sac_session_free(a.s);
    sac_session_free(b.s);
}

/* It falls from the tokens that are new to nothing, and is not known before they are counted. The new ones. */
static int64_t expect_left_to_fall(asking *a) {
    int64_t n_new = -1;
    sac_result r;
    begin(a);
    assert_true(sac_session_work_left(a->s) < 0);
    for (double before = INFINITY; !a->done;) {
        piece(a);
        double left = sac_session_work_left(a->s);
        assert_true(left >= 0 && left <= before);
        if (n_new < 0) n_new = (int64_t)left;
        before = left;
    }
    assert_true(sac_session_work_left(a->s) == 0);
    sac_session_end(a->s, &r);
    assert_int_equal(n_new, r.n_prompt_tokens - r.n_reused_tokens);
    return n_new;
}

static void pieces_tell_what_is_left(void **state) {
    static asking a;
    (void)state;
    ask(&a, NULL, NULL, STEP_VIDEO, 4, "How many numbers appear?");
    assert_true(sac_session_work_left(a.s) == 0);
    int64_t n_all = expect_left_to_fall(&a);
    assert_true(expect_left_to_fall(&a) < n_all / 2); /* most of it is in the cache */
    sac_session_free(a.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_in_turns_give_the_same_answers),
        cmocka_unit_test(text_and_ids_go_in_pieces_too),
        cmocka_unit_test(a_session_at_work_does_nothing_else),
        cmocka_unit_test(pieces_do_not_nest),
        cmocka_unit_test(a_mask_runs_no_session_of_its_model),
        cmocka_unit_test(work_that_is_given_up_leaves_no_trace),
        cmocka_unit_test(what_was_cached_stays_when_work_is_given_up),
        cmocka_unit_test(pieces_tell_what_they_cost),
        cmocka_unit_test(pieces_tell_what_is_left),
    };
    return cmocka_run_group_tests_name("work", tests, open_model, close_model);
}
