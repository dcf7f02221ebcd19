/* Pictures of strangers: every decoder, orientation, then the processors of CLIP, LLaVA-NeXT, InternVL and Qwen2-VL on
 * what came out. */
#include "fuzz.h"

#include "dialect.h"

#include <stdlib.h>
#include <string.h>

/* Of a damaged AVIF file libheif 1.15 leaves dav1d's description of its last data, 40 bytes. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libdav1d\n";
}

/* preprocessor and config: what the two files of a model's folder say, or NULL. */
static void process(const sac_image *image, const sac_dialect *dialect, const char *preprocessor, const char *config_json) {
    sac_processor_model model = {
        .dialect = dialect, .image_size = 28, .patch_size = 14, .temporal_patch_size = 2, .merge_size = 2};
    sac_processor_config config;
    sac_visual_plan plan;
    sac_error err = {0};
    json_t *keys = preprocessor ? json_loads(preprocessor, 0, NULL) : NULL;
    json_t *told = config_json ? json_loads(config_json, 0, NULL) : NULL;
    model.config = told;
    if (sac_processor_read(&config, keys, &model, &err) != SAC_OK) abort();
    json_decref(keys);
    json_decref(told);
    if (sac_processor_plan(&config, image->width, image->height, false, &plan, &err) != SAC_OK) {
        sac_processor_free(&config);
        return;
    }
    uint8_t *rows = malloc(sac_visual_bytes(&plan, plan.n_tiles));
    int32_t *source = malloc((size_t)plan.n_tokens * sizeof *source);
    if (rows && source) {
        if (sac_processor_cut(&config, image, &plan, rows, &err) != SAC_OK) abort();
        sac_processor_layout(&config, &plan, source);
        for (int64_t i = 0; i < plan.n_tokens; i++)
            if (source[i] < -1 || source[i] >= plan.n_tiles * plan.tokens_per_tile) abort();
    }
    free(rows);
    free(source);
    sac_processor_free(&config);
}

static const char pinpoints[] = "{\"image_grid_pinpoints\": [[28, 56], [56, 28], [56, 56]]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_image image;
    sac_image_limits limits = {.max_bytes = 1 << 20, .max_pixels = 1 << 16};
    sac_error err = {0};
    sac_status st = sac_image_decode(&image, data, size, &limits, &err);
    if (st == SAC_OK) {
        if ((int64_t)image.width * image.height > limits.max_pixels) abort();
        uint32_t sum = 0; /* reads every pixel: none may be missing */
        for (size_t i = 0; i < (size_t)image.width * (size_t)image.height * 3; i++) sum += image.rgb[i];
        if (sum == UINT32_MAX) abort();
        process(&image, &sac_dialect_clip, NULL, NULL);
        process(&image, &sac_dialect_anyres, NULL, pinpoints);
        process(&image, &sac_dialect_next_video, NULL, pinpoints);
        process(&image, &sac_dialect_internvl, "{\"size\": {\"height\": 28, \"width\": 28}}", NULL);
        process(&image, &sac_dialect_qwen2vl, NULL, NULL);
    } else if (image.rgb || !err.text[0] || strchr(err.text, '\n')) {
        abort();
    }
    sac_image_free(&image);
    return 0;
}
