/* round_plan.h - the tensors of a model's language half, each with its name in GGUF, and what a scheme makes of it. */
#ifndef SAC_MODELS_ROUND_PLAN_H
#define SAC_MODELS_ROUND_PLAN_H

#include "round_rows.h"
#include "scheme.h"
#include "tensor_table.h"

typedef struct sac_plan_entry {
    const sac_checkpoint_tensor *from; /* borrowed from the checkpoint */
    const sac_spec_tensor *row;        /* and this from the table */
    int layer;
    char gguf[96]; /* its name in GGUF */
    bool is_matrix;
    bool is_rounded; /* a matrix that the scheme is for; others stay as they are in compressed-tensors' folders */
    sac_dtype type;  /* of a matrix in GGUF's schemes */
} sac_plan_entry;

typedef struct sac_round_plan {
    sac_plan_entry *entries; /* embedding, layers, what is behind them */
    int n, capacity;
    int n_rounded;
    int n_kept; /* matrices of layers that the scheme would be for, but for the length of their rows */
    const sac_plan_entry *first_kept;
    bool has_head;
} sac_round_plan;

/* gguf: the checkpoint has GGUF's names. UNSUPPORTED, with its name, where a matrix to be rounded is no float, and where
 * none is rounded. Free it after a failure too. */
sac_status sac_round_plan_open(sac_round_plan *p, const sac_scheme *s, const sac_model_config *c,
                               const sac_tensor_table *table, const sac_checkpoint *checkpoint, bool gguf,
                               sac_error *err);
void sac_round_plan_close(sac_round_plan *p); /* a zeroed one is fine */

/* Codes and scales of an entry of a scheme that is not GGUF's: scales are in the type of what is rounded. */
sac_rounded sac_plan_part(const sac_scheme *s, const sac_plan_entry *e, sac_row_part part);

#endif
