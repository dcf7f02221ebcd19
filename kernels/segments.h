/* segments.h - attention over segments and with spans, by kernels that know equal batches and one order only. */
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

/* Queries inside a span, which see all of it, and those between spans, which see no row behind their own, go to fn one
 * stretch after the other, without spans. */
sac_status sac_attention_by_spans(const sac_stream *s, const sac_attention_args *a,
                                  sac_status (*fn)(const sac_stream *s, const sac_attention_args *a));

#ifdef __cplusplus
}
#endif

#endif
