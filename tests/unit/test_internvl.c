/* InternVL's pictures against transformers: tiles and grids of tests/golden/vision/internvl.txt, which
 * tools/make_image_goldens.py writes; and what no folder of this family may say. */
#include "picture_data.h"

#include "dialect.h"
#include "json.h"
#include "patches.h"

#define GOLDEN "tests/golden/vision/internvl.txt"

static sac_status read(sac_processor_config *c, int size, const char *preprocessor, const char *video,
                       sac_error *err) {
    json_t *p = preprocessor ? json_loads(preprocessor, 0, NULL) : NULL,
           *v = video ? json_loads(video, 0, NULL) : NULL;
    assert_true((!preprocessor || p) && (!video || v));
    const sac_processor_model model = {
        .dialect = &sac_dialect_internvl, .image_size = size, .patch_size = 14, .merge_size = 2, .video = v};
    sac_status st = sac_processor_read(c, p, &model, err);
    json_decref(p);
    json_decref(v);
    return st;
}

static void open_tiles(sac_processor_config *c, int size, int low, int high) {
    char text[200];
    sac_error err = {0};
    snprintf(text, sizeof text,
             "{\"size\": {\"height\": %d, \"width\": %d}, \"min_patches\": %d, \"max_patches\": %d}", size,
             size, low, high);
    assert_ok(read(c, size, text, NULL, &err), err);
}

/* "p 56 56 2 0 1 12 1 5adf0c31" */
static bool tiles_are_right(const char *line) {
    char by, sum[16], mine[16];
    int w, h, kind, seed, low, high, n_tiles;
    sac_processor_config c;
    sac_visual_plan plan;
    sac_error err = {0};
    assert_int_equal(
        sscanf(line, "%c %d %d %d %d %d %d %d %15s", &by, &w, &h, &kind, &seed, &low, &high, &n_tiles, sum),
        9);
    open_tiles(&c, 56, low, high);
    if (by == 't') c.arithmetic = SAC_RESIZE_TORCHVISION;
    assert_ok(by == 'v' ? sac_processor_plan_frame(&c, w, h, 0, &plan, &err)
                        : sac_processor_plan(&c, w, h, false, &plan, &err),
              err);
    assert_int_equal(plan.n_tokens, plan.n_tiles * 4);
    assert_true(plan.n_tiles <= sac_processor_most_tiles(&c));
    const sac_image image = {picture_new(kind, w, h, (uint64_t)seed), w, h};
    const size_t n_bytes = sac_visual_bytes(&plan, plan.n_tiles), tile = sac_visual_bytes(&plan, 1);
    uint8_t *rows = malloc(n_bytes), *tiles = malloc(n_bytes);
    const sac_patch_order order = sac_visual_order(&plan);
    assert_ok(sac_processor_cut(&c, &image, &plan, rows, &err), err);
    for (int i = 0; i < plan.n_tiles; i++)
        sac_patches_join(tiles + (size_t)i * tile, &order, 0, rows + (size_t)i * tile);
    snprintf(mine, sizeof mine, "%08x", crc32_of(tiles, n_bytes));
    const bool right = plan.n_tiles == n_tiles && strcmp(mine, sum) == 0;
    if (!right) print_message("%s  has %d tiles, %s\n", line, plan.n_tiles, mine);
    free(rows);
    free(tiles);
    free(image.rgb);
    sac_processor_free(&c);
    return right;
}

/* "g 1280 720 1 12 4 2" */
static bool grid_is_right(const char *line) {
    int w, h, low, high, columns, rows;
    sac_processor_config c;
    sac_visual_plan plan;
    sac_error err = {0};
    assert_int_equal(sscanf(line, "g %d %d %d %d %d %d", &w, &h, &low, &high, &columns, &rows), 6);
    open_tiles(&c, 448, low, high);
    assert_ok(sac_processor_plan(&c, w, h, false, &plan, &err), err);
    const bool right = plan.tiles_w == columns && plan.tiles_h == rows &&
                       plan.n_tiles == columns * rows + (columns * rows > 1) &&
                       plan.n_tokens == plan.n_tiles * 256;
    if (!right) print_message("%s  has %d x %d\n", line, plan.tiles_w, plan.tiles_h);
    assert_true(plan.n_tiles <= sac_processor_most_tiles(&c));
    sac_processor_free(&c);
    return right;
}

static void as_transformers(void **state) {
    (void)state;
    FILE *f = fopen(GOLDEN, "r");
    char line[160];
    int n_tiles = 0, n_grids = 0, n_wrong = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        const bool is_grid = line[0] == 'g';
        n_grids += is_grid;
        n_tiles += !is_grid;
        n_wrong += !(is_grid ? grid_is_right(line) : tiles_are_right(line));
    }
    fclose(f);
    assert_true(n_tiles == 48 && n_grids == 400);
    assert_int_equal(n_wrong, 0);
}

/* Patches of a square follow one another, squares line by line. */
static void patches_stand_in_squares(void **state) {
    (void)state;
    enum { SIDE = 56, AREA = 14 * 14 * 3 };
    static uint8_t pixels[SIDE * SIDE * 3], rows[sizeof pixels];
    sac_processor_config c;
    sac_visual_plan plan;
    sac_error err = {0};
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) pixels[(y * SIDE + x) * 3] = (uint8_t)(y / 14 * 4 + x / 14);
    open_tiles(&c, SIDE, 1, 1);
    assert_ok(sac_processor_plan(&c, SIDE, SIDE, false, &plan, &err), err);
    assert_ok(sac_processor_cut(&c, &(sac_image){pixels, SIDE, SIDE}, &plan, rows, &err), err);
    static const int want[] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
    for (int i = 0; i < 16; i++) assert_int_equal(rows[i * AREA], want[i]);
    sac_processor_free(&c);
}

static void contradictions_are_refused(void **state) {
    (void)state;
#define SIZE "\"size\": {\"height\": 56, \"width\": 56}"
    static const struct {
        const char *preprocessor, *video, *says;
    } bad[] = {
        {NULL, NULL, "\"size\" is 384 x 384"},
        {"{\"size\": 42}", NULL, "42 x 42"},
        {"{\"size\": {\"height\": 56}}", NULL, "width"},
        {"{\"size\": {\"shortest_edge\": 56}}", NULL, "size"},
        {"{\"size\": {\"height\": 56, \"width\": 28}}", NULL, "28 x 56"},
        {"{" SIZE ", \"max_patches\": 0}", NULL, "max_patches"},
        {"{" SIZE ", \"max_patches\": 256}", NULL, "max_patches"},
        {"{" SIZE ", \"min_patches\": -1}", NULL, "min_patches"},
        {"{" SIZE ", \"do_resize\": false}", NULL, "do_resize"},
        {"{" SIZE ", \"do_center_crop\": true}", NULL, "crop_size"},
        {"{" SIZE ", \"image_processor_type\": \"CLIPImageProcessor\"}", NULL, "GotOcr2ImageProcessor"},
        {"{" SIZE "}", "{}", "video_preprocessor_config.json: \"size\" is 384 x 384"},
        {"{" SIZE "}", "{" SIZE ", \"image_mean\": [0, 0, 0]}", "image_mean"},
        {"{" SIZE ", \"image_std\": [1, 1, 1]}", "{" SIZE "}", "image_std"},
        {"{" SIZE "}", "{" SIZE ", \"resample\": 2}", "resample"},
        {"{" SIZE "}", "{" SIZE ", \"do_normalize\": false}", "do_normalize"},
    };
    sac_error err = {0};
    sac_processor_config c;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        assert_int_not_equal(read(&c, 56, bad[i].preprocessor, bad[i].video, &err), SAC_OK);
        if (!strstr(err.text, bad[i].says)) fail_msg("case %zu: %s", i, err.text);
    }
    assert_ok(read(&c, 56, "{" SIZE ", \"do_center_crop\": true, \"crop_size\": 56}",
                   "{" SIZE ", \"resample\": 3, \"do_rescale\": true}", &err),
              err);
    sac_visual_plan plan;
    assert_int_equal(sac_processor_plan(&c, 1 << 21, 1, false, &plan, &err), SAC_BAD_ARGUMENT);
    sac_processor_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_transformers),
        cmocka_unit_test(patches_stand_in_squares),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
