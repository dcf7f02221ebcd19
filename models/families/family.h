/* family.h - the families of models that can be loaded.
 *
 * A family is one .yaml (which config.json it answers to, the names and shapes of its tensors, its chat
 * format) and one .c (the values that its files leave out, and what it refuses): a new one is those two files
 * and a line in family.c. The YAML travels inside the library as text. */
#ifndef SAC_MODELS_FAMILY_H
#define SAC_MODELS_FAMILY_H

#include "config.h"
#include "positions.h"

/* models/families/<name>.yaml as text inside the library. */
typedef struct sac_embedded_yaml {
    const char *name, *text;
    size_t n_bytes;
} sac_embedded_yaml;
extern const sac_embedded_yaml sac_family_yaml[];
extern const int sac_n_family_yaml;

/* What a GGUF file of a vision half (mmproj) says, as a family reads it. */
typedef struct sac_mmproj {
    const json_t *keys; /* its metadata */
    /* Of a tensor of that name the outermost dimension; 0: there is none. */
    int64_t (*rows)(const void *tensors, const char *name);
    const void *tensors;
    /* What config.json, its vision_config and preprocessor_config.json would say: filled by the family's YAML, then by
     * its mmproj. */
    json_t *config, *vision, *preprocessor;
    json_t *video; /* video_preprocessor_config.json; stays empty where published folders have none */
} sac_mmproj;

struct sac_family {
    const char *name; /* also of its YAML */
    /* Sets what config.json may leave out; called before anything is read. */
    void (*defaults)(sac_model_config *c);
    /* Reads config.json (and GGUF-independent checks) into c, which holds the defaults. */
    sac_status (*read)(sac_model_config *c, const json_t *config, sac_error *err);
    sac_positions_fn positions; /* of the rows of a prompt */
    /* Adds to what the YAML says of a vision half in GGUF what is not key for key, and what published folders say that no
     * such file does; NULL: nothing, or the family has none. */
    sac_status (*mmproj)(sac_mmproj *p, sac_error *err);
    /* Of the family's language models in GGUF, whose common keys model_gguf.c reads: what its own say and what no key says,
     * into c, which is in range. `keys`: the architecture's, without its name in front; and
     * "exp_probs_b" where a layer has a tensor of that name. NULL: nothing. */
    sac_status (*read_gguf)(sac_model_config *c, const json_t *keys, sac_error *err);
    /* The other way round, into `keys`: integers, reals, booleans and lists of booleans. UNSUPPORTED for what GGUF cannot say. */
    sac_status (*write_gguf)(const sac_model_config *c, json_t *keys, sac_error *err);
    bool gguf_experts;    /* its files in GGUF may have experts, though those that say nothing have none */
    bool gguf_all_sparse; /* in GGUF, no layer has an MLP alone: how wide one is no key says */
    bool gguf_latents;    /* in GGUF, lengths of keys and values are those of latents: the family reads them */
    bool gguf_no_begin;   /* in GGUF, nothing is put before a text unless the file says so, whatever the vocabulary */
    bool gguf_neighbours; /* in GGUF, rope turns neighbouring channels: rows of queries and keys are permuted */
};

extern const sac_family sac_family_llama, sac_family_mistral, sac_family_qwen2, sac_family_qwen3,
    sac_family_qwen3_moe; /* text */
extern const sac_family sac_family_llava_pixtral, sac_family_paddleocr; /* in GGUF alone */
extern const sac_family sac_family_llava, sac_family_llava_next, sac_family_llava_onevision,
    sac_family_longva;
extern const sac_family sac_family_llava_next_video, sac_family_internvl, sac_family_internvl_chat;
extern const sac_family sac_family_qwen2_vl, sac_family_qwen2_5_vl, sac_family_qwen3_vl,
    sac_family_qwen3_vl_moe;

extern const sac_family sac_family_smolvlm;
extern const sac_family sac_family_gemma2, sac_family_gemma3_text, sac_family_granite, sac_family_olmo2,
    sac_family_smollm3, sac_family_phi3, sac_family_mixtral, sac_family_olmoe, sac_family_granitemoe,
    sac_family_granitemoeshared, sac_family_glm4, sac_family_glm4_moe; /* text */
extern const sac_family sac_family_gemma3;
extern const sac_family sac_family_ministral, sac_family_ministral3; /* text */
extern const sac_family sac_family_mistral3;
extern const sac_family sac_family_glm4v, sac_family_glm4v_moe;
extern const sac_family sac_family_qwen3_5_text; /* text */
extern const sac_family sac_family_qwen3_5;
extern const sac_family sac_family_qwen3_5_moe_text; /* text */
extern const sac_family sac_family_qwen3_5_moe;
extern const sac_family sac_family_minicpmv4_6;
extern const sac_family sac_family_qwen3_next; /* text */
extern const sac_family sac_family_deepseek_v3, sac_family_deepseek_v2; /* text */
extern const sac_family sac_family_kimi_vl;
extern const sac_family sac_family_glm_ocr;
extern const sac_family sac_family_lighton_ocr;
extern const sac_family sac_family_paddleocr_vl;

extern const sac_family *const sac_families[]; /* NULL-terminated */

/* The one of that name in a NULL-terminated list, or NULL. */
const sac_family *sac_family_find(const sac_family *const *families, const char *name);

/* The family whose YAML lists the config's model_type, which decides as in transformers; its first architecture,
 * where given, must be one that some family lists, and decides where there is no model_type. */
sac_status sac_family_of_config(const sac_family **out, const json_t *config, sac_error *err);
sac_status sac_family_of_gguf(const sac_family **out, const char *architecture, sac_error *err);

/* The model_type, or architecture in GGUF, that comes nearest to one that no family lists; "": none does. It says where to
 * look, not that the model would run. */
sac_status sac_family_near_config(char nearest[40], const json_t *config, sac_error *err);
sac_status sac_family_near_gguf(char nearest[40], const char *architecture, sac_error *err);

/* The family whose YAML lists the projector of a vision half in GGUF, of several the one that stands on language models of
 * that architecture; of p the metadata and the tensors. */
sac_status sac_family_of_mmproj(const sac_family **out, const sac_mmproj *p, const char *architecture, sac_error *err);
/* Learned positions a side, where they are those of a square, of 1024 at most: by how many there are. */
sac_status sac_mmproj_table_side(int *side, const sac_mmproj *p, sac_error *err);
/* p->config, vision and preprocessor, which are empty objects, as the family's YAML and its mmproj have them. */
sac_status sac_family_read_mmproj(const sac_family *family, sac_mmproj *p, sac_error *err);

#endif
