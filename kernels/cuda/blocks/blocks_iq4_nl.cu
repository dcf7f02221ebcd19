/* blocks_iq4_nl.cu - GGUF's iq4_nl on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(iq4_nl)
