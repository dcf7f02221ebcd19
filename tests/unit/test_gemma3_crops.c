/* Pan and scan of Gemma 3 where a side has fewer pixels than its crops take: 7 pixels in six crops of two leave the fourth one pixel
 * and the last two none. These are black. */
#include "dialect.h"
#include "test.h"

static void crops_of_nothing_are_black(void **state) {
    enum { SIDE = 4, CROPS = 6, W = 7 };
    (void)state;
    sac_error err;
    sac_processor_config c;
    sac_visual_plan p;
    uint8_t rgb[W * 3];
    memset(rgb, 200, sizeof rgb);
    json_t *settings = json_pack("{s:{s:i, s:i}, s:b, s:i, s:i}", "size", "height", SIDE, "width", SIDE, "do_pan_and_scan", 1,
                                 "pan_and_scan_min_crop_size", 1, "pan_and_scan_max_num_crops", CROPS);
    const sac_processor_model m = {.dialect = &sac_dialect_gemma3, .image_size = SIDE, .patch_size = 2};
    assert_ok(sac_processor_read(&c, settings, &m, &err), err);
    for (int tall = 0; tall < 2; tall++) {
        const int w = tall ? 1 : W, h = tall ? W : 1;
        assert_ok(sac_processor_plan(&c, w, h, false, &p, &err), err);
        assert_int_equal(p.n_tiles, 1 + CROPS);
        const size_t each = sac_visual_bytes(&p, 1);
        uint8_t *rows = malloc(each * (size_t)p.n_tiles);
        assert_non_null(rows);
        memset(rows, 0x77, each * (size_t)p.n_tiles);
        assert_ok(sac_processor_cut(&c, &(sac_image){rgb, w, h}, &p, rows, &err), err);
        for (size_t i = 0; i < each * (size_t)p.n_tiles; i++) assert_int_equal(rows[i], i < 5 * each ? 200 : 0);
        free(rows);
    }
    sac_processor_free(&c);
    json_decref(settings);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(crops_of_nothing_are_black)};
    return cmocka_run_group_tests_name("crops of Gemma 3", tests, NULL, NULL);
}
