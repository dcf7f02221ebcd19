/* blocks_q5_0.cu - GGUF's q5_0 on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(q5_0)
