/* PaddleOCR-VL: sizes of pictures beside transformers, and what its files may not say. What a session makes of them: test_parity.c. */
#include "dialect.h"
#include "family.h"
#include "test.h"

static sac_status read_processor(sac_processor_config *c, const char *text, sac_error *err) {
    const sac_processor_model m = {
        .dialect = &sac_dialect_paddleocr_vl, .image_size = 28, .patch_size = 14, .temporal_patch_size = 1, .merge_size = 2};
    json_t *preprocessor = json_loads(text, 0, NULL);
    assert_non_null(preprocessor);
    sac_status st = sac_processor_read(c, preprocessor, &m, err);
    json_decref(preprocessor);
    return st;
}

/* transformers' smart_resize with bounds of 20 and 200 squares of 28 pixels; without columns it refuses. */
static void sizes(void **state) {
    static const int want[][4] = {{1, 1, 5, 5},      {9, 200, 1, 22},   {200, 9, 22, 1},   {13, 7, 7, 4},     {3, 600, 1, 200},
                                  {600, 3, 200, 1},  {27, 30, 5, 5},    {100, 100, 5, 5},  {61, 34, 6, 4},    {5000, 40, 179, 1},
                                  {1999, 10, 200, 1}, {2001, 10, 0, 0}, {40, 3000, 1, 107}};
    sac_processor_config c;
    sac_visual_plan p, largest;
    sac_error err;
    (void)state;
    assert_ok(read_processor(&c, "{\"min_pixels\": 15680, \"max_pixels\": 156800, \"temporal_patch_size\": 1}", &err), err);
    assert_ok(sac_processor_largest(&c, &largest, &err), err);
    for (size_t i = 0; i < SAC_COUNT(want); i++) {
        const int *w = want[i];
        for (int frame = 0; frame < 2; frame++) { /* a frame is a picture */
            sac_status st = frame ? sac_processor_plan_frame(&c, w[0], w[1], 3, &p, &err)
                                  : sac_processor_plan(&c, w[0], w[1], false, &p, &err);
            if (!w[2]) {
                assert_int_equal(st, SAC_BAD_ARGUMENT);
                assert_non_null(strstr(err.text, "2001 x 10"));
                continue;
            }
            assert_ok(st, err);
            assert_true(p.width == w[0] && p.height == w[1] && p.tokens.w == w[2] && p.tokens.h == w[3] && p.frames == 1);
            assert_true(sac_grid_cells(p.patches) <= sac_grid_cells(largest.patches));
        }
    }
    assert_int_equal(sac_processor_plan(&c, INT32_MAX, 1, false, &p, &err), SAC_BAD_ARGUMENT);
    sac_processor_free(&c);
    assert_int_equal(read_processor(&c, "{\"temporal_patch_size\": 2}", &err), SAC_BAD_FILE);
    assert_int_equal(read_processor(&c, "{\"min_pixels\": 5, \"max_pixels\": 4}", &err), SAC_BAD_FILE);
}

static sac_status read_config(sac_model_config *c, const char *text, sac_error *err) {
    json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    sac_status st = sac_model_config_read(c, config, err);
    json_decref(config);
    return st;
}

#define PADDLE(more) "{\"model_type\": \"paddleocr_vl\", " more "}"
#define TOWER(more)  PADDLE("\"vision_config\": {" more "}")

static void configurations(void **state) {
    static const char *const bad[][2] = {
        {PADDLE("\"text_config\": {\"model_type\": \"llama\"}"), "text_config: model_type \"llama\""},
        {TOWER("\"model_type\": \"siglip_vision_model\""), "vision_config: model_type"},
        {TOWER("\"num_channels\": 1"), "num_channels"},
        {TOWER("\"hidden_size\": 96"), "multiple of 4"},
        {TOWER("\"spatial_merge_size\": 17"), "spatial_merge_size"},
        {TOWER("\"image_size\": 7"), "patch size"},
        {TOWER("\"rope_parameters\": {\"rope_type\": \"yarn\"}"), "axial"},
        {PADDLE("\"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [16, 24, 23]}"), "mrope_section"},
        {PADDLE("\"image_token_id\": 200000"), "image_token_id"},
    };
    static sac_model_config c;
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        assert_int_not_equal(read_config(&c, bad[i][0], &err), SAC_OK);
        if (!strstr(err.text, bad[i][1])) fail_msg("%s: %s", bad[i][0], err.text);
    }
    assert_ok(read_config(&c, PADDLE("\"tie_word_embeddings\": false"), &err), err);
    assert_true(c.tied_head && c.decoder.head_dim == 128 && c.decoder.rope.theta == 500000);
    assert_true(c.tower.table_side == 27 && c.tower.table_by_cells && c.tower.merge_size == 2 && c.tower.hidden == 1152);
    assert_ok(read_config(&c, PADDLE("\"tie_word_embeddings\": false, \"text_config\": {\"tie_word_embeddings\": false}"), &err), err);
    assert_false(c.tied_head);
    const sac_merger m = sac_model_config_merger(&c);
    assert_true(m.joins == 4 && m.in == 1152 && m.hidden == 4 * 1152 && m.out == 1024 && m.norm_eps == 1e-5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(configurations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
