/* Files that are cut, damaged, hostile, too large or no video: one line, no crash, no leak (run under the
 * sanitizers). */
#define _GNU_SOURCE
#include "video_test.h"

#include <sys/stat.h>
#include <unistd.h>

static void expect_refusal(sac_status st, const sac_video *video, const sac_error *err, sac_status want,
                           const char *part) {
    if (st != want || video || strchr(err->text, '\n') || !strstr(err->text, part))
        fail_msg("%s \"%s\", wanted %s \"%s\"", sac_status_name(st), err->text, sac_status_name(want), part);
}

static void refuse_file(const char *path, const sac_video_limits *limits, sac_status want, const char *part) {
    sac_video *video;
    sac_error err = {0};
    sac_status st = sac_video_open(&video, path, limits, &err);
    expect_refusal(st, video, &err, want, part);
    if (!strstr(err.text, path)) fail_msg("\"%s\" does not name %s", err.text, path);
}

static void refuse_bytes(const char *text, sac_status want, const char *part) {
    sac_video *video;
    sac_error err = {0};
    sac_status st = sac_video_open_bytes(&video, (const uint8_t *)text, strlen(text), NULL, &err);
    expect_refusal(st, video, &err, want, part);
}

static void not_a_video(void **state) {
    (void)state;
    refuse_file(GOLDEN "absent.mp4", NULL, SAC_NOT_FOUND, "No such file");
    refuse_file(GOLDEN, NULL, SAC_BAD_FILE, "not a regular file");
    refuse_file("/dev/zero", NULL, SAC_BAD_FILE, "not a regular file");
    refuse_file(GOLDEN "golden.json", NULL, SAC_BAD_FILE, "not a video");
    refuse_file(GOLDEN "lossy.webp", NULL, SAC_BAD_FILE, "not a video");
    refuse_file(GOLDEN "sound.m4a", NULL, SAC_BAD_FILE, "holds no video");
    refuse_file(GOLDEN "refused.mov", NULL, SAC_UNSUPPORTED, "cinepak");
    refuse_bytes("", SAC_BAD_FILE, "empty");
    refuse_bytes("RIFF", SAC_BAD_FILE, "not a video");
    char path[] = "/tmp/saccade_fifo_XXXXXX";
    assert_true(mkdtemp(path) != NULL);
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    refuse_file(fifo, NULL, SAC_BAD_FILE, "not a regular file"); /* and does not wait for a writer */
    unlink(fifo);
    rmdir(path);
}

/* Formats whose point is to name other files or addresses. */
static void nothing_else_is_opened(void **state) {
    (void)state;
    refuse_bytes("ffconcat version 1.0\nfile tests/golden/video/bframes.mp4\n", SAC_BAD_FILE, "not a video");
    refuse_bytes("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
                 SAC_BAD_FILE, "not a video");
    refuse_bytes("v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n", SAC_BAD_FILE,
                 "not a video");
    refuse_bytes("<?xml version=\"1.0\"?><MPD type=\"static\"></MPD>", SAC_BAD_FILE, "not a video");
}

static void limits_come_first(void **state) {
    (void)state;
    const char *path = GOLDEN "bframes.mp4"; /* 60 frames of 64 x 48, 2.36 s from first to last */
    sac_video_limits l = sac_video_limits_default();
    l.max_pixels = 64 * 48 - 1;
    refuse_file(path, &l, SAC_BAD_FILE, "64 x 48");
    l = sac_video_limits_default();
    l.max_frames = 59;
    refuse_file(path, &l, SAC_BAD_FILE, "limit of 59 frames");
    refuse_file(GOLDEN "bframes.avi", &(sac_video_limits){1 << 20, 1 << 20, 29, 100, 1}, SAC_BAD_FILE,
                "29 frames");
    l = sac_video_limits_default();
    l.max_duration_s = 2.3;
    refuse_file(path, &l, SAC_BAD_FILE, "2.3 seconds");
    l = sac_video_limits_default();
    l.max_bytes = 1000;
    refuse_file(path, &l, SAC_BAD_FILE, "limit of 1000");
    sac_video *video;
    sac_error err = {0};
    l = (sac_video_limits){1 << 20, 64 * 48, 60, 2.37, 1};
    assert_ok(sac_video_open(&video, path, &l, &err), err);
    sac_video_free(video);
    l.max_pixels = 64 * 48; /* the limit is on frames, not on a decoder's padding */
    assert_ok(sac_video_open(&video, GOLDEN "bframes.avi", &l, &err), err);
    sac_video_free(video);
}

/* Opens and reads, whatever comes; what is promised has to be kept also for damaged files. */
static bool survives(const uint8_t *bytes, size_t n_bytes, int64_t *n_replaced) {
    const sac_video_limits limits = {1 << 20, 1 << 14, 128, 3600, 1};
    sac_video *video;
    sac_error err = {0};
    sac_video_read_stats stats = {0};
    sac_status st = sac_video_open_bytes(&video, bytes, n_bytes, &limits, &err);
    if (st == SAC_OK) {
        frame_list list = {0};
        int64_t n_frames = sac_video_get_info(video)->n_frames;
        st = read_frames(video, 7, SAC_ROTATE_AUTO, &list, &stats, &err);
        if (st == SAC_OK) assert_int_equal(list.n, n_frames < 7 ? n_frames : 7);
        for (int i = 0; i < list.n; i++) assert_true(list.frames[i].width * list.frames[i].height <= 1 << 14);
        free_frames(&list);
        sac_video_free(video);
    }
    if (n_replaced) *n_replaced += stats.n_replaced;
    if (st != SAC_OK && (!err.text[0] || strchr(err.text, '\n')))
        fail_msg("no single line: \"%s\"", err.text);
    if (st != SAC_OK && st != SAC_BAD_FILE && st != SAC_UNSUPPORTED)
        fail_msg("%s: %s", sac_status_name(st), err.text);
    return st == SAC_OK;
}

static const char *const files[] = {"bframes.mp4", "fragmented.mp4", "vfr.mkv",
                                    "open_gop.ts", "ten_bit.mp4",    "hidden.webm",
                                    "vp9.webm",    "bframes.avi",    "picture.gif"};

static void cut_anywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(files); i++) {
        char path[128];
        size_t n_bytes, n_read = 0, n_cuts = 0, step;
        snprintf(path, sizeof path, GOLDEN "%s", files[i]);
        uint8_t *bytes = load_file(path, &n_bytes);
        step = n_bytes / 60 + 1;
        for (size_t n = 0; n < n_bytes; n += step, n_cuts++) {
            uint8_t *part =
                malloc(n ? n : 1); /* exactly as long, so that a sanitizer sees one byte too far */
            memcpy(part, bytes, n);
            n_read += survives(part, n, NULL);
            free(part);
        }
        if (n_read == n_cuts) fail_msg("%s: every cut was read", files[i]);
        free(bytes);
    }
}

static void damaged_anywhere(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (size_t i = 0; i < SAC_COUNT(files); i++) {
        char path[128];
        size_t n_bytes;
        snprintf(path, sizeof path, GOLDEN "%s", files[i]);
        uint8_t *bytes = load_file(path, &n_bytes), *copy = malloc(n_bytes);
        for (int round = 0; round < 60; round++) {
            memcpy(copy, bytes, n_bytes);
            int n_hits = test_rand_int(&seed, 1, 8);
            for (int k = 0; k < n_hits; k++)
                copy[test_rand(&seed) % n_bytes] =
                    (uint8_t)(test_rand_int(&seed, 0, 3) ? test_rand(&seed) : 0xff);
            survives(copy, n_bytes, NULL);
        }
        free(copy);
        free(bytes);
    }
}

/* A hole in the pictures, the index whole: every chosen frame comes, neighbours in place of what is lost. */
static void lost_frames_are_replaced(void **state) {
    (void)state;
    size_t n_bytes;
    uint8_t *bytes = load_file(GOLDEN "bframes.mp4", &n_bytes),
            *copy = malloc(n_bytes); /* pictures come last */
    int64_t n_replaced = 0;
    for (size_t at = n_bytes / 2; at + 60 < n_bytes; at += 50) {
        memcpy(copy, bytes, n_bytes);
        memset(copy + at, 0, 60);
        if (!survives(copy, n_bytes, &n_replaced))
            fail_msg("a hole at byte %zu made the file unreadable", at);
    }
    assert_true(n_replaced > 0);
    free(copy);
    free(bytes);
}

static void cut_at_the_end_keeps_the_rest(void **state) {
    (void)state;
    size_t n_bytes;
    uint8_t *bytes = load_file(GOLDEN "bframes.mp4", &n_bytes); /* its index comes first */
    sac_video *video;
    sac_error err = {0};
    assert_ok(sac_video_open_bytes(&video, bytes, n_bytes - 200, NULL, &err), err);
    int64_t n = sac_video_get_info(video)->n_frames;
    assert_true(n > 40 && n < 60);
    frame_list list = {0};
    sac_video_read_stats stats;
    assert_ok(read_frames(video, 0, SAC_ROTATE_AUTO, &list, &stats, &err), err);
    assert_int_equal(list.n, n);
    assert_int_equal(stats.n_replaced, 0); /* what cannot be decoded was not counted either */
    free_frames(&list);
    sac_video_free(video);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_a_video),
        cmocka_unit_test(nothing_else_is_opened),
        cmocka_unit_test(limits_come_first),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(damaged_anywhere),
        cmocka_unit_test(lost_frames_are_replaced),
        cmocka_unit_test(cut_at_the_end_keeps_the_rest),
    };
#ifndef SAC_VIDEO
    (void)tests;
    sac_video *video;
    sac_error err = {0};
    if (sac_video_open(&video, GOLDEN "bframes.mp4", NULL, &err) != SAC_UNSUPPORTED ||
        !strstr(err.text, "SAC_VIDEO"))
        return 1;
    puts("skipped: built without video, and it says so");
    return 77;
#else
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
