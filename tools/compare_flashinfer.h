/* compare_flashinfer.h - one attention over one sequence, as the files of compare_flashinfer see it: bf16,
 * heads of HEAD_DIM numbers, rows of all heads side by side (FlashInfer's NHD). */
#ifndef SAC_COMPARE_FLASHINFER_H
#define SAC_COMPARE_FLASHINFER_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

enum { HEAD_DIM = 128, PAGE_ROWS = 16 };

struct attention {
    __nv_bfloat16 *q, *k, *v, *o; /* [n_q][heads][HEAD_DIM], [n_kv][kv_heads][HEAD_DIM] twice, and as q */
    int n_q, n_kv, heads, kv_heads;
    float scale;
};

/* Of the same rows as pages, on the device. */
struct paged_rows {
    const int *pages;       /* their numbers */
    const uint32_t *n_rows; /* n_kv */
    uint32_t *semaphores;   /* zeros, and zeros again after each call */
    void *scratch;          /* partial answers */
};

/* Both cudaErrorNotSupported where built with NO_HOPPER; XQA for any but 7 query heads a key head. */
cudaError_t run_decode_xqa(const attention &a, const paged_rows &r, cudaStream_t stream);

/* FlashInfer's Hopper prefill (its backend "fa3"), causal. */
cudaError_t run_prefill_fa3(const attention &a, cudaStream_t stream);

#endif
