/* Pixtral and Mistral 3: sizes and patch rows against transformers, what their files may not say, the tokens between rows, bounds
 * on pixels, and the context of Ministral 3. What a session makes of them: test_visual_questions.c. */
#include "dialect.h"
#include "family.h"
#include "patch_sum.h"
#include "saccade/saccade.h"
#include "test.h"

#define FOLDER "tests/golden/models/"

/* ---------------------------------------------------------------- processor */

static sac_status read_processor(sac_processor_config *c, int patch, int merge, const json_t *preprocessor,
                                 const json_t *processor, sac_error *err) {
    const sac_processor_model m = {.dialect = &sac_dialect_pixtral,
                                   .image_size = patch * merge,
                                   .patch_size = patch,
                                   .temporal_patch_size = 1,
                                   .merge_size = merge,
                                   .processor = processor};
    return sac_processor_read(c, preprocessor, &m, err);
}

static void sizes_and_patch_rows(void **state) {
    FILE *f = fopen("tests/golden/vision/pixtral.txt", "r");
    char line[160], sum[16], mine[16], by;
    int w, h, kind, seed, most_w, most_h, patch, merge, rows, columns, n = 0, n_wrong = 0;
    sac_error err;
    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%c %d %d %d %d %d %d %d %d %d %d %15s", &by, &w, &h, &kind, &seed, &most_w,
                                &most_h, &patch, &merge, &rows, &columns, sum),
                         12);
        json_t *preprocessor = most_w == most_h ? json_pack("{s:{s:i}}", "size", "longest_edge", most_w)
                                                : json_pack("{s:{s:i, s:i}}", "size", "height", most_h, "width", most_w);
        sac_processor_config c;
        sac_visual_plan p, largest;
        assert_ok(read_processor(&c, patch, merge, preprocessor, NULL, &err), err);
        if (by == 't') c.arithmetic = SAC_RESIZE_TORCHVISION;
        assert_ok(sac_processor_plan(&c, w, h, false, &p, &err), err);
        assert_ok(sac_processor_largest(&c, &largest, &err), err);
        assert_true(p.tile_w <= largest.tile_w && p.tile_h <= largest.tile_h && p.n_tiles == 1);
        patch_sum(&c, &p, kind, w, h, seed, mine);
        if (p.tokens.h != rows || p.tokens.w != columns || p.n_lines != rows || p.n_tokens != rows * columns ||
            strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d squares, %s\n", line, p.tokens.h, p.tokens.w, mine);
            n_wrong++;
        }
        n++;
        sac_processor_free(&c);
        json_decref(preprocessor);
    }
    fclose(f);
    assert_true(n >= 45);
    assert_int_equal(n_wrong, 0);
}

static void what_files_may_not_say(void **state) {
    static const struct {
        const char *preprocessor, *processor, *says;
    } bad[] = {
        {"{\"size\": {\"longest_edge\": 0}}", NULL, "longest_edge"},
        {"{\"size\": {\"shortest_edge\": 40}}", NULL, "\"size\""},
        {"{\"size\": {\"height\": 40}}", NULL, "\"size\""},
        {"{\"size\": \"large\"}", NULL, "\"size\""},
        {"{\"size\": {\"longest_edge\": 1000000}}", NULL, "\"size\""},
        {"{\"do_resize\": false}", NULL, "do_resize"},
        {"{\"do_center_crop\": true}", NULL, "do_center_crop"},
        {"{\"resample\": 0}", NULL, "resample"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\"}", NULL, "image_processor_type"},
        {NULL, "{\"patch_size\": 16}", "processor_config.json: \"patch_size\""},
        {NULL, "{\"spatial_merge_size\": 1}", "processor_config.json: \"spatial_merge_size\""},
    };
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        json_t *preprocessor = bad[i].preprocessor ? json_loads(bad[i].preprocessor, 0, NULL) : NULL,
               *processor = bad[i].processor ? json_loads(bad[i].processor, 0, NULL) : NULL;
        assert_int_not_equal(read_processor(&c, 4, 2, preprocessor, processor, &err), SAC_OK);
        assert_non_null(strstr(err.text, bad[i].says));
        json_decref(preprocessor);
        json_decref(processor);
    }
    /* as large as the class says, a number for both sides, and what a picture is made too narrow by */
    json_t *number = json_pack("{s:i}", "size", 40);
    assert_ok(read_processor(&c, 4, 2, NULL, NULL, &err), err);
    assert_ok(sac_processor_plan(&c, 2048, 512, false, &p, &err), err);
    assert_true(p.tile_w == 1024 && p.tile_h == 256);
    sac_processor_free(&c);
    assert_ok(read_processor(&c, 4, 2, number, NULL, &err), err);
    assert_ok(sac_processor_plan(&c, 39, 41, false, &p, &err), err);
    assert_true(p.tile_w == 40 && p.tile_h == 40);
    assert_int_equal(sac_processor_plan(&c, 81, 1, false, &p, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "81 x 1"));
    sac_processor_free(&c);
    json_decref(number);
}

static void bounds_of_pixels(void **state) {
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err;
    (void)state;
    assert_ok(read_processor(&c, 4, 2, NULL, NULL, &err), err);
    assert_int_equal(sac_processor_limit(&c, 100, 0, &err), SAC_UNSUPPORTED);
    assert_int_equal(sac_processor_limit(&c, 0, 63, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_processor_limit(&c, 0, 60 * 60, &err), err);
    for (int w = 1; w < 3000; w = w * 3 + 1)
        for (int h = 1; h < 3000; h = h * 3 + 1) {
            if (sac_processor_plan(&c, w, h, false, &p, &err) != SAC_OK) continue;
            assert_true((int64_t)p.tile_w * p.tile_h <= 60 * 60);
        }
    assert_ok(sac_processor_limit(&c, 0, (int64_t)1 << 50, &err), err); /* no larger than before */
    assert_ok(sac_processor_plan(&c, 3000, 3000, false, &p, &err), err);
    assert_int_equal(p.tile_w, 56);
    sac_processor_free(&c);
}

/* A picture of two rows, then a video of two such frames. */
static void tokens_end_rows(void **state) {
    static const char *const want[] = {"", "[IMG_BREAK]", "[IMG_END]", "[IMG_BREAK]", "[IMG_END]"};
    char text[SAC_VISUAL_TEXT_BYTES];
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err;
    (void)state;
    assert_ok(read_processor(&c, 4, 2, NULL, NULL, &err), err);
    assert_ok(sac_processor_plan(&c, 24, 16, false, &p, &err), err);
    const sac_visual_shown shown = {.plan = &p, .n_tiles = 2 * (int64_t)sac_visual_parts(&p)};
    assert_int_equal(shown.n_tiles, 4);
    for (int i = 0; i <= 4; i++) {
        assert_int_equal(sac_processor_text(&c, &shown, i, text), strlen(want[i]));
        assert_string_equal(text, want[i]);
    }
    sac_processor_free(&c);
}

/* LightOnOCR's: nothing stands between rows, and pictures are made for squares of patches, whether the image processor says these or patches. */
static void tokens_stand_together(void **state) {
    static const char *const bad[] = {"{}", "{\"patch_size\": 2}", "{\"patch_size\": 16}", "{\"patch_size\": {\"height\": 8, \"width\": 4}}"};
    const sac_processor_model m = {
        .dialect = &sac_dialect_lighton_ocr, .image_size = 8, .patch_size = 4, .temporal_patch_size = 1, .merge_size = 2};
    sac_processor_config c;
    sac_visual_plan p, largest;
    sac_error err;
    (void)state;
    for (int side = 4; side <= 8; side += 4) {
        json_t *good = json_pack("{s:{s:i, s:i}, s:{s:i}}", "patch_size", "height", side, "width", side, "size", "longest_edge", 30);
        assert_ok(sac_processor_read(&c, good, &m, &err), err);
        assert_ok(sac_processor_plan(&c, 60, 31, false, &p, &err), err);
        assert_true(p.tile_w == 32 && p.tile_h == 16 && p.n_tokens == 4 * 2 && sac_visual_parts(&p) == 1);
        assert_ok(sac_processor_largest(&c, &largest, &err), err);
        assert_true(sac_visual_parts(&largest) == 1 && largest.n_tokens == 16 && !sac_processor_has_texts(&c));
        sac_processor_free(&c);
        json_decref(good);
    }
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        json_t *json = json_loads(bad[i], 0, NULL);
        assert_int_equal(sac_processor_read(&c, json, &m, &err), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, "\"patch_size\" is "));
        json_decref(json);
    }
}

/* ---------------------------------------------------------------- configuration */

static sac_status read_config(sac_model_config *c, const char *text, sac_error *err) {
    json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    sac_status st = sac_model_config_read(c, config, err);
    json_decref(config);
    return st;
}

static void what_a_config_may_not_say(void **state) {
#define MISTRAL3(more) "{\"model_type\": \"mistral3\", " more "}"
#define PIXTRAL(more)                                                                                              \
    "{\"model_type\": \"llava\", \"vision_feature_select_strategy\": \"full\", \"vision_config\": {\"model_type\": \"pixtral\", " \
    more "}}"
    static const char *const bad[][2] = {
        {MISTRAL3("\"text_config\": {\"model_type\": \"gemma2\"}"), "text_config: model_type \"gemma2\""},
        {MISTRAL3("\"vision_config\": {\"model_type\": \"clip_vision_model\"}"), "vision_config: model_type"},
        {MISTRAL3("\"vision_feature_layer\": [-1, -2]"), "vision_feature_layer"},
        {MISTRAL3("\"spatial_merge_size\": 0"), "spatial_merge_size"},
        {MISTRAL3("\"text_config\": {\"model_type\": \"ministral3\", \"rope_parameters\": {\"rope_type\": \"default\"}}"),
         "llama_4_scaling_beta"},
        {PIXTRAL("\"rope_parameters\": {\"rope_type\": \"yarn\"}"), "axial"},
        {PIXTRAL("\"head_dim\": 32"), "head_dim"},
        {PIXTRAL("\"hidden_size\": 96"), "multiple of 4"},
        {PIXTRAL("\"num_channels\": 1"), "num_channels"},
        {"{\"model_type\": \"llava\", \"vision_config\": {\"model_type\": \"pixtral\"}}", "vision_feature_select_strategy"},
    };
    static sac_model_config c;
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        assert_int_not_equal(read_config(&c, bad[i][0], &err), SAC_OK);
        if (!strstr(err.text, bad[i][1])) fail_msg("%s: %s", bad[i][0], err.text);
    }
    /* without its halves: Mistral Small 3.1 */
    assert_ok(read_config(&c, "{\"model_type\": \"mistral3\"}", &err), err);
    assert_true(c.decoder.hidden == 5120 && c.decoder.head_dim == 128 && c.decoder.n_heads == 32 && c.tied_head);
    assert_true(c.tower.patch_size == 14 && c.tower.merge_size == 2 && c.decoder.rope.theta == 1e9);
    const sac_merger m = sac_model_config_merger(&c);
    assert_true(m.joins == 4 && m.in == 1024 && m.hidden == 1024 + 5120 && m.norm_eps == 1e-5f);
}

/* Queries are scaled behind so many tokens, which is not done here: no session is longer. */
static void ministral3_ends_where_queries_are_scaled(void **state) {
    sac_session_config o;
    sac_model_info info;
    sac_model *m;
    sac_session *s;
    sac_error err;
    (void)state;
    assert_ok(sac_model_open(&m, FOLDER "ministral3", NULL, &err), err);
    sac_model_get_info(m, &info);
    assert_int_equal(info.max_context, 2048); /* of 8192 */
    sac_session_config_default(&o);
    o.n_ctx = 2049;
    assert_int_equal(sac_session_create(&s, m, &o, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "2048 tokens"));
    o.n_ctx = 2048;
    assert_ok(sac_session_create(&s, m, &o, &err), err);
    sac_session_free(s);
    sac_model_free(m);
    /* a beta of 0 scales nothing */
    static sac_model_config c;
    assert_ok(read_config(&c, "{\"model_type\": \"ministral3\", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 16, "
                              "\"original_max_position_embeddings\": 16384, \"llama_4_scaling_beta\": 0}}", &err), err);
    assert_int_equal(c.decoder.max_position, 262144);
    assert_ok(read_config(&c, "{\"model_type\": \"ministral3\"}", &err), err);
    assert_true(c.decoder.max_position == 16384 && c.decoder.rope.theta == 1e6 && c.decoder.rope.scaling == SAC_ROPE_YARN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_patch_rows),
        cmocka_unit_test(what_files_may_not_say),
        cmocka_unit_test(bounds_of_pixels),
        cmocka_unit_test(tokens_end_rows),
        cmocka_unit_test(tokens_stand_together),
        cmocka_unit_test(what_a_config_may_not_say),
        cmocka_unit_test(ministral3_ends_where_queries_are_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
