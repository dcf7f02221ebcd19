/* InternVL in its authors' layout: settings that stand in config.json, and ImageNet's colours where no file says them. */
#include "test.h"

#include "dialect.h"
#include "json.h"

static sac_status read(sac_processor_config *c, const char *config, const char *preprocessor, sac_error *err) {
    json_t *o = json_loads(config, 0, NULL), *p = preprocessor ? json_loads(preprocessor, 0, NULL) : NULL;
    assert_true(o && (p || !preprocessor));
    const sac_processor_model model = {
        .dialect = &sac_dialect_internvl_chat, .image_size = 56, .patch_size = 14, .merge_size = 2, .config = o};
    sac_status st = sac_processor_read(c, p, &model, err);
    json_decref(o);
    json_decref(p);
    return st;
}

static void colors_are_imagenets_where_no_key_says_them(void **state) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    sac_processor_config c;
    sac_error err = {0};
    (void)state;
    assert_ok(read(&c, "{}", NULL, &err), err);
    for (int i = 0; i < 3; i++) {
        assert_float_equal(c.mean[i], mean[i], 1e-7);
        assert_float_equal(c.std[i], std[i], 1e-7);
    }
    sac_processor_free(&c);
    assert_ok(read(&c, "{}", "{\"image_mean\": [0.1, 0.2, 0.3]}", &err), err);
    assert_float_equal(c.mean[1], 0.2, 1e-7);
    assert_float_equal(c.std[1], std[1], 1e-7);
    sac_processor_free(&c);
}

/* A picture of w x h: its tiles by config.json's keys. */
static void tiles_are(const char *config, int w, int h, int across, int down, int n) {
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err = {0};
    assert_ok(read(&c, config, NULL, &err), err);
    assert_ok(sac_processor_plan(&c, w, h, false, &p, &err), err);
    assert_int_equal(p.tiles_w, across);
    assert_int_equal(p.tiles_h, down);
    assert_int_equal(p.n_tiles, n);
    assert_int_equal(p.n_tokens, 4 * n);
    assert_true(n <= sac_processor_most_tiles(&c));
    sac_processor_free(&c);
}

static void tiles_follow_the_keys(void **state) {
    (void)state;
    tiles_are("{}", 800, 200, 1, 1, 1);
    tiles_are("{\"dynamic_image_size\": true}", 800, 200, 4, 1, 4);
    tiles_are("{\"dynamic_image_size\": true, \"use_thumbnail\": true}", 800, 200, 4, 1, 5);
    tiles_are("{\"dynamic_image_size\": true, \"use_thumbnail\": true, \"max_dynamic_patch\": 3}", 800, 200, 3, 1, 4);
    tiles_are("{\"dynamic_image_size\": true, \"use_thumbnail\": true}", 50, 50, 1, 1, 1);
}

static void what_cannot_be_is_refused(void **state) {
    static const char *const bad[][3] = {{"{\"max_dynamic_patch\": 0}", NULL, "max_dynamic_patch"},
                                         {"{\"min_dynamic_patch\": 100000}", NULL, "min_dynamic_patch"},
                                         {"{}", "{\"do_resize\": false}", "do_resize"},
                                         {"{}", "{\"size\": {\"height\": 56, \"width\": 57}}", "size"}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        sac_processor_config c;
        sac_error err = {0};
        assert_int_not_equal(read(&c, bad[i][0], bad[i][1], &err), SAC_OK);
        assert_non_null(strstr(err.text, bad[i][2]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colors_are_imagenets_where_no_key_says_them),
        cmocka_unit_test(tiles_follow_the_keys),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
