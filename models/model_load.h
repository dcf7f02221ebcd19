/* model_load.h - the steps of sac_loaded_model_open, inside models/ only. */
#ifndef SAC_MODELS_MODEL_LOAD_H
#define SAC_MODELS_MODEL_LOAD_H

#include "adapted.h"
#include "checkpoint.h"
#include "config.h"
#include "controller.h"
#include "hash.h"
#include "kept_adapters.h"
#include "model.h"
#include "model_path.h"

/* Behind sac_loaded_model.checkpoint. */
typedef struct sac_model_files {
    sac_checkpoint weights;
    sac_checkpoint
        tower; /* empty unless the tower's weights have a folder, or the vision half a file, of their own */
    sac_checkpoint joined; /* entries that language_tensors.h has put into weights and will take out again */
    sac_adapters adapters;
    sac_kept_adapters kept;
    sac_tensor_entry *tensors; /* what sac_loaded_model.tensors points to */
    sac_controller controller; /* what sac_decoder.controller points to, and its weights */
    float *controller_block;
    float *head_losses; /* what sac_decoder.head_losses points to */
    json_t *quantization; /* what goes with weights that were rounded while they were loaded; or NULL */
} sac_model_files;

typedef struct sac_load_context {
    sac_loaded_model *m;
    sac_model_files *files;
    const char *path;
    const char *text_path; /* the folder of its tokenizer and chat templates: path, or an adapter's own */
    const sac_load_options *options;
    char found[SAC_MODEL_PATH_BYTES]; /* what path stands for, see model_path.h */
    char
        own_adapter[SAC_MODEL_PATH_BYTES]; /* the folder given as the model, where it has an adapter; or "" */
    sac_model_config config;
    bool has_mmproj;   /* files->tower is a vision half in GGUF */
    bool is_elsewhere; /* an error is about another file than path, and says so */
    sac_sha256 *hash;  /* of everything that decides what the vision part computes, except weights */
    sac_error *err;
} sac_load_context;

sac_status sac_load_folder(sac_load_context *l);
sac_status sac_load_gguf(sac_load_context *l);

/* The tokenizer and the chat templates inside a GGUF language model; the latter once the first is open and the model is bound. */
struct sac_gguf;
sac_status sac_gguf_load_tokenizer(sac_load_context *l, const struct sac_gguf *g);
sac_status sac_gguf_load_chat(sac_load_context *l, const struct sac_gguf *g);

/* Metadata whose names begin with `prefix`, without it, as JSON: true for what is not read here, that is texts that are
 * none, lists of texts, very long ones. */
sac_status sac_gguf_keys(json_t **out, const struct sac_gguf *g, const char *prefix, sac_error *err);

/* The file of the vision half that the options ask for or that lies beside l->path; "" when there is none. */
sac_status sac_load_find_mmproj(const sac_load_context *l, char path[SAC_MODEL_PATH_BYTES], sac_error *err);

/* What the language model's own file says that a vision half has to go with. */
typedef struct sac_gguf_language {
    const char *architecture;
    int sections[SAC_POSITION_AXES]; /* rope.dimension_sections */
    bool has_sections;
    int64_t n_deep; /* n_deepstack_layers; -1: not said */
} sac_gguf_language;

/* The vision half of a language model in GGUF, where there is one: its tensors into files->tower, and l->config, which
 * holds the language model's, becomes that of the whole; m->processor. The tokenizer is open. */
sac_status sac_load_mmproj(sac_load_context *l, const sac_gguf_language *language);
/* The tensors of a vision half under the names and in the shapes that the tower c looks for: matrices of queries, keys
 * and values as one or as three, the two frames of a patch as one, up and down as they are named today; n_deep: layers
 * that have mergers of their own. */
sac_status sac_mmproj_name_tensors(sac_checkpoint *c, int hidden, sac_error *err);
sac_status sac_mmproj_shape_tensors(sac_checkpoint *c, const sac_tower_config *tower, int n_deep,
                                    sac_error *err);

/* What is in a folder with an adapter_config.json: an adapter beside its base, or nothing but an adapter, whose base
 * path becomes. */
sac_status sac_load_find_adapter(sac_load_context *l);
/* files->adapters: the folder's own, then those of the options, and their keys; the configuration has been read.
 * architecture: a GGUF file's; NULL: of a folder. */
sac_status sac_load_open_adapters(sac_load_context *l, const char *architecture);

/* files->kept: those of the options, of the same kind. */
sac_status sac_load_open_kept_adapters(sac_load_context *l, const char *architecture);
/* Their matrices beside those of m->decoder, and those of `adapters` beside quantised ones; the decoder is bound. */
sac_status sac_load_bind_kept_adapters(sac_load_context *l, bool gguf);

/* Rounds files->weights as the options ask (round_weights.h); *quantization, the files' own, becomes what goes with them.
 * The configuration has been read. */
sac_status sac_load_round_weights(sac_load_context *l, const json_t **quantization, bool gguf);

/* Into l->hash; order of keys and white space do not matter. */
sac_status sac_load_hash_json(sac_load_context *l, const json_t *v);

/* The JSON object of <folder>/<name>; *out is NULL when there is no such file. */
sac_status sac_load_json(json_t **out, const char *folder, const char *name, sac_error *err);

/* Where a tower with files of its own is: <folder>/<mm_vision_tower>, or <folder>/vision_tower; *name, which may be the
 * JSON's: without the folder before it; NULL: there is none. */
sac_status sac_load_find_tower(const char **name, const char *folder, const json_t *config, sac_error *err);
/* The tower's own config.json, CLIP's or the vision half's, becomes the "vision_config" of the model's, `config`. */
sac_status sac_load_adopt_tower_config(const char *folder, json_t *config, sac_error *err);

#define SAC_GGUF_TEMPLATE_NAME 64 /* bytes of the name of a chat template in GGUF, at most */
#define SAC_VIDEO_CHAT "(video)" /* the name of a family's own template for conversations with videos */

/* m->chat: the family's format, and nothing yet in m->templates. The tokenizer is open. */
sac_status sac_load_chat(sac_load_context *l);
/* The same with the folder's templates and special tokens; templates are opened by sac_loaded_model_set_chat. */
sac_status sac_load_folder_chat(sac_load_context *l);
/* The folder's templates alone. Template files go before what the JSON files say; of these the first that has one counts. */
sac_status sac_load_folder_templates(sac_chat_templates *out, const char *folder, sac_error *err);
/* The ids of the tokens around pictures and frames, and the family's own template for videos: once the templates and
 * special tokens of the files are known. */
sac_status sac_load_media_tokens(sac_load_context *l);
sac_status sac_load_video_chat(sac_load_context *l);
/* What templates write for pictures and videos, once their tokens are known; sac_load_chat calls it for the defaults. */
sac_status sac_load_placeholders(sac_load_context *l);

/* One more id that ends answers, unless it is among them. */
void sac_load_stop_id(sac_loaded_model *m, int32_t id);

/* The folder's controller for ADORE, when it has one. */
sac_status sac_load_controller(sac_load_context *l);

/* The folder's losses of heads for DuoAttention, when it has them. */
sac_status sac_load_head_losses(sac_load_context *l);

/* m->fingerprint; frees l->hash. */
sac_status sac_load_fingerprint(sac_load_context *l);

#endif
