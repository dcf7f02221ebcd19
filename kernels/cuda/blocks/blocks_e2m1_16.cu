/* blocks_e2m1_16.cu - code_layout.h's e2m1_16 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(e2m1_16)
