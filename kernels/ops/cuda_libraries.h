/* cuda_libraries.h - what a device's ops load at run time. Builds with SAC_CUDA only. */
#ifndef SAC_CUDA_LIBRARIES_H
#define SAC_CUDA_LIBRARIES_H

#ifdef __cplusplus
extern "C" {
#endif

/* The cuDNN that ops would use, 91002 for 9.10.2; 0: none. */
int sac_ops_cudnn_version(void);

#ifdef __cplusplus
}
#endif
#endif
