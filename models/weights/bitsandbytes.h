/* bitsandbytes.h - the "quantization_config" of bitsandbytes, as the readers of its two kinds of weights share it. */
#ifndef SAC_MODELS_BITSANDBYTES_H
#define SAC_MODELS_BITSANDBYTES_H

#include "quantization.h"

/* Whether it is bitsandbytes' with so many bits, 4 or 8. Old folders name no method: "load_in_8bit" says it. */
bool sac_bnb_is(const json_t *quantization, int bits);

/* UNSUPPORTED, by name, for what it asks that is not done. */
sac_status sac_bnb_check(const json_t *quantization, sac_error *err);

#endif
