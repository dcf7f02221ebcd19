/* packed.h - linear with compressed-tensors' packed words (ref/weights/packed_ref.c) of 4 and 8 bits, at each
 * instruction set. */
#ifndef SAC_CPU_PACKED_H
#define SAC_CPU_PACKED_H

#include "ops.h"

sac_status sac_linear_packed_4_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_packed_8_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_packed_4_avx512(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_packed_8_avx512(const sac_stream *s, const sac_linear_args *a);

#endif
