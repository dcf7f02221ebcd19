/* llava_pixtral.c - the vision half of Pixtral 12B in GGUF: Pixtral's tower and an MLP, which is LLaVA (llava.c) in transformers'
 * folders. Here it has names of its own, those of Mistral 3's, of which it lacks the squares of patches. */
#include "family.h"

static void defaults(sac_model_config *c) {
    sac_family_llava.defaults(c);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_family_llava.read(c, config, err);
}

/* Pictures fit into a square of image_size; biases are where the file has them. The embedding of [IMG_BREAK] that a file may
 * have is the language model's own. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    if (p->rows(p->tensors, "mm.patch_merger.weight"))
        return sac_fail(err, SAC_BAD_FILE, "metadata key clip.vision.spatial_merge_size is missing, but tensor mm.patch_merger.weight is there");
    json_object_set_new(p->vision, "model_type", json_string(sac_tower_pixtral.model_type));
    json_object_set_new(p->config, "vision_feature_layer", json_integer(-1));
    json_object_set_new(p->config, "vision_feature_select_strategy", json_string("full"));
    json_object_set_new(p->config, "multimodal_projector_bias",
                        json_boolean(p->rows(p->tensors, "mm.1.bias") || p->rows(p->tensors, "mm.2.bias")));
    json_object_set_new(p->preprocessor, "size",
                        json_pack("{s:O}", "longest_edge", json_object_get(p->keys, "clip.vision.image_size")));
    return SAC_OK;
}

const sac_family sac_family_llava_pixtral = {.name = "llava_pixtral",
                                             .defaults = defaults,
                                             .read = read,
                                             .positions = sac_positions_plain,
                                             .mmproj = mmproj};
