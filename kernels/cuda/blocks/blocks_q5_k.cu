/* blocks_q5_k.cu - GGUF's q5_k on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q5_k)
