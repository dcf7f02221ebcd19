/* blocks_q4_k.cu - GGUF's q4_k on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(q4_k)
