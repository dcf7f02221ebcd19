/* linear.c - linear, linear_group and expert_linear at each level of the processor: which product, the weights' format says. The table
 * of ops holds plain functions, so there is one for each level. */
#include "cpu.h"
#include "cpu_flags.h"
#include "weights/cpu_weights.h"

enum {
    LEVEL_AVX2 = SAC_CPU_AVX2,
    LEVEL_AVX512 = LEVEL_AVX2 | SAC_CPU_AVX512,
    LEVEL_VNNI = LEVEL_AVX512 | SAC_CPU_AVX512_VNNI,
    LEVEL_VBMI = LEVEL_VNNI | SAC_CPU_AVX512_VBMI,
    LEVEL_AMX = LEVEL_VBMI | SAC_CPU_AVX512_BF16 | SAC_CPU_AMX_INT8 | SAC_CPU_AMX_BF16,
};

static const sac_cpu_weight *const formats[] = {
#define X(constant, name) &sac_cpu_weight_##name,
    SAC_WEIGHT_FORMATS(X)
#undef X
};

/* One after the other: each reads weights of its own, and for few rows that is the work. */
static sac_status each(const sac_stream *s, const sac_linear_group_args *a, sac_linear_fn linear) {
    for (int i = 0; i < a->n; i++) {
        sac_linear_args part = sac_linear_group_part(a, i);
        SAC_TRY(linear(s, &part));
    }
    return SAC_OK;
}

/* Expert by expert, with the bits that every row has alone. */
static sac_status by_expert(const sac_stream *s, const sac_expert_linear_args *a, sac_linear_fn linear) {
    for (int e = 0; e < a->n_experts; e++) {
        const int64_t first = a->starts[e], n = a->starts[e + 1] - first;
        if (!n) continue;
        SAC_TRY(linear(s, &(sac_linear_args){.y = sac_mat_rows(a->y, first, n),
                                             .x = sac_mat_rows(a->x, first, n),
                                             .w = a->w[e * a->w_step],
                                             .fast = a->fast,
                                             .steady = true}));
    }
    return SAC_OK;
}

/* Enough for weights of any format. */
static size_t most_scratch(unsigned level, int64_t m, int64_t k) {
    size_t most = 0;
    for (int i = 0; i < SAC_N_WEIGHT_FORMATS; i++) {
        size_t n_bytes = formats[i]->scratch_bytes ? formats[i]->scratch_bytes(level, m, k) : 0;
        most = n_bytes > most ? n_bytes : most;
    }
    return most;
}

#define LINEAR_AT(name, level)                                                                               \
    static sac_status name(const sac_stream *s, const sac_linear_args *a) {                                  \
        return formats[a->w.format]->linear(level)(s, a);                                                    \
    }                                                                                                        \
    static sac_status name##_group(const sac_stream *s, const sac_linear_group_args *a) {                    \
        return each(s, a, name);                                                                             \
    }                                                                                                        \
    static sac_status name##_experts(const sac_stream *s, const sac_expert_linear_args *a) {                 \
        return by_expert(s, a, name);                                                                        \
    }                                                                                                        \
    static size_t name##_scratch_bytes(int64_t m, int64_t k) {                                               \
        return most_scratch(level, m, k);                                                                    \
    }
LINEAR_AT(linear_plain, 0)
#if defined(__x86_64__)
LINEAR_AT(linear_avx2, LEVEL_AVX2)
LINEAR_AT(linear_avx512, LEVEL_AVX512)
LINEAR_AT(linear_vnni, LEVEL_VNNI)
LINEAR_AT(linear_vbmi, LEVEL_VBMI)
LINEAR_AT(linear_amx, LEVEL_AMX)
#endif

typedef struct level {
    unsigned needs;
    sac_linear_fn linear;
    sac_linear_group_fn group;
    sac_expert_linear_fn experts;
    sac_linear_scratch_fn scratch_bytes;
} level;

static const level *level_of(unsigned cpu_flags) {
#define LEVEL(needs, name)                                                                                   \
    { needs, name, name##_group, name##_experts, name##_scratch_bytes }
    static const level levels[] = {
#if defined(__x86_64__)
        LEVEL(LEVEL_AMX, linear_amx),
        LEVEL(LEVEL_VBMI, linear_vbmi),
        LEVEL(LEVEL_VNNI, linear_vnni),
        LEVEL(LEVEL_AVX512, linear_avx512),
        LEVEL(LEVEL_AVX2, linear_avx2),
#endif
        LEVEL(0, linear_plain),
    };
#undef LEVEL
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

sac_expert_linear_fn sac_expert_linear_find(unsigned cpu_flags) {
    return level_of(cpu_flags)->experts;
}

sac_linear_scratch_fn sac_linear_scratch_find(unsigned cpu_flags) {
    return level_of(cpu_flags)->scratch_bytes;
}
