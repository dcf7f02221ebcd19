/* Configuration of a stranger. The first byte chooses what the rest is: config.json, generation_config.json,
 * preprocessor_config.json (of some dialects), or a family's YAML. */
#include "fuzz.h"

#include "dialect.h"
#include "family.h"
#include "family_spec.h"

#include <stdlib.h>

static sac_status read_config(const json_t *object, sac_error *err) {
    static sac_model_config c;
    SAC_TRY(sac_model_config_read(&c, object, err));
    /* what is accepted can be computed with */
    if (c.decoder.n_heads % c.decoder.n_kv_heads || c.decoder.rope.rot_dim < 2) abort();
    if (c.has_vision && sac_tower_plan_square(&c.tower).n_patches < 1) abort();
    if (sac_config_check_decoder(&c.decoder, NULL) != SAC_OK) abort();
    return SAC_OK;
}

static sac_status read_generation(const json_t *object, sac_error *err) {
    sac_generation_config g = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    int32_t ids[SAC_MAX_STOP_IDS];
    int n = 0;
    sac_status st = sac_config_read_generation(&g, object, false, err);
    sac_generation_config_clear(&g);
    SAC_TRY(st);
    return sac_config_add_stop_ids(ids, &n, object, 1000, err);
}

/* What is accepted has plans for pictures of any shape, of no more tiles than it says. */
static sac_status read_processor(const sac_dialect *dialect, const json_t *object, sac_error *err) {
    static const int sizes[][2] = {{1, 1}, {32, 32}, {2000, 3}, {3, 2000}, {1001, 777}};
    const sac_processor_model model = {
        .dialect = dialect, .image_size = 32, .patch_size = 4, .merge_size = 4, .video = object, .processor = object};
    sac_processor_config c;
    sac_visual_plan p;
    SAC_TRY(sac_processor_read(&c, object, &model, err));
    for (size_t i = 0; i < SAC_COUNT(sizes); i++) {
        if (sac_processor_plan(&c, sizes[i][0], sizes[i][1], false, &p, NULL) == SAC_OK &&
            (p.n_tiles < 1 || p.n_tiles > sac_processor_most_tiles(&c) ||
             (p.n_lines ? p.n_tokens != sac_grid_cells(p.tokens) || p.n_lines != p.tokens.h
                        : p.n_tokens != 4 * (int64_t)p.n_tiles)))
            abort();
        if (sac_processor_plan_frame(&c, sizes[i][0], sizes[i][1], 0, &p, NULL) == SAC_OK && p.n_tiles != 1)
            abort();
    }
    sac_processor_free(&c);
    return SAC_OK;
}

static sac_status read_tiles(const json_t *object, sac_error *err) {
    return read_processor(&sac_dialect_smolvlm, object, err);
}

static sac_status read_crops(const json_t *object, sac_error *err) {
    return read_processor(&sac_dialect_gemma3, object, err);
}

static sac_status read_lines(const json_t *object, sac_error *err) {
    return read_processor(&sac_dialect_pixtral, object, err);
}

/* Pictures that keep their shape, or in crops: none has more patches than the largest. */
static sac_status read_sized(const sac_dialect *dialect, int frames, const json_t *object, sac_error *err) {
    static const int sizes[][2] = {{1, 1}, {32, 32}, {2000, 3}, {3, 2000}, {1001, 777}, {40000, 299}};
    const sac_processor_model model = {.dialect = dialect,
                                       .image_size = 8,
                                       .patch_size = 4,
                                       .temporal_patch_size = frames,
                                       .merge_size = 2,
                                       .video = object};
    sac_processor_config c;
    sac_visual_plan p, most;
    SAC_TRY(sac_processor_read(&c, object, &model, err));
    if (sac_processor_largest(&c, &most, NULL) != SAC_OK) abort();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sac_processor_plan(&c, sizes[i][0], sizes[i][1], false, &p, NULL) == SAC_OK &&
            (p.n_tiles != 1 || p.n_tokens < 1 || sac_grid_cells(p.patches) > sac_grid_cells(most.patches)))
            abort();
        if (sac_processor_plan_frame(&c, sizes[i][0], sizes[i][1], (int64_t)i, &p, NULL) == SAC_OK &&
            (p.n_tiles != 1 || sac_grid_cells(p.patches) > sac_grid_cells(most.patches)))
            abort();
    }
    sac_processor_free(&c);
    return SAC_OK;
}

static sac_status read_squares(const json_t *object, sac_error *err) {
    return read_sized(&sac_dialect_glm4v, 2, object, err);
}
static sac_status read_padded(const json_t *object, sac_error *err) {
    return read_sized(&sac_dialect_kimi_vl, 1, object, err);
}

static sac_status read_slices(const json_t *object, sac_error *err) {
    return read_sized(&sac_dialect_minicpmv, 1, object, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_error err = {0};
    if (size == 0) return 0;
    const char *text = (const char *)data + 1;
    sac_status st;
    if (data[0] == 'y') {
        sac_family_spec spec;
        st = sac_family_spec_parse(&spec, text, size - 1, &err);
        if (st == SAC_OK) sac_family_spec_free(&spec);
    } else {
        json_t *object;
        st = sac_json_parse(&object, text, size - 1, &err);
        if (st == SAC_OK) {
            st = (data[0] == 'g'   ? read_generation
                  : data[0] == 'p' ? read_tiles
                  : data[0] == 'q' ? read_crops
                  : data[0] == 'l' ? read_lines
                  : data[0] == 's' ? read_squares
                  : data[0] == 'b' ? read_padded
                  : data[0] == 'm' ? read_slices
                                   : read_config)(object, &err);
            json_decref(object);
        }
    }
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    return 0;
}
