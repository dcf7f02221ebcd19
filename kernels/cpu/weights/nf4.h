/* nf4.h - linear with weights of 4-bit normal floats (ref/weights/nf4_ref.c), at each instruction set. */
#ifndef SAC_CPU_NF4_H
#define SAC_CPU_NF4_H

#include "ops.h"

sac_status sac_linear_nf4_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_nf4_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
