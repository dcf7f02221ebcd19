#include "patch_sum.h"
#include "picture_data.h"

#include "dialect.h"
#include "json.h"
#include "patches.h"

#include <math.h>

#define GOLDEN "tests/golden/vision/"

static const char *text_at(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}
static int int_at(const json_t *array, size_t i) {
    return (int)json_integer_value(json_array_get(array, i));
}

static void plan_as(const sac_processor_config *c, int w, int h, bool video, sac_visual_plan *plan) {
    sac_error err = {0};
    sac_status st = video ? sac_processor_plan_frame(c, w, h, 0, plan, &err)
                          : sac_processor_plan(c, w, h, false, plan, &err);
    assert_ok(st, err);
}

/* [width, height, kind of picture, seed, tiles, tokens, checksum of the tiles, checksum of the order] */
static bool picture_is_right(const sac_processor_config *c, const json_t *row, bool video) {
    sac_error err = {0};
    sac_visual_plan plan;
    int w = int_at(row, 0), h = int_at(row, 1);
    plan_as(c, w, h, video, &plan);
    if (plan.n_tiles != int_at(row, 4) || plan.n_tokens != int_at(row, 5)) {
        print_message("%d x %d: %d tiles, %d tokens; want %d, %d\n", w, h, plan.n_tiles, (int)plan.n_tokens,
                      int_at(row, 4), int_at(row, 5));
        return false;
    }
    sac_image image = {picture_new(int_at(row, 2), w, h, (uint64_t)int_at(row, 3)), w, h};
    size_t n_bytes = sac_visual_bytes(&plan, plan.n_tiles);
    uint8_t *rows = malloc(n_bytes), *tiles = malloc(n_bytes);
    int32_t *source = malloc((size_t)plan.n_tokens * sizeof *source);
    memset(rows, 0x77, n_bytes);
    assert_ok(sac_processor_cut(c, &image, &plan, rows, &err), err);
    const sac_patch_order patches = sac_visual_order(&plan);
    for (int i = 0; i < plan.n_tiles; i++)
        sac_patches_join(tiles + sac_visual_bytes(&plan, i), &patches, 0, rows + sac_visual_bytes(&plan, i));
    sac_processor_layout(c, &plan, source);
    char pixels[9], order[9];
    snprintf(pixels, sizeof pixels, "%08x", crc32_of(tiles, n_bytes));
    snprintf(order, sizeof order, "%08x", crc32_of(source, (size_t)plan.n_tokens * sizeof *source));
    bool right = strcmp(pixels, json_string_value(json_array_get(row, 6))) == 0 &&
                 strcmp(order, json_string_value(json_array_get(row, 7))) == 0;
    if (!right) print_message("%d x %d: tiles %s order %s differ\n", w, h, pixels, order);
    free(rows);
    free(tiles);
    free(source);
    sac_image_free(&image);
    return right;
}

/* As the family tells it: by the configuration. */
static bool keeps_class(const json_t *config) {
    const char *strategy = config ? json_string_value(json_object_get(config, "vision_feature_select_strategy")) : NULL;
    return strategy && strcmp(strategy, "full") == 0;
}

static void test_goldens(void **state) {
    (void)state;
    sac_error err = {0};
    json_t *all;
    assert_ok(sac_json_parse_file(&all, GOLDEN "processor.json", &err), err);
    size_t g, i;
    json_t *group, *row;
    int n = 0, n_wrong = 0;
    json_array_foreach(json_object_get(all, "groups"), g, group) {
        sac_processor_model model = {
            .dialect = sac_dialect_find(text_at(group, "kind")),
            .image_size = (int)json_integer_value(json_object_get(group, "image_size")),
            .patch_size = (int)json_integer_value(json_object_get(group, "patch_size")),
            .keep_class = keeps_class(json_object_get(group, "config")),
            .config = json_object_get(group, "config")};
        sac_processor_config c;
        assert_ok(sac_processor_read(&c, json_object_get(group, "preprocessor"), &model, &err), err);
        assert_int_equal(c.arithmetic, SAC_RESIZE_PILLOW);
        if (strcmp(text_at(group, "arithmetic"), "torchvision") == 0) c.arithmetic = SAC_RESIZE_TORCHVISION;
        for (size_t k = 0; k < 3; k++) {
            assert_float_equal(c.mean[k], json_real_value(json_array_get(json_object_get(all, "mean"), k)),
                               1e-7);
            assert_float_equal(c.std[k], json_real_value(json_array_get(json_object_get(all, "std"), k)),
                               1e-7);
        }
        json_array_foreach(json_object_get(group, "pictures"), i, row) {
            n++;
            if (picture_is_right(&c, row, json_is_true(json_object_get(group, "video")))) continue;
            print_message("in group %s, %s\n", text_at(group, "name"), text_at(group, "arithmetic"));
            n_wrong++;
        }
        sac_processor_free(&c);
    }
    json_decref(all);
    print_message("%d of %d processed pictures differ\n", n_wrong, n);
    assert_true(n > 200);
    assert_int_equal(n_wrong, 0);
}

/* Into a config that is zeroed or was read before. */
static sac_status read_text(sac_processor_config *c, const sac_dialect *dialect, int image_size,
                            const char *preprocessor, const char *config, sac_error *err) {
    json_t *p = preprocessor ? json_loads(preprocessor, 0, NULL) : NULL,
           *m = config ? json_loads(config, 0, NULL) : NULL;
    assert_true(!preprocessor || p);
    assert_true(!config || m);
    sac_processor_model model = {.dialect = dialect, .image_size = image_size, .patch_size = 14, .keep_class = keeps_class(m), .config = m};
    sac_processor_free(c);
    sac_status st = sac_processor_read(c, p, &model, err);
    json_decref(p);
    json_decref(m);
    return st;
}

/* Pictures that keep their shape: sizes and patch rows. */
static void test_qwen2vl(void **state) {
    (void)state;
    sac_error err = {0};
    FILE *f = fopen(GOLDEN "qwen2vl.txt", "r");
    assert_non_null(f);
    char line[160], sum[16], mine[16], by;
    int w, h, kind, seed, low, high, rows, columns, n = 0, n_wrong = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%c %d %d %d %d %d %d %d %d %15s", &by, &w, &h, &kind, &seed, &low, &high, &rows,
                                &columns, sum),
                         10);
        json_t *preprocessor = json_pack("{s:i, s:i}", "min_pixels", low, "max_pixels", high);
        sac_processor_model model = {.dialect = &sac_dialect_qwen2vl,
                                     .image_size = 28,
                                     .patch_size = 14,
                                     .temporal_patch_size = 2,
                                     .merge_size = 2};
        sac_processor_config c;
        sac_visual_plan plan, most;
        assert_ok(sac_processor_read(&c, preprocessor, &model, &err), err);
        if (by == 't') c.arithmetic = SAC_RESIZE_TORCHVISION;
        plan_as(&c, w, h, by == 'v', &plan);
        assert_ok(sac_processor_largest(&c, &most, &err), err);
        assert_true(sac_grid_cells(plan.patches) <= sac_grid_cells(most.patches));
        patch_sum(&c, &plan, kind, w, h, seed, mine);
        if (plan.patches.h != rows || plan.patches.w != columns || strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d patches, %s\n", line, plan.patches.h, plan.patches.w, mine);
            n_wrong++;
        }
        n++;
        sac_processor_free(&c);
        json_decref(preprocessor);
    }
    fclose(f);
    assert_true(n >= 60);
    assert_int_equal(n_wrong, 0);
}

/* Frames of LLaVA-NeXT-Video are clip's, resized as torchvision does, whatever the pictures are resized with. */
static void frames_of_next_video(void **state) {
    (void)state;
    static const char file[] = "{\"size\": {\"shortest_edge\": 28}, \"crop_size\": {\"height\": 28, \"width\": 28}}",
                      tiled[] = "{\"size\": {\"shortest_edge\": 28}, \"crop_size\": {\"height\": 28, \"width\": 28}, \"image_grid_pinpoints\": [[56, 28]]}";
    const int w = 61, h = 43;
    sac_error err = {0};
    sac_processor_config video = {0}, clip = {0};
    sac_visual_plan plan, tile;
    char mine[16], torchvision[16], pillow[16];
    assert_ok(read_text(&video, &sac_dialect_next_video, 28, tiled, "{\"image_grid_pinpoints\": [[56, 28]]}", &err), err);
    assert_ok(read_text(&clip, &sac_dialect_clip, 28, file, NULL, &err), err);
    assert_ok(sac_processor_plan_frame(&video, w, h, 0, &plan, &err), err);
    assert_ok(sac_processor_plan(&clip, w, h, false, &tile, &err), err);
    patch_sum(&video, &plan, 0, w, h, 5, mine);
    clip.arithmetic = SAC_RESIZE_PILLOW;
    patch_sum(&clip, &tile, 0, w, h, 5, pillow);
    clip.arithmetic = SAC_RESIZE_TORCHVISION;
    patch_sum(&clip, &tile, 0, w, h, 5, torchvision);
    assert_string_equal(mine, torchvision);
    assert_string_not_equal(mine, pillow);
    sac_processor_free(&video);
    sac_processor_free(&clip);
}

/* Frames whose size depends on how many there are. */
static void test_qwen3vl(void **state) {
    (void)state;
    sac_error err = {0};
    FILE *f = fopen(GOLDEN "qwen3vl.txt", "r");
    assert_non_null(f);
    char line[160], sum[16], mine[16];
    int n_frames, w, h, kind, seed, low, high, rows, columns, n = 0, n_wrong = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%d %d %d %d %d %d %d %d %d %15s", &n_frames, &w, &h, &kind, &seed, &low,
                                &high, &rows, &columns, sum),
                         10);
        json_t *video = json_pack("{s:{s:i, s:i}}", "size", "shortest_edge", low, "longest_edge", high);
        sac_processor_model model = {.dialect = &sac_dialect_qwen3vl,
                                     .image_size = 32,
                                     .patch_size = 16,
                                     .temporal_patch_size = 2,
                                     .merge_size = 2,
                                     .video = video};
        sac_processor_config c;
        sac_visual_plan plan;
        assert_ok(sac_processor_read(&c, NULL, &model, &err), err);
        assert_ok(sac_processor_plan_frame(&c, w, h, n_frames, &plan, &err), err);
        patch_sum(&c, &plan, kind, w, h, seed, mine);
        if (plan.patches.h != rows || plan.patches.w != columns || strcmp(mine, sum) != 0) {
            print_message("%s  has %d x %d patches, %s\n", line, plan.patches.h, plan.patches.w, mine);
            n_wrong++;
        }
        n++;
        sac_processor_free(&c);
        json_decref(video);
    }
    fclose(f);
    assert_true(n >= 60);
    assert_int_equal(n_wrong, 0);
}

/* What no plan of this dialect takes. */
static void test_qwen2vl_refuses(void **state) {
    (void)state;
    static const struct {
        const char *preprocessor, *says;
    } bad[] = {
        {"{\"min_pixels\": 5000, \"max_pixels\": 4000}", "max_pixels"},
        {"{\"patch_size\": 16}", "patch_size"},
        {"{\"merge_size\": 1}", "merge_size"},
        {"{\"temporal_patch_size\": 1}", "temporal_patch_size"},
        {"{\"do_resize\": false}", "do_resize"},
        {"{\"cap_pixels_per_frame\": true}", "cap_pixels_per_frame"},
        {"{\"size\": {\"longest_edge\": 0}}", "longest_edge"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\"}", "image_processor_type"},
    };
    sac_processor_model model = {.dialect = &sac_dialect_qwen2vl,
                                 .image_size = 28,
                                 .patch_size = 14,
                                 .temporal_patch_size = 2,
                                 .merge_size = 2};
    sac_processor_config c;
    sac_visual_plan plan;
    sac_error err = {0};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        json_t *p = json_loads(bad[i].preprocessor, 0, NULL);
        assert_int_not_equal(sac_processor_read(&c, p, &model, &err), SAC_OK);
        assert_non_null(strstr(err.text, bad[i].says));
        json_decref(p);
    }
    /* frames have no colours of their own */
    json_t *half = json_loads("{\"image_mean\": [0.5, 0.5, 0.5], \"do_normalize\": null}", 0, NULL),
           *other = json_loads("{\"image_mean\": [0.5, 0.5, 0.4], \"do_normalize\": true}", 0, NULL);
    model.video = half;
    assert_ok(sac_processor_read(&c, half, &model, &err), err);
    sac_processor_free(&c);
    const json_t *pictures[] = {other, NULL}; /* or the class's own */
    for (size_t i = 0; i < SAC_COUNT(pictures); i++) {
        assert_ok(sac_processor_read(&c, pictures[i], &model, &err), err);
        assert_ok(sac_processor_plan(&c, 100, 60, false, &plan, &err), err);
        assert_int_equal(sac_processor_plan_frame(&c, 100, 60, 4, &plan, &err), SAC_UNSUPPORTED);
        assert_says(err, "video_preprocessor_config.json: \"image_mean\" is not that of the pictures' processor");
        sac_processor_free(&c);
    }
    json_t *same = json_loads("{\"image_mean\": [0.48145466, 0.4578275, 0.40821073], \"rescale_factor\": 0.00392156862745098}", 0, NULL);
    model.video = same;
    assert_ok(sac_processor_read(&c, NULL, &model, &err), err);
    sac_processor_free(&c);
    model.video = NULL;
    json_decref(half);
    json_decref(other);
    json_decref(same);
    assert_ok(sac_processor_read(&c, NULL, &model, &err), err);
    assert_int_equal(sac_processor_plan(&c, 201, 1, false, &plan, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_processor_plan(&c, 200, 1, false, &plan, &err), err);
    sac_processor_free(&c);
}

/* Token counts and order of LLaVA-NeXT at its real size; the pinpoints are the class's own. */
static void test_layouts(void **state) {
    (void)state;
    sac_error err = {0};
    sac_processor_config c = {0};
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, NULL, NULL, &err), err);
    FILE *f = fopen(GOLDEN "layout.txt", "r");
    assert_non_null(f);
    char line[128], sum[16], mine[16];
    int w, h, n, n_lines = 0, n_wrong = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%d %d %d %15s", &w, &h, &n, sum), 4);
        sac_visual_plan plan;
        assert_ok(sac_processor_plan(&c, w, h, false, &plan, &err), err);
        int32_t *source = malloc((size_t)plan.n_tokens * sizeof *source);
        sac_processor_layout(&c, &plan, source);
        snprintf(mine, sizeof mine, "%08x", crc32_of(source, (size_t)plan.n_tokens * sizeof *source));
        if (plan.n_tokens != n || strcmp(mine, sum) != 0) {
            print_message("%d x %d: %d tokens, want %d\n", w, h, (int)plan.n_tokens, n);
            n_wrong++;
        }
        free(source);
        n_lines++;
    }
    fclose(f);
    sac_processor_free(&c);
    print_message("%d of %d layouts differ\n", n_wrong, n_lines);
    assert_true(n_lines > 250);
    assert_int_equal(n_wrong, 0);
}

/* anyres has nothing else of its own, unires has them first. */
static const sac_pinpoints *pinpoints_of(const sac_processor_config *c) {
    return c->own;
}

static void test_pinpoints(void **state) {
    (void)state;
    sac_error err = {0};
    sac_processor_config c = {0};
    assert_ok(read_text(&c, &sac_dialect_unires, 336, NULL, "{\"image_grid_pinpoints\": \"(1x1),...,(6x6)\"}",
                        &err),
              err);
    assert_int_equal(pinpoints_of(&c)->n, 36);
    assert_int_equal(pinpoints_of(&c)->size[1].width, 336);
    assert_int_equal(pinpoints_of(&c)->size[1].height, 672);
    assert_ok(read_text(&c, &sac_dialect_unires, 336, NULL,
                        "{\"image_grid_pinpoints\": \"[(336, 672), (672, 336)]\"}", &err),
              err);
    assert_int_equal(pinpoints_of(&c)->size[0].height, 672); /* LLaVA's own folders: width first */
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, NULL, "{\"image_grid_pinpoints\": [[336, 672]]}", &err),
              err);
    assert_int_equal(pinpoints_of(&c)->size[0].width, 672); /* transformers: height first */
    char *many = malloc(1 << 16);
    /* transformers reads them of both files */
#define SIDE_OF(side, sizes) "{\"size\": {\"shortest_edge\": " side "}, \"crop_size\": " side ", \"image_grid_pinpoints\": " sizes "}"
#define FILE_OF(sizes)       SIDE_OF("336", sizes)
#define SIDE(side)           "{\"size\": {\"shortest_edge\": " side "}, \"crop_size\": " side "}"
#define ONE_OF(more)         "{\"size\": {\"height\": 384, \"width\": 384}" more "}"
#define ONE_SIZES            ", \"image_grid_pinpoints\": [[384, 768]]"
#define FLAT                 "{\"mm_patch_merge_type\": \"spatial_unpad\", "
    const char *same = FILE_OF("[[672, 336], [336, 672]]"), *both = FILE_OF("[[336, 672], [672, 336]]"), *fewer = FILE_OF("[[336, 672]]"),
               *none = SIDE("336"), *zero = FILE_OF("[[0, 0]]");
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, same, both, &err), err);
    assert_int_equal(pinpoints_of(&c)->size[0].width, 672); /* in the order of config.json */
    /* of one that lists none the class's own are meant, as in transformers */
    const char *usual = FILE_OF("[[1008, 336], [336, 672], [672, 336], [672, 672], [336, 1008]]");
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, none, usual, &err), err);
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, usual, none, &err), err);
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, none, none, &err), err);
    assert_int_equal(pinpoints_of(&c)->n, 5);
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 336, none, both, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "\"image_grid_pinpoints\" is missing: the 5 sizes of its class are not the 2 of config.json"));
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 336, fewer, none, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "has 1 sizes that are not the 5 of config.json, which lists none, so those of its class are used"));
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 48, SIDE("48"), SIDE_OF("48", "[[48, 96]]"), &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "the 5 sizes of its class are not the 1"));
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 64, SIDE("64"), SIDE_OF("64", "[[64, 128]]"), &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "preprocessor_config.json lists no sizes of pictures, so those of its class are used"));
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 64, SIDE_OF("64", "[[64, 128]]"), NULL, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "config.json lists no sizes of pictures, so those of its class are used"));
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, usual, FILE_OF("null"), &err), err);
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 336, FILE_OF("null"), usual, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "\"image_grid_pinpoints\" is null"));
    assert_int_equal(read_text(&c, &sac_dialect_onevision, 384, ONE_OF(ONE_SIZES), NULL, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "has 1 sizes that are not the 36 of config.json"));
    assert_int_equal(read_text(&c, &sac_dialect_onevision, 384, ONE_OF(""), ONE_OF(ONE_SIZES), &err), SAC_BAD_FILE);
    assert_ok(read_text(&c, &sac_dialect_onevision, 384, ONE_OF(""), NULL, &err), err);
    assert_ok(read_text(&c, &sac_dialect_onevision, 384, ONE_OF(""), FLAT "\"image_grid_pinpoints\": [[384, 768]]}", &err), err); /* the original's */
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 336, fewer, both, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "\"image_grid_pinpoints\" has 1 sizes that are not the 2 of config.json"));
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 336, both, fewer, &err), SAC_BAD_FILE);
    assert_int_equal(read_text(&c, &sac_dialect_anyres, 336, zero, both, &err), SAC_BAD_FILE);
    strcpy(many, "{\"image_grid_pinpoints\": [[336, 336]");
    for (int i = 0; i < SAC_PINPOINTS_MAX; i++) strcat(many, ",[336,672]");
    strcat(many, "]}");
    assert_int_equal(read_text(&c, &sac_dialect_unires, 336, NULL, many, &err), SAC_BAD_FILE);
    free(many);
    const char *const bad[] = {"[[336]]",
                               "[[336, 335]]",
                               "[[0, 336]]",
                               "[[-336, 336]]",
                               "[]",
                               "[[336000, 336000]]",
                               "{}",
                               "\"(1x1\"",
                               "\"(0x0),(2x2)\"",
                               "\"(1x1),(99999x99999)\"",
                               "\"[(1,\"",
                               "[[1e300, 336]]",
                               "7",
                               "[[9223372036854775807, 9223372036854775807]]"};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"image_grid_pinpoints\": %s}", bad[i]);
        assert_int_equal(read_text(&c, &sac_dialect_unires, 336, NULL, text, &err), SAC_BAD_FILE);
        assert_non_null(strstr(err.text, "image_grid_pinpoints"));
    }
}

/* Without padding no row of a long picture's grid may be left: the whole alone is seen, as in transformers. */
static void nothing_beside_the_whole(void **state) {
    (void)state;
    static sac_processor_config c;
    sac_visual_plan plan;
    sac_error err;
    static const char file[] = "{\"size\": {\"height\": 28, \"width\": 28}, \"image_grid_pinpoints\": [[28, 84], [84, 28]]}";
    assert_ok(read_text(&c, &sac_dialect_onevision, 28, file, file, &err), err);
    assert_ok(sac_processor_plan(&c, 600, 4, false, &plan, &err), err);
    assert_int_equal(plan.n_tokens, 4);
    assert_int_equal(plan.n_tiles, 4);
    assert_ok(sac_processor_plan(&c, 4, 600, false, &plan, &err), err);
    assert_int_equal(plan.n_tokens, 4 + 2); /* two rows of a newline alone */
    int32_t source[6];
    sac_processor_layout(&c, &plan, source);
    assert_int_equal(source[3], 3);
    for (int i = 4; i < 6; i++) assert_int_equal(source[i], SAC_SOURCE_NEWLINE);
    sac_processor_free(&c);
}

/* A frame of 27 x 27 patches: its tokens, and which cell each is. */
static void newlines_of_frames(void **state) {
    (void)state;
    static const struct {
        const char *position, *mode;
        int n_tokens, side, newline[2]; /* places of the first newlines, or -1 */
    } cases[] = {{"grid", "bilinear", 14 * 15, 14, {14, 29}},
                 {"frame", "bilinear", 14 * 14 + 1, 14, {196, -1}},
                 {"one_token", "bilinear", 14 * 14, 14, {-1, -1}},
                 {"no_token", "average", 13 * 13, 13, {-1, -1}},
                 {"grid", "average", 13 * 14, 13, {13, 27}}};
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        sac_error err = {0};
        sac_processor_config c = {0};
        sac_visual_plan p;
        char text[200];
        snprintf(text, sizeof text,
                 "{\"mm_patch_merge_type\": \"spatial_unpad\", \"mm_newline_position\": \"%s\", "
                 "\"mm_spatial_pool_mode\": \"%s\"}",
                 cases[i].position, cases[i].mode);
        assert_ok(read_text(&c, &sac_dialect_onevision, 384, NULL, text, &err), err);
        assert_ok(sac_processor_plan_frame(&c, 640, 360, 5, &p, &err), err);
        assert_int_equal(p.n_tokens, cases[i].n_tokens);
        assert_int_equal(p.tokens_per_tile, cases[i].n_tokens);
        static int32_t source[14 * 15 * SAC_VISUAL_TAPS];
        static float weight[14 * 15 * SAC_VISUAL_TAPS];
        sac_processor_blend(&c, &p, source, weight);
        int64_t cell = 0;
        int n_newlines = 0;
        for (int t = 0; t < p.n_tokens; t++) {
            const bool is_newline = sac_visual_cell(&p, t) < 0;
            assert_int_equal(source[t * SAC_VISUAL_TAPS] == SAC_SOURCE_NEWLINE, is_newline);
            if (is_newline && n_newlines < 2) assert_int_equal(t, cases[i].newline[n_newlines]);
            n_newlines += is_newline;
            if (!is_newline) assert_int_equal(sac_visual_cell(&p, t), cell++);
            float sum = 0;
            for (int k = 0; k < SAC_VISUAL_TAPS; k++) {
                sum += weight[t * SAC_VISUAL_TAPS + k];
                assert_true(source[t * SAC_VISUAL_TAPS + k] < 27 * 27);
            }
            assert_float_equal(sum, 1, 1e-6);
        }
        assert_int_equal(cell, cases[i].side * cases[i].side);
        assert_int_equal(n_newlines, sac_visual_newlines(&p));
        sac_processor_free(&c);
    }
}

static void test_config_forms(void **state) {
    (void)state;
    sac_error err = {0};
    sac_processor_config c = {0};
    const sac_dialect *clip = &sac_dialect_clip;
    assert_ok(read_text(&c, clip, 336, "{\"size\": 336, \"crop_size\": 336}", NULL, &err),
              err); /* the old form */
    assert_int_equal(c.resize_shortest, 336);
    assert_ok(read_text(&c, clip, 224, "{}", NULL, &err), err);
    assert_ok(read_text(&c, clip, 224, "{\"image_processor_type\": \"CLIPImageProcessorFast\"}", NULL, &err),
              err);
    assert_ok(read_text(&c, clip, 224, "{\"do_normalize\": false, \"do_rescale\": false}", NULL, &err), err);
    assert_float_equal((200.0f / 255 - c.mean[0]) / c.std[0], 200.0f, 1e-4);
    assert_ok(read_text(&c, clip, 224, "{\"do_normalize\": false}", NULL, &err), err);
    assert_float_equal((200.0f / 255 - c.mean[0]) / c.std[0], 200.0f / 255, 1e-6);
    assert_ok(read_text(&c, clip, 224, "{\"rescale_factor\": 0.0078125}", NULL, &err), err);
    assert_float_equal((200.0f / 255 - c.mean[0]) / c.std[0], (200.0f / 128 - 0.48145466f) / 0.26862954f,
                       1e-5);
    const struct {
        const char *text;
        sac_status want;
    } bad[] = {{"{\"crop_size\": 336}", SAC_BAD_FILE},
               {"{\"size\": {\"longest_edge\": 9, \"shortest_edge\": 3}}", SAC_UNSUPPORTED},
               {"{\"size\": {}}", SAC_BAD_FILE},
               {"{\"size\": \"224\"}", SAC_BAD_FILE},
               {"{\"do_center_crop\": false}", SAC_BAD_FILE},
               {"{\"resample\": 0}", SAC_UNSUPPORTED},
               {"{\"resample\": 9}", SAC_BAD_FILE},
               {"{\"image_mean\": [0.5, 0.5]}", SAC_BAD_FILE},
               {"{\"image_std\": [0.5, 0, 0.5]}", SAC_BAD_FILE},
               {"{\"rescale_factor\": 0}", SAC_BAD_FILE},
               {"{\"image_processor_type\": \"Qwen2VLImageProcessor\"}", SAC_UNSUPPORTED},
               {"[]", SAC_BAD_FILE}};
    for (size_t i = 0; i < SAC_COUNT(bad); i++)
        assert_int_equal(read_text(&c, clip, 224, bad[i].text, NULL, &err), bad[i].want);
    assert_int_equal(
        read_text(&c, &sac_dialect_anyres, 224, NULL, "{\"vision_feature_select_strategy\": \"full\"}", &err),
        SAC_UNSUPPORTED);
    assert_int_equal(
        read_text(&c, &sac_dialect_unires, 224, NULL, "{\"mm_spatial_pool_mode\": \"max\"}", &err),
        SAC_UNSUPPORTED);
    static const struct {
        const char *key, *says;
    } flat[] = {{"\"mm_newline_position\": \"nowhere\"", "grid, frame, one_token and no_token"},
                {"\"mm_newline_position\": 7", "mm_newline_position"},
                {"\"mm_spatial_pool_mode\": \"max\"", "bilinear and average"}};
    for (size_t i = 0; i < SAC_COUNT(flat); i++) {
        char text[160];
        snprintf(text, sizeof text, "{\"mm_patch_merge_type\": \"spatial_unpad\", %s}", flat[i].key);
        assert_int_not_equal(read_text(&c, &sac_dialect_onevision, 384, NULL, text, &err), SAC_OK);
        assert_non_null(strstr(err.text, flat[i].says));
    }
    assert_int_equal(read_text(&c, &sac_dialect_next_video, 336, NULL, "{\"spatial_pool_stride\": 25}", &err),
                     SAC_BAD_FILE);
    assert_int_equal(read_text(&c, clip, 9, NULL, NULL, &err), SAC_BAD_FILE);
    /* the original LLaVA's key, which the tower of transformers' folders does not follow: no token without a row */
    assert_ok(read_text(&c, clip, 28, NULL, "{\"mm_vision_select_feature\": \"cls_patch\"}", &err), err);
    assert_false(c.keep_class_token);
    sac_processor_free(&c);
    assert_null(c.own);
}

/* Pictures that would become giants when resized by the book: only what is cropped is computed. */
static void test_extreme_sizes(void **state) {
    (void)state;
    sac_error err = {0};
    sac_processor_config c = {0};
    sac_visual_plan plan;
    const int sizes[][3] = {{1, 200000, 0}, {200000, 1, 0}, {3, 1048576, 0}, {1, 3000, 1}, {3000, 1, 1}};
    for (size_t i = 0; i < SAC_COUNT(sizes); i++) {
        const char *pad = sizes[i][2]
                              ? "{\"image_processor_type\": \"LlavaImageProcessor\", \"do_pad\": true, "
                                "\"size\": 28, \"crop_size\": 28}"
                              : NULL;
        assert_ok(read_text(&c, &sac_dialect_clip, 28, pad, NULL, &err), err);
        sac_image image = {picture_new(2, sizes[i][0], sizes[i][1], 0), sizes[i][0], sizes[i][1]};
        uint8_t rows[28 * 28 * 3];
        assert_ok(sac_processor_plan(&c, image.width, image.height, false, &plan, &err), err);
        assert_ok(sac_processor_cut(&c, &image, &plan, rows, &err), err);
        assert_int_equal(plan.n_tokens, 4);
        sac_image_free(&image);
    }
    assert_true(c.pad_to_square);
    assert_int_equal(sac_processor_plan(&c, 1, 40000, false, &plan, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_processor_plan(&c, 1 << 21, 1, false, &plan, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_processor_plan(&c, 0, 1, false, &plan, &err), SAC_BAD_ARGUMENT);
    assert_ok(read_text(&c, &sac_dialect_anyres, 336, NULL, NULL, &err), err);
    c.max_tokens = 1000;
    assert_int_equal(sac_processor_plan(&c, 600, 600, false, &plan, &err), SAC_TOO_LONG);
    assert_ok(sac_processor_plan_frame(&c, 600, 600, 0, &plan, &err), err);
    assert_int_equal(plan.n_tokens, 576);
    sac_processor_free(&c);
}

static void test_wrong_plan(void **state) {
    (void)state;
    sac_error err = {0};
    sac_processor_config c = {0};
    sac_visual_plan plan;
    uint8_t pixels[4 * 4 * 3] = {0}, rows[28 * 28 * 3];
    assert_ok(read_text(&c, &sac_dialect_clip, 28, NULL, NULL, &err), err);
    assert_ok(sac_processor_plan(&c, 4, 4, false, &plan, &err), err);
    assert_int_equal(sac_processor_cut(&c, &(sac_image){pixels, 2, 4}, &plan, rows, &err), SAC_BAD_ARGUMENT);
}

/* A patch's pixels stand together, line by line, behind those of the frames before; what the grid does not cover is left out. */
static void check_patches(int frames, int frame) {
    enum { PATCH = 3, H = 2, W = 3, SIDE = 11, AREA = PATCH * PATCH };
    uint8_t rgb[7 * SIDE * 3], rows[2 * H * W * AREA * 3], back[H * W * AREA * 3];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 7 + i / 33);
    const sac_patch_order order = {PATCH, H, W, .merge = 1, .frames = frames};
    sac_patches_cut(rows, &order, frame, rgb, SIDE);
    for (int y = 0; y < H * PATCH; y++)
        for (int x = 0; x < W * PATCH; x++)
            for (int c = 0; c < 3; c++) {
                int patch = y / PATCH * W + x / PATCH, pixel = y % PATCH * PATCH + x % PATCH;
                assert_int_equal(rows[((patch * frames + frame) * AREA + pixel) * 3 + c], rgb[(y * SIDE + x) * 3 + c]);
            }
    sac_patches_join(back, &order, frame, rows);
    for (int y = 0; y < H * PATCH; y++)
        assert_memory_equal(back + y * W * PATCH * 3, rgb + y * SIDE * 3, (size_t)W * PATCH * 3);
}

static void test_patches(void **state) {
    (void)state;
    check_patches(1, 0);
    check_patches(2, 1);
}

/* The tiles behind the first are read line by line, whatever their shape. */
static void test_layout_of_oblong_tiles(void **state) {
    (void)state;
    enum { H = 2, W = 3, TILES_W = 2, TILES_H = 2, EACH = H * W };
    sac_processor_config c = {.dialect = &sac_dialect_anyres};
    sac_visual_plan p = {.n_tiles = 1 + TILES_W * TILES_H,
                         .tokens = {1, H, W},
                         .tokens_per_tile = EACH,
                         .tiles_w = TILES_W,
                         .tiles_h = TILES_H,
                         .keep_w = TILES_W * W,
                         .keep_h = TILES_H * H};
    int32_t source[5 * EACH + TILES_H * H], n = 0;
    sac_processor_layout(&c, &p, source);
    for (; n < EACH; n++) assert_int_equal(source[n], n);
    for (int y = 0; y < TILES_H * H; y++) {
        for (int x = 0; x < TILES_W * W; x++) {
            int tile = 1 + y / H * TILES_W + x / W;
            assert_int_equal(source[n++], tile * EACH + y % H * W + x % W);
        }
        assert_int_equal(source[n++], SAC_SOURCE_NEWLINE);
    }
}

static void test_names(void **state) {
    (void)state;
    assert_ptr_equal(sac_dialect_find("anyres"), &sac_dialect_anyres);
    assert_null(sac_dialect_find("any"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),       cmocka_unit_test(test_qwen2vl),
        cmocka_unit_test(frames_of_next_video), cmocka_unit_test(test_qwen3vl),       cmocka_unit_test(test_qwen2vl_refuses),
        cmocka_unit_test(test_layouts),       cmocka_unit_test(test_pinpoints), cmocka_unit_test(nothing_beside_the_whole),
        cmocka_unit_test(newlines_of_frames), cmocka_unit_test(test_config_forms),
        cmocka_unit_test(test_extreme_sizes), cmocka_unit_test(test_wrong_plan),
        cmocka_unit_test(test_patches),       cmocka_unit_test(test_layout_of_oblong_tiles),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
