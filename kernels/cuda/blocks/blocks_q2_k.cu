/* blocks_q2_k.cu - GGUF's q2_k on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(q2_k)
