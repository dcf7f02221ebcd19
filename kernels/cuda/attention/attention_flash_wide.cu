/* attention_flash_wide.cu - the kernels of attention_flash.cuh for heads of 136 to 256 channels. */
#include "attention_flash.cuh"

namespace sac::attention::flash {

sac_status run_wide(const sac_stream *s, const sac_attention_args *a) {
    return a->kv.head_dim <= 192 ? run<192, attention_job>(s, a) : run<256, attention_job>(s, a);
}

} // namespace sac::attention::flash
