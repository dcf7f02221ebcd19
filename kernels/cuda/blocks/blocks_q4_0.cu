/* blocks_q4_0.cu - GGUF's q4_0 on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(q4_0)
