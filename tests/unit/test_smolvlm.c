/* SmolVLM: tiles and patch rows against transformers, what its files may not say, and its texts; then a picture in tiles,
 * several pictures and a video's frames, the same for every size of chunks, from files and prepared, after a prefix that is
 * used again, out of the cache, in batches, and with methods that choose or drop rows. */
#include "dialect.h"
#include "number_words.h"
#include "picture_data.h"
#include "saccade/saccade.h"
#include "sampling.h"
#include "status.h"
#include "test.h"
#include "tower.h"

#include <math.h>

#define FOLDER "tests/golden/models/"
#define VOCAB  327
enum { N_FRAMES = 5, N_STEPS = 5, N_KINDS = 4, MOST_PICTURES = 2 };

/* ---------------------------------------------------------------- processor */

/* Tiles of 33 pixels, of which 8 x 8 patches of 4 in squares of 2 x 2 are looked at. */
static sac_status read_processor(sac_processor_config *c, const json_t *preprocessor, const json_t *video,
                                 sac_error *err) {
    const sac_processor_model m = {
        .dialect = &sac_dialect_smolvlm, .image_size = 33, .patch_size = 4, .merge_size = 2, .video = video};
    return sac_processor_read(c, preprocessor, &m, err);
}

static void tiles_and_patch_rows(void **state) {
    sac_error err;
    FILE *f = fopen("tests/golden/vision/smolvlm.txt", "r");
    char line[160], sum[16], mine[16], by;
    int w, h, kind, seed, longest, splits, rows, columns, n = 0, n_wrong = 0;
    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%c %d %d %d %d %d %d %d %d %15s", &by, &w, &h, &kind, &seed, &longest,
                                &splits, &rows, &columns, sum),
                         10);
        json_t *preprocessor = json_pack("{s:{s:i}, s:{s:i}, s:b}", "size", "longest_edge", longest,
                                         "max_image_size", "longest_edge", 33, "do_image_splitting", splits);
        sac_processor_config c;
        sac_visual_plan p;
        assert_ok(read_processor(&c, preprocessor, NULL, &err), err);
        if (by == 't') c.arithmetic = SAC_RESIZE_TORCHVISION;
        assert_ok(by == 'v' ? sac_processor_plan_frame(&c, w, h, 0, &p, &err)
                            : sac_processor_plan(&c, w, h, false, &p, &err),
                  err);
        assert_true(p.n_tiles <= sac_processor_most_tiles(&c));
        sac_image image = {picture_new(kind, w, h, (uint64_t)seed), w, h};
        uint8_t *patches = malloc(sac_visual_bytes(&p, p.n_tiles));
        assert_ok(sac_processor_cut(&c, &image, &p, patches, &err), err);
        snprintf(mine, sizeof mine, "%08x", crc32_of(patches, sac_visual_bytes(&p, p.n_tiles)));
        const int n_tiles = rows * columns > 0 ? rows * columns + 1 : 1;
        if (p.n_tiles != n_tiles || p.n_tokens != n_tiles * 16 || strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d tiles, %s\n", line, p.tiles_h, p.tiles_w, mine);
            n_wrong++;
        }
        n++;
        free(patches);
        sac_image_free(&image);
        sac_processor_free(&c);
        json_decref(preprocessor);
    }
    fclose(f);
    assert_true(n >= 60);
    assert_int_equal(n_wrong, 0);
}

static void what_files_may_not_say(void **state) {
    static const struct {
        const char *preprocessor, *video, *says;
    } bad[] = {
        {"{\"max_image_size\": {\"longest_edge\": 32}}", NULL, "max_image_size"},
        {"{\"max_image_size\": {\"shortest_edge\": 33}}", NULL, "max_image_size"},
        {"{\"size\": {\"longest_edge\": 0}}", NULL, "longest_edge"},
        {"{\"size\": {\"height\": 33, \"width\": 33}}", NULL, "\"size\""},
        {"{\"size\": 33}", NULL, "\"size\""},
        {"{\"do_image_splitting\": 1}", NULL, "do_image_splitting"},
        {"{\"resample\": 0}", NULL, "resample"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\"}", NULL, "image_processor_type"},
        {"{\"video_sampling\": 3}", NULL, "video_sampling"},
        {"{\"video_sampling\": {\"fps\": 0}}", NULL, "fps"},
        {"{\"video_sampling\": {\"max_frames\": 0}}", NULL, "max_frames"},
        {"{\"image_mean\": [0.5, 0.5, 0.5]}", "{\"image_mean\": [0, 0, 0]}",
         "video_preprocessor_config.json"},
        {NULL, "{\"max_image_size\": {\"longest_edge\": 34}}", "video_preprocessor_config.json"},
    };
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        json_t *preprocessor = bad[i].preprocessor ? json_loads(bad[i].preprocessor, 0, NULL) : NULL,
               *video = bad[i].video ? json_loads(bad[i].video, 0, NULL) : NULL;
        assert_int_not_equal(read_processor(&c, preprocessor, video, &err), SAC_OK);
        assert_non_null(strstr(err.text, bad[i].says));
        json_decref(preprocessor);
        json_decref(video);
    }
    json_t *as_is = json_pack("{s:b}", "do_resize", 0);
    assert_ok(read_processor(&c, as_is, NULL, &err), err);
    assert_int_equal(sac_processor_plan(&c, 33 * 16, 33 * 16, false, &p, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_processor_plan(&c, 33 * 15, 33 * 17, false, &p, &err), err);
    assert_int_equal(sac_processor_plan_frame(&c, 33, 33, 0, &p, &err), SAC_UNSUPPORTED);
    sac_processor_free(&c);
    json_decref(as_is);
}

/* Rows of patches that take the position of the row before: torch's, by its bucketize of f32 shares (2.15). */
static void buckets_of_positions(void **state) {
    static const struct {
        int side, n, below[10];
    } want[] = {{8, 0, {0}},  {19, 1, {12}},       {25, 10, {5, 9, 10, 11, 12, 13, 15, 18, 20, 23}},
                {27, 0, {0}}, {29, 3, {3, 6, 24}}, {32, 0, {0}},
                {40, 1, {19}}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(want); i++) {
        const int side = want[i].side;
        const sac_tower_config c = {
            .kind = &sac_tower_idefics3, .image_size = side, .patch_size = 1, .merge_size = 1};
        for (int y = 0, k = 0; y < side; y++) {
            const bool is_below = k < want[i].n && want[i].below[k] == y;
            k += is_below;
            assert_int_equal(c.kind->position(&c, y * side), (y - is_below) * side);
            assert_int_equal(c.kind->position(&c, y), y - is_below);
        }
    }
    /* in squares of 2 x 2, row by row */
    const sac_tower_config c = {
        .kind = &sac_tower_idefics3, .image_size = 8, .patch_size = 2, .merge_size = 2};
    static const int squares[] = {0, 1, 4, 5, 2, 3, 6, 7, 8};
    for (int i = 0; i < (int)SAC_COUNT(squares); i++) assert_int_equal(c.kind->position(&c, i), squares[i]);
}

static void frames_that_its_own_code_looks_at(void **state) {
    sac_error err;
    FILE *f = fopen("tests/golden/vision/smolvlm_frames.txt", "r");
    char line[160];
    int n_lines = 0, n_wrong = 0;
    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        long long total, most, n, sum, mine = 0;
        double rate, fps;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%lld %lf %lf %lld %lld %lld", &total, &rate, &fps, &most, &n, &sum),
                         6);
        const sac_frame_request r = {.has_fps = true,
                                     .fps = fps,
                                     .skip_s = 1,
                                     .skip_most = most,
                                     .has_max_frames = true,
                                     .max_frames = most};
        sac_frame_plan p;
        assert_ok(sac_sampling_plan(&p, &r, &(sac_sampling_source){.total_frames = total, .fps = rate}, &err),
                  err);
        for (int64_t i = 0; i < p.n_frames; i++) mine += p.index[i] * (i + 1);
        if (p.n_frames != n || mine != sum) {
            print_message("%s  has %lld, %lld\n", line, (long long)p.n_frames, mine);
            n_wrong++;
        }
        n_lines++;
        sac_frame_plan_free(&p);
    }
    fclose(f);
    assert_true(n_lines >= 100);
    assert_int_equal(n_wrong, 0);
}

/* num2words' own (0.5.14). */
static void numbers_in_words(void **state) {
    static const struct {
        int64_t n;
        const char *words;
    } want[] = {
        {0, "zero"},
        {1, "one"},
        {12, "twelve"},
        {20, "twenty"},
        {64, "sixty-four"},
        {100, "one hundred"},
        {119, "one hundred and nineteen"},
        {1001, "one thousand and one"},
        {1100, "one thousand, one hundred"},
        {10000, "ten thousand"},
        {123456, "one hundred and twenty-three thousand, four hundred and fifty-six"},
        {1000001, "one million and one"},
        {1234567, "one million, two hundred and thirty-four thousand, five hundred and sixty-seven"},
        {1000000000, "1000000000"},
    };
    char buf[SAC_NUMBER_WORDS_BYTES];
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(want); i++)
        assert_string_equal(sac_number_words(buf, want[i].n), want[i].words);
    assert_true(strlen(sac_number_words(buf, 373373373)) < sizeof buf - 1); /* the longest */
}

/* A day and more, and minutes beyond 99. */
static void texts_of_long_videos(void **state) {
    static const double times[] = {0.5, 6000.9};
    char text[SAC_VISUAL_TEXT_BYTES];
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err;
    (void)state;
    assert_ok(read_processor(&c, NULL, NULL, &err), err);
    assert_ok(sac_processor_plan_frame(&c, 33, 33, 0, &p, &err), err);
    const sac_visual_shown shown = {.plan = &p, .n_tiles = 2, .time_s = times, .duration_s = 90061.9};
    sac_processor_text(&c, &shown, 0, text);
    assert_string_equal(text,
                        "You are provided the following series of two frames from a 1 day, 1:01:01 [H:MM:SS] "
                        "video.\n\nFrame from 00:00:<fake_token_around_image><global-img>");
    sac_processor_text(&c, &shown, 1, text);
    assert_string_equal(text,
                        "<fake_token_around_image>\nFrame from 100:00:<fake_token_around_image><global-img>");
    assert_int_equal(sac_processor_text(&c, &shown, 2, text), strlen("<fake_token_around_image>\n\n"));
    sac_processor_free(&c);
}

/* ---------------------------------------------------------------- sessions */

static sac_model *model;

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

static void ask(sac_session *s, int kind, const char *text, bool prepared, float logits[VOCAB]) {
    question q;
    sac_error err;
    assert_ok(sac_session_prefill(s, about(&q, kind, text, prepared), 1, NULL, &err), err);
    memcpy(logits, sac_session_logits(s), VOCAB * sizeof *logits);
    question_free(&q);
}

static void ask_new(int chunk, const char *prefill, const char *decode, int kind, bool prepared,
                    float logits[VOCAB]) {
    sac_session *s = session(chunk, prefill, decode);
    ask(s, kind, "What happens?", prepared, logits);
    sac_session_free(s);
}

/* Sums of a linear layer differ by rounding with the rows beside them. */
static void same(const float *a, const float *b, const char *what, int kind) {
    for (int v = 0; v < VOCAB; v++)
        if (!(fabsf(a[v] - b[v]) < 1e-4f))
            fail_msg("%s, kind %d: logit %d is %g, not %g", what, kind, v, (double)b[v], (double)a[v]);
}

static int open_model(void **state) {
    sac_model_options o;
    sac_error err;
    (void)state;
    sac_model_options_default(&o);
    assert_ok(sac_model_open(&model, FOLDER "smolvlm", &o, &err), err);
    return 0;
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

static void every_chunk_size(void **state) {
    float whole[VOCAB], part[VOCAB];
    (void)state;
    for (size_t p = 0; p < SAC_COUNT(prefills); p++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            ask_new(512, prefills[p], NULL, kind, false, whole);
            for (int chunk = 1; chunk <= 64; chunk = chunk * 4 + 1) {
                ask_new(chunk, prefills[p], NULL, kind, false, part);
                same(whole, part, prefills[p], kind);
            }
        }
}

/* The same pixels, cut on another thread's behalf. */
static void prepared_as_from_files(void **state) {
    float file[VOCAB], prepared[VOCAB];
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) {
        ask_new(512, NULL, NULL, kind, false, file);
        ask_new(512, NULL, NULL, kind, true, prepared);
        assert_memory_equal(file, prepared, sizeof file);
    }
}

static void after_other_questions(void **state) {
    float want[N_KINDS][VOCAB], found[VOCAB];
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
    float alone[N][VOCAB];
    question q[N];
    (void)state;
    sac_sampling_default(&o);
    o.max_tokens = N_STEPS;
    o.ignore_eos = true;
    assert_ok(sac_batch_create(&b, model, N, &err), err);
    for (int i = 0; i < N; i++) {
        bool done = false;
        const char *decode = decodes[(size_t)i % SAC_COUNT(decodes)];
        sac_session *one = session(512, NULL, decode);
        about(&q[i], i, "What happens?", i % 2);
        assert_ok(sac_session_begin(one, &q[i].message, 1, &o, NULL, &err), err);
        for (int k = 0; !done; k++) assert_ok(sac_session_step(one, NULL, &said[i][k], &done, &err), err);
        memcpy(alone[i], sac_session_logits(one), sizeof alone[i]);
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
        assert_memory_equal(alone[i], sac_session_logits(s[i]), sizeof alone[i]);
        sac_session_free(s[i]);
        question_free(&q[i]);
    }
    sac_batch_free(b);
}

/* What is asked stands before what the model's files say, and fewer frames may be taken where nothing is asked. */
static void what_is_asked_of_a_video(void **state) {
    (void)state;
    sac_video_options o = sac_model_video_options(model, (sac_video_options){0});
    assert_true(o.fps == 1 && o.max_frames == 64 && o.skip_s == 1);
    o = sac_model_video_options(model, (sac_video_options){.max_frames = 9});
    assert_true(o.fps == 1 && o.max_frames == 9 && o.skip_s == 1);
    o = sac_model_video_options(model, (sac_video_options){.num_frames = 9});
    assert_true(o.fps == 0 && o.max_frames == 0 && o.skip_s == 0);
    o = sac_model_video_options(model, (sac_video_options){.fps = 3});
    assert_true(o.fps == 3 && o.max_frames == 0 && o.skip_s == 0);
}

/* HiReD looks at what the class token sees, which this tower has not. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_size),       cmocka_unit_test(prepared_as_from_files),
        cmocka_unit_test(after_other_questions),  cmocka_unit_test(in_a_batch),
        cmocka_unit_test(a_reducer_is_refused),   cmocka_unit_test(tiles_and_patch_rows),
        cmocka_unit_test(what_files_may_not_say), cmocka_unit_test(numbers_in_words),
        cmocka_unit_test(texts_of_long_videos),   cmocka_unit_test(frames_that_its_own_code_looks_at),
        cmocka_unit_test(buckets_of_positions),   cmocka_unit_test(what_is_asked_of_a_video),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
