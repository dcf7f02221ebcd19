/* A prompt in pieces and steps of a batch on a device, without one (late_device.h): pieces do not pile up before the
 * device, and a fault at any op or copy in the middle of a batch is said, and leaves sessions that can begin anew. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "batch.h"
#include "late_card.h"
#include "work.h"
#include "workspace.h"

#include <math.h>

enum { N_CTX = 400, SESSIONS = 3, STEPS = 40 };

/* The i-th prompt, other tokens and another length each. */
static size_t prompt_of(int i, int32_t *ids) {
    size_t n = (size_t)(50 + 31 * i);
    for (size_t t = 0; t < n; t++) ids[t] = (int32_t)(10 + (t * (size_t)(7 + 4 * i) + (size_t)i) % 250);
    return n;
}

/* ---------------------------------------------------------------- pieces */

static int n_queued(void) {
    int n = 0;
    for (int i = 0; i < LATE_STREAMS; i++) n += late_queues[i].n;
    return n;
}

/* What the device has before it when a piece was handed over is that piece and the one before. */
static void pieces_do_not_pile_up(void **state) {
    (void)state;
    card c;
    sac_error err;
    sac_session *s;
    int32_t ids[N_CTX];
    int n_before = 0, n_ahead = 0, n_pieces = 0, most = 0;
    open_card(&c);
    assert_ok(sac_session_create(
                  &s, c.m, &(sac_session_config){.n_ctx = N_CTX, .prefill_chunk = 16, .kv = "f32"}, &err),
              err);
    sac_input in = {.ids = ids, .n_ids = prompt_of(2, ids)};
    assert_ok(sac_session_begin_work(s, &in, NULL, NULL, &err), err);
    for (bool done = false; !done;) {
        bool is_piece = s->work->stage == SAC_WORK_PREFILL;
        int n = n_queued();
        late_prompt = is_piece ? 0 : LATE_STREAMS;
        assert_ok(sac_session_work_next(s, &done, &err), err);
        if (!is_piece || done) continue;
        int n_now = n_queued() - n;
        if (n_pieces++) assert_true(late_in_flight() <= n_now + n_before);
        n_ahead += late_in_flight() > n_now;
        most = n_now > most ? n_now : most;
        n_before = n_now;
    }
    assert_true(n_pieces > 10 && most > 3); /* pieces of a prompt, each more than an op */
    assert_true(n_ahead > 5);               /* and the device need not wait for the host */
    late_prompt = LATE_STREAMS;
    sac_session_free(s);
    close_card(&c);
}

/* Runs a prompt in pieces of at most so many seconds; how many of them were attention. */
static int attention_pieces(sac_session *s, const int32_t *ids, size_t n, double seconds) {
    sac_error err;
    int n_pieces = 0;
    sac_session_reset(s);
    sac_input in = {.ids = ids, .n_ids = n};
    assert_ok(sac_session_begin_work(s, &in, NULL, NULL, &err), err);
    for (bool done = false; !done;) {
        n_pieces += s->work->stage == SAC_WORK_PREFILL && s->work->prefill.stage == SAC_PREFILL_ATTEND;
        assert_ok(sac_session_work_within(s, seconds, &done, &err), err);
    }
    return n_pieces;
}

/* Where others wait, a layer's attention is cut: the last layer's is for one row, and is not. */
static void long_attention_is_cut(void **state) {
    (void)state;
    enum { LONG = 2 * SAC_PREFILL_DEVICE_ROWS + 70 };
    static int32_t ids[LONG];
    static float whole[4096];
    card c;
    sac_error err;
    sac_session *s;
    sac_model_info info;
    open_card(&c);
    sac_model_get_info(c.m, &info);
    assert_true(info.vocab <= (int)(sizeof whole / sizeof *whole));
    for (int i = 0; i < LONG; i++) ids[i] = 10 + i * 7 % 250;
    const sac_session_config config = {.n_ctx = LONG + 8, .prefill_chunk = 16, .kv = "f32"};
    assert_ok(sac_session_create(&s, c.m, &config, &err), err);
    const int n_layers = attention_pieces(s, ids, LONG, 0);
    memcpy(whole, sac_session_logits(s), (size_t)info.vocab * sizeof *whole);
    assert_true(n_layers > 1);
    assert_int_equal(attention_pieces(s, ids, LONG, 1e-3), 2 * (n_layers - 1) + 1); /* what is left over goes with the last */
    assert_memory_equal(sac_session_logits(s), whole, (size_t)info.vocab * sizeof *whole);
    assert_int_equal(attention_pieces(s, ids, SAC_PREFILL_DEVICE_ROWS, 1e-3), n_layers);
    sac_session_free(s);
    close_card(&c);
}

/* ---------------------------------------------------------------- rows taken over */

static sac_session *sharer(const card *c, sac_beginnings *b) {
    sac_session *s;
    sac_error err;
    const sac_session_config config = {.n_ctx = N_CTX, .prefill_chunk = 16, .kv = "f32", .decode = "quest:page=3,budget=30,skip=0"};
    assert_ok(sac_session_create(&s, c->m, &config, &err), err);
    if (b) assert_ok(sac_session_join(s, b, &err), err);
    return s;
}

static void ask_tokens(sac_session *s, const int32_t *ids, size_t n) {
    sac_error err;
    assert_ok(sac_session_begin_tokens(s, ids, n, NULL, NULL, &err), err);
}

/* Rows go from session to session on the device, before the one that had them runs something else. A copy that fails is
 * said, and leaves a session that can begin anew. */
static void rows_are_taken_over_on_the_device(void **state) {
    (void)state;
    enum { SAME = 70 };
    card c;
    sac_error err;
    sac_result r;
    sac_model_info info;
    int32_t ids[N_CTX], other[N_CTX];
    open_card(&c);
    late_prompt = 0; /* nothing is done before somebody waits for it */
    sac_model_get_info(c.m, &info);
    sac_beginnings *b;
    assert_ok(sac_beginnings_open(&b, c.m, &err), err);
    sac_session *s = sharer(&c, b), *t = sharer(&c, b), *alone = sharer(&c, NULL);
    size_t n = prompt_of(2, ids), n_other = prompt_of(1, other);
    ask_tokens(s, ids, n);
    for (size_t i = SAME; i < n; i++) ids[i] = (int32_t)(20 + i);
    ask_tokens(alone, ids, n);
    bool done;
    sac_input in = {.ids = ids, .n_ids = n};
    assert_ok(sac_session_begin_work(t, &in, NULL, NULL, &err), err);
    assert_ok(sac_session_work_next(t, &done, &err), err);
    ask_tokens(s, other, n_other);
    for (done = false; !done;) assert_ok(sac_session_work_next(t, &done, &err), err);
    for (int i = 0; i < info.vocab; i++)
        assert_true(fabsf(sac_session_logits(t)[i] - sac_session_logits(alone)[i]) < 1e-3f);
    sac_session_end(t, &r);
    assert_int_equal(r.n_reused_tokens, SAME);
    sac_session_reset(t);
    ask_tokens(s, ids, n);
    late_fail_at = 1; /* the first copy of rows */
    assert_ok(sac_session_begin_work(t, &in, NULL, NULL, &err), err);
    assert_int_equal(sac_session_work_next(t, &done, &err), SAC_DEVICE);
    assert_non_null(strstr(err.text, "rows of a prompt"));
    late_fail_at = 0, late_failed = false;
    sac_session_free(s);
    sac_session_free(t);
    sac_session_free(alone);
    sac_beginnings_close(b);
    late_prompt = LATE_STREAMS;
    close_card(&c);
}

/* ---------------------------------------------------------------- faults in a batch */

typedef struct asked {
    sac_session *s[SESSIONS];
    sac_batch *batch;
    int32_t answer[SESSIONS][STEPS];
} asked;

/* Sessions of several kinds: rows as they are, chosen ones, packed ones whose tail is full within the answer. */
static void open_asked(asked *a, const sac_model *m) {
    static const sac_session_config configs[SESSIONS] = {
        {.n_ctx = N_CTX, .kv = "f32"},
        {.n_ctx = N_CTX, .kv = "f32", .decode = "quest:page=3,budget=30,skip=0"},
        {.n_ctx = N_CTX, .kv = "mixed:gap=32"}};
    sac_error err;
    for (int i = 0; i < SESSIONS; i++) assert_ok(sac_session_create(&a->s[i], m, &configs[i], &err), err);
    int n_first = late_n_first;
    assert_ok(sac_batch_create(&a->batch, m, SESSIONS, &err), err);
    assert_int_equal(late_n_first, n_first + 1); /* its steps are served before prompts */
}

static void close_asked(asked *a) {
    sac_batch_free(a->batch);
    for (int i = 0; i < SESSIONS; i++) sac_session_free(a->s[i]);
}

/* The fault comes at op or copy number fail_at of the steps; 0: none. How many had an error of the device. */
static int answer(asked *a, int fail_at) {
    sac_sampling sampling;
    sac_error err;
    sac_sampling_default(&sampling);
    sampling.temperature = 0, sampling.max_tokens = STEPS, sampling.ignore_eos = true;
    int n_failed = 0;
    for (int i = 0; i < SESSIONS; i++) {
        int32_t ids[N_CTX];
        size_t n = prompt_of(i, ids);
        assert_ok(sac_session_begin_tokens(a->s[i], ids, n, &sampling, NULL, &err), err);
    }
    late_fail_at = fail_at;
    for (int t = 0; t < STEPS && !n_failed; t++) {
        sac_batch_item items[SESSIONS] = {{0}};
        for (int i = 0; i < SESSIONS; i++) items[i].session = a->s[i];
        assert_ok(sac_batch_step(a->batch, items, SESSIONS, &err), err);
        for (int i = 0; i < SESSIONS; i++) {
            if (items[i].status == SAC_OK) {
                a->answer[i][t] = items[i].token;
                continue;
            }
            assert_int_equal(items[i].status, SAC_DEVICE);
            assert_true(items[i].error.text[0] != 0);
            n_failed++;
        }
    }
    assert_true(!n_failed == !late_failed); /* nobody goes on over a fault */
    late_fail_at = 0, late_failed = false;
    for (int i = 0; i < SESSIONS; i++) sac_session_end(a->s[i], NULL);
    return n_failed;
}

static void a_fault_in_a_batch_is_said(void **state) {
    (void)state;
    static asked whole, hurt;
    card c;
    int n_faults = 0;
    open_card(&c);
    open_asked(&whole, c.m);
    assert_int_equal(answer(&whole, 0), 0);
    open_asked(&hurt, c.m);
    for (int at = 1; answer(&hurt, at); at += 7 + at / 3) { /* up to the end of the answers */
        n_faults++;
        memset(hurt.answer, 0, sizeof hurt.answer);
        for (int i = 0; i < SESSIONS; i++) sac_session_reset(hurt.s[i]);
        assert_int_equal(answer(&hurt, 0), 0); /* as if the card had come back */
        assert_memory_equal(hurt.answer, whole.answer, sizeof whole.answer);
        for (int i = 0; i < SESSIONS; i++) sac_session_reset(hurt.s[i]);
    }
    assert_true(n_faults > 10);
    close_asked(&whole);
    close_asked(&hurt);
    close_card(&c);
}

/* ---------------------------------------------------------------- memory */

/* A session in place of another takes no memory of the device and gives none back, while others are there. */
static void memory_of_a_session_is_kept(void **state) {
    (void)state;
    const sac_session_config config = {.n_ctx = N_CTX, .kv = "f32"},
                             other = {.n_ctx = N_CTX,
                                      .kv = "f32",
                                      .decode = "tokenselect:k=8,init=2,local=4"},
                             small = {.n_ctx = 40, .kv = "f32"};
    card c;
    sac_error err;
    sac_session *stays, *s;
    open_card(&c);
    assert_ok(sac_session_create(&stays, c.m, &config, &err), err);
    assert_ok(sac_session_create(&s, c.m, &other, &err), err);
    for (int i = 0; i < 4; i++) {
        int n_allocated = late_n_allocated, n_freed = late_n_freed;
        sac_session_free(s);
        assert_ok(sac_session_create(&s, c.m, i % 2 ? &other : &config, &err), err);
        assert_int_equal(late_n_allocated, n_allocated);
        assert_int_equal(late_n_freed, n_freed);
        int32_t ids[N_CTX]; /* and it is as good as new */
        size_t n = prompt_of(0, ids);
        assert_ok(sac_session_append(s, ids, n, NULL, &err), err);
        assert_ok(sac_session_append(stays, ids, n, NULL, &err), err);
        if (i % 2 == 0)
            assert_memory_equal(sac_session_logits(s), sac_session_logits(stays), 288 * sizeof(float));
        sac_session_reset(stays);
    }
    sac_session_free(s);
    int n_allocated = late_n_allocated;
    assert_ok(sac_session_create(&s, c.m, &small, &err), err); /* not worth that much */
    assert_true(late_n_allocated > n_allocated);
    sac_session_free(s);
    sac_session_free(stays);
    close_card(&c);
}

/* A session is refused that would leave nothing to the device's libraries; what was kept makes room. */
static void libraries_have_room(void **state) {
    (void)state;
    const size_t libraries = (size_t)640 << 20;
    const sac_session_config config = {.n_ctx = N_CTX, .kv = "f32"};
    card c;
    sac_error err;
    sac_session *s;
    sac_memory_report plan;
    open_card(&c);
    assert_ok(sac_session_plan(c.m, &config, &plan, &err), err);
    late_left = plan.device_bytes + plan.workspace_device_bytes + libraries - 1;
    assert_int_equal(sac_session_create(&s, c.m, &config, &err), SAC_NO_MEMORY);
    assert_non_null(strstr(err.text, "libraries"));
    late_left++;
    assert_ok(sac_session_create(&s, c.m, &config, &err), err);
    late_left = 0;
    sac_session_free(s);
    close_card(&c);
}

static size_t pinned_bytes(void) {
    size_t n = 0;
    for (int i = 0; i < LATE_BLOCKS; i++) n += late_pinned[i].at ? late_pinned[i].n_bytes - 1 : 0;
    return n;
}

/* Logits come down to pinned memory, which is the session's too. */
static void the_plan_has_what_is_pinned(void **state) {
    (void)state;
    const sac_session_config config = {.n_ctx = N_CTX, .kv = "f32"};
    card c;
    sac_error err;
    sac_session *s[2];
    sac_memory_report plan, taken;
    open_card(&c);
    assert_ok(sac_session_create(&s[0], c.m, &config, &err), err); /* with the workspace of both */
    const size_t before = pinned_bytes();
    assert_ok(sac_session_plan(c.m, &config, &plan, &err), err);
    assert_ok(sac_session_create(&s[1], c.m, &config, &err), err);
    const size_t pinned = pinned_bytes() - before;
    assert_true(pinned >= 288 * sizeof(float));
    assert_int_equal(s[1]->arena.used_bytes, s[1]->arena.capacity_bytes);
    assert_int_equal(s[1]->arena.used_bytes + pinned, plan.total_bytes);
    sac_session_memory(s[1], &taken);
    assert_int_equal(taken.total_bytes, plan.total_bytes);
    for (int i = 0; i < 2; i++) sac_session_free(s[i]);
    close_card(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_pile_up), cmocka_unit_test(long_attention_is_cut), cmocka_unit_test(rows_are_taken_over_on_the_device),
        cmocka_unit_test(a_fault_in_a_batch_is_said), cmocka_unit_test(memory_of_a_session_is_kept), cmocka_unit_test(libraries_have_room),
        cmocka_unit_test(the_plan_has_what_is_pinned)};
    return cmocka_run_group_tests_name("work on a device", tests, NULL, NULL);
}
