/* attention_many_wide.cu - the kernels of attention_many.cuh for heads of 136 to 256 channels. */
#include "attention_many.cuh"

namespace sac::attention::decode {

template <typename T>
static sac_status run_type(const sac_stream *s, const sac_attention_args *each, int n, bool do_it) {
    return each->kv.head_dim <= 192 ? run_many<T, 192, 2>(s, each, n, do_it)
                                    : run_many<T, 256, 2>(s, each, n, do_it);
}

sac_status run_many_wide(const sac_stream *s, const sac_attention_args *each, int n, bool do_it) {
    return each->kv.dtype == SAC_DTYPE_F16 ? run_type<half>(s, each, n, do_it)
                                           : run_type<bf16>(s, each, n, do_it);
}

} // namespace sac::attention::decode
