/* gptq.h - linear with GPTQ's packing (ref/weights/gptq_ref.c) of 4 and 8 bits, at each instruction set. */
#ifndef SAC_CPU_GPTQ_H
#define SAC_CPU_GPTQ_H

#include "ops.h"

sac_status sac_linear_gptq_4_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_gptq_8_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_gptq_4_avx512(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_gptq_8_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
