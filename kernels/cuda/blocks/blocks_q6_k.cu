/* blocks_q6_k.cu - GGUF's q6_k on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q6_k)
