/* lighton_ocr.c - LightOnOCR (Taghadouini et al., arXiv:2601.14251; transformers' LightOnOcr), which reads documents: Mistral 3's tower and
 * projector (mistral3.c) over Qwen3. */
#include "config_values.h"
#include "family.h"
#include "mistral3.h"

static void defaults(sac_model_config *c) { /* transformers' LightOnOcrConfig */
    c->has_vision = true;
    c->merger = &sac_merger_mistral3;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = false;
    c->image_token = 151655;
    c->dialect = &sac_dialect_lighton_ocr;
}

/* What that class says where one of its two halves is missing: LightOnOCR-1B. */
static json_t *usual_text(void) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:i}", "head_dim", 128, "hidden_size", 1024, "intermediate_size", 3072,
                     "max_position_embeddings", 40960, "num_attention_heads", 16, "num_hidden_layers", 28, "num_key_value_heads", 8,
                     "rms_norm_eps", 1e-6, "rope_theta", 1e6, "vocab_size", 151936);
}
static json_t *usual_vision(void) {
    return json_pack("{s:i, s:s}", "patch_size", 14, "hidden_act", "silu");
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const sac_mistral3_usual usual = {sac_family_qwen3.name, usual_text, usual_vision};
    SAC_TRY(sac_mistral3_read_halves(c, config, &usual, err));
    return sac_mistral3_read_tokens(c, config, err);
}

/* Pictures are made for whole squares of patches. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    int patch = 14, merge = 2;
    SAC_TRY(sac_mistral3_mmproj_size(p, err));
    SAC_TRY(sac_config_get_int(p->keys, "clip.vision.patch_size", 1, SAC_CONFIG_MAX_IMAGE, &patch, err));
    SAC_TRY(sac_config_get_int(p->keys, "clip.vision.spatial_merge_size", 1, 16, &merge, err));
    json_object_set_new(p->preprocessor, "patch_size", json_integer((json_int_t)patch * merge));
    return SAC_OK;
}

const sac_family sac_family_lighton_ocr = {
    .name = "lighton_ocr", .defaults = defaults, .read = read, .positions = sac_positions_plain, .mmproj = mmproj};
