/* SmolVLM: tiles and patch rows against transformers, what its files may not say, its texts, and which frames of a video it
 * looks at. What a session makes of them: test_visual_questions.c. */
#include "dialect.h"
#include "number_words.h"
#include "patch_sum.h"
#include "saccade/saccade.h"
#include "sampling.h"
#include "status.h"
#include "test.h"
#include "tower.h"

#define FOLDER "tests/golden/models/"

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
        patch_sum(&c, &p, kind, w, h, seed, mine);
        const int n_tiles = rows * columns > 0 ? rows * columns + 1 : 1;
        if (p.n_tiles != n_tiles || p.n_tokens != n_tiles * 16 || strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d tiles, %s\n", line, p.tiles_h, p.tiles_w, mine);
            n_wrong++;
        }
        n++;
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

/* ---------------------------------------------------------------- videos of a model */

static sac_model *model;

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_and_patch_rows),
        cmocka_unit_test(what_files_may_not_say),
        cmocka_unit_test(numbers_in_words),
        cmocka_unit_test(texts_of_long_videos),
        cmocka_unit_test(frames_that_its_own_code_looks_at),
        cmocka_unit_test(buckets_of_positions),
        cmocka_unit_test(what_is_asked_of_a_video),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
