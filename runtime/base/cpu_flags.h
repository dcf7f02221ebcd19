/* cpu_flags.h - what the processor can do, asked once; kernels are chosen by it. */
#ifndef SAC_BASE_CPU_FLAGS_H
#define SAC_BASE_CPU_FLAGS_H

enum {
    SAC_CPU_AVX2 = 1 << 0,   /* with FMA and F16C */
    SAC_CPU_AVX512 = 1 << 1, /* F, BW, DQ, VL */
    SAC_CPU_AVX512_VNNI = 1 << 2,
    SAC_CPU_AVX512_BF16 = 1 << 3,
    SAC_CPU_AMX_INT8 = 1 << 4, /* tile state granted by the kernel */
    SAC_CPU_AMX_BF16 = 1 << 5,
    SAC_CPU_AVX512_VBMI = 1 << 6,
};

/* Flags of this machine, capped by the environment variable SAC_VARIANT = ref | avx2 | avx512 | vnni | vbmi | amx
 * (default: all), so that every level can be tested on one machine. */
unsigned sac_cpu_flags(void);

/* "avx512 vnni bf16" into buf, for reports. */
const char *sac_cpu_flags_text(unsigned flags, char *buf, unsigned long buf_bytes);

#endif
