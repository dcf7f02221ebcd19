/* blocks_iq4_xs.cu - GGUF's iq4_xs on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(iq4_xs)
