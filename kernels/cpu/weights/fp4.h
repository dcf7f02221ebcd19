/* fp4.h - linear with weights of floats of 4 bits (ref/weights/fp4_ref.c), at each instruction set. */
#ifndef SAC_CPU_FP4_H
#define SAC_CPU_FP4_H

#include "ops.h"

sac_status sac_linear_fp4_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_fp4_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
