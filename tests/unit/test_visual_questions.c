/* A picture alone, one of several and a video's frames: LLaVA-OneVision cuts them in three ways, InternVL has tokens of its
 * own around them, SmolVLM texts between tiles, Pixtral and Mistral 3 between rows of tokens; in Gemma 3 a picture's rows see
 * one another, across windows and chunks. Each is the same for every size of chunks, from files and prepared, after a prefix
 * that is used again, out of the cache, in batches, and with methods that choose or drop rows. */
#include "saccade/saccade.h"
#include "status.h"
#include "test.h"

#include <math.h>

#define FOLDER     "tests/golden/models/"
#define MOST_VOCAB 512
enum { N_FRAMES = 5, N_STEPS = 5, N_KINDS = 4, MOST_PICTURES = 2 };

static sac_model *model;
static size_t n_logits;

/* Pictures and frames of a question, by the kind of it. */
static const struct {
    const char *pictures[MOST_PICTURES];
    int n_pictures, n_frames;
} kinds[N_KINDS] = {
    {{"wide.png"}, 1, 0}, {{"wide.png", "tall.png"}, 2, 0}, {{0}, 0, N_FRAMES}, {{"tall.png"}, 1, 3}};

typedef struct question {
    sac_message message;
    sac_part parts[MOST_PICTURES + 2];
    sac_frame frames[N_FRAMES];
    char paths[N_FRAMES + MOST_PICTURES][64];
    sac_prepared *prepared[N_FRAMES + MOST_PICTURES];
} question;

static const char *path_of(question *q, int i, const char *name, int frame) {
    if (name) snprintf(q->paths[i], sizeof q->paths[i], FOLDER "%s", name);
    if (!name) snprintf(q->paths[i], sizeof q->paths[i], FOLDER "frame%d.png", frame);
    return q->paths[i];
}

static sac_prepared *prepare(question *q, int i, bool is_frame) {
    sac_error err;
    const sac_part picture = {.kind = SAC_PART_IMAGE, .path = q->paths[i]};
    assert_ok(sac_prepared_create(&q->prepared[i], model, &picture, is_frame, &err), err);
    return q->prepared[i];
}

static const sac_message *about(question *q, int kind, const char *text, bool prepared) {
    const int n = kinds[kind].n_pictures, n_frames = kinds[kind].n_frames;
    memset(q, 0, sizeof *q);
    for (int i = 0; i < n; i++) {
        const char *path = path_of(q, i, kinds[kind].pictures[i], 0);
        q->parts[i] = (sac_part){.kind = SAC_PART_IMAGE, .path = path};
        if (prepared) q->parts[i] = (sac_part){.kind = SAC_PART_IMAGE, .prepared = prepare(q, i, false)};
    }
    for (int i = 0; i < n_frames; i++) {
        const char *path = path_of(q, n + i, NULL, i);
        q->frames[i] = (sac_frame){.path = path, .time_s = i / 2.0};
        if (prepared) q->frames[i] = (sac_frame){.prepared = prepare(q, n + i, true), .time_s = i / 2.0};
    }
    size_t at = (size_t)n;
    if (n_frames)
        q->parts[at++] =
            (sac_part){.kind = SAC_PART_FRAMES, .frames = q->frames, .n_frames = (size_t)n_frames};
    q->parts[at++] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
    q->message = (sac_message){.role = "user", .parts = q->parts, .n_parts = at};
    return &q->message;
}

static void question_free(question *q) {
    for (size_t i = 0; i < SAC_COUNT(q->prepared); i++) sac_prepared_free(q->prepared[i]);
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

static void ask(sac_session *s, int kind, const char *text, bool prepared, float logits[MOST_VOCAB]) {
    question q;
    sac_error err;
    assert_ok(sac_session_prefill(s, about(&q, kind, text, prepared), 1, NULL, &err), err);
    memcpy(logits, sac_session_logits(s), n_logits * sizeof *logits);
    question_free(&q);
}

static void ask_new(int chunk, const char *prefill, const char *decode, int kind, bool prepared,
                    float logits[MOST_VOCAB]) {
    sac_session *s = session(chunk, prefill, decode);
    ask(s, kind, "What happens?", prepared, logits);
    sac_session_free(s);
}

/* Sums of a linear layer differ by rounding with the rows beside them. */
static void same(const float *a, const float *b, const char *what, int kind) {
    for (size_t v = 0; v < n_logits; v++)
        if (!(fabsf(a[v] - b[v]) < 1e-4f))
            fail_msg("%s, kind %d: logit %zu is %g, not %g", what, kind, v, (double)b[v], (double)a[v]);
}

static int open_folder(const char *path, const char *chat_format, size_t n_tokens) {
    sac_model_options o;
    sac_error err;
    sac_model_options_default(&o);
    o.chat_format = chat_format;
    assert_ok(sac_model_open(&model, path, &o, &err), err);
    assert_in_range(n_tokens, 1, MOST_VOCAB);
    n_logits = n_tokens;
    return 0;
}

static int open_onevision(void **state) {
    (void)state;
    return open_folder(FOLDER "llava_onevision_max", "plain", 288);
}

static int open_internvl(void **state) {
    (void)state;
    return open_folder(FOLDER "internvl", "plain", 288);
}

/* By the template of its folder. */
static int open_smolvlm(void **state) {
    (void)state;
    return open_folder(FOLDER "smolvlm", NULL, 327);
}

static int open_gemma3(void **state) {
    (void)state;
    return open_folder(FOLDER "gemma3", NULL, 160);
}

static int open_gemma3_pan(void **state) {
    (void)state;
    return open_folder(FOLDER "gemma3_pan", NULL, 160);
}

static int open_pixtral(void **state) {
    (void)state;
    return open_folder(FOLDER "pixtral", NULL, 288);
}

static int open_mistral3(void **state) {
    (void)state;
    return open_folder(FOLDER "mistral3", NULL, 288);
}

static int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

/* Of those that hold or drop what they like, each with itself. */
static const char *const prefills[] = {"dense", "zipvl:min=0,recent=4,random=4,tau=0.8",
                                       "fastv:layer=1,ratio=0.5"};
static const char *const decodes[] = {"dense", "tokenselect:init=2,local=8,k=16",
                                      "adore:sigma=attention,m=24,r=2"};

/* Those that let no token see a later one are refused where the rows of a picture do; none of these drops rows of a window. */
static bool sees_spans(void) {
    sac_model_info info;
    sac_model_get_info(model, &info);
    return strcmp(info.family, "gemma3") == 0;
}

static void every_chunk_size(void **state) {
    float whole[MOST_VOCAB], part[MOST_VOCAB];
    (void)state;
    for (size_t p = 0; p < (sees_spans() ? 1 : SAC_COUNT(prefills)); p++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            ask_new(512, prefills[p], NULL, kind, false, whole);
            for (int chunk = 1; chunk <= 64; chunk = chunk * 4 + 1) {
                ask_new(chunk, prefills[p], NULL, kind, false, part);
                same(whole, part, prefills[p], kind);
            }
        }
}

/* The same pixels, cut on another thread's behalf: what is prepared is not told whether it stands alone. */
static void prepared_as_from_files(void **state) {
    float file[MOST_VOCAB], prepared[MOST_VOCAB];
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) {
        ask_new(512, NULL, NULL, kind, false, file);
        ask_new(512, NULL, NULL, kind, true, prepared);
        assert_memory_equal(file, prepared, n_logits * sizeof *file);
    }
}

/* A picture that was seen alone is another one among others, in the session's rows as in the cache of the model. */
static void after_other_questions(void **state) {
    float want[N_KINDS][MOST_VOCAB], found[MOST_VOCAB];
    sac_session *s = session(16, NULL, NULL);
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) ask_new(16, NULL, NULL, kind, false, want[kind]);
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const int kind = i * 3 % N_KINDS;
        ask(s, kind, "What happens?", false, found);
        same(want[kind], found, "again", kind);
    }
    sac_session_free(s);
}

static void in_a_batch(void **state) {
    enum { N = N_KINDS };
    sac_sampling o;
    sac_error err;
    sac_batch *b;
    sac_session *s[N];
    sac_batch_item items[N];
    int32_t said[N][N_STEPS];
    float alone[N][MOST_VOCAB];
    question q[N];
    (void)state;
    sac_sampling_default(&o);
    o.max_tokens = N_STEPS;
    o.ignore_eos = true;
    assert_ok(sac_batch_create(&b, model, N, &err), err);
    for (int i = 0; i < N; i++) {
        bool done = false;
        const char *decode = decodes[(size_t)i % (sees_spans() ? 2 : SAC_COUNT(decodes))];
        sac_session *one = session(512, NULL, decode);
        about(&q[i], i, "What happens?", i % 2);
        assert_ok(sac_session_begin(one, &q[i].message, 1, &o, NULL, &err), err);
        for (int k = 0; !done; k++) assert_ok(sac_session_step(one, NULL, &said[i][k], &done, &err), err);
        memcpy(alone[i], sac_session_logits(one), n_logits * sizeof *alone[i]);
        sac_session_free(one);
        s[i] = session(512, NULL, decode);
        assert_ok(sac_session_begin(s[i], &q[i].message, 1, &o, NULL, &err), err);
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
        assert_memory_equal(alone[i], sac_session_logits(s[i]), n_logits * sizeof *alone[i]);
        sac_session_free(s[i]);
        question_free(&q[i]);
    }
    sac_batch_free(b);
}

/* HiReD looks at what the class token sees of each token: SigLIP and SmolVLM's tower have none, InternVL's tokens are
 * several patches. */
static void a_reducer_is_refused(void **state) {
    sac_session_config c;
    sac_error err;
    sac_session *s;
    (void)state;
    sac_session_config_default(&c);
    c.n_ctx = 512;
    c.reduce = "hired:rate=0.3";
    assert_int_equal(sac_session_create(&s, model, &c, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "hired"));
}

/* Which methods a model of layers that slide and of pictures that see themselves does not take, and why. */
static void methods_are_refused_by_name(void **state) {
    static const struct {
        const char *prefill, *decode, *kv, *rope, *says;
    } bad[] = {
        {"zipvl:min=0", NULL, NULL, NULL, "zipvl"},
        {"streaming:start=4,recent=40", NULL, NULL, NULL, "prefill policy streaming lets no token see a later one"},
        {"minference:pattern=block_sparse,blocks=2", NULL, NULL, NULL, "minference"},
        {"tokenselect:init=2,local=8,k=16,chunk=8", NULL, NULL, NULL, "tokenselect"},
        {"selfextend:group=4,window=200", NULL, NULL, NULL, "selfextend"},
        {"infllm:init=16,local=64,block=16,topk=2,repr=2,chunk=64", NULL, NULL, NULL, "infllm"},
        {"fastv", NULL, NULL, NULL, "fastv"},
        {NULL, "adore:m=24,r=2", NULL, NULL, "adore"},
        {NULL, "snapkv:cap=40", NULL, NULL, "sliding window of"},
        {NULL, "h2o:heavy=8,recent=8", NULL, NULL, "sliding window of"},
        {NULL, NULL, "kivi", NULL, "sliding window of"},
        {NULL, NULL, NULL, "ntk:factor=4", "ntk"},
    };
    static const char *const good[] = {"quest:budget=32,page=8", "tokenselect:init=2,local=8,k=16", "twilight:p=0.9",
                                       "streaming:start=4,recent=40", "doublesparse:k=24",
                                       "infllm:init=4,local=24,block=8,topk=2,repr=2,chunk=8",
                                       "selfextend:group=2,window=24", "duo:start=4,recent=24,heads=prompt"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        sac_session_config c;
        sac_error err;
        sac_session *s;
        sac_session_config_default(&c);
        c.n_ctx = 512;
        if (bad[i].prefill) c.prefill = bad[i].prefill;
        if (bad[i].decode) c.decode = bad[i].decode;
        if (bad[i].kv) c.kv = bad[i].kv;
        if (bad[i].rope) c.rope = bad[i].rope;
        if (sac_session_create(&s, model, &c, &err) != SAC_UNSUPPORTED || !strstr(err.text, bad[i].says))
            fail_msg("case %zu: %s", i, err.text);
    }
    float logits[MOST_VOCAB];
    for (size_t i = 0; i < SAC_COUNT(good); i++) ask_new(16, NULL, good[i], 1, false, logits);
}

/* Rows of a picture that a new question cuts are run again together: a picture's first rows may be those of another. */
static void a_cut_picture_is_run_again(void **state) {
    float want[MOST_VOCAB], found[MOST_VOCAB];
    sac_session *s = session(16, NULL, NULL);
    sac_error err;
    (void)state;
    question q;
    int64_t n_prompt, n_reusable;
    ask_new(16, NULL, NULL, 1, false, want);
    ask(s, 0, "What happens?", false, found);
    assert_ok(sac_session_n_reusable(s, about(&q, 1, "What happens?", false), 1, &n_prompt, &n_reusable, &err), err);
    question_free(&q);
    assert_in_range(n_reusable, 1, n_prompt - 1);
    ask(s, 1, "What happens?", false, found);
    same(want, found, "behind another", 1);
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_size),      cmocka_unit_test(prepared_as_from_files),
        cmocka_unit_test(after_other_questions), cmocka_unit_test(in_a_batch),
        cmocka_unit_test(a_reducer_is_refused),
    };
    const struct CMUnitTest gemma[] = {
        cmocka_unit_test(every_chunk_size),      cmocka_unit_test(prepared_as_from_files),
        cmocka_unit_test(after_other_questions), cmocka_unit_test(in_a_batch),
        cmocka_unit_test(a_reducer_is_refused),  cmocka_unit_test(methods_are_refused_by_name),
        cmocka_unit_test(a_cut_picture_is_run_again),
    };
    return cmocka_run_group_tests_name("onevision", tests, open_onevision, close_model) ||
           cmocka_run_group_tests_name("internvl", tests, open_internvl, close_model) ||
           cmocka_run_group_tests_name("smolvlm", tests, open_smolvlm, close_model) ||
           cmocka_run_group_tests_name("pixtral", tests, open_pixtral, close_model) ||
           cmocka_run_group_tests_name("mistral3", tests, open_mistral3, close_model) ||
           cmocka_run_group_tests_name("gemma3", gemma, open_gemma3, close_model) ||
           cmocka_run_group_tests_name("gemma3_pan", gemma, open_gemma3_pan, close_model);
}
