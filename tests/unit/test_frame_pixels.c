#include "frame_pixels.h"
#include "test.h"

#define ONE (1 << 16)

/* A picture of 3 x 2 whose pixels are numbered in reading order, turned. */
static void expect_turn(int a, int b, int c, int d, const char *rows, int degrees, bool mirrored) {
    const int32_t matrix[9] = {a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 5 * ONE, 7 * ONE, 1 << 30};
    sac_turn turn = sac_turn_from_matrix(matrix);
    uint8_t src[18], dst[18], text[7] = {0};
    for (int i = 0; i < 18; i++) src[i] = (uint8_t)('0' + i / 3);
    sac_turn_rgb(dst, src, 3, 2, turn);
    for (int i = 0; i < 6; i++) {
        text[i] = dst[3 * i];
        assert_true(dst[3 * i + 1] == text[i] && dst[3 * i + 2] == text[i]);
    }
    assert_string_equal((const char *)text, rows);
    bool is_mirrored;
    assert_int_equal(sac_turn_degrees(turn, &is_mirrored), degrees);
    assert_int_equal(is_mirrored, mirrored);
    assert_int_equal(sac_turn_is_none(turn), degrees == 0 && !mirrored);
}

static void all_eight_turns(void **state) {
    (void)state; /* 0 1 2 / 3 4 5 */
    expect_turn(1, 0, 0, 1, "012345", 0, false);
    expect_turn(-1, 0, 0, -1, "543210", 180, false);
    expect_turn(0, 1, -1, 0, "304152", 90, false);  /* 3 0 / 4 1 / 5 2: what phones write for portrait */
    expect_turn(0, -1, 1, 0, "251403", 270, false); /* 2 5 / 1 4 / 0 3 */
    expect_turn(-1, 0, 0, 1, "210543", 0, true);
    expect_turn(1, 0, 0, -1, "345012", 180, true);
    expect_turn(0, 1, 1, 0, "031425", 270, true);
    expect_turn(0, -1, -1, 0, "524130", 90, true);
}

static void odd_matrices_are_harmless(void **state) {
    (void)state;
    const int32_t nothing[9] = {0}, crooked[9] = {60000, 20000, 0, -20000, 60000, 0, 0, 0, 0};
    const int32_t extreme[9] = {INT32_MIN, INT32_MIN, 0, INT32_MIN, INT32_MIN, 0, 0, 0, 0},
                  flat[9] = {ONE, 0, 0, 0, 0};
    assert_true(sac_turn_is_none(sac_turn_from_matrix(nothing)));
    assert_true(sac_turn_is_none(sac_turn_from_matrix(crooked)));
    assert_true(sac_turn_is_none(sac_turn_from_matrix(flat)));
    bool mirrored;
    assert_int_equal(sac_turn_degrees(sac_turn_from_matrix(extreme), &mirrored), 180);
}

/* Grey stays grey, the ends of the range are black and white, edges repeat the last chroma sample. (Equality
 * with Pillow on whole pictures is in test_video.c.) */
static void webp_colours(void **state) {
    (void)state;
    uint8_t y[15], u[6], v[6], rgb[45];
    const struct { uint8_t y, rgb; } greys[] = {{16, 0}, {235, 255}, {0, 0}, {255, 255}, {126, 128}};
    memset(u, 128, sizeof u);
    memset(v, 128, sizeof v);
    for (size_t i = 0; i < sizeof greys / sizeof greys[0]; i++) {
        memset(y, greys[i].y, sizeof y);
        sac_webp_yuv_to_rgb(rgb, y, 5, u, v, 3, 5, 3);
        for (int k = 0; k < 45; k++) assert_int_equal(rgb[k], greys[i].rgb);
    }
    memset(y, 81, sizeof y);
    memset(u, 90, sizeof u);
    memset(v, 240, sizeof v);
    sac_webp_yuv_to_rgb(rgb, y, 5, u, v, 3, 5, 3);
    for (int k = 0; k < 15; k++) assert_true(rgb[3 * k] >= 253 && rgb[3 * k + 1] <= 1 && rgb[3 * k + 2] <= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_eight_turns),
        cmocka_unit_test(odd_matrices_are_harmless),
        cmocka_unit_test(webp_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
