/* blocks_iq4_xs.cu - GGUF's iq4_xs on a GPU. */
#include "block_digits.cuh"
#include "block_rows.cuh"

SAC_BLOCK_KERNELS(iq4_xs)
