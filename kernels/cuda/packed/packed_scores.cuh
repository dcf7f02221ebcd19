/* packed_scores.cuh - the part of packed_scores for all rows of keys in 4 bits. */
#ifndef SAC_KERNELS_PACKED_SCORES_CUH
#define SAC_KERNELS_PACKED_SCORES_CUH

#include "device.cuh"

namespace sac::packed::four_bits {

/* UNSUPPORTED for other bits, ranges or head sizes, lists, turned keys, more than 8 heads a key head. The
 * query is rounded to f16 of its head's size: 2^-12 of each channel, of which f16 and bf16 lose nothing. */
sac_status scores(const sac_stream *s, const sac_packed_scores_args *a);

} // namespace sac::packed::four_bits

#endif
