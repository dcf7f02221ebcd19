/* blocks_q4_1.cu - GGUF's q4_1 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q4_1)
