/* linear.c - linear and linear_group at each level of the processor: quantised weights go to linear_quant, the others to
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

/* One after the other: each reads weights of its own, and for few rows that is the work. */
static sac_status each(const sac_stream *s, const sac_linear_group_args *a, sac_linear_fn linear) {
    for (int i = 0; i < a->n; i++) {
        sac_linear_args part = sac_linear_group_part(a, i);
        SAC_TRY(linear(s, &part));
    }
    return SAC_OK;
}

#define LINEAR_AT(name, level, linear_float)                                                                 \
    static sac_status name(const sac_stream *s, const sac_linear_args *a) {                                  \
        if (sac_dtype_block(a->w.tensor.dtype) > 1) return sac_linear_quant_find(level)(s, a);               \
        return linear_float(s, a);                                                                           \
    }                                                                                                        \
    static sac_status name##_group(const sac_stream *s, const sac_linear_group_args *a) {                    \
        return each(s, a, name);                                                                             \
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

typedef struct level {
    unsigned needs;
    sac_linear_fn linear;
    sac_linear_group_fn group;
} level;

static const level *level_of(unsigned cpu_flags) {
    static const level levels[] = {
#if defined(__x86_64__)
        {LEVEL_AMX, linear_amx, linear_amx_group},
        {LEVEL_VNNI, linear_vnni, linear_vnni_group},
        {LEVEL_AVX512, linear_avx512, linear_avx512_group},
        {LEVEL_AVX2, linear_avx2, linear_avx2_group},
#endif
        {0, linear_ref, linear_ref_group},
    };
    const level *l = levels;
    while ((cpu_flags & l->needs) != l->needs) l++;
    return l;
}

sac_linear_fn sac_linear_find(unsigned cpu_flags) {
    return level_of(cpu_flags)->linear;
}

sac_linear_group_fn sac_linear_group_find(unsigned cpu_flags) {
    return level_of(cpu_flags)->group;
}
