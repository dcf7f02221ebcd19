/* Frames, times and pixels of tests/golden/video against what PyAV said (golden.json). */
#include "json.h"
#include "video_test.h"

#include <math.h>

static json_t *golden;

static int load_golden(void **state) {
    (void)state;
    sac_error err = {0};
    return sac_json_parse_file(&golden, GOLDEN "golden.json", &err) == SAC_OK ? 0 : -1;
}

static int free_golden(void **state) {
    (void)state;
    json_decref(golden);
    return 0;
}

static sac_video *open_golden(const char *name, int n_threads) {
    char path[256];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    sac_video_limits limits = sac_video_limits_default();
    limits.n_threads = n_threads;
    sac_video *video;
    sac_error err = {0};
    assert_ok(sac_video_open(&video, path, &limits, &err), err);
    return video;
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void check_info(const sac_video_info *info, const json_t *want) {
    assert_string_equal(info->codec, json_string_value(json_object_get(want, "codec")));
    assert_int_equal(info->stored_width, number(want, "width"));
    assert_int_equal(info->stored_height, number(want, "height"));
    assert_int_equal(info->rotation_degrees, number(want, "rotation"));
    assert_int_equal(info->n_frames, json_array_size(json_object_get(want, "times")));
    assert_true(!info->mirrored && info->n_key_frames >= 1 && info->container[0] && info->pixel_format[0]);
    bool varies = strstr(json_string_value(json_object_get(want, "file")), "vfr") != NULL;
    assert_int_equal(info->variable_rate, varies);
    if (!varies) assert_true(info->fps == number(want, "fps"));
    assert_true(fabs(info->duration_s - (double)info->n_frames / info->fps) < 1e-9);
}

/* Mean colour of 4 x 4 blocks. PyAV brings its own libswscale: 2 of 255 are allowed; neighbouring frames are
 * 37 apart. */
static void check_blocks(const sac_image *image, const json_t *want, const char *file, int frame) {
    int w = image->width / 4, h = image->height / 4;
    for (size_t k = 0; k < 48; k++) {
        int block_x = (int)(k / 3) % 4, block_y = (int)(k / 3) / 4;
        double sum = 0;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                sum += image->rgb[((block_y * h + y) * image->width + block_x * w + x) * 3 + (int)(k % 3)];
        double mean = sum / (w * h), wanted = json_number_value(json_array_get(want, k));
        if (fabs(mean - wanted) > 2)
            fail_msg("%s frame %d, value %zu: %g, PyAV %g", file, frame, k, mean, wanted);
    }
}

static void frames_and_times_equal_pyav(void **state) {
    (void)state;
    json_t *want;
    size_t i;
    json_array_foreach(json_object_get(golden, "videos"), i, want) {
        const char *file = json_string_value(json_object_get(want, "file"));
        sac_video *video = open_golden(file, 2);
        check_info(sac_video_get_info(video), want);
        frame_list list;
        sac_video_read_stats stats;
        sac_error err = {0};
        assert_ok(read_frames(video, 0, SAC_ROTATE_NONE, &list, &stats, &err), err);
        const json_t *times = json_object_get(want, "times"), *blocks = json_object_get(want, "blocks");
        assert_int_equal(list.n, json_array_size(times));
        assert_int_equal(stats.n_replaced, 0);
        for (int k = 0; k < list.n; k++) {
            double time_s = json_number_value(json_array_get(times, (size_t)k));
            if (list.time_s[k] != time_s)
                fail_msg("%s frame %d at %.17g, PyAV %.17g", file, k, list.time_s[k], time_s);
            check_blocks(&list.frames[k], json_array_get(blocks, (size_t)k), file, k);
        }
        free_frames(&list);
        sac_video_free(video);
    }
    assert_true(i >= 12);
}

static void expect_same(const frame_list *all, const frame_list *some, const char *file) {
    for (int i = 0; i < some->n; i++) {
        int64_t k = sac_linspace_index(all->n, some->n, i);
        size_t n_bytes = (size_t)all->frames[k].width * (size_t)all->frames[k].height * 3;
        if (some->time_s[i] != all->time_s[k] ||
            memcmp(some->frames[i].rgb, all->frames[k].rgb, n_bytes) != 0)
            fail_msg("%s: frame %d of %d is not frame %d of the video", file, i, some->n, (int)k);
    }
}

/* Jumps, frames left undecoded and threads change the work, never the pixels. */
static void sparse_reads_equal_the_whole(void **state) {
    (void)state;
    const int counts[] = {1, 2, 3, 4, 5, 7, 11, 20}, threads[] = {1, 2, 5};
    json_t *want;
    size_t i;
    json_array_foreach(json_object_get(golden, "videos"), i, want) {
        const char *file = json_string_value(json_object_get(want, "file"));
        frame_list all = {0}, some = {0};
        sac_error err = {0};
        sac_video *video = open_golden(file, 1);
        assert_ok(read_frames(video, 0, SAC_ROTATE_AUTO, &all, NULL, &err), err);
        sac_video_free(video);
        for (size_t t = 0; t < SAC_COUNT(threads); t++) {
            video = open_golden(file, threads[t]);
            for (size_t c = 0; c < SAC_COUNT(counts); c++) {
                assert_ok(read_frames(video, counts[c], SAC_ROTATE_AUTO, &some, NULL, &err), err);
                assert_int_equal(some.n, counts[c] < all.n ? counts[c] : all.n);
                expect_same(&all, &some, file);
                free_frames(&some);
            }
            sac_video_free(video);
        }
        free_frames(&all);
    }
}

static void jumps_save_decoding(void **state) {
    (void)state;
    sac_video *video = open_golden("bframes.mp4", 1); /* key frames 0, 20 and 40 */
    frame_list list;
    sac_video_read_stats stats;
    sac_error err = {0};
    assert_int_equal(sac_video_get_info(video)->n_key_frames, 3);
    assert_ok(read_frames(video, 2, SAC_ROTATE_AUTO, &list, &stats, &err), err);
    free_frames(&list);
    assert_int_equal(stats.n_seeks, 2);
    assert_true(stats.n_decoded <= 21);
    assert_ok(read_frames(video, 0, SAC_ROTATE_AUTO, &list, &stats, &err), err);
    free_frames(&list);
    assert_int_equal(stats.n_decoded, 60);
    sac_video_free(video);
}

static bool is_white(const sac_image *image, int x, int y) {
    return image->rgb[(y * image->width + x) * 3 + 1] > 220;
}

/* The white quarter is at the upper left of what is stored. */
static void turned_upright(void **state) {
    (void)state;
    const struct {
        const char *file;
        int width, height, degrees, x, y;
    } cases[] = {{"one_frame.mp4", 64, 48, 0, 4, 4},
                 {"rotated.mp4", 48, 64, 0, 0, 0},
                 {"upside_down.mp4", 64, 48, 180, 60, 44}};
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        sac_video *video = open_golden(cases[i].file, 1);
        const sac_video_info *info = sac_video_get_info(video);
        frame_list list;
        sac_error err = {0};
        assert_ok(read_frames(video, 1, SAC_ROTATE_AUTO, &list, NULL, &err), err);
        const sac_image *image = &list.frames[0];
        assert_true(image->width == cases[i].width && image->height == cases[i].height);
        assert_true(info->width == image->width && info->height == image->height);
        int x = cases[i].x, y = cases[i].y;
        if (info->rotation_degrees == 90) x = 44, y = 4; /* clockwise: to the upper right */
        if (info->rotation_degrees == 270) x = 4, y = 60;
        if (i == 1) assert_true(info->rotation_degrees == 90 || info->rotation_degrees == 270);
        assert_true(is_white(image, x, y));
        assert_false(is_white(image, image->width - 1 - x, image->height - 1 - y));
        free_frames(&list);
        assert_ok(read_frames(video, 1, SAC_ROTATE_NONE, &list, NULL, &err), err);
        assert_true(list.frames[0].width == 64 && list.frames[0].height == 48 &&
                    is_white(&list.frames[0], 4, 4));
        free_frames(&list);
        sac_video_free(video);
    }
}

static void bytes_equal_file(void **state) {
    (void)state;
    size_t n_bytes;
    uint8_t *bytes = load_file(GOLDEN "vp9.webm", &n_bytes);
    sac_video *video, *other = open_golden("vp9.webm", 2);
    frame_list a, b;
    sac_error err = {0};
    assert_ok(sac_video_open_bytes(&video, bytes, n_bytes, NULL, &err), err);
    assert_ok(read_frames(video, 5, SAC_ROTATE_AUTO, &a, NULL, &err), err);
    assert_ok(read_frames(other, 5, SAC_ROTATE_AUTO, &b, NULL, &err), err);
    assert_true(a.frames[0].width == 71 && a.frames[0].height == 49);
    for (int i = 0; i < 5; i++) assert_memory_equal(a.frames[i].rgb, b.frames[i].rgb, 71 * 49 * 3);
    free_frames(&a);
    free_frames(&b);
    sac_video_free(video);
    sac_video_free(other);
    free(bytes);
}

static sac_status stop_at_two(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    (void)time_s, (void)frame;
    ++*(int *)ctx;
    return i == 2 ? sac_fail(err, SAC_CANCELLED, "enough") : SAC_OK;
}

static void callback_stops(void **state) {
    (void)state;
    sac_video *video = open_golden("bframes.mp4", 2);
    sac_frame_request request = {0};
    sac_frame_plan plan;
    sac_error err = {0};
    int n_calls = 0;
    assert_ok(sac_video_plan(video, &request, &plan, &err), err);
    assert_int_equal(sac_video_read(video, &plan, SAC_ROTATE_AUTO, stop_at_two, &n_calls, NULL, &err),
                     SAC_CANCELLED);
    assert_string_equal(err.text, "enough");
    assert_int_equal(n_calls, 3);
    plan.index[5] = 60; /* not in the video */
    assert_int_equal(sac_video_read(video, &plan, SAC_ROTATE_AUTO, stop_at_two, &n_calls, NULL, &err),
                     SAC_BAD_ARGUMENT);
    plan.index[5] = 3; /* out of order */
    assert_int_equal(sac_video_read(video, &plan, SAC_ROTATE_AUTO, stop_at_two, &n_calls, NULL, &err),
                     SAC_BAD_ARGUMENT);
    assert_int_equal(n_calls, 3);
    sac_frame_plan_free(&plan);
    sac_video_free(video);
}

/* Two videos by turns, a frame at a time; one is left in the middle and read again. */
static void frames_one_at_a_time(void **state) {
    static const char *const names[] = {"bframes.mp4", "vp9.webm"};
    frame_list whole[2] = {0};
    sac_video *video[2];
    sac_frame_plan plan[2];
    sac_frame_request request = {.has_num_frames = true, .num_frames = 6};
    sac_video_read_stats stats;
    sac_image frame;
    sac_error err = {0};
    (void)state;
    for (int k = 0; k < 2; k++) {
        video[k] = open_golden(names[k], 2);
        assert_ok(read_frames(video[k], 6, SAC_ROTATE_AUTO, &whole[k], NULL, &err), err);
        assert_ok(sac_video_plan(video[k], &request, &plan[k], &err), err);
    }
    assert_ok(sac_video_begin(video[0], &plan[0], SAC_ROTATE_AUTO, &err), err);
    for (int i = 0; i < 4; i++) assert_ok(sac_video_next(video[0], &frame, &err), err);
    sac_video_end(video[0], NULL);
    for (int k = 0; k < 2; k++) assert_ok(sac_video_begin(video[k], &plan[k], SAC_ROTATE_AUTO, &err), err);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 2; k++) {
            const sac_image *want = &whole[k].frames[i];
            assert_ok(sac_video_next(video[k], &frame, &err), err);
            assert_true(frame.width == want->width && frame.height == want->height);
            assert_memory_equal(frame.rgb, want->rgb, (size_t)frame.width * (size_t)frame.height * 3);
        }
    for (int k = 0; k < 2; k++) {
        sac_video_end(video[k], &stats);
        assert_true(stats.n_decoded >= 6);
        sac_frame_plan_free(&plan[k]);
        free_frames(&whole[k]);
        sac_video_free(video[k]);
    }
}

/* Each part of a plan read by itself, by another reader: together the frames of one pass. */
static void check_parts(const char *path, int num_frames, int n_most) {
    sac_video *video, *reader;
    sac_error err = {0};
    assert_ok(sac_video_open(&video, path, NULL, &err), err);
    sac_frame_request request = {.has_num_frames = num_frames > 0, .num_frames = num_frames};
    sac_frame_plan plan;
    static frame_list whole, part;
    int64_t starts[17];
    whole.n = 0;
    assert_ok(sac_video_plan(video, &request, &plan, &err), err);
    assert_ok(sac_video_read(video, &plan, SAC_ROTATE_AUTO, collect, &whole, NULL, &err), err);
    int n = sac_video_share(video, &plan, n_most, starts);
    assert_in_range(n, 1, n_most < 1 ? 1 : n_most);
    assert_int_equal(starts[0], 0);
    assert_int_equal(starts[n], plan.n_frames);
    for (int k = 0; k < n; k++) {
        sac_frame_plan mine = plan;
        sac_video_read_stats stats;
        mine.index += starts[k];
        mine.time_s += starts[k];
        mine.n_frames = starts[k + 1] - starts[k];
        assert_true(mine.n_frames > 0);
        part.n = 0;
        assert_ok(sac_video_open(&reader, path, NULL, &err), err);
        assert_ok(sac_video_read(reader, &mine, SAC_ROTATE_AUTO, collect, &part, &stats, &err), err);
        if (n > 1) assert_int_equal(stats.n_replaced, 0);
        for (int i = 0; i < part.n; i++) {
            const sac_image *a = &part.frames[i], *b = &whole.frames[starts[k] + i];
            assert_true(part.time_s[i] == whole.time_s[starts[k] + i]);
            assert_memory_equal(a->rgb, b->rgb, (size_t)b->width * (size_t)b->height * 3);
        }
        free_frames(&part);
        sac_video_free(reader);
    }
    free_frames(&whole);
    sac_frame_plan_free(&plan);
    sac_video_free(video);
}

static void parts_are_the_whole(void **state) {
    (void)state;
    for (int n_most = 1; n_most <= 16; n_most *= 2) {
        check_parts("samples/video0002_256.mp4", 128, n_most);
        check_parts("samples/video0001_64.mp4", 0, n_most);
        check_parts(GOLDEN "open_gop.ts", 0, n_most);
        check_parts(GOLDEN "bframes.mp4", 0, n_most);
        check_parts(GOLDEN "vfr.mkv", 0, n_most);
    }
}

/* Key frames in the place of the frames behind them: nothing else is decoded, and none comes twice. */
static void key_frames_alone(void **state) {
    (void)state;
    sac_video *video;
    sac_error err = {0};
    assert_ok(sac_video_open(&video, "samples/video0002_256.mp4", NULL, &err), err);
    for (int n_asked = 1; n_asked <= 256; n_asked *= 2) {
        sac_frame_request request = {.has_num_frames = true, .num_frames = n_asked, .key_frames = true};
        sac_frame_plan plan;
        sac_video_read_stats stats;
        static frame_list list;
        list.n = 0;
        assert_ok(sac_video_plan(video, &request, &plan, &err), err);
        assert_in_range(plan.n_frames, 1, n_asked < 33 ? n_asked : 33);
        assert_non_null(strstr(plan.text, "key frames"));
        for (int64_t i = 0; i < plan.n_frames; i++) {
            assert_int_equal(sac_video_key_of(video, plan.index[i]), plan.index[i]);
            assert_true(i == 0 || plan.index[i] > plan.index[i - 1]);
        }
        if (n_asked == 256) assert_int_equal(plan.n_frames, sac_video_get_info(video)->n_key_frames);
        assert_ok(sac_video_read(video, &plan, SAC_ROTATE_AUTO, collect, &list, &stats, &err), err);
        assert_true(stats.n_replaced == 0 && list.n == plan.n_frames);
        free_frames(&list);
        sac_frame_plan_free(&plan);
    }
    sac_video_free(video);
}

/* Parts are cut where decoding starts anyway, and are no shorter than pays. */
static void parts_are_even(void **state) {
    (void)state;
    sac_video *video;
    sac_error err = {0};
    assert_ok(sac_video_open(&video, "samples/video0002_256.mp4", NULL, &err), err);
    sac_frame_request request = {0};
    sac_frame_plan plan;
    int64_t starts[17];
    assert_ok(sac_video_plan(video, &request, &plan, &err), err);
    assert_int_equal(sac_video_share(video, &plan, 16, starts), 256 / SAC_VIDEO_SHARE_FRAMES);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(sac_video_key_of(video, plan.index[starts[k]]), starts[k]);
        assert_in_range(starts[k + 1] - starts[k], 30, 72);
    }
    assert_int_equal(sac_video_share(video, &plan, 2, starts), 2);
    assert_in_range(starts[1], 118, 140);
    sac_frame_plan_free(&plan);
    sac_video_free(video);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_one_at_a_time),
        cmocka_unit_test(frames_and_times_equal_pyav),
        cmocka_unit_test(sparse_reads_equal_the_whole),
        cmocka_unit_test(jumps_save_decoding),
        cmocka_unit_test(turned_upright),
        cmocka_unit_test(bytes_equal_file),
        cmocka_unit_test(callback_stops),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(parts_are_even),
        cmocka_unit_test(key_frames_alone),
    };
#ifndef SAC_VIDEO
    (void)load_golden, (void)free_golden, (void)tests;
    puts("skipped: built without video");
    return 77;
#else
    return cmocka_run_group_tests(tests, load_golden, free_golden);
#endif
}
