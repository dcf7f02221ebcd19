#include "linear_quant_job.h"

#include "cpu_flags.h"

sac_linear_fn sac_linear_quant_find(unsigned cpu_flags) {
#if defined(__x86_64__)
    if (cpu_flags & SAC_CPU_AMX_INT8 && cpu_flags & SAC_CPU_AVX512_VNNI) return sac_linear_quant_amx;
    if (cpu_flags & SAC_CPU_AVX512_VNNI) return sac_linear_quant_vnni;
    if (cpu_flags & SAC_CPU_AVX2) return sac_linear_quant_avx2;
#endif
    (void)cpu_flags;
    return sac_linear_quant_plain;
}
