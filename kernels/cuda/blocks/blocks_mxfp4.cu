/* blocks_mxfp4.cu - GGUF's mxfp4 on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(mxfp4)
