#include "picture_data.h"

#include "exif.h"
#include "file_map.h"
#include "image.h"

#include <stdbool.h>

#define GOLDEN "tests/golden/vision/"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

#ifdef SAC_TURBOJPEG
static const bool jpeg_is_exact = true;
#else
static const bool jpeg_is_exact =
    false; /* stb_image's pixels differ a little, and it refuses more of damaged files */
#endif
#ifdef SAC_VIDEO
static const bool has_webp = true;
#else
static const bool has_webp = false;
#endif

static bool pixels_are_exact(const char *name) {
    return jpeg_is_exact || !ends_with(name, ".jpg");
}
static bool can_decode(const char *name) {
    if (ends_with(name, ".heic")) return sac_image_can_read("HEIC");
    if (ends_with(name, ".avif")) return sac_image_can_read("AVIF");
    return has_webp || !ends_with(name, ".webp");
}

/* Every line of a list that tools/make_image_goldens.py wrote: "file refused" or "file width height
 * checksum", where "-" stands for pixels that depend on a library's version. */
static void compare_list(const char *list, const char *folder, int *n_equal, int *n_refused, int *n_wrong) {
    FILE *f = fopen(list, "r");
    assert_non_null(f);
    char line[512], name[256], path[1024], sum[16];
    int width, height;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        bool refused = strstr(line, " refused") != NULL;
        if (refused)
            assert_int_equal(sscanf(line, "%255s", name), 1);
        else
            assert_int_equal(sscanf(line, "%255s %d %d %15s", name, &width, &height, sum), 4);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (!can_decode(name)) continue;
        sac_image image;
        sac_error err = {0};
        sac_status st = sac_image_open(&image, path, NULL, &err);
        char mine[16] = "";
        if (st == SAC_OK)
            snprintf(mine, sizeof mine, "%08x",
                     crc32_of(image.rgb, (size_t)image.width * (size_t)image.height * 3));
        bool right =
            !pixels_are_exact(name) && !refused ? st == SAC_OK || st == SAC_BAD_FILE
            : refused
                ? st != SAC_OK && !image.rgb && !strchr(err.text, '\n') && strstr(err.text, name)
                : st == SAC_OK && image.width == width && image.height == height &&
                        (*sum == '-' || strcmp(mine, sum) == 0);
        if (!right) {
            print_message("%s: %s\n", name, st == SAC_OK ? "pixels or size differ from Pillow's" : err.text);
            (*n_wrong)++;
        } else {
            ++*(refused ? n_refused : n_equal);
        }
        sac_image_free(&image);
    }
    fclose(f);
}

static void test_pictures(void **state) {
    (void)state;
    int n_equal = 0, n_refused = 0, n_wrong = 0;
    compare_list(GOLDEN "pictures.txt", GOLDEN "pictures", &n_equal, &n_refused, &n_wrong);
    print_message("%d pictures equal Pillow's, %d refused as there, %d wrong\n", n_equal, n_refused, n_wrong);
    assert_int_equal(n_wrong, 0);
    assert_true(n_equal >= 50 && n_refused >= 16);
}

static void test_assets_of_others(void **state) {
    (void)state;
    const char *folder = test_assets();
    if (!folder) {
        print_message("skipped: no test pictures (set SACCADE_ASSETS)\n");
        skip();
    }
    int n_equal = 0, n_refused = 0, n_wrong = 0;
    compare_list(GOLDEN "assets.txt", folder, &n_equal, &n_refused, &n_wrong);
    print_message("%d pictures equal Pillow's, %d refused as there, %d wrong\n", n_equal, n_refused, n_wrong);
    assert_int_equal(n_wrong, 0);
}

/* Decodes a copy of exactly n_bytes, so that ASan sees any read behind it. */
static sac_status decode_copy(sac_image *image, const uint8_t *bytes, size_t n_bytes, sac_error *err) {
    uint8_t *copy = malloc(n_bytes ? n_bytes : 1);
    memcpy(copy, bytes, n_bytes);
    sac_status st = sac_image_decode(image, copy, n_bytes, NULL, err);
    free(copy);
    return st;
}

static const char *const small_files[] = {"png_rgb.png",     "png_p4_short_palette.png",
                                          "jpeg_sub2.jpg",   "jpeg_exif6.jpg",
                                          "jpeg_cmyk.jpg",   "gif_plain.gif",
                                          "bmp_24.bmp",      "bmp_rle8.bmp",
                                          "webp_lossy.webp", "webp_lossless.webp"};

/* Cut at every byte: refused, or (where only the end of the file is missing) the same pixels. */
static void test_cut_anywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(small_files); i++) {
        if (!can_decode(small_files[i])) continue;
        char path[256];
        char *bytes;
        size_t n_bytes;
        sac_error err = {0};
        snprintf(path, sizeof path, GOLDEN "pictures/%s", small_files[i]);
        assert_ok(sac_file_read(&bytes, &n_bytes, path, 1 << 20, &err), err);
        sac_image image;
        assert_ok(decode_copy(&image, (uint8_t *)bytes, n_bytes, &err), err);
        uint32_t sum = crc32_of(image.rgb, (size_t)image.width * (size_t)image.height * 3);
        sac_image_free(&image);
        for (size_t n = 0; n < n_bytes; n++) {
            sac_status st = decode_copy(&image, (uint8_t *)bytes, n, &err);
            if (st == SAC_OK)
                assert_int_equal(crc32_of(image.rgb, (size_t)image.width * (size_t)image.height * 3), sum);
            else
                assert_true(st == SAC_BAD_FILE && err.text[0] && !image.rgb);
            sac_image_free(&image);
        }
        free(bytes);
    }
}

/* One byte changed, everywhere: nothing but a verdict may happen. */
static void test_changed_anywhere(void **state) {
    (void)state;
    uint64_t seed = 9;
    for (size_t i = 0; i < SAC_COUNT(small_files); i++) {
        char path[256];
        char *bytes;
        size_t n_bytes;
        sac_error err = {0};
        snprintf(path, sizeof path, GOLDEN "pictures/%s", small_files[i]);
        assert_ok(sac_file_read(&bytes, &n_bytes, path, 1 << 20, &err), err);
        for (size_t at = 0; at < n_bytes; at++) {
            char was = bytes[at];
            bytes[at] = (char)(test_rand(&seed) >> 56);
            sac_image image;
            sac_image_limits limits = {.max_bytes = 1 << 20, .max_pixels = 1 << 20};
            if (sac_image_decode(&image, (uint8_t *)bytes, n_bytes, &limits, &err) == SAC_OK)
                assert_non_null(image.rgb);
            sac_image_free(&image);
            bytes[at] = was;
        }
        free(bytes);
    }
}

static void test_limits(void **state) {
    (void)state;
    sac_image image;
    sac_error err;
    sac_image_limits limits = sac_image_limits_default();
    limits.max_pixels = 19 * 13 - 1;
    assert_int_equal(sac_image_open(&image, GOLDEN "pictures/png_rgb.png", &limits, &err), SAC_BAD_FILE);
    limits.max_pixels++;
    assert_ok(sac_image_open(&image, GOLDEN "pictures/png_rgb.png", &limits, &err), err);
    sac_image_free(&image);
    limits.max_bytes = 100;
    assert_int_equal(sac_image_open(&image, GOLDEN "pictures/png_rgb.png", &limits, &err), SAC_BAD_FILE);
    assert_int_equal(sac_image_open(&image, GOLDEN "pictures/absent.png", NULL, &err), SAC_NOT_FOUND);
    assert_int_equal(sac_image_open(&image, GOLDEN, NULL, &err), SAC_BAD_FILE);
    assert_int_equal(sac_image_alloc(&image, 0, 5, NULL, &err), SAC_BAD_FILE);
    assert_int_equal(sac_image_alloc(&image, INT64_MAX, INT64_MAX, NULL, &err), SAC_BAD_FILE);
    assert_null(image.rgb);
}

static void test_known_but_not_read(void **state) {
    (void)state;
    const uint8_t photoshop[16] = "8BPS\0\1";
    sac_image image;
    sac_error err;
    assert_int_equal(sac_image_decode(&image, photoshop, sizeof photoshop, NULL, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "Photoshop"));
    assert_true(sac_image_can_read("PNG") && !sac_image_can_read("Photoshop") && !sac_image_can_read("x"));
}

/* Metadata of strangers: offsets out of the block, counts that overflow, absurd values. */
static void test_exif_hostile(void **state) {
    (void)state;
    uint8_t block[26] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    assert_int_equal(sac_exif_orientation(block, sizeof block), 6);
    for (size_t n = 0; n < 22; n++) assert_int_equal(sac_exif_orientation(block, n), 0);
    uint8_t b[26];
    for (int at = 0; at < 26; at++)
        for (int v = 0; v < 256; v++) {
            memcpy(b, block, sizeof b);
            b[at] = (uint8_t)v;
            assert_in_range(sac_exif_orientation(b, sizeof b), 0, 8);
        }
    assert_int_equal(sac_xmp_orientation((const uint8_t *)"x tiff:Orientation=\"8\"", 22), 8);
    assert_int_equal(sac_xmp_orientation((const uint8_t *)"<tiff:Orientation>3</", 21), 3);
    assert_int_equal(sac_xmp_orientation((const uint8_t *)"tiff:Orientation=\"", 18), 0);
    assert_int_equal(sac_xmp_orientation((const uint8_t *)"tiff:Orientation=8 ", 19), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),     cmocka_unit_test(test_assets_of_others),
        cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_changed_anywhere),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_known_but_not_read),
        cmocka_unit_test(test_exif_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
