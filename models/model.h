/* model.h - a loaded model: everything that is read-only and shared by sessions. */
#ifndef SAC_MODELS_MODEL_H
#define SAC_MODELS_MODEL_H

#include "chat.h"
#include "chat_template.h"
#include "config.h"
#include "config_keys.h"
#include "decoder.h"
#include "positions.h"
#include "tokenizer.h"

/* One tensor as the file has it, for `inspect` and the memory plan. */
typedef struct sac_tensor_entry {
    const char *name;       /* owned by the model's checkpoint */
    const char *dtype_name; /* "bf16", "i64" */
    sac_tensor tensor;      /* data is NULL for types that cannot be computed with; dimensions beyond four
                               are folded into the last */
    size_t n_bytes;
} sac_tensor_entry;

/* Matrices of layers that a scheme (scheme.h) was asked for and left as they are, because of the length of their rows. */
typedef struct sac_unrounded {
    int n;
    char first[128]; /* the name of one; "" without any */
} sac_unrounded;

/* How conversations are written: by a template, or in a built-in format. */
typedef struct sac_model_chat {
    const sac_chat_format *format;               /* NULL: by a template */
    const sac_chat_template *plain, *with_tools; /* for conversations without and with tools; often one */
    const sac_chat_template *with_videos;        /* for those with a video, where it is another; or NULL */
    const char *stops[2];                        /* texts that end an answer besides ids; NULL-terminated */
    bool
        adds_special; /* what the tokenizer adds to a text goes around a conversation that does not begin with it */
} sac_model_chat;

/* An adapter. */
typedef struct sac_adapter_entry {
    const char *name; /* under which it is kept apart; NULL: it is part of the weights */
    const char *folder;
    double scale;
    int rank;
    bool is_dora;
    int n_tensors;
    size_t n_bytes;
} sac_adapter_entry;

typedef struct sac_loaded_model {
    const char *family; /* "llava" */
    sac_decoder decoder;
    bool has_vision;
    const char
        *mmproj; /* the file of the vision half, where that is one of its own; owned by the checkpoint */
    sac_tower tower;
    sac_merger merger;
    sac_processor_config processor;
    const float *image_newline;          /* [hidden] or NULL */
    bool video_newline;                  /* that, behind the frames of a video */
    bool time_instruction;               /* a sentence behind a video says when its frames are */
    int32_t video_token;                 /* id of a video's rows */
    int32_t vision_start, vision_end;    /* as in sac_model_config */
    double tokens_per_second, video_fps; /* as in sac_model_config */
    int32_t image_token; /* id of the placeholder, -1 without vision; LongVA's, -200, is outside the
                                   vocabulary */
    sac_frame_layout frame_layout;
    sac_positions_fn positions; /* of the rows of a prompt, by the family */
    sac_tokenizer *tokenizer;
    sac_model_chat chat;
    sac_chat_templates *templates; /* the files' */
    bool
        template_adds_special; /* as transformers' processors do and its tokenizers do not; GGUF as llama.cpp */
    int32_t stop_ids[16];      /* eos ids of generation_config / config / chat */
    int n_stop_ids;
    sac_generation_config generation; /* sampling defaults; do_sample false = greedy */
    sac_config_keys keys;             /* of its files, except those of tokens and generation */
    const sac_tensor_entry *tensors;  /* [n_tensors], sorted by name */
    int n_tensors;
    int64_t n_parameters;
    size_t weight_bytes;     /* of the files */
    sac_dtype dtype;         /* of most weight bytes */
    sac_unrounded unrounded; /* of sac_load_options.weights */
    uint8_t fingerprint[32]; /* identifies weights and processor in the vision embedding cache */
    sac_arena arena;         /* f32 copies of norms and biases, matrices read otherwise than they lie, layer tables */
    int own_adapter; /* of the decoder's, what sequences have that ask for none: products beside quantised matrices,
                        into which nothing can be merged; or 0 */
    void *checkpoint; /* mappings, released by sac_loaded_model_free */
} sac_loaded_model;

/* Called while files are mapped and tensors bound; NULL = silent. */
typedef void (*sac_load_progress)(void *ctx, int64_t done, int64_t total);

typedef struct sac_load_options {
    sac_tokenizer_rule tokenizer_rule; /* of a folder; a GGUF file is not touched by it */
    const char *const *adapters;       /* LoRA adapters, "DIR" or "DIR:scale" */
    size_t n_adapters;
    const char *const *kept_adapters; /* those to be kept apart, "NAME=DIR" or "NAME=DIR:scale" */
    size_t n_kept_adapters;
    /* The vision half of a GGUF language model; NULL: a file mmproj*.gguf beside it, where there is one; "none": none. */
    const char *mmproj;
    const char *weights; /* a scheme's name (scheme.h): the language half is rounded to it; NULL: as the files have it */
    sac_pool *pool; /* threads that merge and round them; NULL: the caller's alone */
    sac_load_progress progress;
    void *progress_ctx;
} sac_load_options;

/* The i-th of its adapters, which borrows from the model; false when there is none. */
bool sac_loaded_model_adapter(const sac_loaded_model *m, int64_t i, sac_adapter_entry *out);

/* The number that a sequence is run with (sac_decoder_state.adapter) for the adapter that is kept apart under this
 * name; NULL: for the model as it is. NOT_FOUND, with the names that there are. */
sac_status sac_loaded_model_find_adapter(const sac_loaded_model *m, const char *name, int *number,
                                         sac_error *err);

/* `path` is a Hugging Face folder or a .gguf file. On failure nothing is left open. */
sac_status sac_loaded_model_open(sac_loaded_model *m, const char *path, sac_load_progress progress, void *ctx,
                                 sac_error *err);
/* The same with further options, which may be gone afterwards. */
sac_status sac_loaded_model_open_with(sac_loaded_model *m, const char *path, const sac_load_options *options,
                                      sac_error *err);
/* Identifies all that rows of the decoder are made by: the configuration, the weights of both halves as they were loaded, and
 * the adapters with the numbers that sequences are run with. Reads a part of every tensor (fingerprint.c). */
sac_status sac_loaded_model_rows_fingerprint(const sac_loaded_model *m, uint8_t hash[32], sac_error *err);

void sac_loaded_model_free(sac_loaded_model *m); /* a zeroed model is fine */

/* Chooses how conversations are written; what ends a turn then ends answers too. Until then it is the family's
 * format. NULL: the files' template, where they have one. Otherwise, in this order, a template of the files by its
 * name, a built-in format, or a template's file. A template that cannot be run is BAD_FILE. */
sac_status sac_loaded_model_set_chat(sac_loaded_model *m, const char *choice, sac_error *err);

#endif
