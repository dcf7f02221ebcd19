/* llava_next.c - LLaVA-NeXT (1.6): LLaVA with tiles of the picture at its best pinpoint size; rows of the
 * unpadded token grid end in the learned image_newline. */
#include "family.h"

static void defaults(sac_model_config *c) {
    sac_family_llava.defaults(c);
    c->dialect = &sac_dialect_anyres;
    c->image_newline = true;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_config_read_llava(c, config, NULL, err));
    if (c->tower.keep_class) /* the class token has no place in the grid of rows that newlines end */
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"vision_feature_select_strategy\" full is not supported under llava_next");
    return SAC_OK;
}

/* Pairs of numbers one behind another. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    const json_t *flat = json_object_get(p->keys, "clip.vision.image_grid_pinpoints");
    const size_t n = json_array_size(flat);
    SAC_TRY(sac_llava_mmproj(p, err));
    if (n < 2 || n % 2)
        return sac_fail(err, SAC_BAD_FILE,
                        "clip.vision.image_grid_pinpoints holds %zu numbers; pairs are needed", n);
    json_t *pairs = json_array();
    for (size_t i = 0; i < n; i += 2)
        json_array_append_new(pairs,
                              json_pack("[O, O]", json_array_get(flat, i), json_array_get(flat, i + 1)));
    json_object_set_new(p->config, "image_grid_pinpoints", pairs);
    json_object_set(p->preprocessor, "image_grid_pinpoints", pairs);
    return SAC_OK;
}

const sac_family sac_family_llava_next = {.name = "llava_next",
                                          .defaults = defaults,
                                          .read = read,
                                          .positions = sac_positions_plain,
                                          .mmproj = mmproj};
