/* device.h - where ops run. A device is a table: memory, copies, streams, events. The CPU's is trivial;
 * CUDA's is in cuda.cu. Pointers to device memory are ordinary pointers that only ops and the device's own
 * copies may follow. A stream is the order in which things happen: the thread pool and scratch of one session
 * on the CPU, a CUDA stream with scratch on the card. */
#ifndef SAC_DEVICE_H
#define SAC_DEVICE_H

#include "arena.h"
#include "dtype.h"
#include "thread_pool.h"

#include <stdbool.h>

/* Scratch that every thread of a CPU op may use for packed panels and partial sums; kernels choose tiles that
 * fit. */
#define SAC_THREAD_SCRATCH_BYTES ((size_t)2 << 20)

typedef struct sac_device sac_device;

typedef struct sac_stream {
    sac_pool *pool;
    uint8_t *thread_scratch; /* [n_threads][SAC_THREAD_SCRATCH_BYTES] */
    uint8_t *shared_scratch; /* one block for the op in flight, e.g. quantised activations; on the device */
    size_t shared_scratch_bytes;
    void *native;             /* cudaStream_t, or NULL */
    const sac_device *device; /* NULL: the CPU */
    void *ops_state; /* what a backend's ops keep beside a stream (library handles, plans), or NULL */
} sac_stream;

/* A point in a stream's order, that of its last record; times between two are measured by
 * the device itself. */
typedef struct sac_event {
    void *native;
    int64_t t_ns;
} sac_event;

typedef enum sac_device_kind { SAC_DEVICE_CPU, SAC_DEVICE_CUDA } sac_device_kind;

/* Borrowed by streams: outlives them. Copies and zero() are in the stream's order; `from` and `to` on the
 * host may be reused when upload() and download() return, unless they came from host_alloc(): then after a
 * sync. A failure on a CUDA device is SAC_DEVICE and stays: later calls on it fail too. */
struct sac_device {
    sac_device_kind kind;
    int index;        /* which card */
    int compute;      /* 90 for sm_90; of the code where that is for an older card; 0 on the CPU */
    int shared_bytes; /* of shared memory that a block may have on the card; 0: not known */
    bool
        has_clusters; /* the code's kernels are launched as clusters of blocks, whatever `compute` counts on */
    bool no_early;    /* kernels start after the one before (cuda_limits.h) */
    bool no_cudnn;    /* the library is not asked */
    bool no_wide_streams; /* one row of x meets codes of 8 bits op by op */
    bool no_digits;       /* one row of x meets Q4_K, Q6_K and Q8_0 as 16-bit numbers */
    bool no_choice;       /* all logits come to the host */
    bool no_e4m3;         /* FP8 weights meet x in 16 bits */
    bool no_few_rows;     /* gate and up of 9 to 32 rows go to the library */
    bool no_out;          /* what follows attention in a layer goes op by op */
    int n_processors;    /* multiprocessors of the card; 1 on the CPU */
    size_t memory_bytes; /* of the whole card; 0 on the CPU: not asked for */
    char name[80];

    sac_status (*alloc)(const sac_device *d, size_t n_bytes, void **out,
                        sac_error *err);        /* 256-byte aligned */
    void (*free)(const sac_device *d, void *p); /* NULL is fine */
    sac_status (*host_alloc)(const sac_device *d, size_t n_bytes, void **out,
                             sac_error *err); /* pinned: ops may follow pointers to it, too */
    void (*host_free)(const sac_device *d, void *p);
    size_t (*memory_left)(const sac_device *d); /* 0: not known */
    /* Makes d the calling thread's: ops follow for streams of d, whatever thread or device was before. Copies
     * do it by themselves. */
    sac_status (*use)(const sac_device *d);

    sac_status (*upload)(const sac_stream *s, void *to, const void *from, size_t n_bytes);
    sac_status (*download)(const sac_stream *s, void *to, const void *from, size_t n_bytes);
    sac_status (*copy)(const sac_stream *s, void *to, const void *from, size_t n_bytes);
    sac_status (*zero)(const sac_stream *s, void *to, size_t n_bytes);
    /* n pieces of n_bytes, each so many bytes behind the one before, in one go: up, down or on the device. The host's side is
     * from host_alloc(). NULL: the device has none, pieces are moved one by one. */
    sac_status (*move_pieces)(const sac_stream *s, void *to, size_t to_stride, const void *from, size_t from_stride,
                              size_t n_bytes, size_t n);

    /* A stream with `scratch_bytes` for ops. The CPU's runs copies only: its ops need sac_stream_init. */
    sac_status (*stream_open)(const sac_device *d, sac_stream *s, size_t scratch_bytes, sac_error *err);
    /* Likewise; what waits for processors in it is served before what waits in streams of stream_open. */
    sac_status (*stream_open_first)(const sac_device *d, sac_stream *s, size_t scratch_bytes, sac_error *err);
    sac_status (*stream_sync)(const sac_stream *s, sac_error *err);
    void (*stream_close)(sac_stream *s); /* waits for what is in flight; a zeroed stream is fine */

    sac_status (*event_create)(const sac_device *d, sac_event *e, sac_error *err);
    sac_status (*event_record)(const sac_stream *s, sac_event *e);
    sac_status (*event_wait)(const sac_stream *s,
                             const sac_event *e); /* s goes on after e, the host at once */
    sac_status (*event_sync)(const sac_event *e); /* the host waits */
    sac_status (*event_elapsed)(const sac_event *from, const sac_event *to, double *milliseconds); /* waits */
    void (*event_free)(sac_event *e);
};

/* Fills *d. UNSUPPORTED, with one line that says why, when this build, driver or machine has
 * no such device. */
sac_status sac_device_open(sac_device *d, sac_device_kind kind, int index, sac_error *err);

/* Makes the stream's device the calling thread's. Call it before ops where no copy on that stream has been
 * made by the same thread: copies do it by themselves. */
static inline sac_status sac_stream_use(const sac_stream *s) {
    return s->device ? s->device->use(s->device) : SAC_OK;
}

/* The two tables; sac_cuda_device_open exists in builds with SAC_CUDA only. */
void sac_cpu_device_open(sac_device *d);
sac_status sac_cuda_device_open(sac_device *d, int index, sac_error *err);

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
