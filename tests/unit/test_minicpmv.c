/* MiniCPM-V 4.6: crops and patch rows against transformers, the texts between them, what its files may not say, and what sessions
 * make of pictures in crops: chunks of any size, prefixes, events and places. */
#define _GNU_SOURCE
#include "dialect.h"
#include "family.h"
#include "patch_sum.h"
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER "tests/golden/models/"

/* ---------------------------------------------------------------- processor */

static sac_status read_processor(sac_processor_config *c, int patch, bool joins_twice, const json_t *preprocessor, const json_t *video,
                                 sac_error *err) {
    json_t *config = json_pack("{s:s}", "downsample_mode", joins_twice ? "16x" : "4x");
    const sac_processor_model m = {
        .dialect = &sac_dialect_minicpmv, .image_size = 28, .patch_size = patch, .merge_size = 2, .video = video, .config = config};
    sac_status st = sac_processor_read(c, preprocessor, &m, err);
    json_decref(config);
    return st;
}

static bool has_crops(const sac_visual_plan *p, int columns, int n, sac_grid first, sac_grid rest) {
    const sac_crops want = {n, first, rest};
    return sac_crops_equal(&p->crops, &want) && p->tiles_w == columns && sac_visual_parts(p) == n &&
           p->n_tokens == sac_crops_before(&want, n) / (p->crop_side * p->crop_side) && sac_visual_part_first(p, n) == p->n_tokens;
}

static void crops_and_patch_rows(void **state) {
    FILE *f = fopen("tests/golden/vision/minicpmv.txt", "r");
    char line[200], sum[16], mine[16], by;
    int w, h, kind, seed, scale, most, patch, side, columns, n_crops, n = 0, n_wrong = 0;
    sac_error err;
    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        sac_grid first = {.t = 1}, rest = {.t = 1};
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%c %d %d %d %d %d %d %d %d %d %d %d %d %d %d %15s", &by, &w, &h, &kind, &seed, &scale, &most,
                                &patch, &side, &columns, &n_crops, &first.h, &first.w, &rest.h, &rest.w, sum),
                         16);
        json_t *preprocessor = json_pack("{s:i, s:i, s:s}", "scale_resolution", scale, "max_slice_nums", most, "downsample_mode",
                                         side == 4 ? "16x" : "4x");
        sac_processor_config c;
        sac_visual_plan p, largest;
        assert_ok(read_processor(&c, patch, side == 4, preprocessor, NULL, &err), err);
        assert_ok(by == 'v' ? sac_processor_plan_frame(&c, w, h, 0, &p, &err) : sac_processor_plan(&c, w, h, false, &p, &err), err);
        assert_ok(sac_processor_largest(&c, &largest, &err), err);
        assert_true(sac_grid_cells(p.patches) <= sac_grid_cells(largest.patches) && p.n_tiles == 1);
        if (by == 'g')
            snprintf(mine, sizeof mine, "-");
        else
            patch_sum(&c, &p, kind, w, h, seed, mine);
        if (!has_crops(&p, columns, n_crops, first, rest) || strcmp(mine, sum) != 0) {
            print_message("%s  has %d crops, %s\n", line, p.crops.n, mine);
            n_wrong++;
        }
        n++;
        sac_processor_free(&c);
        json_decref(preprocessor);
    }
    fclose(f);
    assert_true(n >= 150);
    assert_int_equal(n_wrong, 0);
}

/* Whatever size comes, no picture has more patches than there is room for. */
static void no_picture_is_larger_than_the_largest(void **state) {
    static const int scales[][3] = {{448, 9, 14}, {28, 12, 4}, {21, 2, 3}, {100, 1, 7}};
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(scales); i++)
        for (int twice = 0; twice < 2; twice++) {
            json_t *preprocessor = json_pack("{s:i, s:i, s:s}", "scale_resolution", scales[i][0], "max_slice_nums", scales[i][1],
                                             "downsample_mode", twice ? "16x" : "4x");
            sac_processor_config c;
            sac_visual_plan p, largest;
            int n_taken = 0;
            assert_ok(read_processor(&c, scales[i][2], twice, preprocessor, NULL, &err), err);
            assert_ok(sac_processor_largest(&c, &largest, &err), err);
            for (int w = 1; w < 60000; w += 1 + w / 9)
                for (int h = 1; h < 60000; h += 1 + h / 7) {
                    const int longer = w > h ? w : h, shorter = w > h ? h : w;
                    sac_status st = sac_processor_plan(&c, w, h, false, &p, &err);
                    if (st != SAC_OK) assert_true(longer > 100 * shorter && strstr(err.text, "a picture of "));
                    if (st != SAC_OK) continue;
                    n_taken++;
                    assert_true(longer <= 200 * shorter && sac_grid_cells(p.patches) <= sac_grid_cells(largest.patches));
                }
            assert_true(n_taken > 2000);
            sac_processor_free(&c);
            json_decref(preprocessor);
        }
}

static void texts_between_crops(void **state) {
    static const char *const picture[] = {"<image_id>3</image_id><image>", "</image><slice>", "</slice><slice>", "</slice>\n<slice>",
                                          "</slice><slice>", "</slice>"},
                            *const video[] = {"<image_id>3</image_id><image>", "</image><slice>", "</slice><slice>", "</slice>\n<slice>",
                                              "</slice><slice>", "</slice><image>", "</image><slice>"};
    char text[SAC_VISUAL_TEXT_BYTES];
    sac_processor_config c;
    sac_visual_plan p;
    sac_error err;
    json_t *preprocessor = json_pack("{s:i}", "scale_resolution", 28);
    (void)state;
    assert_ok(read_processor(&c, 4, true, preprocessor, NULL, &err), err);
    assert_ok(sac_processor_plan(&c, 56, 56, false, &p, &err), err);
    assert_int_equal(p.crops.n, 5);
    sac_visual_shown shown = {.plan = &p, .n_tiles = 5, .number = 3};
    for (int i = 0; i <= 5; i++) {
        assert_int_equal(sac_processor_text(&c, &shown, i, text), strlen(picture[i]));
        assert_string_equal(text, picture[i]);
    }
    shown.n_tiles = 10;
    for (int i = 0; i < (int)SAC_COUNT(video); i++) {
        sac_processor_text(&c, &shown, i, text);
        assert_string_equal(text, video[i]);
    }
    sac_processor_free(&c);
    json_decref(preprocessor);
}

static void what_files_may_not_say(void **state) {
    static const struct {
        const char *preprocessor, *video, *says;
    } bad[] = {
        {"{\"scale_resolution\": 0}", NULL, "scale_resolution"},
        {"{\"scale_resolution\": 4096, \"max_slice_nums\": 255}", NULL, "patches; "},
        {"{\"max_slice_nums\": 0}", NULL, "max_slice_nums"},
        {"{\"max_slice_nums\": 256}", NULL, "max_slice_nums"},
        {"{\"slice_mode\": 1}", NULL, "slice_mode"},
        {"{\"patch_size\": 16}", NULL, "\"patch_size\" is 16"},
        {"{\"downsample_mode\": \"4x\"}", NULL, "\"downsample_mode\" is \"4x\""},
        {"{\"downsample_mode\": 4}", NULL, "downsample_mode"},
        {"{\"use_image_id\": \"no\"}", NULL, "use_image_id"},
        {"{\"do_resize\": false}", NULL, "do_resize"},
        {"{\"stack_frames\": 5}", NULL, "stack_frames"},
        {"{\"resample\": 0}", NULL, "resample"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\"}", NULL, "image_processor_type"},
        {"{}", "{\"stack_frames\": 2}", "video_preprocessor_config.json: \"stack_frames\""},
        {"{}", "{\"resample\": 2}", "video_preprocessor_config.json: \"resample\""},
        {"{}", "{\"image_mean\": [0.4, 0.5, 0.5]}", "video_preprocessor_config.json: \"image_mean\""},
        {"{}", "{\"downsample_mode\": \"4x\"}", "video_preprocessor_config.json: \"downsample_mode\""},
        {"{}", "{\"max_num_frames\": 0}", "video_preprocessor_config.json: \"max_num_frames\""},
    };
    sac_processor_config c;
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        json_t *preprocessor = json_loads(bad[i].preprocessor, 0, NULL), *video = bad[i].video ? json_loads(bad[i].video, 0, NULL) : NULL;
        assert_int_not_equal(read_processor(&c, 4, true, preprocessor, video, &err), SAC_OK);
        assert_non_null(strstr(err.text, bad[i].says));
        json_decref(preprocessor);
        json_decref(video);
    }
    assert_ok(read_processor(&c, 4, true, NULL, NULL, &err), err);
    assert_int_equal(sac_processor_limit(&c, 0, 1000, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "scale_resolution"));
    assert_true(c.sampling.fps == 1 && c.sampling.most_frames == 128);
    sac_processor_free(&c);
}

/* ---------------------------------------------------------------- configuration */

static void what_a_config_may_not_say(void **state) {
#define CONFIG(more) "{\"model_type\": \"minicpmv4_6\", \"image_token_id\": 7, \"video_token_id\": 8" more "}"
    static const char *const bad[][2] = {
        {"{\"model_type\": \"minicpmv4_6\"}", "image_token_id"},
        {"{\"model_type\": \"minicpmv4_6\", \"image_token_id\": 7}", "video_token_id"},
        {CONFIG(", \"text_config\": {\"model_type\": \"llama\"}"), "text_config: model_type \"llama\""},
        {CONFIG(", \"vision_config\": {\"model_type\": \"siglip_vision_model\"}"), "vision_config: model_type"},
        {CONFIG(", \"vision_config\": {\"window_kernel_size\": [4, 4]}"), "vision_config: \"window_kernel_size\""},
        {CONFIG(", \"merge_kernel_size\": [2, 1]"), "merge_kernel_size"},
        {CONFIG(", \"merger_times\": 2"), "merger_times"},
        {CONFIG(", \"insert_layer_id\": -1"), "insert_layer_id"},
        {CONFIG(", \"insert_layer_id\": 12"), "insert_layer_id"},
        {CONFIG(", \"downsample_mode\": \"2x\""), "downsample_mode"},
    };
    static sac_model_config c;
    sac_error err;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        json_t *config = json_loads(bad[i][0], 0, NULL);
        assert_int_not_equal(sac_model_config_read(&c, config, &err), SAC_OK);
        assert_non_null(strstr(err.text, bad[i][1]));
        json_decref(config);
    }
    json_t *config = json_loads(CONFIG(""), 0, NULL);
    assert_ok(sac_model_config_read(&c, config, &err), err);
    assert_true(c.tower.joins_after == 7 && c.image_token == 7 && c.video_token == 8);
    json_decref(config);
}

/* ---------------------------------------------------------------- sessions */

enum { VOCAB = 512 };

typedef struct seen {
    float logits[VOCAB];
    int64_t n_tokens;
    int n_tiles;
    int width[64], height[64];
} seen;

static void on_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    seen *t = ctx;
    assert_true(media == 0 && tile == t->n_tiles && tile < 64 && rgb);
    t->width[t->n_tiles] = width;
    t->height[t->n_tiles++] = height;
}

static sac_session *ask(sac_model *m, int chunk, bool is_video, seen *t) {
    sac_session_config config = {.n_ctx = 900, .kv = "f32", .prefill_chunk = chunk};
    sac_session *s;
    sac_error err;
    memset(t, 0, sizeof *t);
    sac_part parts[2] = {{.kind = SAC_PART_IMAGE, .path = FOLDER "wide.png"}, {.kind = SAC_PART_TEXT, .text = "What is it?"}};
    if (is_video) parts[0] = (sac_part){.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4", .video.num_frames = 3};
    const sac_message message = {"user", parts, 2, NULL};
    const sac_events events = {.ctx = t, .tile = on_tile};
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    assert_ok(sac_session_prefill(s, &message, 1, &events, &err), err);
    sac_model_info info;
    sac_model_get_info(m, &info);
    assert_true(info.vocab <= VOCAB);
    memcpy(t->logits, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    t->n_tokens = sac_session_n_tokens(s);
    return s;
}

/* A text around pictures must be found whole: a vocabulary that has it among its pieces only would cut it. */
static void texts_must_be_added_tokens(void **state) {
    static const char *const linked[] = {"config.json", "model.safetensors", "preprocessor_config.json", "video_preprocessor_config.json",
                                         "chat_template.jinja"};
    (void)state;
    char folder[] = "/tmp/sac_minicpmv_XXXXXX", cwd[300], path[400], target[600];
    json_error_t where;
    sac_error err = {0};
    sac_model *m = NULL;
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(cwd, sizeof cwd));
    for (size_t i = 0; i < SAC_COUNT(linked); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, linked[i]);
        snprintf(target, sizeof target, "%s/" FOLDER "minicpmv4_6/%s", cwd, linked[i]);
        assert_int_equal(symlink(target, path), 0);
    }
    json_t *tokenizer = json_load_file(FOLDER "minicpmv4_6/tokenizer.json", 0, &where);
    json_t *config = json_load_file(FOLDER "minicpmv4_6/tokenizer_config.json", 0, &where);
    json_t *added = json_object_get(tokenizer, "added_tokens"), *merges = json_object_get(json_object_get(tokenizer, "model"), "merges");
    json_t *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    const json_int_t last = (json_int_t)json_object_size(vocab) - 1; /* in the place of the last piece */
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(vocab, next, key, value) if (json_integer_value(value) == last) json_object_del(vocab, key);
    json_object_set_new(vocab, "</slice>", json_integer(last));
    json_array_remove(merges, json_array_size(merges) - 1);
    bool found = false;
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_array_get(added, i);
        if (found) json_object_set_new(token, "id", json_integer(json_integer_value(json_object_get(token, "id")) - 1));
        if (found || strcmp(json_string_value(json_object_get(token, "content")), "</slice>") != 0) continue;
        found = true;
        json_array_remove(added, i--);
    }
    assert_true(found);
    assert_int_equal(json_object_del(json_object_get(config, "extra_special_tokens"), "slice_end_token"), 0);
    char path_config[400];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    snprintf(path_config, sizeof path_config, "%s/tokenizer_config.json", folder);
    assert_int_equal(json_dump_file(tokenizer, path, 0), 0);
    assert_int_equal(json_dump_file(config, path_config, 0), 0);
    assert_int_equal(sac_model_open(&m, folder, NULL, &err), SAC_BAD_FILE);
    if (!strstr(err.text, "no added token \"</slice>\"")) fail_msg("%s", err.text);
    json_decref(tokenizer);
    json_decref(config);
    unlink(path);
    unlink(path_config);
    for (size_t i = 0; i < SAC_COUNT(linked); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, linked[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* Every row of a crop has a place in it, row by row, and each crop was told as a picture of its own. */
static void check_places(sac_session *s, const seen *t) {
    static sac_token_place places[900];
    const int64_t n = sac_session_token_places(s, places, 900);
    int last = -1, cell = 0, n_cells = 0;
    assert_int_equal(n, t->n_tokens);
    const sac_media_report *media;
    assert_true(sac_session_media(s, &media) == 1 && media->n_tiles == t->n_tiles);
    for (int64_t i = 0; i < n; i++) {
        const sac_token_place *p = &places[i];
        if (p->media < 0) continue;
        if (p->tile != last) assert_true(p->tile == last + 1 && cell == n_cells), cell = 0, last = p->tile;
        n_cells = p->rows * p->columns;
        assert_true(p->row == cell / p->columns && p->column == cell % p->columns && ++cell <= n_cells);
        assert_true(t->width[p->tile] / p->columns == t->height[p->tile] / p->rows);
    }
    assert_true(last + 1 == t->n_tiles && cell == n_cells && last > 0);
}

static void crops_in_sessions(void **state) {
    static const char *const folders[] = {FOLDER "minicpmv4_6", FOLDER "minicpmv4_6_4x"};
    static const int chunks[] = {1, 16};
    static seen whole, part;
    (void)state;
    for (size_t k = 0; k < SAC_COUNT(folders); k++)
        for (int is_video = 0; is_video < 2; is_video++) {
            sac_model *m;
            sac_error err;
            assert_ok(sac_model_open(&m, folders[k], NULL, &err), err);
            sac_session *s = ask(m, 512, is_video, &whole);
            check_places(s, &whole);
            sac_session_free(s);
            for (size_t i = 0; i < SAC_COUNT(chunks); i++) {
                sac_session_free(ask(m, chunks[i], is_video, &part));
                assert_int_equal(part.n_tokens, whole.n_tokens);
                for (int v = 0; v < VOCAB; v++) assert_true(fabsf(part.logits[v] - whole.logits[v]) < 1e-4f);
            }
            sac_model_free(m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_and_patch_rows),  cmocka_unit_test(no_picture_is_larger_than_the_largest),
        cmocka_unit_test(texts_between_crops),   cmocka_unit_test(what_files_may_not_say),
        cmocka_unit_test(what_a_config_may_not_say), cmocka_unit_test(crops_in_sessions),
        cmocka_unit_test(texts_must_be_added_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
