/* int8.h - linear with int8 weights whose scales lie apart (ref/weights/int8_ref.c), at each instruction set. */
#ifndef SAC_CPU_INT8_H
#define SAC_CPU_INT8_H

#include "ops.h"

sac_status sac_linear_int8_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_int8_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
