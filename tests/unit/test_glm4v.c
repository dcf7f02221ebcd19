/* GLM-4.1V and GLM-4.6V beside transformers: sizes and patch rows of pictures and frames, which frames their own code looks
 * at, what stands behind a frame. Goldens of tools/make_image_goldens.py. */
#include "dialect.h"
#include "patch_sum.h"
#include "sampling.h"
#include "test.h"

#include <stdlib.h>

#define GOLDEN "tests/golden/vision/"

static sac_processor_model model_with(const json_t *video) {
    return (sac_processor_model){.dialect = &sac_dialect_glm4v,
                                 .image_size = 28,
                                 .patch_size = 14,
                                 .temporal_patch_size = 2,
                                 .merge_size = 2,
                                 .video = video};
}

static void sizes_and_pixels(void **state) {
    (void)state;
    sac_error err = {0};
    FILE *f = fopen(GOLDEN "glm4v.txt", "r");
    char line[160], sum[16], mine[16], by;
    int n_frames, w, h, kind, seed, low, high, rows, columns, n = 0, n_wrong = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%c %d %d %d %d %d %d %d %d %d %15s", &by, &n_frames, &w, &h, &kind,
                                &seed, &low, &high, &rows, &columns, sum),
                         11);
        json_t *json = json_pack("{s:{s:i, s:i}}", "size", "shortest_edge", low, "longest_edge", high);
        const sac_processor_model model = model_with(by == 'v' ? json : NULL);
        sac_processor_config c;
        sac_visual_plan plan, most;
        assert_ok(sac_processor_read(&c, by == 'v' ? NULL : json, &model, &err), err);
        if (by == 't') c.arithmetic = SAC_RESIZE_TORCHVISION;
        if (by == 'v')
            assert_ok(sac_processor_plan_frame(&c, w, h, n_frames, &plan, &err), err);
        else
            assert_ok(sac_processor_plan(&c, w, h, false, &plan, &err), err);
        assert_ok(sac_processor_largest(&c, &most, &err), err);
        assert_true(sac_grid_cells(plan.patches) <= sac_grid_cells(most.patches));
        patch_sum(&c, &plan, kind, w, h, seed, mine);
        if (plan.patches.h != rows || plan.patches.w != columns || strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d patches, %s\n", line, plan.patches.h, plan.patches.w, mine);
            n_wrong++;
        }
        n++;
        sac_processor_free(&c);
        json_decref(json);
    }
    fclose(f);
    assert_true(n >= 60);
    assert_int_equal(n_wrong, 0);
}

/* The same arithmetic as numpy's and Python's, frame by frame. */
static void frames_that_their_own_code_looks_at(void **state) {
    (void)state;
    sac_error err;
    FILE *f = fopen(GOLDEN "glm4v_frames.txt", "r");
    char line[160];
    int n_lines = 0, n_wrong = 0, pace;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        long long total, n, sum, mine = 0;
        double rate, fps, most_s;
        if (line[0] == '#') continue;
        assert_int_equal(
            sscanf(line, "%d %lld %lf %lf %lf %lld %lld", &pace, &total, &rate, &fps, &most_s, &n, &sum), 7);
        const sac_frame_request r = {
            .has_fps = true, .fps = fps, .pace = (sac_frame_pace)pace, .most_s = most_s};
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
    assert_true(n_lines >= 150);
    assert_int_equal(n_wrong, 0);
}

/* What fits counts before the pace, which then is an even one. */
static void fewer_frames_are_spread(void **state) {
    (void)state;
    sac_error err;
    const sac_frame_request r = {.has_fps = true,
                                 .fps = 2,
                                 .pace = SAC_PACE_SECONDS,
                                 .most_s = 300,
                                 .has_max_frames = true,
                                 .max_frames = 3};
    sac_frame_plan p;
    assert_ok(sac_sampling_plan(&p, &r, &(sac_sampling_source){.total_frames = 101, .fps = 10}, &err), err);
    assert_int_equal(p.n_frames, 3);
    assert_true(p.index[0] == 0 && p.index[1] == 50 && p.index[2] == 100);
    sac_frame_plan_free(&p);
    const sac_frame_request bad = {.has_fps = true, .fps = 2, .pace = SAC_PACE_SECONDS};
    assert_int_equal(sac_sampling_plan(&p, &bad, &(sac_sampling_source){.total_frames = 9, .fps = 10}, &err),
                     SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "most_s"));
}

static sac_status read_files(sac_processor_config *c, const char *preprocessor, const char *video,
                             sac_error *err) {
    json_t *p = json_loads(preprocessor, 0, NULL), *v = video ? json_loads(video, 0, NULL) : NULL;
    assert_true(p && (!video || v));
    const sac_processor_model model = model_with(v);
    const sac_status st = sac_processor_read(c, p, &model, err);
    json_decref(p);
    json_decref(v);
    return st;
}

#define OF(n)             "{\"image_processor_type\": \"Glm" n "ImageProcessor\"}"
#define VIDEO_OF(n, more) "{\"video_processor_type\": \"Glm" n "VideoProcessor\"" more "}"

static void classes_of_files(void **state) {
    (void)state;
    sac_error err;
    sac_processor_config c;
    char text[48];
    assert_ok(read_files(&c, OF("4v"), VIDEO_OF("4v", ", \"fps\": 1.5, \"max_duration\": 60"), &err), err);
    assert_true(c.sampling.fps == 1.5 && c.sampling.most_s == 60 && c.sampling.pace == SAC_PACE_SECONDS);
    c.dialect->seconds(12.97, text, sizeof text);
    assert_string_equal(text, "12");
    sac_processor_free(&c);
    assert_ok(read_files(&c, OF("46V"), VIDEO_OF("46V", ""), &err), err);
    assert_ptr_equal(c.dialect, &sac_dialect_glm46v);
    assert_true(c.sampling.fps == 2 && c.sampling.pace == SAC_PACE_LENGTH);
    c.dialect->seconds(12.97, text, sizeof text);
    assert_string_equal(text, "13.0 seconds");
    sac_processor_free(&c);
    static const struct {
        const char *picture, *video, *why;
    } bad[] = {{OF("4v"), VIDEO_OF("46V", ""), "video_processor_type"},
               {OF("46V"), VIDEO_OF("4v", ""), "video_processor_type"},
               {OF("5v"), NULL, "image_processor_type"},
               {OF("4v"), VIDEO_OF("4v", ", \"fps\": 0"), "\"fps\""},
               {OF("4v"), VIDEO_OF("4v", ", \"max_duration\": 1e9"), "\"max_duration\""},
               {OF("4v"), VIDEO_OF("4v", ", \"size\": {\"shortest_edge\": 9, \"longest_edge\": 8}"),
                "\"longest_edge\""},
               {OF("4v"), VIDEO_OF("4v", ", \"merge_size\": 3"), "\"merge_size\""}};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        assert_int_not_equal(read_files(&c, bad[i].picture, bad[i].video, &err), SAC_OK);
        if (!strstr(err.text, bad[i].why)) fail_msg("%s is not named: %s", bad[i].why, err.text);
    }
}

/* Bounds that are asked for are a picture's, however many frames its patches have. */
static void asked_bounds(void **state) {
    (void)state;
    sac_error err;
    sac_processor_config c;
    sac_visual_plan plan;
    assert_ok(read_files(&c, OF("4v"), NULL, &err), err);
    assert_ok(sac_processor_limit(&c, 0, 28 * 28 * 4, &err), err);
    assert_ok(sac_processor_plan(&c, 1000, 1000, false, &plan, &err), err);
    assert_int_equal(plan.n_tokens, 4);
    assert_int_equal(sac_processor_limit(&c, 0, INT64_MAX, &err), SAC_BAD_ARGUMENT);
    sac_processor_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_pixels),
        cmocka_unit_test(frames_that_their_own_code_looks_at),
        cmocka_unit_test(fewer_frames_are_spread),
        cmocka_unit_test(classes_of_files),
        cmocka_unit_test(asked_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
