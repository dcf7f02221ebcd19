/* segments.h - attention over segments, by kernels that know equal batches only. */
#ifndef SAC_KERNELS_SEGMENTS_H
#define SAC_KERNELS_SEGMENTS_H

#include "op_attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Neighbouring segments of one length go to fn together, as equal batches: segments that are all equal are one
 * call, and exactly the call that such batches always were. */
sac_status sac_attention_by_segments(const sac_stream *s, const sac_attention_args *a,
                                     sac_status (*fn)(const sac_stream *s, const sac_attention_args *a));

#ifdef __cplusplus
}
#endif

#endif
