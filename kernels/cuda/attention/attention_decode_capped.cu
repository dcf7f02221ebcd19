/* attention_decode_capped.cu - the kernels of attention_splits.cuh for capped scores (Gemma 2). Few models have them:
 * heads of up to 128 channels are one kernel, those of up to 256 another. */
#include "attention_splits.cuh"

namespace sac::attention::decode {

template <typename T> static sac_status run_type(const sac_stream *s, const sac_attention_args *a) {
    const capped_job j = attention_job_of<capped_job>(a);
    return j.d <= 128 ? run<T, 128, 3>(s, a, j) : run<T, 256, 2>(s, a, j);
}

sac_status run_capped(const sac_stream *s, const sac_attention_args *a) {
    return a->kv.dtype == SAC_DTYPE_F16 ? run_type<half>(s, a) : run_type<bf16>(s, a);
}

} // namespace sac::attention::decode
