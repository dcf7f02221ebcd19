/* blocks_q4_0.cu - GGUF's q4_0 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q4_0)
