/* hqq.h - linear with weights of codes of 4 bits and zeros in floats (ref/weights/hqq_ref.c), at each instruction set. */
#ifndef SAC_CPU_HQQ_H
#define SAC_CPU_HQQ_H

#include "ops.h"

sac_status sac_linear_hqq_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_hqq_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
