/* cublaslt.cuh - cuBLASLt, loaded at run time: the program starts on machines that have no CUDA libraries, and runs with
 * the library of CUDA 13 or 12. Headers are those of the build; structs and numbers that are used of them are the same
 * in both, but for the scale modes of 8-bit types: libraries before 12.9 refuse these (linear.cu, describe_e4m3). */
#ifndef SAC_KERNELS_CUBLASLT_CUH
#define SAC_KERNELS_CUBLASLT_CUH

#include "cuda_ops.h"

#include <cublasLt.h>

namespace sac::linear {

/* The library's functions, by name. Those with Init and _internal are what the header's inline ones call. */
#define SAC_CUBLASLT_FUNCTIONS(X)                                                                            \
    X(Create)                                                                                                \
    X(Destroy)                                                                                               \
    X(GetVersion)                                                                                            \
    X(MatmulDescInit_internal)                                                                               \
    X(MatmulDescSetAttribute)                                                                                \
    X(MatrixLayoutInit_internal)                                                                             \
    X(MatmulPreferenceInit_internal)                                                                         \
    X(MatmulPreferenceSetAttribute)                                                                          \
    X(MatmulAlgoGetHeuristic)                                                                                \
    X(MatmulAlgoConfigGetAttribute)                                                                          \
    X(Matmul)

struct cublaslt {
    void *lib;
    cublasLtHandle_t handle; /* NULL before cublaslt_start */
#define X(name) decltype(&cublasLt##name) name;
    SAC_CUBLASLT_FUNCTIONS(X)
#undef X
};

/* The first library of the list, up to a NULL, that is there and has all functions; with names NULL of the versions that
 * are known. UNSUPPORTED with a line that says what to install. */
sac_status cublaslt_load(cublaslt *c, const char *const *names, sac_error *err);
/* A handle on the calling thread's card. */
bool cublaslt_start(cublaslt *c);
void cublaslt_close(cublaslt *c); /* zeroed is fine */

} // namespace sac::linear

#endif
