/* adapted.h - what the adapters of a model do to one of its slots. */
#ifndef SAC_MODELS_ADAPTED_H
#define SAC_MODELS_ADAPTED_H

#include "adapter.h"
#include "tensor_table.h"

/* The adapters of a model, in the order in which they were named. */
typedef struct sac_adapters {
    sac_adapter item[SAC_MAX_ADAPTERS];
    int n;
} sac_adapters;

typedef struct sac_adapted {
    const sac_checkpoint_tensor *replacement; /* takes the place of the base's tensor; or NULL */
    bool is_own; /* a copy of the module's own, not the weight that a tied head shares */
    sac_lora loras[SAC_MAX_ADAPTERS];
    int n_loras;
} sac_adapted;

/* Looks under all names that the row stands for. BAD_FILE where two adapters replace one tensor. */
sac_status sac_adapted_find(sac_adapted *out, const sac_adapters *adapters, const sac_tensor_table *t,
                            const sac_spec_tensor *row, bool gguf, int layer, sac_error *err);

/* Of a head that is the embedding: BAD_FILE for an adapter with "ensure_weight_tying" that changes the embedding and has
 * nothing for the head. */
sac_status sac_adapted_check_tied(const sac_adapters *adapters, const sac_tensor_table *t,
                                  const sac_spec_tensor *embed, const sac_spec_tensor *head, bool gguf,
                                  sac_error *err);

/* Which tensors of the base the model reads. */
typedef struct sac_base_reads {
    const sac_checkpoint *checkpoint[2]; /* the second may be NULL */
    bool *read[2];                       /* [n_tensors] each */
} sac_base_reads;

sac_status sac_base_reads_open(sac_base_reads *r, const sac_checkpoint *first, const sac_checkpoint *second,
                               sac_error *err);
void sac_base_reads_close(sac_base_reads *r); /* a zeroed one is fine */
void sac_base_reads_add(sac_base_reads *r, const sac_checkpoint *checkpoint, const sac_checkpoint_tensor *t);

/* After all slots were looked for: BAD_FILE, with its name, for a tensor of an adapter that is for nothing in the
 * model. What the base's tower has beside what the model reads of it (layers behind the last that counts) may be
 * adapted too, without effect. */
sac_status sac_adapted_check_used(const sac_adapters *adapters, const sac_tensor_table *t,
                                  const sac_base_reads *reads, sac_error *err);

#endif
