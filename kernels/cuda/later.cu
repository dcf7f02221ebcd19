#include "device.cuh"
extern "C" {
sac_status sac_cuda_key_scores(const sac_stream *, const sac_key_scores_args *) { return SAC_UNSUPPORTED; }
sac_status sac_cuda_attention_sums(const sac_stream *, const sac_attention_sums_args *) { return SAC_UNSUPPORTED; }
sac_status sac_cuda_kv_gather(const sac_stream *, const sac_kv_gather_args *) { return SAC_UNSUPPORTED; }
sac_status sac_cuda_top_k(const sac_stream *, const sac_top_k_args *) { return SAC_UNSUPPORTED; }
sac_status sac_cuda_top_p(const sac_stream *, const sac_top_p_args *) { return SAC_UNSUPPORTED; }
sac_status sac_cuda_packed_attention(const sac_stream *, const sac_packed_attention_args *) { return SAC_UNSUPPORTED; }
}
