/* device.h - where ops run: a stream is the thread pool and scratch memory of one session (CPU), or a CUDA
 * stream. */
#ifndef SAC_DEVICE_H
#define SAC_DEVICE_H

#include "arena.h"
#include "dtype.h"
#include "thread_pool.h"

/* Scratch that every thread of a CPU op may use for packed panels and partial sums; kernels choose tiles that
 * fit. */
#define SAC_THREAD_SCRATCH_BYTES ((size_t)2 << 20)

typedef struct sac_stream {
    sac_pool *pool;
    uint8_t *thread_scratch; /* [n_threads][SAC_THREAD_SCRATCH_BYTES] */
    uint8_t *shared_scratch; /* one block for the op in flight, e.g. quantised activations */
    size_t shared_scratch_bytes;
    void *native; /* cudaStream_t, or NULL */
} sac_stream;

/* Bytes of arena that sac_stream_init takes. */
size_t sac_stream_bytes(int n_threads, size_t shared_scratch_bytes);

/* A CPU stream over `pool` with scratch out of `arena`; both outlive it. */
sac_status sac_stream_init(sac_stream *s, sac_pool *pool, sac_arena *arena, size_t shared_scratch_bytes,
                           sac_error *err);

static inline void *sac_stream_thread_scratch(const sac_stream *s, int thread) {
    return s->thread_scratch + (size_t)thread * SAC_THREAD_SCRATCH_BYTES;
}

/* A matrix of activations: rows of `cols` elements, `stride` elements apart. Borrowed. */
typedef struct sac_mat {
    void *data;
    int64_t rows, cols, stride;
    sac_dtype dtype; /* F32 on the CPU */
} sac_mat;

static inline sac_mat sac_mat_f32(float *data, int64_t rows, int64_t cols) {
    return (sac_mat){data, rows, cols, cols, SAC_DTYPE_F32};
}
/* Rows [first, first + n) of m. */
static inline sac_mat sac_mat_rows(sac_mat m, int64_t first, int64_t n) {
    m.data = (char *)m.data + (size_t)(first * m.stride) / (size_t)sac_dtype_block(m.dtype) *
                                  (size_t)sac_dtype_block_bytes(m.dtype);
    m.rows = n;
    return m;
}
static inline float *sac_mat_row_f32(sac_mat m, int64_t row) {
    return (float *)m.data + row * m.stride;
}

#endif
