/* smolvlm.c - SmolVLM and SmolVLM2 (Marafioti et al., arXiv:2504.05299), and Idefics3 (arXiv:2408.12637), which they are
 * built as: a SigLIP tower whose features are joined in squares, one linear layer, and Llama. A large picture is tiles and
 * the whole, each behind a text that says which; a video's frames stand behind their times. */
#include "config_values.h"
#include "family.h"

enum { MOST_SCALE = 64 };

/* As transformers' SmolVLMProcessor writes conversations with a video, whatever the folder's template does. */
static const char video_chat[] =
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}:"
    "{{ '' if m['content'][0]['type'] == 'image' else ' ' }}"
    "{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}<image>{% elif part['type'] == 'video' %}<video>{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

static void defaults(sac_model_config *c) { /* transformers' SmolVLMConfig and SmolVLMVisionConfig */
    sac_family_llama.defaults(c);
    c->has_vision = true;
    c->merger = &sac_merger_smolvlm;
    c->dialect = &sac_dialect_smolvlm;
    c->image_token = 128257;
    c->video_chat = video_chat;
    c->video_mark = "<video>";
    c->tower = (sac_tower_config){.kind = &sac_tower_idefics3,
                                  .image_size = 224,
                                  .patch_size = 32,
                                  .hidden = 1152,
                                  .n_layers = 12,
                                  .n_heads = 16,
                                  .intermediate = 3072,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_GELU_TANH,
                                  .merge_size = 2};
}

/* transformers' default is Llama with another epsilon; other text models have been put under this tower by nobody. */
static sac_status read_text(sac_model_config *c, const json_t *config, sac_error *err) {
    if (!sac_config_has(config, "text_config")) c->decoder.rms_eps = 1e-5f;
    return sac_config_read_only_text(c, config, &sac_family_llama, sac_family_llama.read, err);
}

/* Whatever its model_type is, transformers reads it as this tower's. */
static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    json_t *own = vision ? json_copy((json_t *)(uintptr_t)vision) : json_object();
    if (!own) return sac_fail(err, SAC_NO_MEMORY, "no memory for a configuration");
    json_object_del(own, "model_type");
    sac_status st = sac_config_read_tower(c, own, err);
    json_decref(own);
    c->tower.n_feature_layers = 1;
    c->tower.feature_layer[0] = c->tower.n_layers;
    return st;
}

static sac_status read_scale(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_tower_config *v = &c->tower;
    const int side = v->image_size / v->patch_size;
    SAC_TRY(sac_config_get_int(config, "scale_factor", 1, MOST_SCALE, &v->merge_size, err));
    if (side % v->merge_size == 0) return SAC_OK;
    return sac_fail(
        err, SAC_BAD_FILE,
        "\"scale_factor\" %d: the tower's %d x %d patches are not whole squares of so many a side",
        v->merge_size, side, side);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *vision = NULL;
    bool tied = false; /* tying in either place counts */
    SAC_TRY(read_text(c, config, err));
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    sac_status st = read_tower(c, vision, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(read_scale(c, config, err));
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_id", NULL, c->decoder.vocab, err));
    if (sac_config_has(config, "eos_token_id")) c->n_stop_ids = 0; /* stands before text_config's */
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

/* Tiles are of the tower's size; videos are sampled as SmolVLM2's folders say. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    (void)err;
    json_t *side = json_object_get(p->vision, "image_size"),
           *longest = json_object_get(p->keys, "clip.vision.preproc_image_size");
    if (longest) json_object_set_new(p->preprocessor, "size", json_pack("{s:O}", "longest_edge", longest));
    json_object_set_new(p->preprocessor, "max_image_size", json_pack("{s:O}", "longest_edge", side));
    json_object_set_new(
        p->preprocessor, "video_sampling",
        json_pack("{s:i, s:i, s:{s:O}}", "fps", 1, "max_frames", 64, "video_size", "longest_edge", side));
    return SAC_OK;
}

const sac_family sac_family_smolvlm = {.name = "smolvlm",
                                       .defaults = defaults,
                                       .read = read,
                                       .positions = sac_positions_plain,
                                       .mmproj = mmproj};
