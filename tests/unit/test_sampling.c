/* The sampling rule, against numpy and the arithmetic of vLLM (tests/golden/video/golden.json). */
#include "json.h"
#include "sampling.h"
#include "test.h"

#include <math.h>

static json_t *load_golden(void) {
    json_t *golden = NULL;
    sac_error err = {0};
    assert_ok(sac_json_parse_file(&golden, "tests/golden/video/golden.json", &err), err);
    return golden;
}

static double number(const json_t *row, size_t i) {
    return json_number_value(json_array_get(row, i));
}

static void equals_numpy_linspace(void **state) {
    (void)state;
    json_t *golden = load_golden();
    const json_t *rows = json_object_get(golden, "linspace");
    assert_true(json_array_size(rows) > 1500);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        const json_t *row = json_array_get(rows, r);
        int64_t total = (int64_t)number(row, 0), n = (int64_t)number(row, 1), folded = 0;
        for (int64_t i = 0; i < n; i++) folded += sac_linspace_index(total, n, i) * (i + 1);
        if (folded != json_integer_value(json_array_get(row, 2)))
            fail_msg("linspace(0, %lld, %lld) differs", (long long)total - 1, (long long)n);
    }
    json_decref(golden);
}

static void counts_frames_as_python_does(void **state) {
    (void)state;
    json_t *golden = load_golden();
    const json_t *rows = json_object_get(golden, "fps");
    assert_true(json_array_size(rows) > 1000);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        const json_t *row = json_array_get(rows, r);
        sac_sampling_source source = {(int64_t)number(row, 0), number(row, 1), 1};
        sac_frame_request request = {.has_fps = true, .fps = number(row, 2)};
        sac_frame_plan plan;
        sac_error err = {0};
        assert_ok(sac_sampling_plan(&plan, &request, &source, &err), err);
        assert_int_equal(plan.n_frames, json_integer_value(json_array_get(row, 3)));
        sac_frame_plan_free(&plan);
    }
    json_decref(golden);
}

/* 325 frames at 25 a second: 13 seconds. */
static sac_frame_plan plan_of(sac_frame_request request) {
    sac_sampling_source source = {325, 25, 320 * 180};
    sac_frame_plan plan;
    sac_error err = {0};
    assert_ok(sac_sampling_plan(&plan, &request, &source, &err), err);
    return plan;
}

static void expect(sac_frame_request request, int64_t n_frames, sac_sampling_rule rule, const char *text) {
    sac_frame_plan plan = plan_of(request);
    assert_int_equal(plan.n_frames, n_frames);
    assert_int_equal(plan.rule, rule);
    assert_string_equal(plan.text, text);
    assert_int_equal(plan.index[0], 0);
    if (n_frames > 1) assert_int_equal(plan.index[n_frames - 1], 324);
    for (int64_t i = 1; i < n_frames; i++) assert_true(plan.index[i] > plan.index[i - 1]);
    for (int64_t i = 0; i < n_frames; i++) assert_true(plan.time_s[i] == (double)plan.index[i] / 25);
    assert_true(plan.duration_s == 13 && plan.source_fps == 25);
    sac_frame_plan_free(&plan);
}

static void the_smallest_wins(void **state) {
    (void)state;
    expect((sac_frame_request){0}, 325, SAC_SAMPLED_BY_ALL, "325 of 325 frames");
    expect((sac_frame_request){.has_num_frames = true, .num_frames = 8}, 8, SAC_SAMPLED_BY_NUM_FRAMES,
           "8 of 325 frames by num_frames 8");
    expect((sac_frame_request){.has_num_frames = true, .num_frames = 400}, 325, SAC_SAMPLED_BY_ALL,
           "325 of 325 frames (num_frames 400)");
    expect((sac_frame_request){.has_fps = true, .fps = 2}, 26, SAC_SAMPLED_BY_FPS,
           "26 of 325 frames by fps 2");
    expect((sac_frame_request){.has_fps = true, .fps = 0.01}, 1, SAC_SAMPLED_BY_FPS,
           "1 of 325 frames by fps 0.01");
    expect((sac_frame_request){.has_fps = true, .fps = 1000}, 325, SAC_SAMPLED_BY_ALL,
           "325 of 325 frames (fps 1000 asks for 325)");
    expect((sac_frame_request){.has_fps = true, .fps = 2, .has_max_frames = true, .max_frames = 16}, 16,
           SAC_SAMPLED_BY_MAX_FRAMES, "16 of 325 frames by max_frames 16 (fps 2 asks for 26)");
    expect((sac_frame_request){.has_fps = true, .fps = 1, .has_num_frames = true, .num_frames = 64}, 13,
           SAC_SAMPLED_BY_FPS, "13 of 325 frames by fps 1 (num_frames 64)");
    expect(
        (sac_frame_request){.has_num_frames = true, .num_frames = 4, .has_max_frames = true, .max_frames = 4},
        4, SAC_SAMPLED_BY_NUM_FRAMES, "4 of 325 frames by num_frames 4 (max_frames 4)");
}

static void pixels_limit_frames(void **state) {
    (void)state;
    expect((sac_frame_request){.has_max_pixels = true, .max_pixels = 10 * 320 * 180 + 1}, 10,
           SAC_SAMPLED_BY_MAX_PIXELS, "10 of 325 frames by max_pixels 576001");
    expect(
        (sac_frame_request){.has_max_pixels = true, .max_pixels = 336 * 336 * 5, .frame_pixels = 336 * 336},
        5, SAC_SAMPLED_BY_MAX_PIXELS, "5 of 325 frames by max_pixels 564480");
}

static void refuse(sac_frame_request request, sac_sampling_source source, sac_status status,
                   const char *part) {
    sac_frame_plan plan;
    sac_error err = {0};
    assert_int_equal(sac_sampling_plan(&plan, &request, &source, &err), status);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_null(plan.index);
    assert_null(plan.time_s);
    sac_frame_plan_free(&plan);
}

static void senseless_requests_are_refused(void **state) {
    (void)state;
    const sac_sampling_source video = {325, 25, 320 * 180};
    const double bad[] = {0, -1, -0.0, 1e6, 1000.5, (double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < SAC_COUNT(bad); i++)
        refuse((sac_frame_request){.has_fps = true, .fps = bad[i]}, video, SAC_BAD_ARGUMENT, "fps:");
    refuse((sac_frame_request){.has_num_frames = true}, video, SAC_BAD_ARGUMENT, "num_frames: 0");
    refuse((sac_frame_request){.has_num_frames = true, .num_frames = INT64_MIN}, video, SAC_BAD_ARGUMENT,
           "num_frames:");
    refuse((sac_frame_request){.has_max_frames = true, .max_frames = -4}, video, SAC_BAD_ARGUMENT,
           "max_frames:");
    refuse((sac_frame_request){.has_max_pixels = true}, video, SAC_BAD_ARGUMENT, "max_pixels:");
    refuse((sac_frame_request){.has_max_pixels = true, .max_pixels = 57599}, video, SAC_BAD_ARGUMENT,
           "less than one frame");
    refuse((sac_frame_request){0}, (sac_sampling_source){0, 25, 1}, SAC_BAD_FILE, "no frames");
    refuse((sac_frame_request){.has_fps = true, .fps = 1}, (sac_sampling_source){5, 0, 1}, SAC_BAD_FILE,
           "num_frames");
}

static void unknown_rate_still_counts(void **state) {
    (void)state;
    const double rates[] = {0, (double)NAN, (double)INFINITY, -5};
    for (size_t i = 0; i < SAC_COUNT(rates); i++) {
        sac_sampling_source source = {9, rates[i], 1};
        sac_frame_request request = {.has_num_frames = true, .num_frames = 3};
        sac_frame_plan plan;
        sac_error err = {0};
        assert_ok(sac_sampling_plan(&plan, &request, &source, &err), err);
        assert_int_equal(plan.n_frames, 3);
        assert_int_equal(plan.index[1], 4);
        assert_true(plan.source_fps == 0 && plan.duration_s == 0 && plan.time_s[2] == 0);
        sac_frame_plan_free(&plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_numpy_linspace),
        cmocka_unit_test(counts_frames_as_python_does),
        cmocka_unit_test(the_smallest_wins),
        cmocka_unit_test(pixels_limit_frames),
        cmocka_unit_test(senseless_requests_are_refused),
        cmocka_unit_test(unknown_rate_still_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
