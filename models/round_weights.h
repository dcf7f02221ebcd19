/* round_weights.h - the matrices of a model rounded while it is loaded, to the very numbers that a file written with
 * the same scheme would hold (models/write): what is loaded from then on is the file's formats. */
#ifndef SAC_MODELS_ROUND_WEIGHTS_H
#define SAC_MODELS_ROUND_WEIGHTS_H

#include "model.h"
#include "round_plan.h"

/* In the place of the matrices that the scheme is for, `c` has rounded ones, in memory of its own, and scales beside
 * them; *quantization is the "quantization_config" that goes with these, owned by the caller, NULL with GGUF's schemes.
 * The language half is rounded, the tower stays. *unrounded: what is of it and stays too; UNSUPPORTED where that is all.
 * Sealed before and after. */
sac_status sac_round_weights(sac_checkpoint *c, const sac_scheme *s, const sac_model_config *config, bool gguf,
                             sac_pool *pool, sac_load_progress progress, void *progress_ctx,
                             sac_unrounded *unrounded, json_t **quantization, sac_error *err);

#endif
