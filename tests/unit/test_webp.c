/* WebP against Pillow: identical pixels; and what is no WebP. */
#include "video_test.h"
#include "webp.h"

static void equals_pillow(void **state) {
    (void)state;
#ifdef SAC_VIDEO
    const char *const names[] = {"lossless", "lossy", "lossy_alpha", "animated"};
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        char path[128];
        size_t n_bytes, n_rgb;
        snprintf(path, sizeof path, GOLDEN "%s.webp", names[i]);
        uint8_t *bytes = load_file(path, &n_bytes);
        snprintf(path, sizeof path, GOLDEN "%s.rgb", names[i]);
        uint8_t *rgb = load_file(path, &n_rgb);
        sac_image image;
        sac_error err = {0};
        assert_ok(sac_libav_decode_still(&image, bytes, n_bytes, NULL, &err), err);
        assert_true(image.width == 37 && image.height == 23 && n_rgb == 37 * 23 * 3);
        assert_memory_equal(image.rgb, rgb, n_rgb);
        sac_image_free(&image);
        free(rgb);
        free(bytes);
    }
#else
    skip();
#endif
}

static void damage_is_refused(void **state) {
    (void)state;
    uint64_t seed = 3;
    size_t n_bytes;
    uint8_t *bytes = load_file(GOLDEN "lossy_alpha.webp", &n_bytes);
    sac_image_limits limits = {1 << 20, 37 * 23};
    for (size_t n = 0; n < n_bytes; n++) {
        uint8_t *part = malloc(n ? n : 1);
        memcpy(part, bytes, n);
        sac_image image;
        sac_error err = {0};
        sac_status st = sac_libav_decode_still(&image, part, n, &limits, &err);
        if (st == SAC_OK) fail_msg("the first %zu of %zu bytes were taken for a picture", n, n_bytes);
        assert_true(!image.rgb && err.text[0] && !strchr(err.text, '\n'));
        free(part);
    }
    for (int round = 0; round < 3000; round++) {
        size_t at = test_rand(&seed) % n_bytes;
        uint8_t old = bytes[at];
        bytes[at] = (uint8_t)test_rand(&seed);
        sac_image image;
        sac_error err = {0};
        if (sac_libav_decode_still(&image, bytes, n_bytes, &limits, &err) == SAC_OK)
            assert_true(image.width * image.height <= limits.max_pixels);
        sac_image_free(&image);
        bytes[at] = old;
    }
    free(bytes);
}

static sac_status find(const char *bytes, size_t n_bytes, sac_webp *w, const char *part) {
    sac_error err = {0};
    sac_status st = sac_webp_find(w, (const uint8_t *)bytes, n_bytes, &err);
    if (st != SAC_OK && !strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    return st;
}

#define VP8L_2X3     "VP8L\x05\0\0\0\x2f\x01\x80\0\0"
#define CANVAS(w, h) "VP8X\x0a\0\0\0\0\0\0\0" w "\0\0" h "\0\0"

static void finds_the_picture(void **state) {
    (void)state;
    sac_webp w;
    static const char plain[] = "RIFF\0\0\0\0WEBP" VP8L_2X3;
    assert_int_equal(find(plain, sizeof plain - 1, &w, ""), SAC_OK);
    assert_true(w.width == 2 && w.height == 3 && w.chunk_bytes == 13);
    static const char canvas[] = "RIFF\0\0\0\0WEBP" CANVAS("\x01", "\x02") "EXIF\x03\0\0\0abc\0" VP8L_2X3;
    assert_int_equal(find(canvas, sizeof canvas - 1, &w, ""), SAC_OK);
    static const char part_of_canvas[] = "RIFF\0\0\0\0WEBP" CANVAS("\x07", "\x02") VP8L_2X3;
    assert_int_equal(find(part_of_canvas, sizeof part_of_canvas - 1, &w, "canvas of 8 x 3"), SAC_UNSUPPORTED);
    static const char huge_chunk[] = "RIFF\0\0\0\0WEBPEXIF\xff\xff\xff\xff";
    assert_int_equal(find(huge_chunk, sizeof huge_chunk - 1, &w, "cut short"), SAC_BAD_FILE);
    assert_int_equal(find("RIFF\0\0\0\0WAVE", 12, &w, "not a WebP"), SAC_BAD_FILE);
    assert_int_equal(find("RIFF\0\0\0\0WEBP", 12, &w, "cut short"), SAC_BAD_FILE);
    uint8_t file[26]; /* with the byte that makes the chunk even */
    assert_int_equal(find(plain, sizeof plain - 1, &w, ""), SAC_OK);
    assert_int_equal(sac_webp_file_bytes(&w), sizeof file);
    sac_webp_write_file(&w, file);
    assert_memory_equal(file, "RIFF\x12\0\0\0WEBPVP8L", 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pillow),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(finds_the_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
