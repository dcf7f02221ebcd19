/* DeepStack: what is added to the rows of pictures after the first layers is the same for every size of chunks, after a
 * prefix that is used again, in batches, in memory that others have used, and with methods that choose or drop rows. */
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>

#define FOLDER "tests/golden/models/"
#define VOCAB  288
enum { N_FRAMES = 5, N_STEPS = 5, N_PREFILLS = 3 };

static sac_model *model;

typedef struct conversation {
    sac_message message;
    sac_part parts[3];
    sac_frame frames[N_FRAMES];
    char paths[N_FRAMES][64];
} conversation;

static const sac_message *about(conversation *c, const char *text) {
    memset(c, 0, sizeof *c);
    for (int i = 0; i < N_FRAMES; i++) {
        snprintf(c->paths[i], sizeof c->paths[i], FOLDER "frame%d.png", i);
        c->frames[i] = (sac_frame){.path = c->paths[i], .time_s = i / 2.0};
    }
    c->parts[0] = (sac_part){.kind = SAC_PART_IMAGE, .path = FOLDER "tall.png"};
    c->parts[1] = (sac_part){.kind = SAC_PART_FRAMES, .frames = c->frames, .n_frames = N_FRAMES};
    c->parts[2] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
    c->message = (sac_message){.role = "user", .parts = c->parts, .n_parts = 3};
    return &c->message;
}

static sac_session *session(int chunk, const char *prefill, const char *decode) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = 512;
    c.prefill_chunk = chunk;
    c.kv = "f32";
    if (prefill) c.prefill = prefill;
    if (decode) c.decode = decode;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    return s;
}

static void read_prompt(sac_session *s, const char *text) {
    conversation c;
    sac_error err;
    assert_ok(sac_session_prefill(s, about(&c, text), 1, NULL, &err), err);
}

/* Logits of the prompt and of some tokens after it. */
typedef struct answer {
    float logits[1 + N_STEPS][VOCAB];
} answer;

static void hear(sac_session *s, answer *a) {
    sac_error err;
    for (int i = 0; i <= N_STEPS; i++) {
        int32_t id = 40 + 7 * i;
        memcpy(a->logits[i], sac_session_logits(s), sizeof a->logits[i]);
        assert_ok(sac_session_append(s, &id, 1, NULL, &err), err);
    }
}

static void hear_new(answer *a, int chunk, const char *prefill, const char *decode) {
    sac_session *s = session(chunk, prefill, decode);
    read_prompt(s, "What happens?");
    hear(s, a);
    sac_session_free(s);
}

static int open_model(void **state) {
    sac_model_options o;
    sac_error err;
    (void)state;
    sac_model_options_default(&o);
    o.chat_format = "plain";
    assert_ok(sac_model_open(&model, FOLDER "qwen3_vl", &o, &err), err);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

static const char *const prefills[N_PREFILLS] = {"dense", "zipvl:min=0,recent=4,random=4,tau=0.8",
                                                 "fastv:layer=1,ratio=0.5"};

/* The sums of a linear layer differ by rounding with the rows beside them; rows to which the wrong ones or none are added
 * differ by a hundred thousand times as much. */
static void same(const answer *a, const answer *b, const char *method, int chunk) {
    for (int i = 0; i <= N_STEPS; i++)
        for (int v = 0; v < VOCAB; v++)
            if (!(fabsf(a->logits[i][v] - b->logits[i][v]) < 1e-4f))
                fail_msg("%s, chunks of %d: logit %d of step %d is %g, not %g", method, chunk, v, i,
                         (double)b->logits[i][v], (double)a->logits[i][v]);
}

static void every_chunk_size(void **state) {
    static answer whole, part;
    (void)state;
    for (size_t p = 0; p < N_PREFILLS; p++) {
        hear_new(&whole, 512, prefills[p], NULL);
        for (int chunk = 1; chunk <= 64; chunk = chunk * 3 + 1) {
            hear_new(&part, chunk, prefills[p], NULL);
            same(&whole, &part, prefills[p], chunk);
        }
    }
}

/* Tokens that a method drops from the model, or only from what is attended to: the others get the same. */
static void dropped_tokens(void **state) {
    static answer dropped, hidden;
    (void)state;
    hear_new(&dropped, 16, "fastv:layer=1,ratio=0.5,mode=drop", NULL);
    hear_new(&hidden, 16, "fastv:layer=1,ratio=0.5,mode=attn", NULL);
    memcpy(dropped.logits[1], hidden.logits[1],
           sizeof dropped - sizeof dropped.logits[0]); /* of the prompt alone */
    same(&hidden, &dropped, "fastv", 16);
}

/* Another question about the same pictures: their rows are cached, and what was added to them is in the keys. */
static void after_a_prefix(void **state) {
    static answer alone, again;
    sac_session *s = session(16, NULL, NULL);
    (void)state;
    hear_new(&alone, 16, NULL, NULL);
    read_prompt(s, "Is it an owl?");
    read_prompt(s, "What happens?");
    hear(s, &again);
    sac_session_free(s);
    same(&alone, &again, "dense", 16);
}

/* Frames prepared one by one, whose size is not known before their number is. */
static void prepared_as_from_files(void **state) {
    static answer files, prepared;
    sac_prepared *frames[N_FRAMES];
    conversation c;
    sac_error err;
    (void)state;
    hear_new(&files, 512, NULL, NULL);
    sac_session *s = session(512, NULL, NULL);
    about(&c, "What happens?");
    for (int i = 0; i < N_FRAMES; i++) {
        const sac_part picture = {.kind = SAC_PART_IMAGE, .path = c.paths[i]};
        assert_ok(sac_prepared_create(&frames[i], model, &picture, true, &err), err);
        c.frames[i] = (sac_frame){.prepared = frames[i], .time_s = c.frames[i].time_s};
    }
    assert_ok(sac_session_prefill(s, &c.message, 1, NULL, &err), err);
    hear(s, &prepared);
    sac_session_free(s);
    for (int i = 0; i < N_FRAMES; i++) sac_prepared_free(frames[i]);
    assert_memory_equal(&files, &prepared, sizeof files);
}

/* A session is lent memory that others have used: what is not written must not be read. */
static void after_other_prompts(void **state) {
    static answer alone, later;
    sac_session *s = session(16, NULL, NULL);
    sac_message text = {
        .role = "user", .parts = &(sac_part){.kind = SAC_PART_TEXT, .text = "Say something."}, .n_parts = 1};
    sac_error err;
    (void)state;
    assert_ok(sac_session_prefill(s, &text, 1, NULL, &err), err);
    hear(s, &alone);
    sac_session_reset(s);
    read_prompt(s, "What happens?");
    sac_session_reset(s);
    assert_ok(sac_session_prefill(s, &text, 1, NULL, &err), err);
    hear(s, &later);
    sac_session_free(s);
    assert_memory_equal(&alone, &later, sizeof alone);
}

static void in_a_batch(void **state) {
    enum { N = 3 };
    static answer alone[N];
    sac_sampling o;
    sac_error err;
    sac_batch *b;
    sac_session *s[N];
    sac_batch_item items[N];
    int32_t said[N][N_STEPS];
    conversation c[N];
    (void)state;
    sac_sampling_default(&o);
    o.max_tokens = N_STEPS;
    o.ignore_eos = true;
    assert_ok(sac_batch_create(&b, model, N, &err), err);
    for (int i = 0; i < N; i++) {
        bool done = false;
        sac_session *one = session(512, prefills[i], NULL);
        about(&c[i], "What happens?");
        assert_ok(sac_session_begin(one, &c[i].message, 1, &o, NULL, &err), err);
        for (int k = 0; !done; k++) assert_ok(sac_session_step(one, NULL, &said[i][k], &done, &err), err);
        memcpy(alone[i].logits[0], sac_session_logits(one), sizeof alone[i].logits[0]);
        sac_session_free(one);
        s[i] = session(512, prefills[i], NULL);
        assert_ok(sac_session_begin(s[i], &c[i].message, 1, &o, NULL, &err), err);
        items[i] = (sac_batch_item){.session = s[i]};
    }
    for (int k = 0; k < N_STEPS; k++) {
        assert_ok(sac_batch_step(b, items, N, &err), err);
        for (int i = 0; i < N; i++) {
            assert_ok(items[i].status, items[i].error);
            assert_int_equal(items[i].token, said[i][k]);
        }
    }
    for (int i = 0; i < N; i++) {
        assert_memory_equal(alone[i].logits[0], sac_session_logits(s[i]), sizeof alone[i].logits[0]);
        sac_session_free(s[i]);
    }
    sac_batch_free(b);
}

/* A method that could compute tokens again, and is not to. */
static void nothing_is_computed_again(void **state) {
    static answer dense, adore;
    (void)state;
    hear_new(&dense, 512, "dense", NULL);
    hear_new(&adore, 512, "dense", "adore:sigma=attention,r=0,m=500"); /* holds all */
    same(&dense, &adore, "adore", 512);
    hear_new(&adore, 512, "dense", "adore:sigma=attention,r=0,m=24");
    assert_memory_equal(dense.logits[0], adore.logits[0], sizeof dense.logits[0]); /* of the prompt */
    assert_memory_not_equal(dense.logits[N_STEPS], adore.logits[N_STEPS], sizeof dense.logits[0]);
}

static void what_is_computed_again_is_refused(void **state) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    (void)state;
    sac_session_config_default(&c);
    c.n_ctx = 512;
    c.decode = "adore:sigma=attention";
    assert_int_equal(sac_session_create(&s, model, &c, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "first 2 layers"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepared_as_from_files),
        cmocka_unit_test(every_chunk_size),
        cmocka_unit_test(dropped_tokens),
        cmocka_unit_test(after_a_prefix),
        cmocka_unit_test(after_other_prompts),
        cmocka_unit_test(in_a_batch),
        cmocka_unit_test(nothing_is_computed_again),
        cmocka_unit_test(what_is_computed_again_is_refused),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
