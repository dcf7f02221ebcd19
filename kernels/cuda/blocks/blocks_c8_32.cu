/* blocks_c8_32.cu - code_layout.h's c8_32 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(c8_32)
