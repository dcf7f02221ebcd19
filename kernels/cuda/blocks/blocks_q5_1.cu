/* blocks_q5_1.cu - GGUF's q5_1 on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(q5_1)
