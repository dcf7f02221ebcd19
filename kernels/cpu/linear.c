/* linear.c - linear at each level of the processor: quantised weights go to linear_quant, the others to
 * linear_float. The table holds plain functions, so there is one for each level. */
#include "cpu.h"
#include "cpu_flags.h"
#include "ref/ref.h"

enum {
    LEVEL_AVX2 = SAC_CPU_AVX2,
    LEVEL_AVX512 = LEVEL_AVX2 | SAC_CPU_AVX512,
    LEVEL_VNNI = LEVEL_AVX512 | SAC_CPU_AVX512_VNNI,
    LEVEL_AMX = LEVEL_VNNI | SAC_CPU_AVX512_BF16 | SAC_CPU_AMX_INT8 | SAC_CPU_AMX_BF16,
};

#define LINEAR_AT(name, level, linear_float)                                                                 \
    static sac_status name(const sac_stream *s, const sac_linear_args *a) {                                  \
        if (sac_dtype_block(a->w.dtype) > 1) return sac_linear_quant_find(level)(s, a);                      \
        return linear_float(s, a);                                                                           \
    }
LINEAR_AT(linear_ref, 0, sac_ref_linear)
#if defined(__x86_64__)
LINEAR_AT(linear_avx2, LEVEL_AVX2, sac_linear_float_avx2)
LINEAR_AT(linear_avx512, LEVEL_AVX512, sac_linear_float_avx512)
LINEAR_AT(linear_vnni, LEVEL_VNNI, sac_linear_float_avx512)
LINEAR_AT(linear_amx, LEVEL_AMX, sac_linear_float_amx)
#endif

#if defined(__x86_64__)
static size_t amx_scratch_bytes(int64_t m, int64_t k) {
    size_t quant = sac_linear_quant_scratch_bytes(m, k), split = sac_linear_float_amx_scratch_bytes(m, k);
    return quant > split ? quant : split;
}
#endif

sac_linear_scratch_fn sac_linear_scratch_find(unsigned cpu_flags) {
#if defined(__x86_64__)
    if ((cpu_flags & LEVEL_AMX) == LEVEL_AMX) return amx_scratch_bytes;
#endif
    (void)cpu_flags;
    return sac_linear_quant_scratch_bytes;
}

sac_linear_fn sac_linear_find(unsigned cpu_flags) {
#if defined(__x86_64__)
    static const struct {
        unsigned needs;
        sac_linear_fn fn;
    } levels[] = {{LEVEL_AMX, linear_amx},
                  {LEVEL_VNNI, linear_vnni},
                  {LEVEL_AVX512, linear_avx512},
                  {LEVEL_AVX2, linear_avx2}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if ((cpu_flags & levels[i].needs) == levels[i].needs) return levels[i].fn;
#endif
    (void)cpu_flags;
    return linear_ref;
}
