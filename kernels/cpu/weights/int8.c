#include "int8.h"

#include "cpu_flags.h"
#include "cpu_weights.h"
#include "ref/ref.h"

static sac_linear_fn linear(unsigned cpu_flags) {
#if defined(__x86_64__)
    if (cpu_flags & SAC_CPU_AVX512) return sac_linear_int8_avx512;
    if (cpu_flags & SAC_CPU_AVX2) return sac_linear_int8_avx2;
#endif
    (void)cpu_flags;
    return sac_ref_linear;
}

const sac_cpu_weight sac_cpu_weight_int8 = {.linear = linear, .scratch_bytes = sac_rounded_x_bytes};
