#define _GNU_SOURCE
/* TIFF, JPEG 2000, JPEG XL, HEIC and AVIF: what Pillow makes of the same files (tools/make_format_goldens.py), and one line
 * about damaged ones. Formats that this build leaves out are refused by their names. */
#include "picture_data.h"

#include "file_map.h"
#include "image.h"

#include <stdbool.h>
#include <stdlib.h>

#define FOLDER "tests/golden/vision/formats/"

/* Of a damaged AVIF file libheif 1.15 leaves dav1d's description of its last data, 40 bytes. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libdav1d\n";
}

static const char *format_of(const char *name) {
    static const char *const formats[][2] = {{"tif", "TIFF"},    {"jp2", "JPEG 2000"}, {"j2k", "JPEG 2000"},
                                             {"jxl", "JPEG XL"}, {"heic", "HEIC"},     {"avif", "AVIF"}};
    const char *ending = strrchr(name, '.') + 1;
    for (size_t i = 0; i < SAC_COUNT(formats); i++)
        if (!strcmp(ending, formats[i][0])) return formats[i][1];
    fail_msg("%s: of no format", name);
    return NULL;
}

static size_t n_bytes_of(const sac_image *image) {
    return (size_t)image->width * (size_t)image->height * 3;
}

/* Decoders of other versions round otherwise, and raise chroma to full size in their own ways. */
static bool is_close(const sac_image *image, const char *name) {
    char path[300];
    sac_image want;
    sac_error err;
    snprintf(path, sizeof path, FOLDER "%s.png", name);
    assert_ok(sac_image_open(&want, path, NULL, &err), err);
    bool same = image->width == want.width && image->height == want.height;
    int most = 0;
    double sum = 0;
    for (size_t i = 0; same && i < n_bytes_of(&want); i++) {
        int d = abs(image->rgb[i] - want.rgb[i]);
        most = d > most ? d : most;
        sum += d;
    }
    double mean = sum / (double)n_bytes_of(&want);
    if (most) print_message("%s: at most %d levels from Pillow's, %.2f in the mean\n", name, most, mean);
    sac_image_free(&want);
    return same && most <= 12 && mean <= 1.5;
}

static void pictures(void **state) {
    (void)state;
    FILE *f = fopen("tests/golden/vision/formats.txt", "r");
    assert_non_null(f);
    char line[300], name[200], path[300], sum[16], mine[16];
    int width, height, n_right = 0, n_refused = 0, n_wrong = 0, n_left_out = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        bool refused = sscanf(line, "%199s %d %d %15s", name, &width, &height, sum) != 4;
        bool built = sac_image_can_read(format_of(name));
        snprintf(path, sizeof path, FOLDER "%s", name);
        sac_image image;
        sac_error err = {0};
        sac_status st = sac_image_open(&image, path, NULL, &err);
        if (st == SAC_OK) snprintf(mine, sizeof mine, "%08x", crc32_of(image.rgb, n_bytes_of(&image)));
        bool right =
            !built    ? st == SAC_UNSUPPORTED && strstr(err.text, format_of(name))
            : refused ? st == SAC_BAD_FILE && !image.rgb && !strchr(err.text, '\n') && strstr(err.text, name)
            : st != SAC_OK || image.width != width || image.height != height ? false
            : *sum == '-'                                                    ? is_close(&image, name)
                                                                             : !strcmp(mine, sum);
        if (!right)
            print_message("%s: %s\n", name, st == SAC_OK ? "other pixels, or another size" : err.text);
        ++*(!right ? &n_wrong : !built ? &n_left_out : refused ? &n_refused : &n_right);
        sac_image_free(&image);
    }
    fclose(f);
    print_message("%d pictures as Pillow's, %d refused, %d of formats left out, %d wrong\n", n_right,
                  n_refused, n_left_out, n_wrong);
    assert_int_equal(n_wrong, 0);
    assert_true(n_right + n_refused + n_left_out >= 47);
}

static const char *const small[] = {"rgb_tiff_lzw.tif", "tiles.tif",    "jpeg.tif",
                                    "palette.tif",      "lossless.jp2", "stream.j2k",
                                    "rgba.jxl",         "lossy.heic",   "lossy.avif"};

static uint8_t *read_golden(const char *name, size_t *n) {
    char path[300], *bytes;
    sac_error err;
    snprintf(path, sizeof path, FOLDER "%s", name);
    assert_ok(sac_file_read(&bytes, n, path, 1 << 20, &err), err);
    return (uint8_t *)bytes;
}

/* A copy of exactly n bytes, so that ASan sees any read behind it. */
static void try_bytes(const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    sac_image image;
    sac_error err = {0};
    sac_image_limits limits = {.max_bytes = 1 << 20, .max_pixels = 1 << 14};
    sac_status st = sac_image_decode(&image, copy, n, &limits, &err);
    if (st == SAC_OK)
        assert_true((int64_t)image.width * image.height <= limits.max_pixels);
    else if (image.rgb || !err.text[0] || strchr(err.text, '\n'))
        fail_msg("cut at %zu: '%s'", n, err.text);
    sac_image_free(&image);
    free(copy);
}

/* Cut anywhere, and one byte changed anywhere (of the larger ones, every fifth): a picture within the limits, or one line. */
static void damaged_files(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (size_t i = 0; i < SAC_COUNT(small); i++) {
        size_t n, step;
        uint8_t *bytes = read_golden(small[i], &n);
        step = n > 500 ? 5 : 1;
        for (size_t k = 0; k < n; k += step) try_bytes(bytes, k);
        for (size_t k = 0; k < n; k += step) {
            uint8_t was = bytes[k];
            bytes[k] = (uint8_t)(test_rand(&seed) >> 56);
            try_bytes(bytes, n);
            bytes[k] = was;
        }
        free(bytes);
    }
}

/* Sizes are refused before pixels are made. */
static void limits(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(small); i++) {
        if (!sac_image_can_read(format_of(small[i]))) continue;
        size_t n;
        uint8_t *bytes = read_golden(small[i], &n);
        sac_image image;
        sac_error err;
        sac_image_limits few = {.max_bytes = 1 << 20, .max_pixels = 100};
        assert_int_equal(sac_image_decode(&image, bytes, n, &few, &err), SAC_BAD_FILE);
        if (!strstr(err.text, "more than the 100 allowed")) fail_msg("%s: %s", small[i], err.text);
        free(bytes);
    }
}

static void put_be32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void assert_refused(const uint8_t *bytes, size_t n, const sac_image_limits *most, const char *why) {
    sac_image image;
    sac_error err = {0};
    assert_int_not_equal(sac_image_decode(&image, bytes, n, most, &err), SAC_OK);
    if (!strstr(err.text, why)) fail_msg("'%s' is not in '%s'", why, err.text);
}

/* Files whose headers make a library take memory, or time, out of proportion to the picture. */
static void bombs(void **state) {
    (void)state;
    if (sac_image_can_read("JPEG 2000")) {
        static uint8_t siz[42 + 3 * 16384] = {0xff, 0x4f, 0xff, 0x51};
        put_be32(siz + 4, (40 + 3 * 1000) << 16); /* Lsiz, Rsiz */
        put_be32(siz + 8, 255), put_be32(siz + 12, 255), put_be32(siz + 24, 1), put_be32(siz + 28, 1);
        for (size_t i = 42; i < sizeof siz; i += 3) siz[i] = 7, siz[i + 1] = siz[i + 2] = 1;
        siz[40] = 1000 >> 8, siz[41] = 1000 & 255;
        assert_refused(siz, sizeof siz, NULL, "1000 components; 1 to 5 are read");
        siz[40] = 0, siz[41] = 3;
        assert_refused(siz, sizeof siz, NULL, "65025 tiles, too many");
        static uint8_t boxed[12 + 8 + 42] = {0,    0,  0, 12, 'j', 'P', ' ', ' ', 13,  10,
                                             0x87, 10, 0, 0,  0,   0,   'j', 'p', '2', 'c'};
        memcpy(boxed + 20, siz, 42);
        assert_refused(boxed, sizeof boxed, NULL, "65025 tiles, too many");
    }
    if (sac_image_can_read(
            "TIFF")) { /* one column of 96 pixels in tiles of 16 by 16: width and height in its directory */
        size_t n;
        uint8_t *bytes = read_golden("tiles.tif", &n);
        sac_image_limits most = {.max_bytes = 1 << 20, .max_pixels = 256};
        bytes[530] = 1, bytes[542] = 96;
        assert_refused(bytes, n, &most, "many times larger than the picture");
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pictures), cmocka_unit_test(damaged_files),
                                       cmocka_unit_test(limits), cmocka_unit_test(bombs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
