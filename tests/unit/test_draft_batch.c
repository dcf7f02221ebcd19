#define _GNU_SOURCE
/* Sessions that draft side by side have the bits of plain ones, each with its own draft. */
#include "batch.h"
#include "draft_test.h"
#include "eagle_test.h"

enum { MOST_SESSIONS = 6 };

/* One session of a batch. */
typedef struct lane {
    const char *draft, *kv, *decode; /* decode NULL: dense */
    const int32_t *ids; /* NULL: repeated(period) */
    int period, n_prompt, n_tokens;
    float temperature;
    bool is_seen; /* with the logits of every step: it is asked before the sampler chooses */
    sac_session *s;
    seen seen;
    sac_result result;
} lane;

/* Steps all to their ends. */
static void run_all(sac_batch *b, lane *lanes, size_t n_lanes) {
    sac_error err;
    sac_events events[MOST_SESSIONS];
    bool is_done[MOST_SESSIONS] = {false};
    for (;;) {
        sac_batch_item items[MOST_SESSIONS];
        size_t n = 0, of[MOST_SESSIONS];
        for (size_t i = 0; i < n_lanes; i++) {
            events[i] = (sac_events){.ctx = &lanes[i].seen, .logits = see};
            if (is_done[i]) continue;
            of[n] = i;
            items[n++] = (sac_batch_item){.session = lanes[i].s, .events = lanes[i].is_seen ? &events[i] : NULL};
        }
        if (!n) return;
        assert_ok(sac_batch_step(b, items, n, &err), err);
        for (size_t k = 0; k < n; k++) {
            assert_ok(items[k].status, items[k].error);
            is_done[of[k]] = items[k].done;
        }
    }
}

static const int32_t *prompt_of(const lane *l) {
    return l->ids ? l->ids : repeated(l->period);
}

static sac_sampling sampling_of(const lane *l) {
    sac_sampling o = step_sampling(l->n_tokens);
    o.ignore_eos = true;
    if (l->temperature > 0) o.temperature = l->temperature, o.seed = 5, o.repetition_penalty = 1.05f;
    return o;
}

static sac_session *open_lane(const sac_model *m, const lane *l, const char *draft) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = 160, c.kv = l->kv, c.draft = draft;
    if (l->decode) c.decode = l->decode;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

static void begin_lane(const sac_model *m, lane *l) {
    sac_error err;
    const sac_sampling o = sampling_of(l);
    l->s = open_lane(m, l, l->draft);
    assert_ok(sac_session_begin_tokens(l->s, prompt_of(l), (size_t)l->n_prompt, &o, NULL, &err), err);
}

/* A draft model's sequence is the text, but for what it has guessed last; what it holds is not run again: a step is a guess, or for
 * the last one of a draft that was right to its end. */
static void drafter_knows_the_text(const lane *l) {
    const sac_session *draft = l->s->ahead.drafter;
    if (!draft) return;
    for (int64_t i = 0; i + SAC_DRAFT_MOST < sac_session_n_tokens(draft); i++) assert_int_equal(draft->ids[i], l->s->ids[i]);
    if (strstr(l->draft, "adapt=0"))
        assert_true(draft->decoder.stats[0].n_steps <= (double)l->result.n_drafted_tokens + 0.5 * (double)l->result.n_accepted_tokens + 8);
}

static void compare_lane(const sac_model *m, lane *l) {
    static seen plain;
    const sac_sampling o = sampling_of(l);
    sac_session *lone = open_lane(m, l, NULL);
    answer(&plain, lone, prompt_of(l), (size_t)l->n_prompt, &o);
    sac_session_end(l->s, &l->result);
    l->seen.result = l->result;
    if (l->is_seen) {
        memcpy(l->seen.ids, l->result.tokens, (size_t)l->result.n_tokens * sizeof *l->seen.ids);
        same(&plain, &l->seen);
    }
    assert_int_equal(l->result.n_tokens, plain.result.n_tokens);
    assert_memory_equal(l->result.tokens, plain.ids, (size_t)l->result.n_tokens * sizeof *l->result.tokens);
    assert_memory_equal(sac_session_logits(l->s), sac_session_logits(lone), (size_t)plain.vocab * sizeof(float));
    assert_int_equal(sac_session_n_tokens(l->s), sac_session_n_tokens(lone));
    assert_int_equal(sac_session_kv_bytes(l->s), sac_session_kv_bytes(lone));
    drafter_knows_the_text(l);
    sac_session_free(l->s);
    sac_session_free(lone);
    drop(&plain);
    drop(&l->seen);
}

/* The second row of a draft model's batch, which sessions that go together have. */
static void clear_rows(sac_batch *b) {
    memset((float *)b->rows.hidden + b->model->loaded.decoder.config.hidden, 0,
           (size_t)b->model->loaded.decoder.config.hidden * sizeof(float));
}

static bool has_rows(const sac_batch *b) {
    const int n = b->model->loaded.decoder.config.hidden;
    for (int i = 0; i < n; i++)
        if (((const float *)b->rows.hidden)[n + i] != 0) return true;
    return false;
}

/* In a batch of n_rows, made before the sessions or after them. */
static void lanes_give_the_same(const sac_model *m, lane *lanes, size_t n, size_t n_rows, bool is_made_first) {
    sac_error err;
    sac_batch *b;
    int n_by_model = 0;
    if (is_made_first) assert_ok(sac_batch_create(&b, m, n_rows, &err), err);
    for (size_t i = 0; i < n; i++) begin_lane(m, &lanes[i]);
    if (!is_made_first) assert_ok(sac_batch_create(&b, m, n_rows, &err), err);
    for (size_t i = 0; i < b->n_drafts; i++) clear_rows(b->drafts[i]);
    run_all(b, lanes, n);
    for (size_t i = 0; i < n; i++) n_by_model += lanes[i].draft && !strncmp(lanes[i].draft, "model:", 6);
    for (size_t i = 0; i < b->n_drafts && n_by_model > 1; i++) assert_true(has_rows(b->drafts[i]));
    for (size_t i = 0; i < n; i++) compare_lane(m, &lanes[i]);
    if (!is_made_first) assert_int_equal(sac_batch_plan(m, n_rows, NULL), b->arena.used_bytes + (b->n_drafts ? sac_batch_bytes(b->drafts[0]) : 0));
    sac_batch_free(b);
}

/* ---------------------------------------------------------------- each kind of draft */

/* Formats, lengths and settings that differ, of one draft; the last ones end alone. */
static void list_lanes(lane *lanes, size_t n, const char *const *drafts, size_t n_drafts) {
    static const char *const kvs[] = {"f16", "f32", "bf16"};
    for (size_t i = 0; i < n; i++)
        lanes[i] = (lane){.draft = drafts[i % n_drafts],
                          .kv = kvs[i % 3],
                          .period = 3 + (int)i,
                          .n_prompt = N_PROMPT - (int)i,
                          .n_tokens = 24 + 5 * (int)i,
                          .temperature = i % 4 == 1 ? 0.4f : 0,
                          .is_seen = i % 2};
}

typedef struct counts {
    int64_t n_drafted, n_accepted;
} counts;

/* But for the last one. */
static counts count_lanes(const lane *lanes, size_t n) {
    counts c = {0};
    for (size_t i = 0; i + 1 < n; i++) {
        c.n_drafted += lanes[i].result.n_drafted_tokens;
        c.n_accepted += lanes[i].result.n_accepted_tokens;
    }
    return c;
}

static void drafted(counts c, int64_t least, int64_t least_accepted) {
    if (c.n_drafted < least || c.n_accepted < least_accepted || c.n_accepted > c.n_drafted)
        fail_msg("%lld drafted, %lld accepted", (long long)c.n_drafted, (long long)c.n_accepted);
}

static void batches_draft_in_rows_to_spare(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2", "llama_f32", "packed_ct_w4", "qwen3_moe"},
                             *const lookups[] = {"lookup", "lookup:most=20,least=1"}, *const some[] = {"lookup", NULL};
    static lane lanes[5];
    counts all = {0};
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        sac_model *m = open_golden(names[i]);
        list_lanes(lanes, 5, lookups, 2);
        lanes_give_the_same(m, lanes, 5, i < 2 ? 9 : 40, false);
        const counts c = count_lanes(lanes, 5);
        all.n_drafted += c.n_drafted, all.n_accepted += c.n_accepted;
        sac_model_free(m);
    }
    drafted(all, 40, 20);
    sac_model *m = open_golden("qwen2");
    list_lanes(lanes, 5, lookups, 2);
    lanes_give_the_same(m, lanes, 5, 5, false); /* none to spare but when some are done */
    list_lanes(lanes, 5, some, 2);
    lanes_give_the_same(m, lanes, 5, 20, false);
    sac_model_free(m);
}

/* The model itself, of all sessions together in the batch's rows. */
static void sparse_drafts_go_together(void **state) {
    (void)state;
    static const char *const lines[] = {"sparse:most=4,adapt=0,method=quest,budget=16,page=4,skip=0",
                                        "sparse:most=7,adapt=0,method=streaming,start=2,recent=14",
                                        "sparse:most=3,adapt=0,method=tokenselect,init=2,local=8,k=8"},
                             *const names[] = {"qwen2", "gguf_llama_q4_k/q4_k.gguf", "qwen3_moe"};
    static lane lanes[4];
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        char path[200];
        snprintf(path, sizeof path, GOLDEN_MODELS "%s", names[i]);
        sac_model *m = open_threads(path, 1 + (int)(i + 1) % 2);
        list_lanes(lanes, 4, lines, 3);
        lanes_give_the_same(m, lanes, 4, i ? 30 : 9, false);
        drafted(count_lanes(lanes, 4), 30, 12);
        sac_model_free(m);
    }
}

/* Another model, in a batch of its own where it was open before; the same one, and one that knows nothing of it. */
static void models_draft_for_several(void **state) {
    (void)state;
    static const char *const right[] = {"model:most=4,adapt=0," GOLDEN_MODELS "qwen2", "model:most=7,adapt=0," GOLDEN_MODELS "qwen2"},
                             *const wrong[] = {"model:most=4,adapt=0," GOLDEN_MODELS "llama_f32"};
    static lane lanes[4];
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        sac_model *m = open_threads(GOLDEN_MODELS "qwen2", n_threads), *other = open_threads(GOLDEN_MODELS "mistral", n_threads);
        list_lanes(lanes, 4, right, 2);
        lanes_give_the_same(m, lanes, 4, 24, n_threads == 1); /* the batch knows no draft model yet: one after another */
        drafted(count_lanes(lanes, 4), 60, 30);
        const counts first = count_lanes(lanes, 4);
        list_lanes(lanes, 4, right, 2);
        lanes_give_the_same(m, lanes, 4, 24, true);
        const counts second = count_lanes(lanes, 4); /* together or not, the same guesses */
        assert_int_equal(first.n_drafted, second.n_drafted);
        assert_int_equal(first.n_accepted, second.n_accepted);
        list_lanes(lanes, 3, wrong, 1);
        lanes_give_the_same(other, lanes, 3, 12, false);
        drafted(count_lanes(lanes, 3), 60, 0);
        sac_model_free(m);
        sac_model_free(other);
    }
}

/* Heads, and all kinds side by side. */
static void each_session_has_its_own_draft(void **state) {
    (void)state;
    static const char *const heads[] = {"eagle3:most=5,adapt=0," GOLDEN "original", "eagle3:most=3,adapt=0," GOLDEN "speculators"},
                             *const all[] = {"model:most=3,adapt=0," GOLDEN "target", "lookup:least=1",
                                             "eagle3:most=4,adapt=0," GOLDEN "original", "sparse:most=4,adapt=0,budget=16,page=4,skip=0"};
    static lane lanes[6];
    int32_t ids[100];
    int n;
    json_decref(golden(ids, &n));
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        sac_model *m = open_threads(GOLDEN "target", n_threads);
        list_lanes(lanes, 4, heads, 2);
        for (int i = 0; i < 4; i++) lanes[i].ids = ids, lanes[i].n_prompt = n;
        lanes_give_the_same(m, lanes, 4, 20, false);
        drafted(count_lanes(lanes, 4), 60, 20);
        list_lanes(lanes, 6, all, 4);
        lanes_give_the_same(m, lanes, 6, 30, false);
        for (int i = 0; i < 5; i++) assert_true(lanes[i].result.n_drafted_tokens > 0);
        drafted(count_lanes(lanes, 6), 80, 20);
        sac_model_free(m);
    }
}

/* Some draft, and beside them methods and formats that cannot go through the model as they do alone. Where one computes tokens again
 * nobody drafts. Only the last one is ever alone. */
static void others_go_along(void **state) {
    (void)state;
    static const lane all[] = {{.draft = "lookup:least=1", .kv = "f16"},
                               {.kv = "f16", .decode = "quest:budget=16,page=4,skip=0"},
                               {.draft = "sparse:most=4,adapt=0,method=streaming,start=2,recent=14", .kv = "f32"},
                               {.kv = "kivi:group=16,residual=16"},
                               {.kv = "bf16", .decode = "streaming:start=2,recent=20"},
                               {.kv = "f16"}};
    static const char *const names[] = {"qwen2", "llama_f32", "qwen3_moe"};
    static lane lanes[6];
    for (size_t i = 0; i < SAC_COUNT(names) + 1; i++) {
        const bool again = i == SAC_COUNT(names);
        sac_model *m = open_golden(names[again ? 0 : i]);
        for (int k = 0; k < 6; k++) {
            lanes[k] = all[k];
            lanes[k].period = 3 + k, lanes[k].n_prompt = N_PROMPT - k, lanes[k].n_tokens = 30 + 6 * k, lanes[k].is_seen = k % 2;
        }
        if (again) lanes[5].kv = "f32", lanes[5].decode = "adore:sigma=attention,m=24,r=3";
        lanes_give_the_same(m, lanes, 6, 20, false);
        for (int k = 0; k < 3; k += 2) {
            const sac_result *r = &lanes[k].result;
            assert_true(again ? r->n_drafts == 0 : r->n_drafts > 0 && r->n_drafted_tokens >= r->n_drafts && r->n_accepted_tokens > 2);
        }
        sac_model_free(m);
    }
}

/* ---------------------------------------------------------------- as many as pay */

static void drafts_by_the_clock_give_the_same(void **state) {
    (void)state;
    static const char *const lines[] = {"sparse:budget=16,page=4", "eagle3:" GOLDEN "original", "model:" GOLDEN "target"};
    static lane lanes[4];
    sac_model *m = open_threads(GOLDEN "target", 2);
    list_lanes(lanes, 4, lines, 3);
    for (int i = 0; i < 4; i++) lanes[i].n_tokens = 90;
    lanes_give_the_same(m, lanes, 4, 20, false);
    drafted(count_lanes(lanes, 4), 1, 0); /* some are tried at the beginning */
    sac_model_free(m);
}

/* ---------------------------------------------------------------- ends */

/* One that is cancelled between two steps ends, and the others do not hear of it. */
static void one_may_leave(void **state) {
    (void)state;
    static const char *const lines[] = {"model:most=4,adapt=0," GOLDEN "target", "eagle3:most=4,adapt=0," GOLDEN "original"};
    static lane lanes[4];
    sac_error err;
    sac_batch *b;
    sac_model *m = open_threads(GOLDEN "target", 2);
    list_lanes(lanes, 4, lines, 2);
    for (int i = 0; i < 4; i++) begin_lane(m, &lanes[i]);
    assert_ok(sac_batch_create(&b, m, 20, &err), err);
    for (int step = 0; step < 6; step++) {
        sac_batch_item items[4];
        for (int i = 0; i < 4; i++) {
            static sac_events events[4];
            events[i] = (sac_events){.ctx = &lanes[i].seen, .logits = see};
            items[i] = (sac_batch_item){.session = lanes[i].s, .events = lanes[i].is_seen ? &events[i] : NULL};
        }
        if (step == 5) sac_session_cancel(lanes[0].s), sac_session_cancel(lanes[3].s);
        assert_ok(sac_batch_step(b, items, 4, &err), err);
        for (int i = 0; i < 4; i++) assert_int_equal(items[i].status, step == 5 && i % 3 == 0 ? SAC_CANCELLED : SAC_OK);
    }
    run_all(b, lanes + 1, 2);
    for (int i = 1; i < 3; i++) compare_lane(m, &lanes[i]);
    sac_session_free(lanes[0].s);
    sac_session_free(lanes[3].s);
    drop(&lanes[3].seen);
    sac_batch_free(b);
    sac_model_free(m);
}

static sac_status failing_embed(const sac_stream *s, const sac_embed_args *a) {
    (void)s, (void)a;
    return SAC_NO_MEMORY;
}

/* Neither a pass that fails nor one whose guesses fail before it has run rows: what the step took is no measure of one. */
static void what_fails_is_not_counted(void **state) {
    (void)state;
    static lane lanes[2];
    static const char *const lines[] = {"sparse:most=4,adapt=0,method=streaming,start=2,recent=14", "lookup:least=1"};
    sac_error err;
    sac_batch *b;
    sac_model *m = open_golden("qwen2");
    for (int kind = 0; kind < 2; kind++) {
        size_t n_guessed = 1;
        assert_ok(sac_batch_create(&b, m, 12, &err), err);
        list_lanes(lanes, 2, lines + kind, 1);
        for (int i = 0; i < 2; i++) lanes[i].is_seen = false, begin_lane(m, &lanes[i]);
        for (int step = 0; step < 6; step++) {
            sac_batch_item items[2] = {{.session = lanes[0].s}, {.session = lanes[1].s}};
            const bool fails = step == 5;
            if (fails) b->ops.embed = failing_embed;
            for (int i = 0; i < 2 && fails; i++) lanes[i].s->ahead.n = lanes[i].s->ahead.at = 0; /* nothing is there already */
            assert_ok(sac_batch_step(b, items, 2, &err), err);
            for (int i = 0; i < 2; i++) assert_int_equal(items[i].status, fails ? SAC_NO_MEMORY : SAC_OK);
            if (fails) assert_int_equal(sac_batch_ran(b, &n_guessed) + n_guessed, 0);
            if (step == 1) assert_true(sac_batch_ran(b, &n_guessed) == 2 + n_guessed);
        }
        for (int i = 0; i < 2; i++) sac_session_free(lanes[i].s);
        sac_batch_free(b);
    }
    sac_model_free(m);
}

/* In a batch with others tokens that were run ahead are taken, and none are drafted where no row is to spare; the last one left drafts
 * again. */
static void batches_take_what_was_run_ahead(void **state) {
    (void)state;
    static lane lanes[3];
    sac_error err;
    sac_batch *b;
    bool done;
    int32_t token;
    sac_model *m = open_threads(GOLDEN "target", 2);
    assert_ok(sac_batch_create(&b, m, 3, &err), err);
    for (int i = 0; i < 3; i++) {
        lanes[i] = (lane){.draft = i == 1 ? NULL : "model:most=4,adapt=0," GOLDEN "target", .period = 6, .n_prompt = N_PROMPT, .n_tokens = i == 2 ? 110 : 40};
        begin_lane(m, &lanes[i]);
    }
    for (int i = 0; i < 9; i++) assert_ok(sac_session_step(lanes[0].s, NULL, &token, &done, &err), err);
    run_all(b, lanes, 3);
    for (int i = 0; i < 3; i++) {
        compare_lane(m, &lanes[i]);
        assert_true(i == 1 ? lanes[i].result.n_drafted_tokens == 0 : lanes[i].result.n_accepted_tokens > 3);
    }
    sac_batch_free(b);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_draft_in_rows_to_spare),
        cmocka_unit_test(sparse_drafts_go_together),
        cmocka_unit_test(models_draft_for_several),
        cmocka_unit_test(each_session_has_its_own_draft),
        cmocka_unit_test(others_go_along),
        cmocka_unit_test(drafts_by_the_clock_give_the_same),
        cmocka_unit_test(one_may_leave),
        cmocka_unit_test(what_fails_is_not_counted),
        cmocka_unit_test(batches_take_what_was_run_ahead),
    };
    return cmocka_run_group_tests_name("draft_batch", tests, NULL, NULL);
}
