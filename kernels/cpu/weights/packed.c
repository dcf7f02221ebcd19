#include "packed.h"

#include "cpu_flags.h"
#include "cpu_weights.h"
#include "ref/ref.h"

#if defined(__x86_64__)
static sac_status avx2(const sac_stream *s, const sac_linear_args *a) {
    const bool bytes = a->w.tensor.dtype == SAC_DTYPE_PACKED_8;
    return bytes ? sac_linear_packed_8_avx2(s, a) : sac_linear_packed_4_avx2(s, a);
}

static sac_status avx512(const sac_stream *s, const sac_linear_args *a) {
    const bool bytes = a->w.tensor.dtype == SAC_DTYPE_PACKED_8;
    return bytes ? sac_linear_packed_8_avx512(s, a) : sac_linear_packed_4_avx512(s, a);
}
#endif

static sac_linear_fn linear(unsigned cpu_flags) {
#if defined(__x86_64__)
    if (cpu_flags & SAC_CPU_AVX512) return avx512;
    if (cpu_flags & SAC_CPU_AVX2) return avx2;
#endif
    (void)cpu_flags;
    return sac_ref_linear;
}

const sac_cpu_weight sac_cpu_weight_packed = {.linear = linear};
