#include "packed.h"

#include "cpu_flags.h"
#include "cpu_weights.h"
#include "ref/ref.h"

#if defined(__x86_64__)
static sac_status avx2(const sac_stream *s, const sac_linear_args *a) {
    const bool bytes = a->w.tensor.dtype == SAC_DTYPE_PACKED_8;
    return bytes ? sac_linear_packed_8_avx2(s, a) : sac_linear_packed_4_avx2(s, a);
}

static sac_status avx512(const sac_stream *s, const sac_linear_args *a) {
    const bool bytes = a->w.tensor.dtype == SAC_DTYPE_PACKED_8;
    return bytes ? sac_linear_packed_8_avx512(s, a) : sac_linear_packed_4_avx512(s, a);
}
#endif

SAC_LINEAR_BY_FLAGS(avx2, avx512)

const sac_cpu_weight sac_cpu_weight_packed = {.linear = linear};
