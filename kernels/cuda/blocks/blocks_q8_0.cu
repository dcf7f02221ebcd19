/* blocks_q8_0.cu - GGUF's q8_0 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(q8_0)
