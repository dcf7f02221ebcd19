/* blocks_q3_k.cu - GGUF's q3_k on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q3_k)
