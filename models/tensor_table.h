/* tensor_table.h - the rows of a model's YAML (its family's, its text family's and what these are like), the
 * names that they stand for in a checkpoint, and the shapes that they ask for. */
#ifndef SAC_MODELS_TENSOR_TABLE_H
#define SAC_MODELS_TENSOR_TABLE_H

#include "checkpoint.h"
#include "config.h"
#include "family_spec.h"

#define SAC_TENSOR_NAME_BYTES 512

typedef struct sac_tensor_table {
    const sac_family_spec *specs[6]; /* the first that has a slot counts */
    int n_specs;
    int n_experts; /* of a layer */
    sac_latent_shape latent; /* of the decoder, which has so many heads */
    int n_heads;
    sac_linear_shape linear; /* of its layers of linear attention */
    sac_shape_symbol symbols[24 + SAC_TOWER_MAX_SYMBOLS + SAC_MERGER_MAX_SYMBOLS];
    int n_symbols;
    bool gguf; /* set after opening: a row without a name in GGUF gives way to one that has it */
} sac_tensor_table;

sac_status sac_tensor_table_init(sac_tensor_table *t, const sac_model_config *c, sac_error *err);

const sac_spec_tensor *sac_tensor_table_row(const sac_tensor_table *t, const char *slot); /* or NULL */

/* The which-th of the names that a row stands for in files of the kind, from 0 on; false when there is none. Of a row whose
 * names have an {e} `layer` counts the experts of all layers, layer by layer. */
bool sac_tensor_table_name(const sac_tensor_table *t, const sac_spec_tensor *row, bool gguf, int layer,
                           int which, char name[SAC_TENSOR_NAME_BYTES]);

/* The tensor under the first of its names that the checkpoint has; `name` receives that, or
 * the first tried. */
const sac_checkpoint_tensor *sac_tensor_table_find(const sac_tensor_table *t, const sac_spec_tensor *row,
                                                   const sac_checkpoint *checkpoint, bool gguf, int layer,
                                                   char name[SAC_TENSOR_NAME_BYTES]);

/* BAD_FILE with both shapes when they differ; of a row that is part of a tensor, the whole tensor's. gguf: dimensions of 1 do
 * not count, some converters leave them out. */
sac_status sac_tensor_table_check(const sac_tensor_table *t, const sac_spec_tensor *row, bool gguf,
                                  const sac_checkpoint_tensor *found, sac_error *err);

/* Which rows of a checked tensor of n_all are the row's, where it is part of one. */
sac_status sac_tensor_table_rows(const sac_tensor_table *t, const sac_spec_tensor *row, int64_t n_all, int64_t *first, int64_t *n,
                                 sac_error *err);
/* Those of a vector. UNSUPPORTED unless it is of floats. */
sac_status sac_tensor_table_part(const sac_tensor_table *t, const sac_spec_tensor *row,
                                 const sac_checkpoint_tensor *whole, sac_checkpoint_tensor *part, sac_error *err);
/* The same of a whole tensor of the shape that the configuration asks for; n_whole 0: the row is no part of one. */
sac_row_range sac_tensor_table_range(const sac_tensor_table *t, const sac_spec_tensor *row);

/* Of a row whose inputs stand in another order in the file: how many of the outer kind there are, each with how many of the
 * inner; INTERNAL unless that is all of the matrix's columns. */
sac_status sac_tensor_table_inputs(const sac_tensor_table *t, const sac_spec_tensor *row, int64_t n_columns, int64_t *outer,
                                   int64_t *inner, sac_error *err);

#endif
