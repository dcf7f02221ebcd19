#include "hqq.h"

#include "cpu_flags.h"
#include "cpu_weights.h"
#include "ref/ref.h"

SAC_LINEAR_BY_FLAGS(sac_linear_hqq_avx2, sac_linear_hqq_avx512)

const sac_cpu_weight sac_cpu_weight_hqq = {.linear = linear};
