/* bind_values.h - what a tensor of a checkpoint becomes: a vector in f32, or a matrix that stays where it is mapped unless
 * something is done to it. Of the binder (binder.h), which says which tensor goes where. */
#ifndef SAC_MODELS_BIND_VALUES_H
#define SAC_MODELS_BIND_VALUES_H

#include "binder.h"
#include "tensor_table.h"

/* Each value is bound twice: first only checked, and its bytes counted; then with the arena that has them. */
typedef struct sac_value_binder {
    const sac_bind_source *source;
    const sac_tensor_table *table;
    sac_arena *arena; /* NULL the first time */
    size_t n_bytes;   /* of the arena, so far */
    sac_error *err;
} sac_value_binder;

/* So many bytes of the arena, or, the first time, counted; *out is set the second time. */
sac_status sac_bind_take(sac_value_binder *b, const char *name, size_t n_bytes, void **out);

/* `adapted`: what adapters add to it. *out is set the second time; `row` is what the YAML says of the tensor t. */
sac_status sac_bind_vector(sac_value_binder *b, const sac_spec_tensor *row, const sac_checkpoint_tensor *t,
                           const sac_adapted *adapted, const float **out);
/* Of the checkpoint, where what belongs to a quantised one is too. */
sac_status sac_bind_matrix(sac_value_binder *b, const sac_checkpoint *checkpoint, const sac_spec_tensor *row,
                           const sac_checkpoint_tensor *t, const sac_adapted *adapted, sac_weight *out);

/* A matrix of latent attention with its heads as the decoder reads them, in a copy, where the row is spread. UNSUPPORTED, with its
 * name, unless it is of floats or GGUF's blocks, which become f16 but those of queries, and without adapters (bind_latent.c). */
sac_status sac_bind_spread(sac_value_binder *b, const sac_spec_tensor *row, const char *name, const sac_adapted *adapted,
                           sac_weight *w);

/* The same of linear attention (bind_linear.c). */
sac_status sac_bind_regrouped(sac_value_binder *b, const sac_spec_tensor *row, const char *name, const sac_adapted *adapted,
                              sac_weight *w);

#endif
