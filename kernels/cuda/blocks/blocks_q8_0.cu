/* blocks_q8_0.cu - GGUF's q8_0 on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(q8_0)
