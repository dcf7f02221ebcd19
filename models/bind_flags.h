/* bind_flags.h - which tensors of a YAML a model has: what its rows say under `when`. */
#ifndef SAC_MODELS_BIND_FLAGS_H
#define SAC_MODELS_BIND_FLAGS_H

#include "config.h"

/* Whether `when` holds (NULL: always) in a layer of the decoder, or -1: in what is of none. own_head: the head is a tensor of its own.
 * False where no flag has that name. */
bool sac_bind_flag(const sac_model_config *c, const char *when, bool own_head, int layer, bool *out);

#endif
