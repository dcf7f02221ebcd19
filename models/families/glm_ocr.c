/* glm_ocr.c - GLM-OCR (zai-org/GLM-OCR; transformers' GlmOcr), which reads documents: GLM-4.1V (glm4v.c) in small, with heads as wide as
 * they say and a tower of its own. */
#include "config_values.h"
#include "family.h"
#include "glm4.h"

static void defaults(sac_model_config *c) { /* transformers' GlmOcrTextConfig and GlmOcrConfig */
    sac_family_glm4v.defaults(c);
    c->qkv_bias = false;
    c->decoder.n_layers = 16;
    c->decoder.hidden = 1024;
    c->decoder.n_heads = 16;
    c->decoder.n_kv_heads = 8;
    c->decoder.intermediate = 4096;
    c->decoder.vocab = 59392;
    c->decoder.max_position = 131072;
    c->image_token = 59280;
    c->tower.kind = &sac_tower_glmocrvit;
    c->tower.hidden = 1024;
    c->tower.n_heads = 16;
    c->tower.intermediate = 4096;
    c->tower.qkv_bias = true;
    c->tower.table_is_cubic = false;
}

static sac_status read_text(sac_model_config *c, const json_t *text, sac_error *err) {
    SAC_TRY(sac_glm4_read(c, text, err));
    c->qkv_bias = false; /* whatever "attention_bias" says, which must be false */
    return SAC_OK;
}

/* The merger's MLP is as wide as what it gives out is, once for each color. */
static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &c->tower.intermediate, err));
    SAC_TRY(sac_config_check_range("width of the merger's MLP", 3 * (int64_t)c->decoder.hidden, SAC_CONFIG_MAX_WIDTH, err));
    c->merger_width = 3 * c->decoder.hidden;
    return sac_glm4v_read_tower(c, vision, 1536, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_glm4v_read(c, config, "glm_ocr_text", read_text, read_tower, err);
}

/* The MLPs are as wide as the tensors are, and the merger's as read_tower has it; pictures and frames are GLM-4.6V's. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    static const char *const others[] = {"v.position_embd.weight", "v.norm_embd.weight"}; /* GLM-4.1V's */
    for (size_t i = 0; i < SAC_COUNT(others); i++)
        if (p->rows(p->tensors, others[i]))
            return sac_fail(err, SAC_UNSUPPORTED, "tensor %s is not supported beside norms of heads (v.blk.0.attn_q_norm.weight)", others[i]);
    SAC_TRY(sac_glm4v_mmproj(p, err));
    json_object_set_new(p->vision, "intermediate_size", json_integer(p->rows(p->tensors, "v.blk.0.ffn_up.weight")));
    json_object_set_new(p->preprocessor, "image_processor_type", json_string("Glm46VImageProcessor"));
    return SAC_OK;
}

const sac_family sac_family_glm_ocr = {
    .name = "glm_ocr", .defaults = defaults, .read = read, .positions = sac_positions_mrope, .mmproj = mmproj};
