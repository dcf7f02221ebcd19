#define _GNU_SOURCE
#include "cpu_flags.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Linux hands out AMX tile state only on request (Documentation/x86/xstate). */
static int amx_granted(void) {
    enum { arch_req_xcomp_perm = 0x1023, xfeature_xtiledata = 18 };
    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
}

static unsigned machine_flags(void) {
    unsigned flags = 0, a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0, max7 = 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) flags |= SAC_CPU_AVX2;
    if (__get_cpuid_count(7, 0, &max7, &b7, &c7, &d7) && max7 >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        flags |= SAC_CPU_AVX512;
        if (c7 & (1u << 1)) flags |= SAC_CPU_AVX512_VBMI;
        if (c7 & (1u << 11)) flags |= SAC_CPU_AVX512_VNNI;
        if (a71 & (1u << 5)) flags |= SAC_CPU_AVX512_BF16;
        if ((d7 & (1u << 24)) && amx_granted()) {
            if (d7 & (1u << 25)) flags |= SAC_CPU_AMX_INT8;
            if (d7 & (1u << 22)) flags |= SAC_CPU_AMX_BF16;
        }
    }
    (void)a;
    return flags;
}
#else
static unsigned machine_flags(void) {
    return 0;
}
#endif

static unsigned cap(unsigned flags, const char *level) {
    static const struct {
        const char *name;
        unsigned keep;
    } levels[] = {
        {"ref", 0},
        {"avx2", SAC_CPU_AVX2},
        {"avx512", SAC_CPU_AVX2 | SAC_CPU_AVX512},
        {"vnni", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AVX512_BF16},
        {"vbmi", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AVX512_BF16 | SAC_CPU_AVX512_VBMI},
    };
    for (unsigned i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(level, levels[i].name) == 0) return flags & levels[i].keep;
    return flags;
}

static unsigned flags_of_machine;

static void ask_once(void) {
    flags_of_machine = machine_flags();
}

/* Asked for every picture that is resized; and on a virtual machine each cpuid is a trap of microseconds. */
unsigned sac_cpu_flags(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_once);
    const char *level = getenv("SAC_VARIANT");
    return level ? cap(flags_of_machine, level) : flags_of_machine;
}

const char *sac_cpu_flags_text(unsigned flags, char *buf, unsigned long buf_bytes) {
    snprintf(buf, buf_bytes, "%s%s%s%s%s%s", flags & SAC_CPU_AVX2 ? "avx2 " : "plain-c ",
             flags & SAC_CPU_AVX512 ? "avx512 " : "", flags & SAC_CPU_AVX512_VNNI ? "vnni " : "",
             flags & SAC_CPU_AVX512_BF16 ? "bf16 " : "", flags & SAC_CPU_AMX_INT8 ? "amx-int8 " : "",
             flags & SAC_CPU_AMX_BF16 ? "amx-bf16 " : "");
    size_t n = strlen(buf);
    if (n && buf[n - 1] == ' ') buf[n - 1] = 0;
    return buf;
}
