/* blocks_e2m1_32.cu - code_layout.h's e2m1_32 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(e2m1_32)
