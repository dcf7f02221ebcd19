/* config.h - config.json and its companions, checked. Everything that later sizes a buffer or divides is in
 * range once these return OK; errors name the key. */
#ifndef SAC_MODELS_CONFIG_H
#define SAC_MODELS_CONFIG_H

#include "controls.h"
#include "decoder.h"
#include "dialect.h"
#include "json.h"
#include "merger.h"
#include "tower.h"

typedef struct sac_family sac_family;

#define SAC_MAX_STOP_IDS 16

/* How a video's frames stand in the prompt. */
typedef enum sac_frame_layout {
    SAC_FRAMES_SEPARATE, /* every frame has its own image placeholder */
    SAC_FRAMES_JOINED,   /* one placeholder, the frames' tokens one after the other (LongVA) */
    SAC_FRAMES_TIMED,    /* each step of a video's time has its own, behind its seconds as text (Qwen3-VL) */
    SAC_FRAMES_SECONDS,  /* each step of a video's time has its own, before its seconds as text (GLM-4.1V) */
    SAC_FRAMES_COUNTED,  /* each frame has its own, behind "Frame1: " and so on (InternVL) */
} sac_frame_layout;

/* A key of the file that settings of generation come from. */
typedef struct sac_generation_key {
    char name[64];
    char value[160]; /* as JSON writes it, cut where it is longer */
    enum { SAC_SETTING_HONOURED, SAC_SETTING_OF_SAMPLING, SAC_SETTING_QUIET, SAC_SETTING_UNKNOWN } kind;
} sac_generation_key;

enum { SAC_MAX_GENERATION_KEYS = 256 };

typedef struct sac_generation_config {
    bool do_sample;
    double temperature, top_p, min_p, repetition_penalty;
    int top_k;
    int max_new_tokens; /* 0 = not said */
    sac_controls controls;
    sac_generation_key *keys; /* [n_keys] of the file, owned */
    int n_keys;
    char unknown[64]; /* the first key that nothing here knows, or "" */
} sac_generation_config;

void sac_generation_config_clear(sac_generation_config *g); /* frees what it holds */

typedef struct sac_model_config {
    const sac_family *family;
    const sac_family *const *families; /* all of them, for a family whose text model is another's */
    const sac_family *text_family; /* whose tensors the decoder has: the family itself when it is text only */
    char default_chat[32];         /* of the family's YAML */
    sac_decoder_config decoder;
    const char *gate_key; /* of the gate's activation; NULL: "hidden_act", which must be SiLU's */
    bool qkv_bias, o_bias;
    bool qk_norm;         /* of each head of queries and keys */
    bool no_pre_norms;    /* none before a part of a layer */
    bool post_norms;      /* of what each part of a layer makes, before it is added */
    double partial_rotary; /* of a head's channels, where "partial_rotary_factor" is missing; 0: all, and no other is supported */
    bool has_axes;        /* rows are numbered on three axes, which share the rotary pairs (M-RoPE) */
    bool axes_take_turns; /* see sac_rope_config */
    bool may_be_long;     /* LongRoPE and no other scaling; and some channels of a head may be left as they are */
    double video_fps;     /* that the family's own code samples when nothing is asked for; 0: every frame */
    double tokens_per_second; /* of time's axis in videos; 0: a step of the grid is 1 */
    bool tied_head;           /* as the file says; the checkpoint decides (binder.h) */

    bool has_vision;
    sac_tower_config tower;
    const sac_merger_kind *merger;
    sac_activation projector_act;
    bool projector_bias, projector_norm_bias;
    float projector_norm_eps; /* 0: the tower's */
    int merger_width; /* of the MLP that ends the merger (GLM-4.1V); 0: it has none */
    bool pools_first; /* see sac_merger */
    int32_t vision_start, vision_end; /* around each placeholder of timed frames */
    int32_t image_token, video_token; /* video_token -1: a video's rows have the picture's */
    /* Of counted frames: the texts of the tokens around the rows of a picture and of a frame, which are the tokenizer's
     * to number, and of what a template writes for a video, where the tokenizer's files name no others. NULL in other
     * layouts. */
    const char *media_begin, *media_end, *video_mark;
    /* Tokens that its texts between pictures have: the tokenizer's keys that may name them, and the only names; ends with NULLs.
     * NULL: none. */
    const char *const (*text_tokens)[2];
    const char *image_mark; /* the text of the picture's token, where no file has its id: the tokenizer's to number; or NULL */
    bool begin_is_mark; /* media_begin is what a template writes for a picture, and a family's texts have these very names */
    bool image_newline;
    bool video_newline; /* one behind the frames of a video */
    /* The chat template of every conversation with a video, and of all where the folder has none; it writes "<video>" for
     * one. NULL: the folder's. */
    const char *video_chat;
    const sac_dialect *dialect;
    sac_frame_layout frame_layout;
    /* LongVA: what config.json says of the tower is its name, e.g. "openai/clip-vit-large-patch14-336"; NULL
     * when vision_config stands in the file. Borrowed from the JSON. */
    const char *tower_name;

    int32_t stop_ids[SAC_MAX_STOP_IDS]; /* eos_token_id of config.json */
    int n_stop_ids;
    int32_t default_stop_id; /* where no file names one; -1 = none */
    bool time_instruction;   /* a sentence behind a video says when its frames are (LLaVA-Video) */
    bool latent_bias;        /* the products that make latents have biases (DeepSeek) */
    float merger_scale; /* see sac_merger; 0: 1 */
} sac_model_config;

/* Of a model with experts: "num_experts" (or "num_local_experts"), "num_experts_per_tok", "moe_intermediate_size", and which
 * layers have them ("decoder_sparse_step", "mlp_only_layers"); c holds the defaults and has read the decoder. Where no
 * layer has them, experts.n becomes 0. */
sac_status sac_config_read_experts(sac_model_config *c, const json_t *object, sac_error *err);
/* Of a model whose layers all have experts, each as wide as "intermediate_size" says. */
sac_status sac_config_read_experts_alone(sac_model_config *c, const json_t *object, sac_error *err);
/* Of DeepSeek-V3's kind (arXiv:2412.19437, sec. 2.1.2): "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
 * "norm_topk_prob", "n_group", "topk_group", "routed_scaling_factor"; "n_shared_experts", which are one MLP of so many times an
 * expert's width, and "first_k_dense_replace": the layers that have none. c holds the defaults and has read the decoder. */
sac_status sac_config_read_routed_experts(sac_model_config *c, const json_t *object, int n_shared, int n_dense, sac_error *err);
/* The same of GGUF, whose layers behind the last ("nextn_predict_layers") are left out. may_be_softmax: scores may be one too, and are
 * where the file does not say. */
sac_status sac_config_read_gguf_routed_experts(sac_model_config *c, const json_t *keys, bool may_be_softmax, sac_error *err);
/* Layers behind the last ("nextn_predict_layers" of GGUF) are left out of c->decoder.n_layers, which counts them. BAD_FILE: no layer is left. */
sac_status sac_config_drop_gguf_layers(sac_model_config *c, const json_t *keys, sac_error *err);
/* Of GGUF: every layer has experts; `normed`: their weights add up to 1 where no key says otherwise. */
sac_status sac_config_read_gguf_experts(sac_model_config *c, const json_t *keys, bool normed, sac_error *err);
/* What was read of experts, or came of elsewhere. */
sac_status sac_config_check_experts(const sac_expert_shape *x, sac_error *err);

/* The merger that this configuration asks for, without weights. */
static inline sac_merger sac_model_config_merger(const sac_model_config *c) {
    const bool is_patch = c->merger && c->merger->joins_squares;
    int joins = is_patch ? c->tower.merge_size * c->tower.merge_size : 1;
    int in = is_patch ? c->tower.hidden : sac_tower_cols(&c->tower);
    int room = c->merger_width > c->decoder.hidden ? c->merger_width : c->decoder.hidden; /* merger_glm.c */
    return (sac_merger){.kind = c->merger,
                        .in = in,
                        .joins = joins,
                        .pools_first = c->pools_first,
                        .norm_eps = c->projector_norm_eps > 0 ? c->projector_norm_eps : c->tower.norm_eps,
                        .width = c->merger_width,
                        .hidden = c->merger_width                   ? c->decoder.hidden + 2 * room
                                  : !is_patch || c->merger->narrows ? c->decoder.hidden
                                  : c->merger->reduces              ? in + c->decoder.hidden
                                  : c->merger->pools              ? in
                                                                  : joins * in,
                        .n_deep = c->decoder.n_deep,
                        .out = c->decoder.hidden,
                        .act = c->projector_act,
                        .scale = c->merger_scale};
}

/* Zeroes c, sets the family and what its YAML and its defaults say. */
sac_status sac_model_config_default(sac_model_config *c, const sac_family *family, sac_error *err);

/* Reads config.json through its family; `config` must live as long as c->tower_name is used. */
sac_status sac_model_config_read(sac_model_config *c, const json_t *config, sac_error *err);

/* Parts, for the families. `object` is where the keys stand (config.json or its
 * text_config / vision_config). */
sac_status sac_config_read_decoder(sac_model_config *c, const json_t *object, sac_error *err);
sac_status sac_config_read_rope(sac_model_config *c, const json_t *object, sac_error *err);
/* Where its keys stand, by the old name or the new one; NULL where there are none. */
sac_status sac_config_rope_object(const json_t **out, const json_t *object, sac_error *err);
/* Of families that know LongRoPE and no other scaling (config_long_rope.c): by the name of its type, of which there are
 * three; and what it says in p, and in the object around it. The decoder has its head's size, and how much of it is turned. */
sac_status sac_config_long_rope_named(const char *name, sac_rope_scaling *out, sac_error *err);
sac_status sac_config_read_long_rope(sac_model_config *c, const json_t *object, const json_t *p, sac_error *err);
/* "layer_types": which layers slide; nothing changes without it. c->decoder has its layers and their window. */
sac_status sac_config_read_layer_types(sac_model_config *c, const json_t *object, sac_error *err);
/* The layers of the set slide; where it is empty, the decoder has no window. */
void sac_config_slide(sac_model_config *c, const sac_layer_set *set);
#define SAC_WINDOW_PATTERN "attention.sliding_window_pattern"
/* Of GGUF: which layers slide, of each `period` all but the last where the key does not say otherwise, with a list of flags
 * or a period. c->decoder has its layers and their window. */
sac_status sac_config_read_window_pattern(sac_model_config *c, const json_t *keys, int period, sac_error *err);
/* The other way round: flags, where it is not what `period` makes. */
sac_status sac_config_write_window_pattern(const sac_model_config *c, json_t *keys, int period, sac_error *err);
sac_status sac_config_read_tower(sac_model_config *c, const json_t *object, sac_error *err);
typedef sac_status (*sac_config_read_fn)(sac_model_config *c, const json_t *object, sac_error *err);
/* "text_config" of a family that stands on one text model: its model_type must be that one's, or be missing; read by `read`, an
 * empty object where it is missing (config_text.c). Messages begin with "text_config". */
sac_status sac_config_read_only_text(sac_model_config *c, const json_t *config, const sac_family *only, sac_config_read_fn read,
                                     sac_error *err);
/* A size that may be written as one number or as [height, width]; only squares are supported. */
sac_status sac_config_read_side(const json_t *object, const char *key, int *value, sac_error *err);
/* `fallback`: the layer where the key is missing. */
sac_status sac_config_read_layers(sac_model_config *c, const json_t *object, const char *key, int fallback,
                                  sac_error *err);
sac_status sac_config_read_activation(sac_activation *act, const json_t *object, const char *key,
                                      sac_error *err);
/* What a family of LLaVA's kind says without a key. */
typedef struct sac_llava_defaults {
    const char *text;              /* model_type of text_config */
    const sac_tower_config *tower; /* without vision_config */
    int feature_layer;
    const char *strategy; /* vision_feature_select_strategy */
    /* Reads vision_config; NULL: sac_config_read_llava_tower. */
    sac_status (*read_tower)(sac_model_config *c, const json_t *vision, sac_error *err);
} sac_llava_defaults;
/* A CLIP or SigLIP tower, of the kind of c->tower where the object names none (llava.c). */
sac_status sac_config_read_llava_tower(sac_model_config *c, const json_t *vision, sac_error *err);
/* The tower of Pixtral and Mistral 3 (pixtral.c): c->tower becomes its class's defaults, then what vision_config says, which
 * may be NULL; merge: patches stand in squares of so many a side. */
sac_status sac_config_read_pixtral_tower(sac_model_config *c, const json_t *vision, int merge, sac_error *err);
/* LLaVA's and those of its kin (llava.c): text_config, vision_config and what joins them. `own` NULL: LLaVA's with towers of
 * pictures of one size. */
sac_status sac_config_read_llava(sac_model_config *c, const json_t *config, const sac_llava_defaults *own,
                                 sac_error *err);

/* What LLaVA's kind reads of a vision half in GGUF (llava.c). */
struct sac_mmproj;
sac_status sac_llava_mmproj(struct sac_mmproj *p, sac_error *err);

/* Ranges and divisibility of what was read (also from GGUF), whatever it came from. */
sac_status sac_config_check_decoder(const sac_decoder_config *d, sac_error *err);
sac_status sac_config_check_tower(const sac_tower_config *v, sac_error *err);

/* "eos_token_id": an id or a list; adds those not there yet. */
sac_status sac_config_add_stop_ids(int32_t ids[SAC_MAX_STOP_IDS], int *n, const json_t *object, int vocab,
                                   sac_error *err);
/* A key of generation, which stands in config.json too. */
bool sac_config_is_generation_key(const char *key);
/* generation_config.json, or config.json, which transformers reads where there is none (`is_model_config`:
 * its other keys are not looked at); g holds the defaults, and on failure what was read. */
sac_status sac_config_read_generation(sac_generation_config *g, const json_t *object, bool is_model_config,
                                      sac_error *err);

#endif
