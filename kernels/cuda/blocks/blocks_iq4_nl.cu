/* blocks_iq4_nl.cu - GGUF's iq4_nl on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(iq4_nl)
