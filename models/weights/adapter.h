/* adapter.h - LoRA adapters (arXiv:2106.09685; DoRA: arXiv:2402.09353; rsLoRA: arXiv:2312.03732): GGUF files
 * (adapter_gguf.c), and what peft saves: a folder of adapter_config.json and adapter_model.safetensors. A product of
 * two thin matrices is added to a matrix of the base when that is bound; what modules_to_save and bias trained takes
 * the base's place.
 *
 * Names are those of the base: "model.layers.0.mlp.up_proj.weight". Of that matrix the folder has
 * base_model.model.model.layers.0.mlp.up_proj.lora_A.weight, .lora_B.weight and, for DoRA, .lora_magnitude_vector. */
#ifndef SAC_MODELS_ADAPTER_H
#define SAC_MODELS_ADAPTER_H

#include "checkpoint.h"
#include "json.h"
#include "thread_pool.h"

#define SAC_MAX_ADAPTERS     16
#define SAC_ADAPTER_MAX_RANK 65536

typedef struct sac_adapter {
    char *folder;   /* or the GGUF file */
    double scale;   /* 1 unless "DIR:scale" */
    json_t *config; /* adapter_config.json */
    bool is_gguf;
    double alpha;          /* of a GGUF file, for all its matrices; 0: no division by the rank */
    char architecture[32]; /* of a GGUF file: its base's */
    sac_checkpoint tensors;
    bool *used; /* [tensors.n_tensors], set by the functions that find them */
} sac_adapter;

/* What one adapter adds to one matrix. */
typedef struct sac_lora {
    const sac_checkpoint_tensor *a, *b;     /* [rank][columns], [rows][rank]; of an embedding [rank][rows],
                                               [columns][rank], as peft stores them. NULL: nothing is added */
    const sac_checkpoint_tensor *magnitude; /* DoRA's: [rows], of an embedding [columns]; or NULL */
    bool is_embedding;
    bool a_by_rows; /* a of an embedding is [rows][rank] (GGUF) */
    int64_t rank;
    sac_row_range part; /* of b and the magnitude, where the base's matrix is part of a tensor that is adapted as a whole */
    double scaling; /* alpha / rank, or alpha / sqrt(rank), times the adapter's scale */
    const sac_adapter *adapter;
} sac_lora;

/* "/adapter_model.safetensors": what stands behind a's folder in the name of its file; "" for a GGUF file. */
const char *sac_adapter_file(const sac_adapter *a);

/* `spec`: "DIR" or "DIR:scale", or a .gguf file in the folder's place; a folder or file of that whole name comes first.
 * On failure nothing is left open, and the error names the file. */
sac_status sac_adapter_open(sac_adapter *a, const char *spec, sac_error *err);
void sac_adapter_close(sac_adapter *a); /* a zeroed one is fine */

/* Parts of the above, for a GGUF file. */
sac_status sac_adapter_open_gguf(sac_adapter *a, sac_error *err);
sac_status sac_adapter_find_gguf(const sac_adapter *a, const char *name, sac_lora *out, sac_error *err);

/* The values of an adapter_config.json: BAD_FILE or UNSUPPORTED, naming the key. What becomes of keys that are not read
 * here is said by the family's tables (place "adapter"). */
sac_status sac_adapter_check_config(const json_t *config, sac_error *err);

/* Whether the configuration has this module ("model.layers.0.mlp.up_proj") adapted: target_modules, exclude_modules,
 * modules_to_save, layers_to_transform. BAD_FILE for a pattern that cannot be run. */
sac_status sac_adapter_targets(const json_t *config, const char *module, bool is_embedding, bool *targets,
                               sac_error *err);

/* Its rank and alpha: rank_pattern, alpha_pattern. */
sac_status sac_adapter_rank_alpha(const json_t *config, const char *module, int64_t *rank, double *alpha,
                                  sac_error *err);

/* out->a is NULL when the adapter adds nothing to the matrix. */
sac_status sac_adapter_find_lora(const sac_adapter *a, const char *name, sac_lora *out, sac_error *err);

/* The tensor that takes the place of the base's, or NULL. *is_own: a module of its own, by modules_to_save, and not a
 * weight of the base that others may share. */
const sac_checkpoint_tensor *sac_adapter_replacement(const sac_adapter *a, const char *name, bool *is_own);

/* Name of the base's tensor that the adapter's i-th is for, into `name`; false when it does not look like any. */
bool sac_adapter_base_name(const sac_adapter *a, int i, char *name, size_t name_bytes);

/* BAD_FILE or UNSUPPORTED, with the tensor's name, unless all of them go with base [rows][columns]. */
sac_status sac_lora_check(const sac_lora *loras, int n, const sac_tensor *base, sac_error *err);

/* The same of shapes alone, for a matrix of any type. */
sac_status sac_lora_check_shapes(const sac_lora *loras, int n, int64_t rows, int64_t columns, sac_error *err);

/* The products as one: a [rank][columns] and b [rows][rank], rank the sum of theirs, in f32, the scalings in b. Of
 * matrices that are no embeddings, without magnitudes; checked before. */
void sac_lora_stack(const sac_lora *loras, int n, int64_t rows, int64_t columns, float *a, float *b);

/* out [rows][columns] of type `type` = base with the products added in f32 and rounded once, as the modules of
 * peft compute one after another: W' = f * (W' + s B A), f = 1 or, for a DoRA, magnitude / norm of W + s B A.
 * Checked before. pool: threads that share the rows, or NULL. NO_MEMORY. */
sac_status sac_lora_merge(const sac_lora *loras, int n, const sac_tensor *base, sac_dtype type, void *out,
                          sac_pool *pool, sac_error *err);

#endif
