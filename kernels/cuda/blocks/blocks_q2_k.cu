/* blocks_q2_k.cu - GGUF's q2_k on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q2_k)
