/* test_driver_calls.cu - what a card's driver is told and what becomes of its refusals, with a driver that the
 * linker's --wrap puts in the place of CUDA's: nothing runs, every call is seen, any of them can fail. */
extern "C" {
#include "cuda_libraries.h"
#include "device.h"
#include "op_attention_sums.h"
#include "op_convert_rows.h"
#include "op_packed_vote.h"
#include "packed_rows.h"
#include "test.h"
}
#include "cublaslt.cuh"
#include "cudnn.cuh"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

enum { N_CARDS = 3, LAST = 0, FIRST = -5 /* priorities of streams */, SCRATCH = 4 << 20 };

/* ---------------------------------------------------------------- the driver */

static struct {
    int card; /* of the calling thread */
    int major, minor, code;
    cudaError_t answer; /* of calls on streams and events, and of launches */
    cudaError_t left;   /* that nobody has taken: the next one to ask has it */
    int priority;       /* of the last stream */
    int n_calls;
} driver;

static cudaError_t answer(void) {
    driver.n_calls++;
    if (driver.answer != cudaSuccess) driver.left = driver.answer;
    return driver.answer;
}

#define DRIVER(name, ...)                                                                                    \
    cudaError_t __wrap_cuda##name(__VA_ARGS__);                                                              \
    cudaError_t __wrap_cuda##name(__VA_ARGS__)

extern "C" {
DRIVER(SetDevice, int card) {
    driver.card = card;
    return cudaSuccess;
}
DRIVER(GetDeviceCount, int *n) {
    *n = N_CARDS;
    return cudaSuccess;
}
DRIVER(GetDeviceProperties, cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "no card");
    p->major = driver.major, p->minor = driver.minor;
    p->multiProcessorCount = 132, p->totalGlobalMem = (size_t)1 << 30, p->sharedMemPerBlockOptin = 227 << 10;
    return cudaSuccess;
}
DRIVER(FuncGetAttributes, cudaFuncAttributes *f, const void *) {
    memset(f, 0, sizeof *f);
    f->ptxVersion = driver.code;
    if (driver.code) return cudaSuccess;
    driver.left = cudaErrorNoKernelImageForDevice;
    return driver.left;
}
DRIVER(FuncSetAttribute, const void *, cudaFuncAttribute, int) {
    return cudaSuccess;
}
DRIVER(GetLastError, void) {
    cudaError_t e = driver.left;
    driver.left = cudaSuccess;
    return e;
}
DRIVER(LaunchKernelExC, const cudaLaunchConfig_t *, const void *, void **) {
    return answer();
}
DRIVER(Malloc, void **p, size_t n) {
    if (answer() != cudaSuccess) return driver.answer;
    *p = malloc(n);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
DRIVER(Free, void *p) {
    free(p);
    return cudaSuccess;
}
DRIVER(MemcpyAsync, void *, const void *, size_t, cudaMemcpyKind, cudaStream_t) {
    return answer();
}
DRIVER(MemsetAsync, void *, int, size_t, cudaStream_t) {
    return answer();
}
DRIVER(Memset2DAsync, void *, size_t, int, size_t, size_t, cudaStream_t) {
    return answer();
}
DRIVER(DeviceGetStreamPriorityRange, int *last, int *first) {
    *last = LAST, *first = FIRST;
    return cudaSuccess;
}
DRIVER(StreamCreateWithPriority, cudaStream_t *s, unsigned, int priority) {
    driver.priority = priority;
    *s = (cudaStream_t)&driver;
    return answer();
}
DRIVER(StreamSynchronize, cudaStream_t) {
    return answer();
}
DRIVER(StreamDestroy, cudaStream_t) {
    return cudaSuccess;
}
DRIVER(EventCreate, cudaEvent_t *e) {
    *e = (cudaEvent_t)&driver;
    return answer();
}
DRIVER(EventDestroy, cudaEvent_t) {
    return cudaSuccess;
}
DRIVER(EventRecord, cudaEvent_t, cudaStream_t) {
    return answer();
}
DRIVER(StreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned) {
    return answer();
}
DRIVER(EventSynchronize, cudaEvent_t) {
    return answer();
}
DRIVER(EventElapsedTime, float *ms, cudaEvent_t, cudaEvent_t) {
    *ms = 0;
    return cudaSuccess;
}
sac_status sac_cuda_packed_vote(const sac_stream *s, const sac_packed_vote_args *a);
sac_status sac_cuda_attention_sums(const sac_stream *s, const sac_attention_sums_args *a);
sac_status sac_cuda_convert_rows(const sac_stream *s, const sac_convert_rows_args *a);
}

static void a_card(int major, int minor, int code) {
    driver = {};
    driver.major = major, driver.minor = minor, driver.code = code;
}

/* ---------------------------------------------------------------- cards and streams */

/* A card that is newer than the build's code runs that; where there is none the line says how to get it. */
static void newer_cards_run_older_code(void **) {
    static const struct {
        int major, minor, code, compute;
    } cards[] = {{8, 0, 80, 80},  {9, 0, 90, 90},  {9, 0, 80, 80},
                 {10, 0, 80, 80}, {12, 0, 80, 80}, {12, 0, 120, 120}};
    sac_device d;
    sac_error err;
    for (const auto &c : cards) {
        a_card(c.major, c.minor, c.code);
        assert_ok(sac_cuda_device_open(&d, 1, &err), err);
        assert_int_equal(d.compute, c.compute);
        assert_int_equal(d.has_clusters, c.code >= 90);
    }
    a_card(12, 0, 0);
    assert_int_equal(sac_cuda_device_open(&d, 1, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "-DCMAKE_CUDA_ARCHITECTURES=120"));
    assert_int_equal(driver.left, cudaSuccess);
}

static void open_stream(sac_device *d, sac_stream *s) {
    sac_error err;
    a_card(9, 0, 90);
    assert_ok(sac_cuda_device_open(d, 2, &err), err);
    assert_ok(d->stream_open(d, s, SCRATCH, &err), err);
}

/* What a batch's steps wait in is served before what prompts wait in. */
static void steps_go_first(void **) {
    sac_device d;
    sac_stream s, first;
    sac_error err;
    open_stream(&d, &s);
    assert_int_equal(driver.priority, LAST);
    assert_ok(d.stream_open_first(&d, &first, SCRATCH, &err), err);
    assert_int_equal(driver.priority, FIRST);
    d.stream_close(&first);
    d.stream_close(&s);
}

/* ---------------------------------------------------------------- refusals */

/* Calls on a stream, by number; false: there is no such call. */
static bool call(int n, const sac_device *d, const sac_stream *s, sac_event *e, sac_status *st) {
    static uint8_t x[64], y[64];
    static float scores[512], sums[16], lse[2];
    static uint16_t q[128];
    static int32_t probe;
    alignas(16) static uint32_t keys[SAC_PACKED_TILE * 8];
    alignas(16) static uint16_t scales[SAC_PACKED_TILE];
    double ms;
    sac_mat query = {q, 1, 128, 128, SAC_DTYPE_F16};
    sac_packed_vote_args vote = {};
    sac_attention_sums_args summed = {};
    sac_convert_rows_args converted = {{x, 1, 8, 8, SAC_DTYPE_F16}, {y, 1, 8, 8, SAC_DTYPE_BF16}};
    sac_error err;
    switch (n) {
    case 0: *st = d->upload(s, x, y, 8); break;
    case 1: *st = d->download(s, x, y, 8); break;
    case 2: *st = d->copy(s, x, y, 8); break;
    case 3: *st = d->zero(s, x, 8); break;
    case 4: *st = d->event_record(s, e); break;
    case 5: *st = d->event_wait(s, e); break;
    case 6: *st = d->event_sync(e); break;
    case 7: *st = d->event_elapsed(e, e, &ms); break;
    case 8: *st = d->stream_sync(s, &err); break;
    case 9: *st = sac_cuda_convert_rows(s, &converted); break;
    case 10:
        summed.sums = sums, summed.stride = 16, summed.n_sums = 1, summed.q = query, summed.probes = &probe;
        summed.kv.k = x, summed.kv.dtype = SAC_DTYPE_F16, summed.kv.head_dim = 64, summed.kv.n_heads = 1;
        summed.n_kv = 8, summed.n_heads = 2, summed.scale = 1;
        *st = sac_cuda_attention_sums(s, &summed);
        break;
    case 11:
        vote.votes = sums, vote.n = 8, vote.q = query, vote.n_heads = 2, vote.scale = 1;
        vote.keys.k = keys, vote.keys.k_scale = scales, vote.keys.k_min = scales;
        vote.keys.bits = 4, vote.keys.head_dim = 64, vote.keys.n_heads = 1,
        vote.keys.capacity = SAC_PACKED_TILE;
        vote.scores = scores, vote.stride = 256, vote.lse = lse;
        *st = sac_cuda_packed_vote(s, &vote);
        break;
    default: return false;
    }
    return true;
}

/* A refusal is told by the call that met it, and the next one does not find it. */
static void a_refusal_is_told_once(void **) {
    sac_device d;
    sac_stream s;
    sac_event e;
    sac_error err;
    sac_status st;
    open_stream(&d, &s);
    assert_ok(d.event_create(&d, &e, &err), err);
    for (int n = 0; call(n, &d, &s, &e, &st); n++) {
        assert_int_equal(st, SAC_OK);
        driver.answer = cudaErrorLaunchFailure, driver.n_calls = 0;
        call(n, &d, &s, &e, &st);
        driver.answer = cudaSuccess;
        if (driver.n_calls == 0 || st != SAC_DEVICE || driver.left != cudaSuccess)
            fail_msg("call %d: %d calls, status %d, and left behind: %s", n, driver.n_calls, st,
                     driver.left == cudaSuccess ? "nothing" : "its error");
    }
    d.event_free(&e);
    d.stream_close(&s);
}

/* Nor what no memory, no stream and no event was to be had for. */
static void what_cannot_be_had_is_told_once(void **) {
    static const cudaError_t answers[] = {cudaErrorMemoryAllocation, cudaErrorLaunchFailure};
    sac_device d;
    sac_stream s, none;
    sac_event e;
    sac_error err;
    void *p;
    open_stream(&d, &s);
    for (cudaError_t a : answers) {
        const sac_status want = a == cudaErrorMemoryAllocation ? SAC_NO_MEMORY : SAC_DEVICE;
        driver.answer = a;
        assert_int_equal(d.alloc(&d, 1 << 20, &p, &err), want);
        assert_int_equal(driver.left, cudaSuccess);
        assert_int_equal(d.stream_open(&d, &none, SCRATCH, &err), want);
        assert_int_equal(driver.left, cudaSuccess);
        assert_int_equal(d.event_create(&d, &e, &err), want);
        assert_int_equal(driver.left, cudaSuccess);
        driver.answer = cudaSuccess;
    }
    d.stream_close(&s);
}

/* After a step on another card: copies and zeroing are of their stream's. */
static void calls_name_their_card(void **) {
    sac_device d;
    sac_stream s;
    sac_event e;
    sac_status st;
    sac_error err;
    open_stream(&d, &s);
    assert_ok(d.event_create(&d, &e, &err), err);
    for (int n = 0; n < 4; n++) {
        driver.card = 0;
        call(n, &d, &s, &e, &st);
        assert_int_equal(st, SAC_OK);
        assert_int_equal(driver.card, 2);
    }
    d.event_free(&e);
    d.stream_close(&s);
}

/* ---------------------------------------------------------------- libraries */

/* The program has started without them: what is loaded at run time is not among what it is linked with. */
static void libraries_are_not_linked(void **) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[4096];
    int n = 0;
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); n++) {
        assert_null(strstr(line, "libcublas"));
        assert_null(strstr(line, "libcudnn"));
        assert_null(strstr(line, "libcuda."));
    }
    fclose(f);
    assert_true(n > 5);
}

/* The library beside this program (fake_cudnn.c) has the version that it is told: of 9.10.0 and 9.10.1, which give wrong
 * numbers, and of older ones nothing is taken. */
static void wrong_cudnn_is_left_alone(void **) {
    static const struct {
        const char *version;
        bool is_taken;
    } versions[] = {{"90300", false}, {"90900", false}, {"91000", false}, {"91001", false},
                    {"91002", true},  {"91300", true},  {"92000", true}};
    for (const auto &v : versions) {
        int version = 0;
        setenv("FAKE_CUDNN_VERSION", v.version, 1);
        assert_int_equal(sac::attention::cudnn_found(), v.is_taken ? atoi(v.version) : 0);
        sac::attention::cudnn_state *c = sac::attention::cudnn_open(NULL, &version);
        assert_int_equal(c != NULL, v.is_taken);
        sac::attention::cudnn_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_are_not_linked), /* before any is loaded */
        cmocka_unit_test(newer_cards_run_older_code),
        cmocka_unit_test(steps_go_first),
        cmocka_unit_test(a_refusal_is_told_once),
        cmocka_unit_test(what_cannot_be_had_is_told_once),
        cmocka_unit_test(calls_name_their_card),
#if __has_include(<cudnn_graph.h>)
        cmocka_unit_test(wrong_cudnn_is_left_alone),
#endif
    };
    return cmocka_run_group_tests_name("calls of the driver", tests, NULL, NULL);
}
