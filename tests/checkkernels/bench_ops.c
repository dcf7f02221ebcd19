/* bench_ops.c - how fast, in units of what this machine can do: bytes against the measured read bandwidth,
 * products against the measured peak of f32 fused multiply-adds (bf16 and 8-bit units can exceed it). Times
 * are the best and the median of many calls; decode shapes walk over more weights than the caches hold. */
#define _GNU_SOURCE
#include "bench.h"

#include "clock.h"
#include "cpu_flags.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define FAR_BYTES   ((size_t)320 << 20) /* more than any cache here */
#define MIN_CALLS   5
#define MAX_CALLS   400
#define ROW_SECONDS 0.6

typedef struct machine {
    double read_bytes_s, flops_s;
} machine;

/* With one thread time is the processor's, so that other programs on the machine do not count; a pool is
 * timed by the wall. */
static bool processor_time;
static int64_t now_ns(void) {
    struct timespec t;
    if (!processor_time) return sac_now_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static double since(int64_t start_ns) {
    return (double)(now_ns() - start_ns) * 1e-9;
}

void *bench_pages(size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(1);
    madvise(p, n, MADV_HUGEPAGE);
    return p;
}

/* Peaks. Each task is one thread's share; as many tasks as threads. */
typedef struct peak_job {
    const uint8_t *data;
    size_t share;
    bool avx512;
    double sink[SAC_MAX_THREADS];
} peak_job;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double fma_avx512(int n) {
    __m512 a[16], b = _mm512_set1_ps(0.999f);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = _mm512_set1_ps((float)i);
    for (int p = 0; p < n; p++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) a[i] = _mm512_fmadd_ps(a[i], b, b);
    __m512 sum = a[0];
#pragma GCC unroll 16
    for (int i = 1; i < 16; i++) sum = _mm512_add_ps(sum, a[i]);
    return (double)_mm512_reduce_add_ps(sum);
}
__attribute__((target("avx2,fma"))) static double fma_avx2(int n) {
    __m256 a[12], b = _mm256_set1_ps(0.999f);
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) a[i] = _mm256_set1_ps((float)i);
    for (int p = 0; p < n; p++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) a[i] = _mm256_fmadd_ps(a[i], b, b);
    __m256 sum = a[0];
#pragma GCC unroll 12
    for (int i = 1; i < 12; i++) sum = _mm256_add_ps(sum, a[i]);
    return (double)_mm256_cvtss_f32(sum);
}
__attribute__((target("avx2"))) static double read_avx2(const uint8_t *p, size_t n) {
    __m256i s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};
    for (size_t i = 0; i + 128 <= n; i += 128)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            s[j] =
                _mm256_add_epi32(s[j], _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 32 * j)));
    s[0] = _mm256_add_epi32(_mm256_add_epi32(s[0], s[1]), _mm256_add_epi32(s[2], s[3]));
    return (double)_mm256_extract_epi32(s[0], 0);
}
#endif

static void fma_task(void *ctx, int64_t task, int thread) {
    peak_job *j = ctx;
    (void)thread;
#if defined(__x86_64__)
    j->sink[task] = j->avx512 ? fma_avx512(400000) : fma_avx2(400000);
#endif
}
static void read_task(void *ctx, int64_t task, int thread) {
    peak_job *j = ctx;
    (void)thread;
#if defined(__x86_64__)
    j->sink[task] = read_avx2(j->data + (size_t)task * j->share, j->share);
#endif
}

static machine measure_machine(sac_pool *pool) {
    machine m = {0};
    int n = sac_pool_n_threads(pool);
    static peak_job j;
    uint8_t *data = bench_pages(FAR_BYTES);
    memset(data, 1, FAR_BYTES);
    unsigned flags = sac_cpu_flags();
    if (!(flags & SAC_CPU_AVX2)) return m;
    j = (peak_job){.data = data, .share = FAR_BYTES / (size_t)n, .avx512 = flags & SAC_CPU_AVX512};
    double flops = (double)n * 400000 * (j.avx512 ? 16 * 32 : 12 * 16);
    for (int i = 0; i < 15; i++) {
        int64_t t0 = now_ns();
        sac_pool_run(pool, n, fma_task, &j);
        double s = since(t0);
        if (flops / s > m.flops_s) m.flops_s = flops / s;
        t0 = now_ns();
        sac_pool_run(pool, n, read_task, &j);
        s = since(t0);
        if ((double)FAR_BYTES / s > m.read_bytes_s) m.read_bytes_s = (double)FAR_BYTES / s;
    }
    munmap(data, FAR_BYTES);
    return m;
}

float *bench_floats(bench *b, int64_t n) {
    float *x = bench_pages((size_t)n * 4);
    check_fill(&b->c, x, n, CHECK_UNIFORM);
    return x;
}

/* Copies of n bytes of weights or keys, at least `far` bytes in all; random blocks, so that no NaN slows a
 * unit. */
char *bench_copies(bench *b, sac_dtype t, int64_t rows, int64_t cols, bool far) {
    b->copy_bytes = sac_dtype_row_bytes(t, cols) * (size_t)rows;
    b->n_copies = far ? (int)(FAR_BYTES / b->copy_bytes) + 1 : 1;
    char *all = bench_pages(b->copy_bytes * (size_t)b->n_copies);
    sac_tensor w = check_weights(&b->c, t, rows < 256 ? rows : 256, cols, 0, CHECK_UNIFORM).tensor;
    size_t part = sac_dtype_row_bytes(t, cols) * (size_t)w.dim[0],
           total = b->copy_bytes * (size_t)b->n_copies;
    for (size_t i = 0; i < total; i += part) memcpy(all + i, w.data, part < total - i ? part : total - i);
    return all;
}

static void bench_linear(bench *b, sac_dtype t, int64_t m, int64_t k, int64_t n, bool fast) {
    sac_linear_args *a = &b->c.linear;
    b->c.op = CHECK_linear;
    b->first_copy = bench_copies(b, t, n, k, m == 1);
    *a = (sac_linear_args){.x = sac_mat_f32(bench_floats(b, m * k), m, k),
                           .y = sac_mat_f32(bench_floats(b, m * n), m, n),
                           .w = sac_weight_of((sac_tensor){b->first_copy, t, 2, {n, k}}),
                           .fast = fast};
    b->flops = 2.0 * (double)m * (double)n * (double)k;
    b->bytes = m <= 4 ? (double)b->copy_bytes : 0;
}

static void bench_attention(bench *b, sac_dtype t, int64_t n_batch, int64_t n_q, int64_t n_kv, int heads,
                            int kv_heads, int d) {
    sac_attention_args *a = &b->c.attention;
    b->c.op = CHECK_attention;
    bool decode = n_q < 8, causal = n_batch == 1;
    int64_t rows = n_batch * n_kv, cols = (int64_t)kv_heads * d;
    b->first_copy = bench_copies(b, t, 2 * rows, cols, decode); /* k, then v */
    *a = (sac_attention_args){.n_q = n_q,
                              .n_kv = n_kv,
                              .first = n_kv - n_q,
                              .n_batch = n_batch,
                              .batch_rows = n_batch > 1 ? n_kv : 0,
                              .n_heads = heads,
                              .scale = 0.125f,
                              .causal = causal};
    a->kv = (sac_kv_view){
        .dtype = t, .n_heads = kv_heads, .head_dim = d, .n_rows = rows, .row_stride = cols, .head_stride = d};
    a->q = sac_mat_f32(bench_floats(b, n_batch * n_q * heads * d), n_batch * n_q, (int64_t)heads * d);
    a->o = sac_mat_f32(bench_floats(b, n_batch * n_q * heads * d), n_batch * n_q, (int64_t)heads * d);
    double seen = causal ? (double)n_q * ((double)n_kv - (double)n_q / 2 + 0.5) : (double)n_q * (double)n_kv;
    b->flops = 4.0 * (double)n_batch * seen * heads * d;
    b->bytes = decode ? (double)b->copy_bytes : 0;
}

static void bench_rows(bench *b, check_op op, int64_t rows, int64_t n) {
    check_case *c = &b->c;
    c->op = op;
    sac_mat x = sac_mat_f32(bench_floats(b, rows * n), rows, n),
            y = sac_mat_f32(bench_floats(b, rows * n), rows, n);
    float *w = bench_floats(b, n);
    int32_t *index = bench_pages((size_t)rows * SAC_BLEND_TAPS * sizeof *index);
    for (int64_t i = 0; i < rows * SAC_BLEND_TAPS; i++) index[i] = (int32_t)(i * 7 % rows);
    b->bytes = 8.0 * (double)(rows * n);
    switch ((int)op) {
    case CHECK_rmsnorm: c->rmsnorm = (sac_rmsnorm_args){y, x, w, 1e-6f}; break;
    case CHECK_layernorm: c->layernorm = (sac_layernorm_args){y, x, w, w, 1e-6f}; break;
    case CHECK_swiglu: c->swiglu = (sac_swiglu_args){.y = y, .gate = x, .up = x}; break;
    case CHECK_scale_add: c->scale_add = (sac_scale_add_args){.y = y, .x = x, .scale = w}; break;
    case CHECK_causal_conv:
        c->many.states[0] = (sac_state_rows){rows, bench_floats(b, 3 * n)};
        c->causal_conv = (sac_causal_conv_args){y, x, bench_floats(b, 4 * n), 4, c->many.states, 1};
        break;
    case CHECK_delta_rule: { /* of heads of 128, two to a key head */
        const int64_t heads = n / 128;
        const sac_mat k = sac_mat_f32(bench_floats(b, rows * n / 2), rows, n / 2),
                      gate = sac_mat_f32(bench_floats(b, rows * heads), rows, heads);
        c->many.states[0] = (sac_state_rows){rows, bench_floats(b, n * 128)};
        c->delta_rule =
            (sac_delta_rule_args){y, k, k, x, gate, gate, w, w, (int)heads, (int)heads / 2, 1e-6f, c->many.states, 1};
        b->bytes = 8.0 * 128 * (double)n; /* the state, read and written once */
        break;
    }
    case CHECK_gather_rows: c->gather_rows = (sac_gather_rows_args){y, x, index, NULL}; break;
    case CHECK_blend_rows:
        c->blend_rows = (sac_blend_rows_args){
            .y = y, .x = x, .source = index, .weight = bench_floats(b, rows * SAC_BLEND_TAPS), .n_tiles = 1};
        break;
    case CHECK_scatter_rows: c->scatter_rows = (sac_scatter_rows_args){y, x, index, false}; break;
    case CHECK_rope:
        c->rope =
            (sac_rope_args){x, (int)(n / 64), 64, {bench_floats(b, rows * 64), 64, false, 1}, index, false};
        break;
    case CHECK_kv_store: {
        sac_kv_view kv = {.k = bench_pages((size_t)(rows * n) * 2),
                          .v = bench_pages((size_t)(rows * n) * 2),
                          .dtype = SAC_DTYPE_F16,
                          .n_heads = (int)(n / 64),
                          .head_dim = 64,
                          .n_rows = rows,
                          .row_stride = n,
                          .head_stride = 64};
        c->kv_store = (sac_kv_store_args){kv, x, y, 0};
        b->bytes = 12.0 * (double)(rows * n);
        break;
    }
    case CHECK_pool_tokens: { /* rows = tiles of 8 x 8 */
        sac_mat tokens = sac_mat_f32(bench_floats(b, rows * 64 * n), rows * 64, n);
        c->pool_tokens = (sac_pool_tokens_args){
            sac_mat_f32(bench_floats(b, rows * 16 * n), rows * 16, n), tokens, rows, 8, 8, 2};
        b->bytes = 80.0 * 4 * (double)(rows * n);
        break;
    }
    case CHECK_patchify: { /* rows = tiles of 112 */
        uint8_t *tiles = bench_pages((size_t)rows * 112 * 112 * 3);
        sac_mat patches = sac_mat_f32(bench_floats(b, rows * 64 * 588), rows * 64, 588);
        c->patchify = (sac_patchify_args){patches, tiles, {0.5f, 0.5f, 0.5f}, {0.3f, 0.3f, 0.3f}};
        b->bytes = 5.0 * 112 * 112 * 3 * (double)rows;
        break;
    }
    default: {
        sac_tensor table = {bench_copies(b, SAC_DTYPE_BF16, rows, n, false), SAC_DTYPE_BF16, 2, {rows, n}};
        c->embed = (sac_embed_args){.y = y, .table = sac_weight_of(table), .ids = index};
        b->bytes = 6.0 * (double)(rows * n);
        break;
    }
    }
}

static const struct bench_row {
    const char *shape;
    check_op op;
    int64_t a[8]; /* linear: type, m, k, n, fast; attention: type, batch, n_q, n_kv, heads, kv heads, d (batch
                     0: see bench_keys.c); rows, n */
} rows[] = {
    {"decode f32 4096->4096", CHECK_linear, {SAC_DTYPE_F32, 1, 4096, 4096}},
    {"decode f16 4096->4096", CHECK_linear, {SAC_DTYPE_F16, 1, 4096, 4096}},
    {"decode bf16 4096->4096", CHECK_linear, {SAC_DTYPE_BF16, 1, 4096, 4096}},
    {"decode bf16 11008->4096", CHECK_linear, {SAC_DTYPE_BF16, 1, 11008, 4096}},
    {"decode bf16 384->1024", CHECK_linear, {SAC_DTYPE_BF16, 1, 384, 1024}},
    {"decode q8_0 4096->4096", CHECK_linear, {SAC_DTYPE_Q8_0, 1, 4096, 4096}},
    {"decode q4_0 4096->4096", CHECK_linear, {SAC_DTYPE_Q4_0, 1, 4096, 4096}},
    {"decode q4_1 4096->4096", CHECK_linear, {SAC_DTYPE_Q4_1, 1, 4096, 4096}},
    {"decode q5_0 4096->4096", CHECK_linear, {SAC_DTYPE_Q5_0, 1, 4096, 4096}},
    {"decode q5_1 4096->4096", CHECK_linear, {SAC_DTYPE_Q5_1, 1, 4096, 4096}},
    {"decode iq4_nl 4096->4096", CHECK_linear, {SAC_DTYPE_IQ4_NL, 1, 4096, 4096}},
    {"decode mxfp4 4096->4096", CHECK_linear, {SAC_DTYPE_MXFP4, 1, 4096, 4096}},
    {"decode q2_k 4096->4096", CHECK_linear, {SAC_DTYPE_Q2_K, 1, 4096, 4096}},
    {"decode q3_k 4096->4096", CHECK_linear, {SAC_DTYPE_Q3_K, 1, 4096, 4096}},
    {"decode q4_k 4096->4096", CHECK_linear, {SAC_DTYPE_Q4_K, 1, 4096, 4096}},
    {"decode q5_k 4096->4096", CHECK_linear, {SAC_DTYPE_Q5_K, 1, 4096, 4096}},
    {"decode q6_k 4096->4096", CHECK_linear, {SAC_DTYPE_Q6_K, 1, 4096, 4096}},
    {"decode iq4_xs 4096->4096", CHECK_linear, {SAC_DTYPE_IQ4_XS, 1, 4096, 4096}},
    {"m=4 bf16 4096->4096", CHECK_linear, {SAC_DTYPE_BF16, 4, 4096, 4096}},
    {"m=8 bf16 1024->1024", CHECK_linear, {SAC_DTYPE_BF16, 8, 1024, 1024}},
    {"m=16 bf16 1024->1024", CHECK_linear, {SAC_DTYPE_BF16, 16, 1024, 1024}},
    {"m=64 bf16 1024->1024", CHECK_linear, {SAC_DTYPE_BF16, 64, 1024, 1024}},
    {"prefill f32 4160x384->1024", CHECK_linear, {SAC_DTYPE_F32, 4160, 384, 1024}},
    {"prefill bf16 4160x384->1024", CHECK_linear, {SAC_DTYPE_BF16, 4160, 384, 1024}},
    {"prefill bf16 4160x1024->384", CHECK_linear, {SAC_DTYPE_BF16, 4160, 1024, 384}},
    {"prefill bf16 4160x256->1024", CHECK_linear, {SAC_DTYPE_BF16, 4160, 256, 1024}},
    {"prefill fast 4160x1024->384", CHECK_linear, {SAC_DTYPE_BF16, 4160, 1024, 384, 1}},
    {"prefill f16 512x4096->11008", CHECK_linear, {SAC_DTYPE_F16, 512, 4096, 11008}},
    {"prefill f32 512x4096->11008", CHECK_linear, {SAC_DTYPE_F32, 512, 4096, 11008}},
    {"prefill bf16 512x4096->11008", CHECK_linear, {SAC_DTYPE_BF16, 512, 4096, 11008}},
    {"prefill fast 512x4096->11008", CHECK_linear, {SAC_DTYPE_BF16, 512, 4096, 11008, 1}},
    {"prefill q8_0 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q8_0, 512, 4096, 4096}},
    {"prefill q4_0 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q4_0, 512, 4096, 4096}},
    {"prefill q4_1 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q4_1, 512, 4096, 4096}},
    {"prefill q5_0 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q5_0, 512, 4096, 4096}},
    {"prefill q5_1 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q5_1, 512, 4096, 4096}},
    {"prefill iq4_nl 512x4096->4096", CHECK_linear, {SAC_DTYPE_IQ4_NL, 512, 4096, 4096}},
    {"prefill mxfp4 512x4096->4096", CHECK_linear, {SAC_DTYPE_MXFP4, 512, 4096, 4096}},
    {"prefill q2_k 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q2_K, 512, 4096, 4096}},
    {"prefill q3_k 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q3_K, 512, 4096, 4096}},
    {"prefill q4_k 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q4_K, 512, 4096, 4096}},
    {"prefill q5_k 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q5_K, 512, 4096, 4096}},
    {"prefill q6_k 512x4096->4096", CHECK_linear, {SAC_DTYPE_Q6_K, 512, 4096, 4096}},
    {"prefill iq4_xs 512x4096->4096", CHECK_linear, {SAC_DTYPE_IQ4_XS, 512, 4096, 4096}},
    {"prefill 4096 6/2x64", CHECK_attention, {SAC_DTYPE_F32, 1, 4096, 4096, 6, 2, 64}},
    {"prefill 4096 6/2x64 f16", CHECK_attention, {SAC_DTYPE_F16, 1, 4096, 4096, 6, 2, 64}},
    {"prefill 1024 32/8x128 bf16", CHECK_attention, {SAC_DTYPE_BF16, 1, 1024, 1024, 32, 8, 128}},
    {"tower 64x64 4x64", CHECK_attention, {SAC_DTYPE_F32, 64, 64, 64, 4, 4, 64}},
    {"tower 2x577 16x64", CHECK_attention, {SAC_DTYPE_F32, 2, 577, 577, 16, 16, 64}},
    {"decode 4096 6/2x64 f32", CHECK_attention, {SAC_DTYPE_F32, 1, 1, 4096, 6, 2, 64}},
    {"decode 32768 6/2x64 f16", CHECK_attention, {SAC_DTYPE_F16, 1, 1, 32768, 6, 2, 64}},
    {"decode 32768 28/4x128 bf16", CHECK_attention, {SAC_DTYPE_BF16, 1, 1, 32768, 28, 4, 128}},
    {"decode 4096 32/32x128 f16", CHECK_attention, {SAC_DTYPE_F16, 1, 1, 4096, 32, 32, 128}},
    {"decode 8192 32/8x128 f32", CHECK_attention, {SAC_DTYPE_F32, 1, 1, 8192, 32, 8, 128}},
    {"decode list 8192 28/4x128", CHECK_attention, {SAC_DTYPE_BF16, 0, 28, 4, 128, 32768, 1, 4}},
    {"decode 4 lists 8192 28/4x128", CHECK_attention, {SAC_DTYPE_BF16, 0, 28, 4, 128, 32768, 4, 4}},
    {"decode 28 lists 8192 28/4x128", CHECK_attention, {SAC_DTYPE_BF16, 0, 28, 4, 128, 32768, 28, 4}},
    {"32768 28/4x128 bf16", CHECK_key_scores, {SAC_DTYPE_BF16, 0, 28, 4, 128, 32768}},
    {"32768 32/8x128 f32", CHECK_key_scores, {SAC_DTYPE_F32, 0, 32, 8, 128, 32768}},
    {"32768 6/2x64 f16", CHECK_key_scores, {SAC_DTYPE_F16, 0, 6, 2, 64, 32768}},
    {"turned back 32768 28/4x128", CHECK_key_scores, {SAC_DTYPE_BF16, 1, 28, 4, 128, 32768}},
    {"28 lists 8192 28/4x128", CHECK_key_scores, {SAC_DTYPE_BF16, 0, 28, 4, 128, 32768, 28, 4}},
    {"1 probe 32768 28/4x128", CHECK_attention_sums, {SAC_DTYPE_BF16, 1, 28, 4, 128, 32768, 4, 0}},
    {"64 probes 8192 28/4x128 diag", CHECK_attention_sums, {SAC_DTYPE_BF16, 64, 28, 4, 128, 8192, 28, 1}},
    {"128 probes 8192 28/4x128", CHECK_attention_sums, {SAC_DTYPE_BF16, 128, 28, 4, 128, 8192, 1, 0}},
    {"128 probes 4096 6/2x64 f16", CHECK_attention_sums, {SAC_DTYPE_F16, 128, 6, 2, 64, 4096, 2, 0}},
    {"all of 2048 6/2x64 f16", CHECK_attention_sums, {SAC_DTYPE_F16, 2048, 6, 2, 64, 2048, 1, 0}},
    {"8192 of 32768 4x128 bf16", CHECK_kv_gather, {SAC_DTYPE_BF16, 0, 0, 4, 128, 32768, 4, 4}},
    {"turned 8192 of 32768 to f32", CHECK_kv_gather, {SAC_DTYPE_BF16, 1, 0, 4, 128, 32768, 1, 4}},
    {"2048 of 28x32768", CHECK_top_k, {28, 32768, 2048}},
    {"16384 of 200000", CHECK_top_k, {1, 200000, 16384}},
    {"28x32768", CHECK_top_p, {28, 32768}},
    {"28x32768", CHECK_softmax, {28, 32768}},
    {"16x151936", CHECK_largest, {16, 151936}},
    {"16x151936", CHECK_weigh_scores, {16, 151936}},
    {"28x32768", CHECK_soft_vote, {28, 32768}},
    {"mixed 16384 6/2x64", CHECK_packed_attention, {16384, 6400, 6, 2, 64}},
    {"mixed 16384 28/4x128", CHECK_packed_attention, {16384, 6400, 28, 4, 128}},
    {"1x384", CHECK_rmsnorm, {1, 384}},
    {"4160x384", CHECK_rmsnorm, {4160, 384}},
    {"4096x256", CHECK_layernorm, {4096, 256}},
    {"4160x384", CHECK_rope, {4160, 384}},
    {"4160x1024", CHECK_swiglu, {4160, 1024}},
    {"4160x128", CHECK_kv_store, {4160, 128}},
    {"64 pictures of 112", CHECK_patchify, {64, 588}},
    {"64 tiles of 8x8x256", CHECK_pool_tokens, {64, 256}},
    {"4160x384", CHECK_gather_rows, {4160, 384}},
    {"4160x384", CHECK_blend_rows, {4160, 384}},
    {"4100x1024", CHECK_scale_add, {4100, 1024}},
    {"1x8192, width 4", CHECK_causal_conv, {1, 8192}},
    {"256x8192, width 4", CHECK_causal_conv, {256, 8192}},
    {"1, 32 heads of 128", CHECK_delta_rule, {1, 4096}},
    {"256, 32 heads of 128", CHECK_delta_rule, {256, 4096}},
    {"4160x384", CHECK_scatter_rows, {4160, 384}},
    {"4160x384 bf16", CHECK_embed, {4160, 384}},
};

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The next copy of what the op streams. */
static void turn(bench *b, int call) {
    char *copy = (char *)(uintptr_t)b->first_copy + (size_t)(call % b->n_copies) * b->copy_bytes;
    check_case *c = &b->c;
    sac_kv_view *kv = c->op == CHECK_attention        ? &c->attention.kv
                      : c->op == CHECK_key_scores     ? &c->key_scores.kv
                      : c->op == CHECK_attention_sums ? &c->attention_sums.kv
                      : c->op == CHECK_kv_gather      ? &c->kv_gather.src
                                                      : NULL;
    if (c->op == CHECK_linear) c->linear.w.tensor.data = copy;
    if (c->op == CHECK_packed_attention) bench_packed_turn(b, copy);
    if (!kv) return;
    kv->k = copy;
    kv->v = copy + b->copy_bytes / 2;
}

static double seconds(bench *b, const sac_ops *t, const sac_stream *s, double limit, double *median) {
    static double times[MAX_CALLS];
    int n = 0;
    int64_t start = now_ns();
    while (n < MAX_CALLS && (n < MIN_CALLS || since(start) < limit)) {
        turn(b, n);
        int64_t t0 = now_ns();
        check_call(t, s, &b->c);
        times[n++] = since(t0);
    }
    qsort(times, (size_t)n, sizeof *times, by_value);
    *median = times[n / 2];
    return times[0];
}

/* OpenBLAS's sgemm on the same f32 shape, when the library is there; 0 otherwise. */
static double openblas_seconds(const bench *b, int n_threads) {
    typedef void (*gemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                            float, float *, int);
    static void *lib;
    if (!lib) lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib || b->c.op != CHECK_linear || b->c.linear.x.rows < 16) return 0;
    gemm_fn gemm;
    void (*set_threads)(int);
    *(void **)&gemm = dlsym(lib, "cblas_sgemm");
    *(void **)&set_threads = dlsym(lib, "openblas_set_num_threads");
    if (!gemm || !set_threads) return 0;
    set_threads(n_threads);
    const sac_linear_args *a = &b->c.linear;
    int m = (int)a->x.rows, n = (int)a->y.cols, k = (int)a->x.cols;
    float *w = bench_pages((size_t)n * (size_t)k * 4), *y = bench_pages((size_t)m * (size_t)n * 4);
    for (int64_t i = 0; i < (int64_t)n * k; i++) w[i] = (float)(i % 13) - 6;
    double best = 1e9;
    int64_t start = now_ns();
    for (int i = 0; i < MIN_CALLS || (since(start) < ROW_SECONDS && i < MAX_CALLS); i++) {
        int64_t t0 = now_ns();
        gemm(101, 111, 112, m, n, k, 1, a->x.data, k, w, k, 0, y, n); /* row major, x w^T */
        double s = since(t0);
        if (s < best) best = s;
    }
    munmap(w, (size_t)n * (size_t)k * 4);
    munmap(y, (size_t)m * (size_t)n * 4);
    return best;
}

static void bench_open(bench *b, const struct bench_row *r) {
    *b = (bench){.shape = r->shape, .n_copies = 1};
    if (r->op == CHECK_linear)
        bench_linear(b, (sac_dtype)r->a[0], r->a[1], r->a[2], r->a[3], r->a[4]);
    else if (r->op >= CHECK_attention && r->op <= CHECK_top_p && (r->op != CHECK_attention || r->a[1] == 0))
        bench_keys(b, r->op, r->a);
    else if (r->op == CHECK_softmax || r->op == CHECK_soft_vote || r->op == CHECK_largest || r->op == CHECK_weigh_scores)
        bench_keys(b, r->op, r->a);
    else if (r->op == CHECK_packed_attention)
        bench_packed(b, r->a);
    else if (r->op == CHECK_attention)
        bench_attention(b, (sac_dtype)r->a[0], r->a[1], r->a[2], r->a[3], (int)r->a[4], (int)r->a[5],
                        (int)r->a[6]);
    else
        bench_rows(b, r->op, r->a[0], r->a[1]);
}

static void print_row(const bench *b, const char *variant, const machine *m, double best, double median,
                      double ref, double blas, bool csv) {
    double gb = b->bytes / best * 1e-9, gf = b->flops / best * 1e-9;
    const char *format = csv ? "%s,%s,%s,%.2f,%.2f,%.2f,%.0f,%.1f,%.0f,%.1f,%.2f\n"
                             : "%-14s %-7s %-30s %10.1f %10.1f %7.1f %4.0f%% %8.1f %4.0f%% %8.1f %8.2f\n";
    printf(format, check_op_name(b->c.op), variant, b->shape, best * 1e6, median * 1e6, gb,
           100 * b->bytes / best / m->read_bytes_s, gf, 100 * b->flops / best / m->flops_s, ref / best,
           blas / best);
    fflush(stdout);
}

int check_bench(const char *op, const char *variant, bool csv, int n_threads) {
    check_stream cs;
    check_variant v[8];
    processor_time = n_threads == 1;
    int n = check_variants(v);
    if (!check_stream_open(&cs, n_threads)) return 1;
    machine m = measure_machine(cs.s.pool);
    if (!csv)
        printf("%d threads: read %.1f GB/s, f32 fma %.1f GFLOP/s\n"
               "%-14s %-7s %-30s %10s %10s %7s %5s %8s %5s %8s %8s\n",
               n_threads, m.read_bytes_s * 1e-9, m.flops_s * 1e-9, "op", "variant", "shape", "best us",
               "median us", "GB/s", "", "GFLOP/s", "", "x ref", "x openblas");
    for (size_t i = 0; i < SAC_COUNT(rows); i++) {
        if (op && strcmp(op, check_op_name(rows[i].op)) != 0) continue;
        bench b;
        double ref = 0, blas;
        bench_open(&b, &rows[i]);
        blas = openblas_seconds(&b, n_threads);
        for (int j = 0; j < n; j++) {
            sac_ops t;
            double median;
            sac_ops_init_cpu(&t, v[j].flags);
            if (j == 0) {
                sac_ops_init_ref(&t);
                if (b.flops > 1e9) continue; /* seconds of plain C */
            }
            if (j > 0 && variant && strcmp(variant, v[j].name) != 0) continue;
            double best = seconds(&b, &t, &cs.s, j ? ROW_SECONDS : 0.1, &median);
            if (j == 0) ref = best;
            print_row(&b, v[j].name, &m, best, median, ref, blas, csv);
        }
        check_case_free(&b.c);
    }
    check_stream_free(&cs);
    return 0;
}
