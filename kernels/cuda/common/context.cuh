/* context.cuh - what stands beside a stream: library handles, plans, the parts of its scratch. */
#ifndef SAC_KERNELS_CONTEXT_CUH
#define SAC_KERNELS_CONTEXT_CUH

#include "cublaslt.cuh"
#include "device.cuh"

namespace sac::attention {
struct cudnn_state; /* cudnn.cuh */
}

namespace sac {

/* The stream's scratch, in this order. Counters are zero between ops. */
#define SCRATCH_COUNTER_BYTES ((size_t)64 << 10)
#define SCRATCH_BIAS_BYTES    ((size_t)1 << 20)

typedef struct matmul_key {
    int64_t m, n, k, x_stride, y_stride, w_stride;
    size_t workspace_bytes;
    int x_align, y_align, w_align;
    sac_dtype x, y;
    bool bias, gelu, accumulate, fast;
    bool by_blocks; /* e4m3 with scales of blocks */
} matmul_key;

typedef struct matmul_plan {
    matmul_key key;
    cublasLtMatmulAlgo_t algo;
    bool usable; /* false: the library has nothing for it */
} matmul_plan;

enum { N_MATMUL_PLANS = 256 };

typedef struct cuda_ops {
    linear::cublaslt lt;
    matmul_plan matmul[N_MATMUL_PLANS];
    int n_matmul; /* planned so far; the oldest make room */
    bool packs;   /* packed rows were written: who reads them before the wait has to start late once */
    attention::cudnn_state *cudnn; /* NULL without the library */
    char line[96];
} cuda_ops;

/* A kernel whose blocks wait for each other has to get the whole card: beside another one, or one of clusters, each might have a part of
 * it, for ever. While this object lives the stream may start one, if `may`: it is the only stream that the program has ops open for on the
 * card, and no other program's kernels run beside its own (MPS). */
class waiting {
  public:
    explicit waiting(const sac_stream *s);
    ~waiting();
    waiting(const waiting &) = delete;
    waiting &operator=(const waiting &) = delete;
    bool may;
};

static inline cuda_ops *ops_of(const sac_stream *s) {
    return (cuda_ops *)s->ops_state;
}
static inline unsigned *scratch_counters(const sac_stream *s) {
    return (unsigned *)s->shared_scratch;
}
static inline void *scratch_bias(const sac_stream *s) {
    return s->shared_scratch + SCRATCH_COUNTER_BYTES;
}
static inline uint8_t *scratch_rest(const sac_stream *s, size_t *n_bytes) {
    const size_t used = SCRATCH_COUNTER_BYTES + SCRATCH_BIAS_BYTES;
    *n_bytes = s->shared_scratch_bytes > used ? s->shared_scratch_bytes - used : 0;
    return s->shared_scratch + used;
}

} // namespace sac

#endif
