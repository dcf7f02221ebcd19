/* blocks_nf4_64.cu - code_layout.h's nf4_64 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(nf4_64)
