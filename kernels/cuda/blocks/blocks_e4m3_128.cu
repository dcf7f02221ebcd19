/* blocks_e4m3_128.cu - code_layout.h's e4m3_128 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(e4m3_128)
