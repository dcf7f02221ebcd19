/* attention_flash.cu - the kernels of attention_flash.cuh for heads of up to 128 channels, and which of all is taken. */
#include "attention_flash.cuh"

namespace sac::attention {

extern "C" sac_status sac_cuda_attention_flash(const sac_stream *s, const sac_attention_args *a) {
    const int d = a->kv.head_dim;
    if (a->segment_start || !attention_is_half(a) || !attention_fits_int(a) || a->n_batch > 65535 || a->kv.n_heads > 65535)
        return SAC_UNSUPPORTED;
    if (a->n_q == 0) return SAC_OK;
    if (d > 128) return a->softcap > 0 ? flash::run_wide_capped(s, a) : flash::run_wide(s, a);
    if (a->softcap > 0) return flash::run_capped(s, a);
    if (d <= 64) return flash::run<64, attention_job>(s, a);
    if (d <= 80) return flash::run<80, attention_job>(s, a);
    if (d <= 96) return flash::run<96, attention_job>(s, a);
    return flash::run<128, attention_job>(s, a);
}

} // namespace sac::attention
