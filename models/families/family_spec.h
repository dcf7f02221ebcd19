/* family_spec.h - a family's YAML, parsed.
 *
 *   family: llava
 *   like: clip                     tensors of another file belong to it too; own entries win
 *   model_types: [llava]           what config.json says
 *   architectures: [LlavaForConditionalGeneration]
 *   gguf: [llama]                  general.architecture of GGUF files
 *   text: [llama, mistral, qwen2]  text families that it may stand on
 *   chat: vicuna                   chat format when the files name none
 *   frames: separate               joined: one placeholder for a whole video; timed: one a step of time, behind it;
 *                                  counted: one a frame, behind its number; seconds: one a step of time, before its seconds
 *   prefixes: {text: ["model."]}   what {text} in a name stands for, tried in order
 *   tensors:
 *     layer.q:
 *       names: ["{text}layers.{i}.self_attn.q_proj.weight"]     {i} is the layer, {e} of an expert's matrix the expert
 *       gguf: blk.{i}.attn_q.weight                             without it the row of the file that this one is like counts in GGUF
 *       shape: [heads*head_dim, hidden]                          sums of products of symbols and integers
 *       when: qkv_bias                                           bound only if that flag is set
 *       plus: 1                                                  a vector: what is added to 1; not in GGUF, which has the sum
 *       decays: true                                             a vector that GGUF has as what -exp makes of it
 *       transposed: true                                         a matrix [inputs][outputs], or a vector of two axes that is
 *                                                                read with the first one inside
 *       spread: keys                                             of latent attention: queries, keys, values or outputs, whose
 *                                                                heads are read as llm/latent_attention.h has them; of
 *                                                                linear attention: mixed, gates, decays or strengths
 *       inputs: [p_in, joins]                                    the file has a matrix's inputs in this order, the outer first;
 *                                                                it is read with the two exchanged
 *       channels_last: true                                      a convolution [outputs][channels][h][w], read as a matrix
 *                                                                [outputs][h * w * channels]
 *       within: [t_hidden, 3*t_hidden]                           rows of a tensor that holds others too: the first, and
 *                                                                how many it has in all
 *   mmproj:                        its vision half as a GGUF file of its own
 *     projectors: [mlp]            clip.projector_type
 *     needs: clip.vision.image_grid_pinpoints   only of files that have this key, before other families
 *     needs_tensor: v.blk.0.attn_q_norm.weight   only of files that have this tensor, likewise
 *     text: [llama, qwen2]         general.architecture of language models that may be beside it
 *     gelu: gelu                   what clip.use_gelu means, in config.json's words
 *     tokenless: true              the vocabulary beside it may lack the picture's token
 *     tokens: {image_token_id: "<image>"}       config.json's keys of ids, and those tokens
 *     config, vision_config, preprocessor:      where the keys of other files would stand: what they are here
 *       hidden_size: clip.vision.embedding_length
 *   keys:                          what becomes of the keys of its files, by the place where they stand
 *     config:                      config.json; also vision_config, rope, preprocessor, processor, gguf, mmproj, adapter
 *       honoured: [hidden_size]
 *       only: {num_channels: 3}    refused with any other value but null
 *       no_effect: [use_cache, "general.*"]                      a star at the end stands for any rest */
#ifndef SAC_MODELS_FAMILY_SPEC_H
#define SAC_MODELS_FAMILY_SPEC_H

#include "status.h"

#include <stdbool.h>

#define SAC_SPEC_MAX_ITEMS    8
#define SAC_SPEC_MAX_TENSORS  64
#define SAC_SPEC_MAX_PREFIXES 4
#define SAC_SPEC_MAX_KEYS     256
#define SAC_SPEC_MAX_VALUES   32
#define SAC_SPEC_MAX_BYTES    ((size_t)64 << 10)

typedef struct sac_spec_list {
    const char *item[SAC_SPEC_MAX_ITEMS];
    int n;
} sac_spec_list;

typedef struct sac_spec_tensor {
    const char *slot, *gguf, *when, *spread; /* all but slot: NULL when not given */
    sac_spec_list names, shape, within, inputs;
    bool plus_one, decays, transposed, channels_last;
} sac_spec_tensor;

typedef struct sac_spec_prefix {
    const char *name;
    sac_spec_list list;
} sac_spec_prefix;

/* What becomes of a key of a model's files. */
typedef enum sac_key_use {
    SAC_KEY_UNKNOWN, /* nothing here knows it: it has no effect, and that is said */
    SAC_KEY_HONOURED,
    SAC_KEY_ONLY,      /* honoured with one value, refused with others */
    SAC_KEY_NO_EFFECT, /* known, and without effect on what is computed here */
} sac_key_use;

typedef struct sac_spec_key {
    const char *place, *name, *only; /* only: NULL unless that is its use */
    sac_key_use use;
} sac_spec_key;

/* A key of another file, by the place where it stands there, and where a GGUF file has it; of the place "tokens" the
 * text of a token. */
typedef struct sac_spec_value {
    const char *place, *name, *from;
} sac_spec_value;

typedef struct sac_spec_mmproj {
    sac_spec_list projectors, text; /* none: the family has no such files */
    const char *needs, *needs_tensor, *gelu; /* NULL when not given */
    bool tokenless;
    sac_spec_value values[SAC_SPEC_MAX_VALUES];
    int n_values;
} sac_spec_mmproj;

typedef struct sac_family_spec {
    const char *family, *like, *chat, *frames; /* NULL when not given */
    sac_spec_list model_types, architectures, gguf, text;
    sac_spec_prefix prefixes[SAC_SPEC_MAX_PREFIXES];
    int n_prefixes;
    sac_spec_tensor tensors[SAC_SPEC_MAX_TENSORS];
    int n_tensors;
    sac_spec_key keys[SAC_SPEC_MAX_KEYS];
    int n_keys;
    sac_spec_mmproj mmproj;
    void *document; /* owns every string above */
} sac_family_spec;

/* Unknown keys, wrong types and oversized lists are BAD_CONFIG, naming the line. Nesting is fixed by the
 * schema. */
sac_status sac_family_spec_parse(sac_family_spec *s, const char *text, size_t n_bytes, sac_error *err);
void sac_family_spec_free(sac_family_spec *s); /* a zeroed one is fine */

/* The models/<name>.yaml inside the library, parsed when it is first asked for; it stays as long as the process. */
sac_status sac_family_spec_find(const sac_family_spec **out, const char *name, sac_error *err);
/* False: none of its lists has the item, for its text has no such word. Parses nothing. */
bool sac_family_spec_mentions(const char *name, const char *item);

const sac_spec_list *sac_family_spec_prefix(const sac_family_spec *s, const char *name); /* or NULL */
const sac_spec_key *sac_family_spec_key(const sac_family_spec *s, const char *place,
                                        const char *name); /* or NULL */
bool sac_spec_list_has(const sac_spec_list *l, const char *item);

#endif
