/* blocks_nf4_32.cu - code_layout.h's nf4_32 on a GPU. */
#include "block_rows.cuh"
#include "block_stream.cuh"

SAC_BLOCK_KERNELS(nf4_32)
