/* linear_quant.h - `linear` with quantised weights, used as they lie in a mapped GGUF file.
 *
 * x is rounded to 8 bits once a call (quants.h), then every output is the sum that sac_quant_dot defines:
 * exact integer products inside a block, joined by f32 fused multiply-adds from the first block to the last.
 * So all variants, one row or many, any thread count give the same bits: prefill and decode agree, and a row
 * does not depend on its neighbours. */
#ifndef SAC_LINEAR_QUANT_H
#define SAC_LINEAR_QUANT_H

#include "ops.h"

typedef sac_status (*sac_linear_fn)(const sac_stream *, const sac_linear_args *);

/* The best variant for these sac_cpu_flags(), never NULL. For weights in SAC_BLOCK_FORMATS. */
sac_linear_fn sac_linear_quant_find(unsigned cpu_flags);

/* Shared scratch that any variant takes for m rows of k elements. */
size_t sac_linear_quant_scratch_bytes(int64_t m, int64_t k);

#endif
