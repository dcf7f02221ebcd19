#include "packed_attention.h"

#include "cpu_flags.h"
#include "ref/ref.h"

sac_packed_attention_fn sac_packed_attention_find(unsigned cpu_flags) {
#if defined(__x86_64__)
    if ((cpu_flags & SAC_CPU_AVX512) && (cpu_flags & SAC_CPU_AVX512_VNNI)) return sac_packed_attention_vnni;
    if (cpu_flags & SAC_CPU_AVX512) return sac_packed_attention_avx512;
    if (cpu_flags & SAC_CPU_AVX2) return sac_packed_attention_avx2;
#endif
    (void)cpu_flags;
    return sac_ref_packed_attention;
}

sac_packed_scores_fn sac_packed_scores_find(unsigned cpu_flags) {
#if defined(__x86_64__)
    if ((cpu_flags & SAC_CPU_AVX512) && (cpu_flags & SAC_CPU_AVX512_VNNI)) return sac_packed_scores_vnni;
    if (cpu_flags & SAC_CPU_AVX512) return sac_packed_scores_avx512;
    if (cpu_flags & SAC_CPU_AVX2) return sac_packed_scores_avx2;
#endif
    (void)cpu_flags;
    return sac_ref_packed_scores;
}
