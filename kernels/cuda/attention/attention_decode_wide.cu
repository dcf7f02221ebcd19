/* attention_decode_wide.cu - the kernels of attention_splits.cuh for heads of 136 to 256 channels. Two stages: a tile of
 * 16 keys is 17 KiB, and warps count for more than stages. */
#include "attention_splits.cuh"

namespace sac::attention::decode {

template <typename T> static sac_status run_type(const sac_stream *s, const sac_attention_args *a) {
    const attention_job j = attention_prepare(a);
    return j.d <= 192 ? run<T, 192, 2>(s, a, j) : run<T, 256, 2>(s, a, j);
}

sac_status run_wide(const sac_stream *s, const sac_attention_args *a) {
    return a->kv.dtype == SAC_DTYPE_F16 ? run_type<half>(s, a) : run_type<bf16>(s, a);
}

} // namespace sac::attention::decode
