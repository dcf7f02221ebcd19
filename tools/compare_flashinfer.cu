/* compare_flashinfer.cu - FlashInfer's attention kernels at the shapes that `checkkernels --bench` times, in
 * the same way (captured graphs, memory beyond the L2 cache, medians), each checked against a plain sum.
 * Includes the headers that the wheel from PyPI installs, with CUTLASS and CCCL among them; nothing else of
 * it is needed. For Hopper:
 *
 *     pip install --no-deps flashinfer-python==0.7.2.post1
 *     F=$(pip show flashinfer-python | sed -n 's/^Location: //p')/flashinfer/data
 *     nvcc -std=c++17 -O3 -DNDEBUG -use_fast_math -gencode=arch=compute_90a,code=sm_90a -w \
 *         --expt-relaxed-constexpr -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED \
 *         -DFLASHINFER_ENABLE_F16 -DFLASHINFER_ENABLE_BF16 -I$F/include -I$F/csrc \
 *         -I$F/cccl/cub -I$F/cccl/libcudacxx/include -I$F/cccl/thrust \
 *         -I$F/cutlass/include -I$F/cutlass/tools/util/include \
 *         -o compare_flashinfer tools/compare_flashinfer{,_sm90,_xqa}.cu
 *     checkkernels --backend cuda --bench --op attention --csv > ours.csv
 *     compare_flashinfer ours.csv
 *
 * Other cards (sm_80 on): the first file alone, without the CUTE define, with -DNO_HOPPER. The flags are
 * those that FlashInfer's own builder gives nvcc. The program runs where neither the wheel nor CUDA is
 * installed. With ours.csv the fastest of our variants stands beside each row.
 *
 * Kernels: "cores" is single_decode_with_kv_cache, which has none for 7 query heads a key head; "tensor" the
 * same with use_tensor_cores=True; "paged" BatchDecodeWithPagedKVCacheWrapper with use_tensor_cores=True,
 * backend "fa2" (the one that splits keys); "xqa" trtllm_batch_decode_with_kv_cache as it runs on Hopper,
 * both with pages of 16 rows that lie in order, planning not timed; "fa2" and "fa3"
 * single_prefill_with_kv_cache. */
#include "compare_flashinfer.h"

#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace fi = flashinfer;
using bf16 = __nv_bfloat16;
using plain = fi::DefaultAttention<false, false, false, false>;
constexpr auto NO_ROPE = fi::PosEncodingMode::kNone;
#ifdef NO_HOPPER
const bool EARLY_LAUNCH = false;
#else
const bool EARLY_LAUNCH = true; /* programmatic dependent launch, its default */
#endif

enum { N_BATCHES = 9, MAX_CALLS = 64, CHECKED_ROWS = 8 };
const size_t FAR_BYTES = (size_t)512 << 20; /* what one walk covers at least */
const size_t TMP_BYTES = (size_t)128 << 20, PLAN_BYTES = (size_t)8 << 20;
const double MAX_ERROR = 1e-2; /* bf16 answers of random numbers differ by about 3e-3 */

#define CUDA(call) check((call), #call)
static void check(cudaError_t e, const char *what) {
    if (e == cudaSuccess) return;
    fflush(stdout);
    fprintf(stderr, "compare_flashinfer: %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

/* ---------------------------------------------------------------- FlashInfer's kernels */

struct paged_plan {
    fi::PrefillPlanInfo info;
    char *device; /* PLAN_BYTES: what PrefillPlan lays down, and behind it the pages' numbers */
    int *indices, *indptr, *last_page_rows, *q_indptr;
    uint32_t *n_rows, *semaphores;
};
static bf16 *tmp; /* partial answers where keys are split */
static paged_plan plan;

static cudaError_t run_decode_cores(const attention &a, cudaStream_t stream) {
    fi::SingleDecodeParams<bf16, bf16, bf16> p(a.q, a.k, a.v, a.o, nullptr, a.n_kv, a.heads, a.kv_heads,
                                               fi::QKVLayout::kNHD, HEAD_DIM, -1, 0, a.scale, 1, 1e4f);
    return fi::SingleDecodeWithKVCacheDispatched<HEAD_DIM, NO_ROPE, plain>(p, tmp, stream);
}

template <fi::MaskMode mask> static cudaError_t run_fa2(const attention &a, cudaStream_t stream) {
    fi::SinglePrefillParams<bf16, bf16, bf16> p(
        a.q, a.k, a.v, nullptr, a.o, nullptr, nullptr, a.heads, a.kv_heads, a.n_q, a.n_kv, a.heads * HEAD_DIM,
        HEAD_DIM, a.kv_heads * HEAD_DIM, HEAD_DIM, HEAD_DIM, -1, 0, a.scale, 1, 1e4f);
    return fi::SinglePrefillWithKVCacheDispatched<HEAD_DIM, HEAD_DIM, NO_ROPE, false, mask, plain>(p, tmp,
                                                                                                   stream);
}

template <typename T> static T *planned(int64_t offset) {
    return reinterpret_cast<T *>(plan.device + offset);
}

static cudaError_t run_decode_paged(const attention &a, cudaStream_t stream) {
    fi::BatchPrefillPagedParams<bf16, bf16, bf16, int> p;
    p.q = a.q;
    p.o = a.o;
    p.paged_kv = fi::paged_kv_t<bf16, int>(a.kv_heads, PAGE_ROWS, HEAD_DIM, 1, fi::QKVLayout::kNHD, a.k, a.v,
                                           plan.indices, plan.indptr, plan.last_page_rows);
    p.q_indptr = plan.q_indptr;
    p.num_qo_heads = a.heads;
    p.group_size = fi::uint_fastdiv(a.heads / a.kv_heads);
    p.q_stride_n = a.heads * HEAD_DIM;
    p.q_stride_h = HEAD_DIM;
    p.window_left = -1;
    p.sm_scale = a.scale;
    p.request_indices = planned<int>(plan.info.request_indices_offset);
    p.qo_tile_indices = planned<int>(plan.info.qo_tile_indices_offset);
    p.kv_tile_indices = planned<int>(plan.info.kv_tile_indices_offset);
    p.o_indptr = planned<int>(plan.info.o_indptr_offset);
    p.kv_chunk_size_ptr = planned<int>(plan.info.kv_chunk_size_ptr_offset);
    p.merge_indptr = planned<int>(plan.info.merge_indptr_offset);
    p.padded_batch_size = plan.info.padded_batch_size;
    p.max_total_num_rows = plan.info.total_num_rows;
    bf16 *tmp_v = reinterpret_cast<bf16 *>((char *)tmp + plan.info.v_offset);
    float *tmp_s = reinterpret_cast<float *>((char *)tmp + plan.info.s_offset);
    if (plan.info.cta_tile_q != 16) return cudaErrorNotSupported; /* all that a step of few heads needs */
    return fi::BatchPrefillWithPagedKVCacheDispatched<true, 16, HEAD_DIM, HEAD_DIM, NO_ROPE, false,
                                                      fi::MaskMode::kNone, plain>(
        p, plan.info.split_kv ? tmp_v : nullptr, plan.info.split_kv ? tmp_s : nullptr, EARLY_LAUNCH, stream);
}

static void make_plan(const attention &a, cudaStream_t stream) {
    int n_pages = a.n_kv / PAGE_ROWS, q_indptr[] = {0, 1}, indptr[] = {0, n_pages}, last = PAGE_ROWS;
    static char *host;
    if (!host) CUDA(cudaMallocHost(&host, PLAN_BYTES / 2));
    CUDA(fi::PrefillPlan<int>(tmp, TMP_BYTES, plan.device, host, PLAN_BYTES / 2, plan.info, q_indptr, indptr,
                              1, 1, a.heads, a.kv_heads, HEAD_DIM, HEAD_DIM, PAGE_ROWS, false, sizeof(bf16),
                              -1, -1, false, 0, 0, stream));
    std::vector<int> pages(n_pages);
    for (int i = 0; i < n_pages; i++) pages[i] = i;
    plan.q_indptr = reinterpret_cast<int *>(plan.device + PLAN_BYTES / 2);
    plan.indptr = plan.q_indptr + 4;
    plan.last_page_rows = plan.q_indptr + 8;
    plan.n_rows = reinterpret_cast<uint32_t *>(plan.q_indptr + 12);
    plan.semaphores = reinterpret_cast<uint32_t *>(plan.q_indptr + 16); /* one a key head */
    plan.indices = plan.q_indptr + 64;
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(plan.q_indptr, q_indptr, sizeof q_indptr, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(plan.indptr, indptr, sizeof indptr, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(plan.last_page_rows, &last, sizeof last, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(plan.n_rows, &a.n_kv, sizeof a.n_kv, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(plan.semaphores, 0, 48 * sizeof(uint32_t)));
    CUDA(cudaMemcpy(plan.indices, pages.data(), pages.size() * sizeof(int), cudaMemcpyHostToDevice));
}

static cudaError_t run_decode_pages_xqa(const attention &a, cudaStream_t stream) {
    return run_decode_xqa(a, {plan.indices, plan.n_rows, plan.semaphores, tmp}, stream);
}

#ifdef NO_HOPPER
cudaError_t run_prefill_fa3(const attention &, cudaStream_t) {
    return cudaErrorNotSupported;
}
cudaError_t run_decode_xqa(const attention &, const paged_rows &, cudaStream_t) {
    return cudaErrorNotSupported;
}
#endif

/* ---------------------------------------------------------------- the plain sum, and numbers */

__global__ void fill(bf16 *x, size_t n) { /* evenly in -1..1 */
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull; /* splitmix64 */
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        x[i] = __float2bfloat16((float)(z >> 40) * 0x1p-23f - 1);
    }
}

__device__ static float block_reduce(float x, bool sum) {
    __shared__ float parts[HEAD_DIM];
    __syncthreads();
    parts[threadIdx.x] = x;
    for (int step = HEAD_DIM / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) {
            float y = parts[threadIdx.x + step];
            parts[threadIdx.x] = sum ? parts[threadIdx.x] + y : fmaxf(parts[threadIdx.x], y);
        }
    }
    __syncthreads();
    return parts[0];
}

__device__ __host__ static int checked_row(int i, int n_q) {
    return (int)((int64_t)n_q * (i + 1) / CHECKED_ROWS) - 1;
}

/* Block (head, i) sums up row checked_row(i) in f32; one thread a channel. errors: of all blocks the squared
 * difference to a.o, and the squared sum. */
__global__ void compare_rows(attention a, float *scores, double *errors) {
    int head = blockIdx.x, row = a.n_q == 1 ? 0 : checked_row(blockIdx.y, a.n_q),
        seen = a.n_kv - a.n_q + row + 1;
    scores += ((size_t)blockIdx.y * a.heads + head) * a.n_kv;
    size_t kv_row = (size_t)a.kv_heads * HEAD_DIM, kv_at = head / (a.heads / a.kv_heads) * HEAD_DIM;
    size_t at = ((size_t)row * a.heads + head) * HEAD_DIM;
    float top = -INFINITY, total = 0, sum = 0;
    for (int i = threadIdx.x; i < seen; i += HEAD_DIM) {
        float dot = 0;
        for (int d = 0; d < HEAD_DIM; d++)
            dot += __bfloat162float(a.q[at + d]) * __bfloat162float(a.k[i * kv_row + kv_at + d]);
        scores[i] = dot * a.scale;
        top = fmaxf(top, scores[i]);
    }
    top = block_reduce(top, false);
    for (int i = threadIdx.x; i < seen; i += HEAD_DIM) total += scores[i] = expf(scores[i] - top);
    total = block_reduce(total, true);
    for (int i = 0; i < seen; i++) sum += scores[i] * __bfloat162float(a.v[i * kv_row + kv_at + threadIdx.x]);
    sum /= total;
    float off = __bfloat162float(a.o[at + threadIdx.x]) - sum;
    atomicAdd(&errors[0], (double)off * off);
    atomicAdd(&errors[1], (double)sum * sum);
}

static double relative_error(const attention &a) {
    static double *errors;
    float *scores;
    int n_rows = a.n_q == 1 ? 1 : CHECKED_ROWS;
    double host[2];
    if (!errors) CUDA(cudaMalloc(&errors, sizeof host));
    CUDA(cudaMalloc(&scores, (size_t)a.heads * n_rows * a.n_kv * sizeof(float)));
    CUDA(cudaMemset(errors, 0, sizeof host));
    compare_rows<<<dim3(a.heads, n_rows), HEAD_DIM>>>(a, scores, errors);
    CUDA(cudaMemcpy(host, errors, sizeof host, cudaMemcpyDeviceToHost));
    CUDA(cudaFree(scores));
    return sqrt(host[0] / host[1]);
}

/* ---------------------------------------------------------------- time */

typedef cudaError_t (*kernel)(const attention &, cudaStream_t);

struct shape {
    attention a; /* in the arena's first stretch */
    size_t span; /* bytes from stretch to stretch */
    double bytes, flops;
    char text[64]; /* as checkkernels writes it */
};

static attention moved(const shape &s, size_t i) {
    attention a = s.a;
    size_t n = i * s.span / sizeof(bf16);
    a.q += n, a.k += n, a.v += n, a.o += n;
    return a;
}

/* Seconds a call: the median and the best. */
static double seconds(const shape &s, kernel run, cudaStream_t stream, double *best) {
    double floor_s = s.bytes / 4e12 + s.flops / 600e12, times[N_BATCHES];
    int n_calls = std::clamp((int)(1.5e-3 / floor_s), 1, (int)MAX_CALLS);
    size_t n_places = FAR_BYTES / s.span + 1;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < n_calls; i++) CUDA(run(moved(s, i % n_places), stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaEventCreate(&from));
    CUDA(cudaEventCreate(&to));
    for (int i = 0; i < N_BATCHES + 1; i++) { /* the first does not count */
        float ms;
        CUDA(cudaEventRecord(from, stream));
        CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaEventRecord(to, stream));
        CUDA(cudaEventSynchronize(to));
        CUDA(cudaEventElapsedTime(&ms, from, to));
        if (i) times[i - 1] = ms * 1e-3 / n_calls;
    }
    CUDA(cudaEventDestroy(from));
    CUDA(cudaEventDestroy(to));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    std::sort(times, times + N_BATCHES);
    *best = times[0];
    return times[N_BATCHES / 2];
}

static shape make_shape(char *arena, int n_q, int n_kv, int heads, int kv_heads) {
    shape s = {};
    size_t q = (size_t)n_q * heads * HEAD_DIM, kv = (size_t)n_kv * kv_heads * HEAD_DIM;
    bf16 *at = reinterpret_cast<bf16 *>(arena);
    s.a = {at, at + q, at + q + kv, at + q + 2 * kv, n_q, n_kv, heads, kv_heads, 0.1f};
    s.span = (2 * q + 2 * kv) * sizeof(bf16);
    s.bytes = (double)s.span;
    s.flops = 4.0 * n_q * (n_kv - n_q / 2.0 + 0.5) * heads * HEAD_DIM;
    snprintf(s.text, sizeof s.text, "1x %d of %d, %d/%d x %d causal", n_q, n_kv, heads, kv_heads, HEAD_DIM);
    return s;
}

/* Microseconds of our fastest variant in checkkernels' table, 0 for none. */
static double find_ours(const std::vector<std::string> &lines, const char *text, std::string *variant) {
    double fastest = 0;
    for (const std::string &line : lines) {
        size_t name = line.find(','), at = line.find(std::string(",") + text + ",");
        if (line.compare(0, name, "attention") != 0 || at == std::string::npos) continue;
        double us = atof(line.c_str() + at + strlen(text) + 2);
        if (us <= 0 || (fastest > 0 && us >= fastest)) continue;
        fastest = us;
        *variant = line.substr(name + 1, at - name - 1);
    }
    return fastest;
}

static struct {
    std::vector<std::string> ours; /* checkkernels' table */
    const char *only;              /* this kernel, NULL for all */
    bool wrong;                    /* an answer was */
} table;

/* Runs once: the error of its answer, or false and why there is none. */
static bool try_once(const shape &s, kernel run, cudaStream_t stream, double *error, std::string *why) {
    CUDA(cudaMemsetAsync(s.a.o, 0, (size_t)s.a.n_q * s.a.heads * HEAD_DIM * sizeof(bf16), stream));
    cudaError_t status = cudaErrorNotSupported;
    try {
        status = run(s.a, stream);
        *why = cudaGetErrorString(status);
    } catch (const std::exception &e) {            /* a shape that it has no kernel for */
        const char *text = strrchr(e.what(), '/'); /* it begins with where its source lies */
        *why = text ? text + 1 : e.what();
    }
    if (status != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    CUDA(cudaStreamSynchronize(stream));
    *error = relative_error(s.a);
    return true;
}

static void print_row(const shape &s, const char *name, kernel run, cudaStream_t stream) {
    double best, error;
    std::string variant, why;
    if (table.only && strcmp(table.only, name) != 0) return;
    printf("%-7s %-36s ", name, s.text);
    fflush(stdout);
    if (!try_once(s, run, stream, &error, &why)) {
        printf("   refused: %s\n", why.c_str());
        return;
    }
    double t = seconds(s, run, stream, &best), our_us = find_ours(table.ours, s.text, &variant);
    printf("%10.2f %10.2f %8.1f %9.2f %9.1e%s", t * 1e6, best * 1e6, s.bytes / t * 1e-9, s.flops / t * 1e-12,
           error, error < MAX_ERROR ? "" : " WRONG");
    if (our_us > 0) printf(" %8s %10.2f %6.2f", variant.c_str(), our_us, t * 1e6 / our_us);
    printf("\n");
    table.wrong = table.wrong || !(error < MAX_ERROR);
}

static std::vector<std::string> read_lines(const char *path) {
    std::vector<std::string> lines;
    char line[512];
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof line, f)) lines.push_back(line);
    fclose(f);
    return lines;
}

static const char usage[] =
    "usage: compare_flashinfer [ours.csv] [--kernel cores|tensor|paged|xqa|fa2|fa3]\n"
    "Times FlashInfer's attention kernels on this card. ours.csv: what `checkkernels --backend cuda --bench\n"
    "--op attention --csv` wrote on the same card. Ratio: FlashInfer's time by ours.\n";

static void read_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--kernel") == 0 && i + 1 < argc)
            table.only = argv[++i];
        else if (argv[i][0] != '-')
            table.ours = read_lines(argv[i]);
        else {
            bool help = strcmp(argv[i], "--help") == 0;
            fputs(usage, help ? stdout : stderr);
            exit(help ? 0 : 2);
        }
    }
}

int main(int argc, char **argv) {
    static const int steps[] = {1024, 8192, 32768, 131072}, prompts[] = {8192, 32768, 131072};
    char *arena;
    cudaStream_t stream;
    read_arguments(argc, argv);
    shape largest = make_shape(nullptr, 131072, 131072, 28, 4);
    size_t arena_bytes = largest.span + FAR_BYTES;
    CUDA(cudaMalloc(&arena, arena_bytes));
    CUDA(cudaMalloc(&tmp, TMP_BYTES));
    CUDA(cudaMalloc(&plan.device, PLAN_BYTES));
    CUDA(cudaStreamCreate(&stream));
    fill<<<1024, 256>>>(reinterpret_cast<bf16 *>(arena), arena_bytes / sizeof(bf16));
    CUDA(cudaDeviceSynchronize());
    printf("%-7s %-36s %10s %10s %8s %9s %9s", "kernel", "shape", "median us", "best us", "GB/s", "TFLOP/s",
           "error");
    printf(table.ours.empty() ? "\n" : " %8s %10s %6s\n", "ours", "median us", "ratio");
    for (int n : steps) {
        shape s = make_shape(arena, 1, n, 28, 4);
        make_plan(s.a, stream);
        print_row(s, "cores", run_decode_cores, stream);
        print_row(s, "tensor", run_fa2<fi::MaskMode::kNone>, stream);
        print_row(s, "paged", run_decode_paged, stream);
        print_row(s, "xqa", run_decode_pages_xqa, stream);
    }
    print_row(make_shape(arena, 1, 4096, 32, 32), "cores", run_decode_cores, stream);
    for (int n : prompts) {
        shape s = make_shape(arena, n, n, 28, 4);
        print_row(s, "fa2", run_fa2<fi::MaskMode::kCausal>, stream);
        print_row(s, "fa3", run_prefill_fa3, stream);
    }
    return table.wrong;
}
