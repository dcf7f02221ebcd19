/* blocks_c4_32.cu - code_layout.h's c4_32 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(c4_32)
