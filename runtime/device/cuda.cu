/* cuda.cu - a CUDA card behind the device table. Compiled as C++, written as C; the runtime is linked
 * statically, so a machine without a driver runs the same program and gets one line of why. */
#include <cuda_runtime.h>
extern "C" {
#include "cuda_limits.h"
#include "device.h"
}
#include <stdio.h>
#include <stdlib.h>

static sac_status fail(sac_error *err, const sac_device *d, cudaError_t e, const char *what) {
    sac_status s = e == cudaErrorMemoryAllocation ? SAC_NO_MEMORY : SAC_DEVICE;
    cudaGetLastError(); /* told here, and not left for the next op to find */
    return sac_fail(err, s, "CUDA card %d (%s): %s: %s", d ? d->index : 0, d ? d->name : "?", what,
                    cudaGetErrorString(e));
}
static cudaStream_t native(const sac_stream *s) {
    return (cudaStream_t)s->native;
}

static sac_status cuda_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    char what[64];
    cudaError_t e = cudaSetDevice(d->index);
    *out = NULL;
    if (e == cudaSuccess) e = cudaMalloc(out, n_bytes ? n_bytes : 1);
    if (e == cudaSuccess) return SAC_OK;
    snprintf(what, sizeof what, "taking %zu MiB", n_bytes >> 20);
    return fail(err, d, e, what);
}
static void cuda_free(const sac_device *d, void *p) {
    if (p && cudaSetDevice(d->index) == cudaSuccess) cudaFree(p);
}
static sac_status cuda_host_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    cudaError_t e = cudaSetDevice(d->index);
    *out = NULL;
    if (e == cudaSuccess) e = cudaHostAlloc(out, n_bytes ? n_bytes : 1, cudaHostAllocDefault);
    return e == cudaSuccess ? SAC_OK : fail(err, d, e, "taking pinned host memory");
}
static void cuda_host_free(const sac_device *d, void *p) {
    if (p && cudaSetDevice(d->index) == cudaSuccess) cudaFreeHost(p);
}
static size_t cuda_memory_left(const sac_device *d) {
    size_t left = 0, total = 0;
    if (cudaSetDevice(d->index) == cudaSuccess) cudaMemGetInfo(&left, &total);
    return left;
}

/* Of a call on a stream. Its failure is told here, and not left for the next op to find. */
static sac_status status_of(cudaError_t e) {
    if (e == cudaSuccess) return SAC_OK;
    cudaGetLastError();
    return SAC_DEVICE;
}

static sac_status cuda_use(const sac_device *d) {
    return status_of(cudaSetDevice(d->index));
}

static sac_status copy(const sac_stream *s, void *to, const void *from, size_t n_bytes, cudaMemcpyKind kind) {
    if (!n_bytes) return SAC_OK;
    SAC_TRY(cuda_use(s->device));
    return status_of(cudaMemcpyAsync(to, from, n_bytes, kind, native(s)));
}
static sac_status cuda_upload(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    return copy(s, to, from, n_bytes, cudaMemcpyHostToDevice);
}
static sac_status cuda_download(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    return copy(s, to, from, n_bytes, cudaMemcpyDeviceToHost);
}
static sac_status cuda_copy(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    return copy(s, to, from, n_bytes, cudaMemcpyDeviceToDevice);
}
static sac_status cuda_move_pieces(const sac_stream *s, void *to, size_t to_stride, const void *from, size_t from_stride,
                                   size_t n_bytes, size_t n) {
    SAC_TRY(cuda_use(s->device));
    return status_of(
        cudaMemcpy2DAsync(to, to_stride, from, from_stride, n_bytes, n, cudaMemcpyDefault, native(s)));
}
static sac_status cuda_zero(const sac_stream *s, void *to, size_t n_bytes) {
    if (!n_bytes) return SAC_OK;
    SAC_TRY(cuda_use(s->device));
    return status_of(cudaMemsetAsync(to, 0, n_bytes, native(s)));
}

static void cuda_stream_close(sac_stream *s) {
    if (!s->device || cudaSetDevice(s->device->index) != cudaSuccess) return;
    if (s->native) {
        cudaStreamSynchronize(native(s));
        cudaStreamDestroy(native(s));
    }
    if (s->shared_scratch) cudaFree(s->shared_scratch);
    *s = sac_stream{};
}
static sac_status open_stream(const sac_device *d, sac_stream *s, size_t scratch_bytes, bool is_first,
                              sac_error *err) {
    cudaStream_t stream;
    void *scratch;
    *s = sac_stream{};
    SAC_TRY(cuda_alloc(d, scratch_bytes, &scratch, err));
    int last = 0, first = 0; /* the lower number goes first */
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&last, &first);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, is_first ? first : last);
    if (e != cudaSuccess) {
        cudaFree(scratch);
        return fail(err, d, e, "making a stream");
    }
    s->device = d;
    s->native = stream;
    s->shared_scratch = (uint8_t *)scratch;
    s->shared_scratch_bytes = scratch_bytes;
    /* kernels that count their blocks find their counters at zero, and leave them so */
    e = cudaMemsetAsync(scratch, 0, scratch_bytes, stream);
    if (e == cudaSuccess) return SAC_OK;
    cuda_stream_close(s);
    return fail(err, d, e, "clearing scratch");
}
static sac_status cuda_stream_open(const sac_device *d, sac_stream *s, size_t scratch_bytes, sac_error *err) {
    return open_stream(d, s, scratch_bytes, false, err);
}
static sac_status cuda_stream_open_first(const sac_device *d, sac_stream *s, size_t scratch_bytes,
                                         sac_error *err) {
    return open_stream(d, s, scratch_bytes, true, err);
}
static sac_status cuda_stream_sync(const sac_stream *s, sac_error *err) {
    cudaError_t e = cudaStreamSynchronize(native(s));
    return e == cudaSuccess ? SAC_OK : fail(err, s->device, e, "running the work of a stream");
}

static sac_status cuda_event_create(const sac_device *d, sac_event *e, sac_error *err) {
    cudaEvent_t event;
    cudaError_t st = cudaSetDevice(d->index);
    *e = sac_event{};
    if (st == cudaSuccess) st = cudaEventCreate(&event);
    if (st != cudaSuccess) return fail(err, d, st, "making an event");
    e->native = event;
    return SAC_OK;
}
static sac_status cuda_event_record(const sac_stream *s, sac_event *e) {
    return status_of(cudaEventRecord((cudaEvent_t)e->native, native(s)));
}
static sac_status cuda_event_wait(const sac_stream *s, const sac_event *e) {
    return status_of(cudaStreamWaitEvent(native(s), (cudaEvent_t)e->native, 0));
}
static sac_status cuda_event_sync(const sac_event *e) {
    return status_of(cudaEventSynchronize((cudaEvent_t)e->native));
}
static sac_status cuda_event_elapsed(const sac_event *from, const sac_event *to, double *milliseconds) {
    float ms = 0;
    SAC_TRY(status_of(cudaEventSynchronize((cudaEvent_t)to->native)));
    SAC_TRY(status_of(cudaEventElapsedTime(&ms, (cudaEvent_t)from->native, (cudaEvent_t)to->native)));
    *milliseconds = (double)ms;
    return SAC_OK;
}
static void cuda_event_free(sac_event *e) {
    if (e->native) cudaEventDestroy((cudaEvent_t)e->native);
    *e = sac_event{};
}

static __global__ void nothing(void) {}

/* Of the code that the card runs, 80 for sm_80; 0: this build holds none for it. */
static int code_of(int index) {
    cudaFuncAttributes f;
    bool is_there = cudaSetDevice(index) == cudaSuccess && cudaFuncGetAttributes(&f, nothing) == cudaSuccess;
    if (!is_there) cudaGetLastError();
    return is_there ? f.ptxVersion : 0;
}

/* A driver that is too old, no card, or a card that this build holds no code for: all UNSUPPORTED. */
static sac_status probe(int index, cudaDeviceProp *p, int *code, sac_error *err) {
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess) cudaGetLastError();
    if (e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver || e == cudaErrorStubLibrary || (!e && !n))
        return sac_fail(err, SAC_UNSUPPORTED, "no CUDA card can be used: %s",
                        e ? cudaGetErrorString(e) : "the driver sees none");
    if (e != cudaSuccess) return sac_fail(err, SAC_DEVICE, "CUDA does not start: %s", cudaGetErrorString(e));
    if (index < 0 || index >= n)
        return sac_fail(err, SAC_NOT_FOUND, "no CUDA card %d: there are %d, counted from 0", index, n);
    e = cudaGetDeviceProperties(p, index);
    if (e != cudaSuccess)
        return sac_fail(err, SAC_DEVICE, "CUDA card %d does not answer: %s", index, cudaGetErrorString(e));
    if (p->major < 8)
        return sac_fail(err, SAC_UNSUPPORTED, "CUDA card %d (%s) is sm_%d%d: sm_80 or later is needed", index,
                        p->name, p->major, p->minor);
    *code = code_of(index);
    if (!*code)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "this build has no code for CUDA card %d (%s, sm_%d%d): build with "
                        "-DCMAKE_CUDA_ARCHITECTURES=%d%d",
                        index, p->name, p->major, p->minor, p->major, p->minor);
    return SAC_OK;
}

extern "C" sac_status sac_cuda_device_open(sac_device *d, int index, sac_error *err) {
    cudaDeviceProp p;
    int code;
    sac_cuda_limits limits;
    *d = sac_device{};
    SAC_TRY(sac_cuda_limits_parse(&limits, getenv("SAC_CUDA_LIMITS"), err));
    SAC_TRY(probe(index, &p, &code, err));
    d->kind = SAC_DEVICE_CUDA;
    d->index = index;
    d->compute = sac_cuda_counted_compute(p.major * 10 + p.minor, code, &limits);
    d->has_clusters = code >= 90;
    d->shared_bytes = sac_cuda_counted_shared((int)p.sharedMemPerBlockOptin, &limits);
    d->no_early = limits.no_early;
    d->no_cudnn = limits.no_cudnn;
    d->no_wide_streams = limits.no_wide_streams;
    d->no_digits = limits.no_digits;
    d->no_choice = limits.no_choice;
    d->no_e4m3 = limits.no_e4m3;
    d->no_few_rows = limits.no_few_rows;
    d->no_out = limits.no_out;
    d->n_processors = p.multiProcessorCount;
    d->memory_bytes = p.totalGlobalMem;
    snprintf(d->name, sizeof d->name, "%.79s", p.name);
    d->alloc = cuda_alloc;
    d->free = cuda_free;
    d->host_alloc = cuda_host_alloc;
    d->host_free = cuda_host_free;
    d->memory_left = cuda_memory_left;
    d->use = cuda_use;
    d->upload = cuda_upload;
    d->download = cuda_download;
    d->copy = cuda_copy;
    d->zero = cuda_zero;
    d->move_pieces = cuda_move_pieces;
    d->stream_open = cuda_stream_open;
    d->stream_open_first = cuda_stream_open_first;
    d->stream_sync = cuda_stream_sync;
    d->stream_close = cuda_stream_close;
    d->event_create = cuda_event_create;
    d->event_record = cuda_event_record;
    d->event_wait = cuda_event_wait;
    d->event_sync = cuda_event_sync;
    d->event_elapsed = cuda_event_elapsed;
    d->event_free = cuda_event_free;
    return SAC_OK;
}
