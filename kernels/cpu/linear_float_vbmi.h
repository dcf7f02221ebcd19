/* linear_float_vbmi.h - the entry of linear_float_vbmi.c, beside those of cpu.h. */
#ifndef SAC_LINEAR_FLOAT_VBMI_H
#define SAC_LINEAR_FLOAT_VBMI_H

#include "ops.h"

/* Same bits as sac_linear_float_avx512, on processors with SAC_CPU_AVX512_VBMI. */
sac_status sac_linear_float_vbmi(const sac_stream *s, const sac_linear_args *a);

#endif
