#define _GNU_SOURCE
/* The engine through the public API, on the demo model and its samples. */
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define MODEL   "models/demo"
#define PICTURE "samples/picture0000.png"
#define VIDEO   "samples/video0000_16.mp4"

static sac_model *model;

static int open_model(void **state) {
    (void)state;
    sac_error err;
    if (sac_model_open(&model, MODEL, NULL, &err) != SAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return 0;
}

static int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

static sac_session *session_with(int64_t n_ctx, const char *kv) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = n_ctx;
    c.kv = kv;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    return s;
}

/* A question about a picture, a video or nothing. */
typedef struct question {
    sac_part parts[2];
    sac_message message;
} question;

static const sac_message *about(question *q, sac_part_kind kind, const char *path, const char *text) {
    memset(q, 0, sizeof *q);
    size_t n = 0;
    if (path) q->parts[n++] = (sac_part){.kind = kind, .path = path};
    q->parts[n++] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
    q->message = (sac_message){"user", q->parts, n, NULL};
    return &q->message;
}

static void ask(sac_session *s, const sac_message *m, size_t n, sac_result *r) {
    sac_error err;
    assert_ok(sac_session_generate(s, m, n, NULL, NULL, r, &err), err);
}

static void second_question_reuses_the_picture(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f32"), *fresh = session_with(2048, "f32");
    sac_result r, alone;
    question q;
    ask(s, about(&q, SAC_PART_IMAGE, PICTURE, "How many shapes are there?"), 1, &r);
    assert_int_equal(r.n_reused_tokens, 0);
    assert_int_equal(r.n_media, 1);
    assert_int_equal(r.media[0].n_tokens, r.n_visual_tokens);
    const sac_message *second = about(&q, SAC_PART_IMAGE, PICTURE, "What color is the background?");
    ask(s, second, 1, &r);
    assert_true(r.n_reused_tokens >= r.n_visual_tokens);
    ask(fresh, second, 1, &alone);
    assert_int_equal(alone.n_reused_tokens, 0);
    assert_true(alone.media[0].from_cache); /* another session of the same model */
    assert_string_equal(r.text, alone.text);
    const float *a = sac_session_logits(s), *b = sac_session_logits(fresh);
    sac_model_info info;
    sac_model_get_info(model, &info);
    for (int i = 0; i < info.vocab; i++) assert_true(fabsf(a[i] - b[i]) < 1e-3f);
    sac_session_free(s);
    sac_session_free(fresh);
}

static void another_picture_is_not_taken_for_the_first(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f32");
    sac_result r;
    question q;
    ask(s, about(&q, SAC_PART_IMAGE, PICTURE, "Describe the image."), 1, &r);
    char first[512];
    snprintf(first, sizeof first, "%s", r.text);
    ask(s, about(&q, SAC_PART_IMAGE, "samples/picture0003.png", "Describe the image."), 1, &r);
    assert_true(r.n_reused_tokens < 4);
    assert_string_not_equal(r.text, first);
    sac_session_free(s);
}

typedef struct collected {
    char text[4096];
    size_t n;
    int calls;
    int stop_after; /* calls, 0 = never */
} collected;

static bool collect(void *ctx, const char *utf8, size_t n) {
    collected *c = ctx;
    assert_true(c->n + n < sizeof c->text);
    memcpy(c->text + c->n, utf8, n);
    c->n += n;
    c->text[c->n] = 0;
    return ++c->calls != c->stop_after;
}

static void streamed_text_is_the_answer(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f16");
    sac_result r;
    question q;
    sac_error err;
    collected c = {.n = 0};
    sac_events events = {.ctx = &c, .text = collect};
    assert_ok(sac_session_generate(s, about(&q, SAC_PART_IMAGE, PICTURE, "Describe the image."), 1, NULL,
                                   &events, &r, &err),
              err);
    assert_string_equal(c.text, r.text);
    assert_true(c.calls > 3);
    assert_string_equal(r.finish_reason, "stop");
    assert_int_equal(strlen(r.text), r.n_text_bytes);
    sac_session_free(s);
}

static void stop_text_ends_the_answer_and_is_not_sent(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f16");
    sac_result r;
    question q;
    sac_error err;
    const sac_message *m = about(&q, SAC_PART_IMAGE, PICTURE, "Describe the image.");
    ask(s, m, 1, &r);
    char whole[4096];
    snprintf(whole, sizeof whole, "%s", r.text);
    const char *stop = " at the ";
    char *at = strstr(whole, stop);
    assert_non_null(at);
    collected c = {.n = 0};
    sac_events events = {.ctx = &c, .text = collect};
    sac_sampling o;
    sac_sampling_default(&o);
    o.stop = &stop;
    o.n_stop = 1;
    assert_ok(sac_session_generate(s, m, 1, &o, &events, &r, &err), err);
    *at = 0;
    assert_string_equal(r.text, whole);
    assert_string_equal(c.text, whole);
    assert_string_equal(r.finish_reason, "stop");
    o.n_stop = 0;
    o.max_tokens = 3;
    assert_ok(sac_session_generate(s, m, 1, &o, NULL, &r, &err), err);
    assert_int_equal(r.n_tokens, 3);
    assert_string_equal(r.finish_reason, "length");
    sac_session_free(s);
}

static void receiver_can_cancel_and_the_session_goes_on(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f16");
    sac_result r;
    question q;
    sac_error err;
    collected c = {.stop_after = 2};
    sac_events events = {.ctx = &c, .text = collect};
    const sac_message *m = about(&q, SAC_PART_IMAGE, PICTURE, "Describe the image.");
    assert_int_equal(sac_session_generate(s, m, 1, NULL, &events, &r, &err), SAC_CANCELLED);
    assert_int_equal(c.calls, 2);
    assert_null(r.text);
    ask(s, m, 1, &r);
    assert_true(r.n_text_bytes > 0);
    assert_true(r.n_reused_tokens > 56); /* what was run before the cancellation still serves */
    sac_session_free(s);
}

/* Another thread cancels when the answer's first text has come, which waits until it has. */
static void *cancel_now(void *session) {
    sac_session_cancel(session);
    return NULL;
}

static bool on_first_text(void *ctx, const char *utf8, size_t n) {
    (void)utf8, (void)n;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, cancel_now, ctx), 0);
    pthread_join(t, NULL);
    return true;
}

static void another_thread_can_cancel(void **state) {
    (void)state;
    sac_session *s = session_with(8192, "f16");
    sac_result r;
    sac_error err;
    question q;
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = 8000;
    o.ignore_eos = true;
    sac_events events = {.ctx = s, .text = on_first_text};
    assert_int_equal(sac_session_generate(s, about(&q, SAC_PART_IMAGE, PICTURE, "Describe the image."), 1, &o,
                                          &events, &r, &err),
                     SAC_CANCELLED);
    assert_true(sac_session_n_tokens(s) < 200);
    sac_session_free(s);
}

static void video_reports_what_was_seen(void **state) {
    (void)state;
    sac_session *s = session_with(4096, "f16");
    sac_result r;
    question q;
    about(&q, SAC_PART_VIDEO, VIDEO, "How many numbers appear?");
    q.parts[0].video.num_frames = 4;
    ask(s, &q.message, 1, &r);
    const sac_media_report *m = &r.media[0];
    assert_int_equal(m->n_frames, 4);
    assert_int_equal(m->source_frames, 16);
    assert_non_null(strstr(m->rule, "num_frames"));
    for (int i = 1; i < 4; i++) assert_true(m->time_s[i] > m->time_s[i - 1]);
    sac_model_info info;
    sac_model_get_info(model, &info);
    assert_int_equal(m->n_tokens, 4 * info.tokens_per_frame);
    sac_session_free(s);
}

static void too_long_is_refused_before_work(void **state) {
    (void)state;
    sac_session *s = session_with(200, "f16");
    sac_result r;
    question q;
    sac_error err;
    about(&q, SAC_PART_VIDEO, VIDEO, "How many numbers appear?");
    q.parts[0].video.max_frames = 16;
    assert_int_equal(sac_session_generate(s, &q.message, 1, NULL, NULL, &r, &err), SAC_TOO_LONG);
    assert_non_null(strstr(err.text, "200"));
    char *text = calloc(1, 5001);
    memset(text, 'x', 5000);
    assert_int_equal(sac_session_generate(s, about(&q, SAC_PART_TEXT, NULL, text), 1, NULL, NULL, &r, &err),
                     SAC_TOO_LONG);
    free(text);
    sac_session_free(s);
}

static void no_question_is_refused(void **state) {
    static const char *const nothing[] = {"", " \n\t"};
    sac_result r;
    sac_error err;
    question q;
    (void)state;
    sac_session *s = session_with(200, "f16");
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        assert_int_equal(
            sac_session_generate(s, about(&q, SAC_PART_TEXT, NULL, nothing[i]), 1, NULL, NULL, &r, &err),
            SAC_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, "no question"));
    }
    assert_ok(sac_session_generate(s, about(&q, SAC_PART_IMAGE, PICTURE, ""), 1, NULL, NULL, &r, &err), err);
    sac_session_free(s);
}

static void cancelling_nothing_does_nothing_to_what_is_measured(void **state) {
    (void)state;
    sac_session *s = session_with(200, "f16");
    sac_error err;
    question q;
    size_t n_ids;
    int64_t n_prompt;
    const sac_message *m = about(&q, SAC_PART_IMAGE, PICTURE, "What is this?");
    sac_session_cancel(s);
    assert_ok(sac_session_prompt(s, m, 1, NULL, 0, &n_ids, &err), err);
    sac_session_cancel(s);
    assert_ok(sac_session_n_reusable(s, m, 1, &n_prompt, NULL, &err), err);
    sac_session_free(s);
}

static void answers_do_not_depend_on_threads(void **state) {
    (void)state;
    sac_model_options o;
    sac_model_options_default(&o);
    question q;
    const sac_message *m = about(&q, SAC_PART_IMAGE, PICTURE, "Describe the image.");
    float *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        sac_model *other;
        sac_session *s;
        sac_error err;
        o.n_threads = threads;
        assert_ok(sac_model_open(&other, MODEL, &o, &err), err);
        assert_ok(sac_session_create(&s, other, NULL, &err), err);
        assert_ok(sac_session_prefill(s, m, 1, NULL, &err), err);
        sac_model_info info;
        sac_model_get_info(other, &info);
        size_t n = (size_t)info.vocab * sizeof(float);
        if (!first) {
            first = malloc(n);
            memcpy(first, sac_session_logits(s), n);
        } else
            assert_memory_equal(first, sac_session_logits(s), n);
        sac_session_free(s);
        sac_model_free(other);
    }
    free(first);
}

static void appended_tokens_equal_a_prompt(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f32"), *t = session_with(2048, "f32");
    sac_error err;
    question q;
    int32_t ids[256];
    size_t n;
    const sac_message *m = about(&q, SAC_PART_TEXT, NULL, "What color is the circle?");
    assert_ok(sac_session_prompt(s, m, 1, ids, 256, &n, &err), err);
    assert_ok(sac_session_prefill(s, m, 1, NULL, &err), err);
    assert_int_equal(sac_session_n_tokens(s), n);
    sac_model_info info;
    sac_model_get_info(model, &info);
    float *all = malloc(n * (size_t)info.vocab * sizeof(float));
    assert_ok(sac_session_append(t, ids, 3, NULL, &err), err);
    assert_ok(sac_session_append(t, ids + 3, n - 3, all, &err), err);
    const float *a = sac_session_logits(s), *b = sac_session_logits(t);
    for (int i = 0; i < info.vocab; i++) {
        assert_true(fabsf(a[i] - b[i]) < 1e-3f);
        assert_true(fabsf(all[(n - 4) * (size_t)info.vocab + (size_t)i] - b[i]) < 1e-3f);
    }
    int32_t bad = info.vocab;
    assert_int_equal(sac_session_append(t, &bad, 1, NULL, &err), SAC_BAD_ARGUMENT);
    free(all);
    sac_session_free(s);
    sac_session_free(t);
}

static void plan_is_what_a_session_takes(void **state) {
    (void)state;
    sac_session_config c;
    sac_error err;
    sac_memory_report plan, taken;
    sac_session *s = session_with(1000, "f16");
    sac_session_config_default(&c);
    c.n_ctx = 1000;
    assert_ok(sac_session_plan(model, &c, &plan, &err), err);
    sac_session_memory(s, &taken);
    size_t sum[2] = {0};
    for (int i = 0; i < plan.n_parts; i++) sum[plan.parts[i].is_shared] += plan.parts[i].n_bytes;
    assert_int_equal(sum[0], plan.total_bytes);
    assert_int_equal(sum[1], plan.workspace_bytes);
    assert_int_equal(taken.total_bytes, plan.total_bytes);
    assert_int_equal(taken.workspace_bytes, plan.workspace_bytes);
    c.kv = "nonsense";
    assert_int_equal(sac_session_plan(model, &c, &plan, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s);
}

/* Matrices that are spread when a model is opened (models/bind_latent.c) lie in memory besides the files. */
static void plan_counts_copies_of_weights(void **state) {
    (void)state;
    /* of two layers of 3 heads of 10 channels: q of 11 numbers, k and v of 13, o of 16 rows */
    const size_t least = 2 * 30 * (11 + 13 + 13 + 16) * sizeof(uint16_t);
    sac_model *m;
    sac_model_info info;
    sac_memory_report plan;
    sac_error err;
    assert_ok(sac_model_open(&m, "tests/golden/models/deepseek_v3", NULL, &err), err);
    sac_model_get_info(m, &info);
    assert_ok(sac_session_plan(m, NULL, &plan, &err), err);
    assert_in_range(plan.weight_bytes, info.weight_bytes + least, 3 * (info.weight_bytes + least));
    sac_model_free(m);
}

static void control_tokens_in_a_question_are_text(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f16");
    sac_error err;
    question q;
    int32_t ids[256];
    size_t n;
    assert_ok(sac_session_prompt(s, about(&q, SAC_PART_TEXT, NULL, "<image><|end|>"), 1, ids, 256, &n, &err),
              err);
    assert_true(n > 8);
    int32_t end;
    size_t one;
    assert_ok(sac_tokenize_text(model, "<|end|>", 7, false, true, &end, 1, &one, &err), err);
    assert_int_equal(one, 1);
    for (size_t i = 0; i < n; i++) assert_int_not_equal(ids[i], end);
    sac_session_free(s);
}

/* ---------------------------------------------------------------- allocations, counted by the linker's
 * --wrap */

static atomic_int n_allocations;
static atomic_bool counting;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n) {
    if (counting) n_allocations++;
    return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    if (counting) n_allocations++;
    return __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n) {
    if (counting) n_allocations++;
    return __real_realloc(p, n);
}

static void running_the_model_allocates_nothing(void **state) {
    (void)state;
    sac_session *s = session_with(2048, "f16");
    sac_error err;
    int32_t ids[300];
    for (int i = 0; i < 300; i++) ids[i] = 10 + i % 200;
    n_allocations = 0;
    counting = true;
    sac_status st = sac_session_append(s, ids, 300, NULL, &err);
    for (int i = 0; st == SAC_OK && i < 20; i++) st = sac_session_append(s, ids + i, 1, NULL, &err);
    counting = false;
    assert_ok(st, err);
    assert_int_equal(n_allocations, 0);
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_question_reuses_the_picture),
        cmocka_unit_test(another_picture_is_not_taken_for_the_first),
        cmocka_unit_test(streamed_text_is_the_answer),
        cmocka_unit_test(stop_text_ends_the_answer_and_is_not_sent),
        cmocka_unit_test(receiver_can_cancel_and_the_session_goes_on),
        cmocka_unit_test(another_thread_can_cancel),
        cmocka_unit_test(video_reports_what_was_seen),
        cmocka_unit_test(too_long_is_refused_before_work),
        cmocka_unit_test(no_question_is_refused),
        cmocka_unit_test(cancelling_nothing_does_nothing_to_what_is_measured),
        cmocka_unit_test(answers_do_not_depend_on_threads),
        cmocka_unit_test(appended_tokens_equal_a_prompt),
        cmocka_unit_test(plan_is_what_a_session_takes),
        cmocka_unit_test(plan_counts_copies_of_weights),
        cmocka_unit_test(control_tokens_in_a_question_are_text),
        cmocka_unit_test(running_the_model_allocates_nothing),
    };
    return cmocka_run_group_tests_name("session", tests, open_model, close_model);
}
