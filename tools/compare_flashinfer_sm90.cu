/* compare_flashinfer_sm90.cu - FlashInfer's prefill for Hopper. A file of its own: its headers name things as
 * the others' do. How to build it: compare_flashinfer.cu. */
#include "compare_flashinfer.h"

#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>

using namespace flashinfer;

cudaError_t run_prefill_fa3(const attention &a, cudaStream_t stream) {
    using T = cutlass::bfloat16_t;
    SinglePrefillParams<T, T, T> p = {};
    p.q_ptr = reinterpret_cast<T *>(a.q);
    p.k_ptr = reinterpret_cast<T *>(a.k);
    p.v_ptr = reinterpret_cast<T *>(a.v);
    p.o_ptr = reinterpret_cast<T *>(a.o);
    p.additional_params.sm_scale = a.scale;
    p.q_stride_n = p.o_stride_n = (int64_t)a.heads * HEAD_DIM;
    p.k_stride_n = p.v_stride_n = (int64_t)a.kv_heads * HEAD_DIM;
    p.q_stride_h = p.k_stride_h = p.v_stride_h = p.o_stride_h = HEAD_DIM;
    p.qo_len = a.n_q;
    p.kv_len = a.n_kv;
    p.num_qo_heads = a.heads;
    p.num_kv_heads = a.kv_heads;
    p.group_size = a.heads / a.kv_heads;
    p.window_left = -1;
    p.causal = true;
    return SinglePrefillWithKVCacheDispatched<HEAD_DIM, HEAD_DIM, MaskMode::kCausal, false,
                                              StandardAttention>(p, stream);
}
