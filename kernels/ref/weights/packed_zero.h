/* packed_zero.h - what stands for 0 in group g of row j of packed weights (packed_ref.c). */
#ifndef SAC_PACKED_ZERO_H
#define SAC_PACKED_ZERO_H

#include "weight.h"

int sac_packed_zero(const sac_weight *w, int64_t j, int64_t g);

#endif
