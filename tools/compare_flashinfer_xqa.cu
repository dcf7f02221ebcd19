/* compare_flashinfer_xqa.cu - FlashInfer's XQA decode, which its trtllm_batch_decode_with_kv_cache takes on
 * Hopper. Its source is read from the installed wheel and made for one shape, as FlashInfer's own builder
 * makes it. How to build it: compare_flashinfer.cu. */
#define BEAM_WIDTH         1
#define USE_INPUT_KV       0
#define USE_CUSTOM_BARRIER 1
#define INPUT_FP16         0
#define CACHE_ELEM_ENUM    0 /* as the input: bf16 */
#define TOKENS_PER_PAGE    16
#define HEAD_ELEMS         128
#define HEAD_GRP_SIZE      7
#define SLIDING_WINDOW     0
#define LOW_PREC_OUTPUT    0
#define SPEC_DEC           0
#define MLA_WRAPPER        0
#define USE_SM90_MHA       0 /* for 8-bit keys alone */
#include <xqa/mha.cu>

#include "compare_flashinfer.h"

cudaError_t run_decode_xqa(const attention &a, const paged_rows &r, cudaStream_t stream) {
    if (a.heads != HEAD_GRP_SIZE * a.kv_heads) return cudaErrorNotSupported;
    int device, n_sms;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, device);
    const uint64_t row = (uint64_t)a.kv_heads * HEAD_DIM;
    launchMHAFlashInfer(n_sms, a.kv_heads, 0, a.scale * sqrtf(HEAD_DIM), nullptr,
                        reinterpret_cast<OutputHead *>(a.o), reinterpret_cast<const InputHead *>(a.q),
                        nullptr, reinterpret_cast<GMemCacheHead *>(a.k),
                        reinterpret_cast<GMemCacheHead *>(a.v),
                        reinterpret_cast<const KVCachePageIndex *>(r.pages), a.n_kv, r.n_rows, 1, 1.0f,
                        nullptr, r.semaphores, r.scratch, true, TOKENS_PER_PAGE * row, row, HEAD_DIM, stream);
    return cudaGetLastError();
}
