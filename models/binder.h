/* binder.h - from a checkpoint's tensors to the structs of decoder, tower and projector, by the tables of the
 * families' YAML. */
#ifndef SAC_MODELS_BINDER_H
#define SAC_MODELS_BINDER_H

#include "adapted.h"
#include "checkpoint.h"
#include "config.h"
#include "model.h"
#include "weight_reader.h"

typedef struct sac_bind_source {
    const sac_checkpoint *weights;
    const sac_checkpoint *tower;  /* where the tower's tensors are; usually the same */
    const sac_checkpoint *merger; /* where the merger's and those beside it are; NULL: weights */
    const json_t *quantization;   /* quantization_config, or NULL */
    const sac_adapters *adapters; /* merged while matrices are bound; NULL without */
    sac_pool *pool;               /* threads for that, or NULL */
    bool gguf;                    /* names of the table's gguf column */
    sac_load_progress progress;
    void *progress_ctx;
} sac_bind_source;

/* Fills m->decoder, tower, merger, image_newline and their configs from c; opens m->arena. Linear weights
 * and embeddings stay where they are mapped, unless they lie at an address that their element type may not
 * have; norms, biases and other vectors become f32 in the arena. A missing or misshapen tensor is BAD_FILE
 * with its name and both shapes. */
sac_status sac_bind_model(sac_loaded_model *m, const sac_model_config *c, const sac_bind_source *s,
                          sac_error *err);

/* Whether the slot ("head") is in the source under any of its names. */
sac_status sac_bind_has(bool *out, const sac_model_config *c, const sac_bind_source *s, const char *slot,
                        sac_error *err);

/* Every slot of a family's YAML is one that the structs have: for tests. */
sac_status sac_bind_check_spec(const char *family, sac_error *err);

#endif
