/* blocks_mxfp4.cu - GGUF's mxfp4 on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(mxfp4)
