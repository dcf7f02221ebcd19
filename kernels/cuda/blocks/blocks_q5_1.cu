/* blocks_q5_1.cu - GGUF's q5_1 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q5_1)
