/* linear_group.cu - several products of the same rows: one product where the parts lie so, else one each. */
#include "context.cuh"

namespace sac::linear {

extern "C" sac_status sac_cuda_linear_group(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_args one;
    if (sac_linear_group_join(a, &one)) return sac_cuda_linear(s, &one);
    for (int i = 0; i < a->n; i++) {
        one = sac_linear_group_part(a, i);
        SAC_TRY(sac_cuda_linear(s, &one));
    }
    return SAC_OK;
}

} // namespace sac::linear
