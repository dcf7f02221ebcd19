/* blocks_c4_128.cu - code_layout.h's c4_128 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(c4_128)
