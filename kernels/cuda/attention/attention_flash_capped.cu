/* attention_flash_capped.cu - the kernels of attention_flash.cuh for heads of up to 128 channels with capped scores
 * (Gemma 2 27B). Few models have them: heads of any such size are one kernel. */
#include "attention_flash.cuh"

namespace sac::attention::flash {

sac_status run_capped(const sac_stream *s, const sac_attention_args *a) {
    return run<128, capped_job>(s, a);
}

} // namespace sac::attention::flash
