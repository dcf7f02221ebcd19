#include "cpu_weights.h"

#include "cpu/linear_float_vbmi.h"
#include "cpu_flags.h"
#include "ref/ref.h"

enum { AMX_NEEDS = SAC_CPU_AMX_INT8 | SAC_CPU_AMX_BF16 | SAC_CPU_AVX512_BF16 | SAC_CPU_AVX512_VBMI };

static sac_linear_fn linear(unsigned cpu_flags) {
#if defined(__x86_64__)
    if ((cpu_flags & AMX_NEEDS) == AMX_NEEDS) return sac_linear_float_amx;
    if (cpu_flags & SAC_CPU_AVX512_VBMI) return sac_linear_float_vbmi;
    if (cpu_flags & SAC_CPU_AVX512) return sac_linear_float_avx512;
    if (cpu_flags & SAC_CPU_AVX2) return sac_linear_float_avx2;
#endif
    (void)cpu_flags;
    return sac_ref_linear;
}

static size_t scratch_bytes(unsigned cpu_flags, int64_t m, int64_t k) {
#if defined(__x86_64__)
    if ((cpu_flags & AMX_NEEDS) == AMX_NEEDS) return sac_linear_float_amx_scratch_bytes(m, k);
#endif
    (void)cpu_flags, (void)m, (void)k;
    return 0;
}

const sac_cpu_weight sac_cpu_weight_floats = {linear, scratch_bytes};
