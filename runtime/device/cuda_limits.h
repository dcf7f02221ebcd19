/* cuda_limits.h - what the host counts on a CUDA card for: what the card and the build's code allow, and less where
 * tests want it, so that a card runs what others would. */
#ifndef SAC_DEVICE_CUDA_LIMITS_H
#define SAC_DEVICE_CUDA_LIMITS_H

#include "status.h"

#include <stdbool.h>

/* Of the variable SAC_CUDA_LIMITS, e.g. "compute=89,shared=99": */
typedef struct sac_cuda_limits {
    int compute;    /* no more than this compute capability, 80 or later; 0: no limit */
    int shared_kib; /* no more shared memory a block, 48 or more; 0: no limit */
    bool no_early;  /* early=0: kernels start after the one before, as on cards before sm_90 */
    bool no_cudnn;  /* cudnn=0: as if the library were not there */
    bool
        no_wide_streams; /* streams=0: one row of x meets codes of 8 bits op by op (blocks/block_stream.cuh) */
    bool no_digits; /* digits=0: one row of x meets Q4_K, Q6_K, Q8_0 as 16-bit numbers (blocks/block_digits.cuh) */
    bool no_choice;  /* choice=0: logits of every step come to the host, which looks for the largest itself */
    bool no_e4m3; /* e4m3=0: FP8 weights meet x in 16 bits, as on cards before Hopper (blocks/linear_e4m3.cu) */
    bool no_few_rows; /* few=0: gate and up of 9 to 32 rows go to cuBLASLt, as on cards before Hopper (linear/few_rows.cuh) */
    bool no_out; /* out=0: what follows attention in a layer goes op by op (blocks/out_e4m3.cu) */
} sac_cuda_limits;

/* `text` NULL or empty: none. BAD_ARGUMENT with what may stand there. */
sac_status sac_cuda_limits_parse(sac_cuda_limits *l, const char *text, sac_error *err);

/* The compute capability that the host has to count on: the card's, or that of the code where this is for cards before
 * Hopper, which leaves out what the host asks for from Hopper on (clusters, early starts). So a card that is newer than
 * the build runs the portable code of an older one, made for it by the driver. `code`: of the PTX that the kernels come
 * from; 90 for sm_90. */
int sac_cuda_counted_compute(int compute, int code, const sac_cuda_limits *l);

/* Likewise bytes of shared memory that a block may have, of those that the card says. */
int sac_cuda_counted_shared(int n_bytes, const sac_cuda_limits *l);

#endif
