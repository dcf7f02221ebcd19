#define _GNU_SOURCE
/* A second question: what a session holds of the first may serve it, where it is right for any question, and
 * must not elsewhere; and what was opened once is not opened again. */
#include "step_test.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files opened and decoded, counted by the linker's --wrap. */
static int n_videos, n_reads, n_pictures;

sac_status __real_sac_video_open(void *out, const char *path, const void *limits, sac_error *err);
sac_status __wrap_sac_video_open(void *out, const char *path, const void *limits, sac_error *err);
sac_status __wrap_sac_video_open(void *out, const char *path, const void *limits, sac_error *err) {
    n_videos++;
    return __real_sac_video_open(out, path, limits, err);
}

sac_status __real_sac_video_begin(void *v, const void *plan, int rotate, sac_error *err);
sac_status __wrap_sac_video_begin(void *v, const void *plan, int rotate, sac_error *err);
sac_status __wrap_sac_video_begin(void *v, const void *plan, int rotate, sac_error *err) {
    n_reads++;
    return __real_sac_video_begin(v, plan, rotate, err);
}

sac_status __real_sac_image_open(void *out, const char *path, const void *limits, sac_error *err);
sac_status __wrap_sac_image_open(void *out, const char *path, const void *limits, sac_error *err);
sac_status __wrap_sac_image_open(void *out, const char *path, const void *limits, sac_error *err) {
    n_pictures++;
    return __real_sac_image_open(out, path, limits, err);
}

static void opened(int videos, int reads, int pictures) {
    assert_int_equal(n_videos, videos);
    assert_int_equal(n_reads, reads);
    assert_int_equal(n_pictures, pictures);
    n_videos = n_reads = n_pictures = 0;
}

#define FRAMES 3

typedef struct method {
    const char *prefill, *decode, *kv;
    bool keeps;
} method;

static const method methods[] = {
    {NULL, NULL, NULL, true},
    {NULL, NULL, "f32", true},
    {"streaming:start=4,recent=300", NULL, NULL, true},
    {"selfextend:group=2,window=128", NULL, NULL, true},
    {NULL, "streaming:start=4,recent=100", NULL, true},
    {NULL, "selfextend:group=2,window=128", NULL, true},
    {NULL, "quest:budget=64,page=16", NULL, true},
    {NULL, "tokenselect:init=16,k=64,local=32", NULL, true},
    {NULL, "twilight:p=0.9", NULL, true},
    {NULL, "twilight:base=quest,base.budget=64", NULL, true},
    {"zipvl:min=0", NULL, NULL, false},
    {"fastv", NULL, NULL, false},
    {"minference:pattern=block_sparse,blocks=2", NULL, NULL, false},
    {"xattn:min=0,tau=0.5", NULL, NULL, false},
    {NULL, "snapkv:cap=64", NULL, false},
    {NULL, "pyramidkv:cap=64", NULL, false},
    {NULL, "h2o:heavy=32,recent=32", NULL, false},
    {NULL, "doublesparse:k=64", NULL, false},
    {NULL, "duo:start=4,recent=40,heads=prompt", NULL, false},
    {NULL, "duo:start=4,recent=40,heads=model", NULL, true},
    {NULL, "adore:m=64,r=8", NULL, false},
    {NULL, "infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL, false},
    {"infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64",
     "infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL, false},
    {"tokenselect:init=16,k=64,local=32,chunk=32", NULL, NULL, false},
    {"zipcache", NULL, "zipcache", false},
    {NULL, NULL, "kivi", false}, /* packed rows cannot be cut */
};

static void close_to(const heard *a, const heard *b) {
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n_prompt, b->n_prompt);
    for (size_t i = 0; i < STEP_VOCAB; i++) assert_true(fabsf(a->logits[i] - b->logits[i]) < 2e-2f);
}

static int64_t reusable(sac_session *s, const sac_message *m, size_t n) {
    sac_error err;
    int64_t n_prompt, n_reusable;
    assert_ok(sac_session_n_reusable(s, m, n, &n_prompt, &n_reusable, &err), err);
    assert_true(n_prompt > n_reusable);
    return n_reusable;
}

/* Two questions about one video, both ways: a session that was asked the other one before answers as one that
 * was not. */
static void another_question_gets_its_own_answer(void **state) {
    (void)state;
    static heard first, second, fresh;
    asked q;
    static const char *questions[] = {"How many numbers appear?", "Describe the video."};
    sac_sampling o = step_sampling(10);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int way = 0; way < 2; way++) {
            const method *m = &methods[i];
            sac_session *s = step_session(model, m->prefill, m->decode, m->kv, 1024);
            sac_session *t = step_session(model, m->prefill, m->decode, m->kv, 1024);
            hear_alone(&first, model, s, ask_about(&q, STEP_VIDEO, FRAMES, questions[way]), &o);
            const sac_message *other = ask_about(&q, STEP_VIDEO, FRAMES, questions[!way]);
            int64_t n = reusable(s, other, 1);
            hear_alone(&second, model, s, other, &o);
            hear_alone(&fresh, model, t, other, &o);
            assert_int_equal(second.n_reused, n);
            assert_int_equal(fresh.n_reused, 0);
            if (m->keeps)
                assert_true(n >= FRAMES * 64);
            else
                assert_int_equal(n, 0);
            heard_equal(&second, &fresh);
            sac_session_free(s);
            sac_session_free(t);
        }
}

/* A conversation that goes on: the same rule. A packed format keeps it, as its rows serve any question. */
static void a_conversation_goes_on(void **state) {
    (void)state;
    static heard first, second, fresh;
    sac_sampling o = step_sampling(10);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const method *m = &methods[i];
        bool whole = m->kv && strcmp(m->kv, "kivi") == 0;
        sac_session *s = step_session(model, m->prefill, m->decode, m->kv, 1024);
        sac_session *t = step_session(model, m->prefill, m->decode, m->kv, 1024);
        asked q;
        sac_message turns[3] = {*ask_about(&q, STEP_VIDEO, 4, "How many numbers appear?")};
        hear_alone(&first, model, s, turns, &o);
        sac_part answer = {.kind = SAC_PART_TEXT, .text = first.text};
        sac_part text = {.kind = SAC_PART_TEXT, .text = "Describe the video."};
        turns[1] = (sac_message){"assistant", &answer, 1, NULL};
        turns[2] = (sac_message){"user", &text, 1, NULL};
        int64_t n = reusable(s, turns, 3);
        sac_error err;
        sac_result r;
        sac_events e = hear(&second);
        assert_ok(sac_session_generate(s, turns, 3, &o, &e, &r, &err), err);
        hear_end(&second, s, model, &r);
        assert_int_equal(r.n_reused_tokens, n);
        e = hear(&fresh);
        assert_ok(sac_session_generate(t, turns, 3, &o, &e, &r, &err), err);
        hear_end(&fresh, t, model, &r);
        if (m->keeps || whole)
            assert_true(n >= first.n_prompt);
        else
            assert_int_equal(n, 0);
        if (!m->keeps && !whole) heard_equal(&second, &fresh);
        if (i < 2) close_to(&second, &fresh); /* an answer's rows are what its decode method made them */
        sac_session_free(s);
        sac_session_free(t);
    }
}

static void a_scheduler_can_pick_a_session(void **state) {
    (void)state;
    static heard h;
    asked q;
    sac_error err;
    sac_sampling o = step_sampling(4);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024),
                *t = step_session(model, NULL, NULL, NULL, 1024);
    hear_alone(&h, model, s, ask_about(&q, STEP_VIDEO, 4, "How many numbers appear?"), &o);
    hear_alone(&h, model, t, ask_about(&q, STEP_PICTURE, 0, "Describe the image."), &o);
    const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "What color is the background?");
    assert_true(reusable(t, m, 1) >= 64);
    assert_true(reusable(s, m, 1) < 16);
    m = ask_about(&q, STEP_VIDEO, 4, "Describe the video.");
    assert_true(reusable(s, m, 1) >= 256);
    assert_true(reusable(t, m, 1) < 16);
    m = ask_about(&q, STEP_VIDEO, 5, "Describe the video."); /* other frames, another medium */
    assert_true(reusable(s, m, 1) < 16);
    assert_ok(sac_session_begin(s, m, 1, &o, NULL, &err), err);
    assert_int_equal(sac_session_n_reusable(s, m, 1, NULL, NULL, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s);
    sac_session_free(t);
}

/* What an earlier turn has looked at is neither opened nor decoded again, while its file is the same. */
static void media_are_opened_once(void **state) {
    (void)state;
    static heard h;
    asked q;
    sac_model *m = model;
    model = step_model(2); /* one that has met nothing */
    sac_sampling o = step_sampling(2);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024),
                *t = step_session(model, NULL, NULL, NULL, 600);
    opened(n_videos, n_reads, n_pictures);
    hear_alone(&h, model, s, ask_about(&q, STEP_VIDEO, 4, "How many numbers appear?"), &o);
    opened(1, 1, 0);
    hear_alone(&h, model, s, ask_about(&q, STEP_VIDEO, 4, "Describe the video."), &o);
    assert_true(h.n_reused > 256);
    sac_session_reset(s); /* embeddings come from their cache now */
    hear_alone(&h, model, s, ask_about(&q, STEP_VIDEO, 4, "Describe the video."), &o);
    assert_int_equal(h.n_reused, 0);
    opened(0, 0, 0);
    hear_alone(&h, model, s, ask_about(&q, STEP_VIDEO, 3, "Describe the video."), &o); /* other frames */
    opened(1, 1, 0);
    hear_alone(&h, model, s, ask_about(&q, STEP_PICTURE, 0, "Describe the image."), &o);
    opened(0, 0, 1);
    hear_alone(&h, model, t, ask_about(&q, STEP_PICTURE, 0, "What color is the background?"), &o);
    opened(0, 0, 0);
    /* As many frames as fit: a bound that does not bind changes nothing, one that does is another choice. */
    sac_session *large = step_session(model, NULL, NULL, NULL, 2000);
    asked video;
    ask_about(&video, STEP_VIDEO, 1, "Describe the video.");
    video.parts[0].video.num_frames = 0;
    video.message.parts = video.parts;
    hear_alone(&h, model, large, &video.message, &o);
    opened(1, 1, 0);
    video.parts[1].text = "How many numbers appear in all of it?";
    hear_alone(&h, model, large, &video.message, &o);
    assert_true(h.n_reused > 256);
    opened(0, 0, 0);
    hear_alone(&h, model, t, &video.message, &o);
    opened(1, 1, 0);
    sac_session_free(s);
    sac_session_free(t);
    sac_session_free(large);
    sac_model_free(model);
    model = m;
}

/* Of tokens, three more, of which the first two may be heard; how many were reused. */
static int64_t run_tokens(sac_session *s, const int32_t *ids, size_t n, int32_t *said) {
    sac_error err;
    sac_result r;
    int32_t token;
    bool done;
    sac_sampling o = step_sampling(3);
    o.ignore_eos = true;
    assert_ok(sac_session_begin_tokens(s, ids, n, &o, NULL, &err), err);
    for (done = false; !done;) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, &r);
    if (said) memcpy(said, r.tokens, 2 * sizeof *said);
    return r.n_reused_tokens;
}

/* A prompt of few rows has rows of other bits than a longer one: it gives that one none. Its own conversation goes on with them. */
static void few_rows_serve_no_longer_prompt(void **state) {
    (void)state;
    enum { FEW = 6, LONGER = 40 };
    int32_t few[FEW], longer[LONGER], more[LONGER];
    sac_model_info info;
    sac_model_get_info(model, &info);
    for (int i = 0; i < LONGER; i++) longer[i] = more[i] = 5 + (i * 7) % 60;
    for (int i = 0; i < FEW; i++) few[i] = i < FEW - 1 ? longer[i] : 70;
    for (int way = 0; way < 2; way++) {
        sac_session *s = step_session(model, NULL, NULL, NULL, 256), *fresh = step_session(model, NULL, NULL, NULL, 256);
        const int32_t *ids[] = {few, longer};
        const size_t n[] = {FEW, LONGER};
        run_tokens(s, ids[way], n[way], NULL);
        assert_int_equal(run_tokens(s, ids[!way], n[!way], NULL), 0);
        run_tokens(fresh, ids[!way], n[!way], NULL);
        assert_memory_equal(sac_session_logits(s), sac_session_logits(fresh), (size_t)info.vocab * sizeof(float));
        more[LONGER - 1] = 71;
        assert_int_equal(run_tokens(s, more, LONGER, NULL), way ? 0 : LONGER - 9); /* but for the last rows, which are not few */
        sac_session_free(s);
        sac_session_free(fresh);
    }
    sac_session *s = step_session(model, NULL, NULL, NULL, 256);
    memcpy(more, few, sizeof few);
    run_tokens(s, few, FEW, more + FEW);
    assert_int_equal(run_tokens(s, more, LONGER, NULL), FEW + 2);
    sac_session_free(s);
}

/* What is under way has all its rows, and no logits yet; then nobody wants it any more. */
static void give_up_before_logits(sac_session *s, bool cancels) {
    sac_error err;
    bool done;
    do
        assert_ok(sac_session_work_next(s, &done, &err), err);
    while (sac_session_work_left(s) > 0);
    assert_false(done);
    if (cancels) {
        sac_session_cancel(s);
        assert_int_equal(sac_session_work_next(s, &done, &err), SAC_CANCELLED);
    }
    sac_session_end(s, NULL);
}

/* How such rows come to be there. */
typedef enum leaver { PROMPT_ENDS, PROMPT_IS_CANCELLED, APPENDED_ENDS, APPENDED, N_LEAVERS } leaver;

static void leave_rows(sac_session *s, leaver l, const int32_t *ids, size_t n) {
    static float all[40 * STEP_VOCAB];
    sac_error err;
    const sac_input in = {.ids = ids, .n_ids = n};
    if (l == APPENDED) {
        assert_ok(sac_session_append(s, ids, n, NULL, &err), err);
        return;
    }
    if (l == APPENDED_ENDS)
        assert_ok(sac_session_begin_append(s, ids, n, all, NULL, &err), err);
    else
        assert_ok(sac_session_begin_work(s, &in, NULL, NULL, &err), err);
    give_up_before_logits(s, l == PROMPT_IS_CANCELLED);
}

/* They count as a prompt's: few serve no longer one, and of many the last are run anew, with the bits of a prompt that is run alone.
 * That they were taken for those of an answer's steps made a server's answers differ in the seventh digit. */
static void rows_left_without_logits_are_a_prompts(void **state) {
    (void)state;
    enum { FEW = 6, LONGER = 40 };
    int32_t ids[LONGER];
    sac_model_info info;
    sac_model_get_info(model, &info);
    for (int i = 0; i < LONGER; i++) ids[i] = 5 + (i * 7) % 60;
    sac_session *fresh = step_session(model, NULL, NULL, NULL, 256);
    run_tokens(fresh, ids, LONGER, NULL);
    for (leaver l = PROMPT_ENDS; l < N_LEAVERS; l++)
        for (int few = 0; few < 2; few++) {
            sac_session *s = step_session(model, NULL, NULL, NULL, 256);
            leave_rows(s, l, ids, few ? FEW : LONGER);
            assert_int_equal(sac_session_n_tokens(s), few ? FEW : LONGER);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(run_tokens(s, ids, LONGER, NULL), few && !again ? 0 : LONGER - 9);
                assert_memory_equal(sac_session_logits(s), sac_session_logits(fresh), (size_t)info.vocab * sizeof(float));
            }
            sac_session_free(s);
        }
    sac_session_free(fresh);
}

static void copy_file(const char *from, const char *to) {
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (int c; (c = fgetc(in)) != EOF;) fputc(c, out);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* A file that becomes another one under its old name is seen as what it is now. */
static void a_changed_file_is_read_again(void **state) {
    (void)state;
    static heard a, b, c;
    asked q;
    char path[] = "/tmp/saccade_reuse_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    sac_sampling o = step_sampling(60);
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024);
    copy_file(STEP_PICTURE, path);
    for (int settled = 0; settled < 2; settled++) {
        if (settled) sleep(4); /* only then is a file's identity trusted */
        hear_alone(&a, model, s, ask_about(&q, path, 0, "Describe the image."), &o);
        hear_alone(&b, model, s, ask_about(&q, path, 0, "Describe the image."), &o);
        assert_true(b.n_reused > 56); /* but for the last chunk, which is not of few rows */
        copy_file("samples/picture0003.png", path);
        hear_alone(&c, model, s, ask_about(&q, path, 0, "Describe the image."), &o);
        assert_true(c.n_reused < 16);
        assert_string_not_equal(c.text, b.text);
        copy_file(STEP_PICTURE, path);
    }
    sac_error err;
    sac_session_reset(s);
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(
        sac_session_begin(s, ask_about(&q, path, 0, "Describe the image."), 1, &o, NULL, &err), SAC_OK);
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_question_gets_its_own_answer), cmocka_unit_test(a_conversation_goes_on),
        cmocka_unit_test(a_scheduler_can_pick_a_session),       cmocka_unit_test(media_are_opened_once),
        cmocka_unit_test(a_changed_file_is_read_again),         cmocka_unit_test(few_rows_serve_no_longer_prompt),
        cmocka_unit_test(rows_left_without_logits_are_a_prompts),
    };
    return cmocka_run_group_tests_name("reuse", tests, open_model, close_model);
}
