#include "nf4.h"

#include "cpu_flags.h"
#include "cpu_weights.h"
#include "ref/ref.h"

SAC_LINEAR_BY_FLAGS(sac_linear_nf4_avx2, sac_linear_nf4_avx512)

const sac_cpu_weight sac_cpu_weight_nf4 = {.linear = linear};
