/* Kimi-VL's pictures: sizes and patch rows beside Pillow and transformers' Kimi K2.5 (goldens of tools/make_image_goldens.py), that none
 * has more patches than the largest, bounds, and what is refused. */
#include "dialect.h"
#include "patch_sum.h"
#include "saccade/saccade.h"
#include "test.h"

#include <stdlib.h>

#define GOLDEN "tests/golden/vision/kimi_vl.txt"

static const sac_processor_model model = {
    .dialect = &sac_dialect_kimi_vl, .image_size = 28, .patch_size = 14, .temporal_patch_size = 1, .merge_size = 2};

static sac_processor_config open_limit(int limit) {
    sac_processor_config c;
    sac_error err = {0};
    json_t *json = json_pack("{s:i, s:b}", "in_token_limit", limit, "pad_input", 1);
    assert_ok(sac_processor_read(&c, json, &model, &err), err);
    json_decref(json);
    return c;
}

static void sizes_and_pixels(void **state) {
    (void)state;
    sac_error err = {0};
    FILE *f = fopen(GOLDEN, "r");
    char line[160], sum[16], mine[16], by;
    int w, h, kind, seed, limit, rows, columns, n = 0, n_wrong = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(
            sscanf(line, "%c %d %d %d %d %d %d %d %15s", &by, &w, &h, &kind, &seed, &limit, &rows, &columns, sum), 9);
        sac_processor_config c = open_limit(limit);
        sac_visual_plan plan;
        if (by == 't') c.arithmetic = SAC_RESIZE_TORCHVISION;
        assert_ok(sac_processor_plan(&c, w, h, false, &plan, &err), err);
        patch_sum(&c, &plan, kind, w, h, seed, mine);
        if (plan.patches.h != rows || plan.patches.w != columns || strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d patches, %s\n", line, plan.patches.h, plan.patches.w, mine);
            n_wrong++;
        }
        n++;
        sac_processor_free(&c);
    }
    fclose(f);
    assert_true(n >= 20);
    assert_int_equal(n_wrong, 0);
}

/* The largest has as many patches as any, and not many more than the bound. */
static void none_is_larger_than_the_largest(void **state) {
    (void)state;
    static const int limits[] = {1, 2, 7, 64, 1000, 4096, 16384, 1 << 18};
    sac_error err;
    uint64_t seed = 3;
    for (size_t i = 0; i < SAC_COUNT(limits); i++) {
        sac_processor_config c = open_limit(limits[i]);
        sac_visual_plan most, p;
        int64_t seen = 0;
        assert_ok(sac_processor_largest(&c, &most, &err), err);
        for (int k = 0; k < 20000; k++) {
            const int most_w = k % 3 ? 900 : 40000, most_h = k % 2 ? 900 : 12000;
            const int w = test_rand_int(&seed, 1, most_w), h = test_rand_int(&seed, 1, most_h);
            if (sac_processor_plan(&c, w, h, false, &p, &err) != SAC_OK) continue;
            if (sac_grid_cells(p.patches) > seen) seen = sac_grid_cells(p.patches);
            assert_true(p.patches.h % 2 == 0 && p.patches.w % 2 == 0 && p.n_tokens * 4 == sac_grid_cells(p.patches));
        }
        if (seen > sac_grid_cells(most.patches))
            fail_msg("limit %d: %lld patches, but the largest has %lld", limits[i], (long long)seen,
                     (long long)sac_grid_cells(most.patches));
        assert_true(limits[i] > 1000 || sac_grid_cells(most.patches) <= 4 * limits[i] + 2048);
        sac_processor_free(&c);
    }
}

static void bounds_of_pixels(void **state) {
    (void)state;
    sac_error err = {0};
    sac_visual_plan p;
    sac_processor_config c = open_limit(4096);
    assert_ok(sac_processor_limit(&c, 0, 14 * 14 * 16, &err), err);
    assert_ok(sac_processor_plan(&c, 560, 560, false, &p, &err), err);
    assert_int_equal(sac_grid_cells(p.patches), 16);
    assert_int_equal(sac_processor_limit(&c, 1, 0, &err), SAC_UNSUPPORTED);
    assert_int_equal(sac_processor_limit(&c, 0, 195, &err), SAC_BAD_ARGUMENT);
    sac_processor_free(&c);
}

static void what_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *json, *message;
    } bad[] = {
        {"{}", "\"pad_input\" is not true"},
        {"{\"pad_input\": false}", "\"pad_input\" is not true"},
        {"{\"pad_input\": 1}", "pad_input"},
        {"{\"pad_input\": true, \"patch_size\": 16}", "\"patch_size\" must be the vision tower's, 14"},
        {"{\"pad_input\": true, \"merge_kernel_size\": [2, 3]}", "\"merge_kernel_size\" must be"},
        {"{\"pad_input\": true, \"merge_kernel_size\": []}", "\"merge_kernel_size\" is an empty list"},
        {"{\"pad_input\": true, \"in_token_limit\": 0}", "in_token_limit"},
        {"{\"pad_input\": true, \"in_token_limit\": 1e9}", "in_token_limit"},
        {"{\"pad_input\": true, \"image_processor_type\": \"CLIPImageProcessor\"}", "known here are KimiVLImageProcessor"},
    };
    sac_error err = {0};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        sac_processor_config c;
        json_t *json = json_loads(bad[i].json, 0, NULL);
        assert_non_null(json);
        assert_true(sac_processor_read(&c, json, &model, &err) != SAC_OK);
        if (!strstr(err.text, bad[i].message)) fail_msg("%s: %s", bad[i].json, err.text);
        json_decref(json);
    }
    sac_processor_config c = open_limit(4096);
    sac_visual_plan p;
    assert_int_equal(sac_processor_plan(&c, 10000, 1, false, &p, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "at most 511 a side"));
    assert_int_equal(sac_processor_plan(&c, 14, 7168, false, &p, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_processor_plan(&c, 14, 7140, false, &p, &err), err);
    sac_processor_free(&c);
}

/* tiktoken.model says nothing of how a text is cut: there is no reading by the file. */
static void tokenizer_by_file(void **state) {
    (void)state;
    sac_model *m = NULL;
    sac_error err = {0};
    sac_model_options o;
    sac_model_info info;
    sac_model_options_default(&o);
    o.tokenizer = "file";
    assert_int_equal(sac_model_open(&m, "tests/golden/models/kimi_vl", &o, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tokenizer \"file\" is for folders with tokenizer.json"));
    o.tokenizer = "class";
    assert_ok(sac_model_open(&m, "tests/golden/models/kimi_vl", &o, &err), err);
    sac_model_get_info(m, &info);
    assert_string_equal(info.tokenizer, "tiktoken.model");
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_pixels),
        cmocka_unit_test(none_is_larger_than_the_largest),
        cmocka_unit_test(bounds_of_pixels),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(tokenizer_by_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
