/* cpu_weights.h - linear by the format of its weights: a format is a sac_cpu_weight under its name (weight.h). */
#ifndef SAC_CPU_WEIGHTS_H
#define SAC_CPU_WEIGHTS_H

#include "cpu/cpu.h"

typedef struct sac_cpu_weight {
    /* The best product for these sac_cpu_flags(), never NULL. */
    sac_linear_fn (*linear)(unsigned cpu_flags);
    /* Shared scratch that it takes for m rows of k elements; NULL: none. */
    size_t (*scratch_bytes)(unsigned cpu_flags, int64_t m, int64_t k);
} sac_cpu_weight;

/* linear() of a format that has products for these two instruction sets, and the reference elsewhere. */
#if defined(__x86_64__)
#define SAC_LINEAR_BY_FLAGS(avx2, avx512)                                                                    \
    static sac_linear_fn linear(unsigned cpu_flags) {                                                        \
        if (cpu_flags & SAC_CPU_AVX512) return avx512;                                                       \
        return cpu_flags & SAC_CPU_AVX2 ? avx2 : sac_ref_linear;                                             \
    }
#else
#define SAC_LINEAR_BY_FLAGS(avx2, avx512)                                                                    \
    static sac_linear_fn linear(unsigned cpu_flags) {                                                        \
        (void)cpu_flags;                                                                                     \
        return sac_ref_linear;                                                                               \
    }
#endif

/* Scratch for some rows of x at least, rounded as a checkpoint asks. */
size_t sac_rounded_x_bytes(unsigned cpu_flags, int64_t m, int64_t k);

#define X(constant, name) extern const sac_cpu_weight sac_cpu_weight_##name;
SAC_WEIGHT_FORMATS(X)
#undef X

#endif
