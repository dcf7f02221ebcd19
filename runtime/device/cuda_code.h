/* cuda_code.h - which of a build's code a card runs. */
#ifndef SAC_DEVICE_CUDA_CODE_H
#define SAC_DEVICE_CUDA_CODE_H

/* The compute capability that the host has to count on: the card's, or that of the code where this is for cards before
 * Hopper, which leaves out what the host asks for from Hopper on (clusters, early starts). So a card that is newer than
 * the build runs the portable code of an older one, made for it by the driver. `code`: of the PTX that the kernels come
 * from; 90 for sm_90. */
static inline int sac_cuda_counted_compute(int compute, int code) {
    return compute >= 90 && code < 90 ? code : compute;
}

#endif
