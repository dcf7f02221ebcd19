#include "int8.h"

#include "cpu_flags.h"
#include "cpu_weights.h"
#include "ref/ref.h"

SAC_LINEAR_BY_FLAGS(sac_linear_int8_avx2, sac_linear_int8_avx512)

const sac_cpu_weight sac_cpu_weight_int8 = {.linear = linear, .scratch_bytes = sac_rounded_x_bytes};
