/* fp8.h - linear with weights of floats of 8 bits (ref/weights/fp8_ref.c), at each instruction set. */
#ifndef SAC_CPU_FP8_H
#define SAC_CPU_FP8_H

#include "ops.h"

sac_status sac_linear_fp8_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_fp8_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
