/* awq.h - linear with weights of AWQ (ref/weights/awq_ref.c), at each instruction set. */
#ifndef SAC_CPU_AWQ_H
#define SAC_CPU_AWQ_H

#include "ops.h"

sac_status sac_linear_awq_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_awq_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
