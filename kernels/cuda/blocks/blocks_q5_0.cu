/* blocks_q5_0.cu - GGUF's q5_0 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q5_0)
