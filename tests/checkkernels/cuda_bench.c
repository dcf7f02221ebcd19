/* cuda_bench.c - how fast, in units of what this card can do: bytes against its measured copy rate (read and
 * written), products against its measured rate at 8192^3. Calls run as a captured graph, so that launches do not
 * count, and walk over more memory than the L2 cache holds. Times are medians of batches. */
#include "cuda_twin.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)12 << 30)
#define FAR_BYTES   ((size_t)512 << 20) /* what one walk covers at least */
enum { N_BATCHES = 9, MAX_BATCH = 64 };

typedef struct bench {
    check_case c;
    cuda_twin *w;
    uint8_t *arena;
    size_t span; /* bytes of the arena that one call uses */
    double bytes, flops;
    char shape[64];
} bench;

static double copy_rate, matrix_rate; /* bytes and floating-point operations a second */

/* The next n elements of the arena: random numbers in [-1, 1) as bf16, which as f16 are numbers too. */
static void *take(bench *b, int64_t n, sac_dtype t) {
    void *p = b->arena + b->span;
    b->span += ((size_t)n * (t == SAC_DTYPE_F32 ? 4 : 2) + 255) / 256 * 256;
    return p;
}
static sac_mat mat(bench *b, int64_t rows, int64_t cols) {
    return (sac_mat){take(b, rows * cols, SAC_DTYPE_BF16), rows, cols, cols, SAC_DTYPE_BF16};
}
static float *floats(bench *b, int64_t n) {
    return take(b, n, SAC_DTYPE_F32);
}
/* n int32 below `most`. They lie at the end of the arena: calls share them. */
static int32_t *indices(bench *b, int64_t n, int64_t most) {
    int32_t *host = malloc((size_t)n * 4), *p = (int32_t *)(void *)(b->arena + ARENA_BYTES - ((size_t)16 << 20));
    for (int64_t i = 0; i < n; i++) host[i] = (int32_t)(i * 7 % most);
    b->w->device->upload(&b->w->stream, p, host, (size_t)n * 4);
    b->w->device->stream_sync(&b->w->stream, NULL);
    free(host);
    return p;
}

/* The case moved to the i-th stretch of the arena. */
static check_case shifted(const bench *b, size_t i) {
    check_case d = b->c;
    size_t first = offsetof(check_case, linear), end = offsetof(check_case, lists);
    for (size_t at = first; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (char *)&d + at, sizeof word);
        if (word >= (uintptr_t)b->arena && word < (uintptr_t)b->arena + b->span) word += i * b->span;
        memcpy((char *)&d + at, &word, sizeof word);
    }
    return d;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds a call; 0 when the op refuses. */
static double seconds(bench *b, const sac_ops *t, int n_calls, double *best) {
    const sac_device *d = b->w->device;
    const sac_stream *s = &b->w->stream;
    cudaStream_t stream = s->native;
    size_t n_places = (ARENA_BYTES - ((size_t)16 << 20)) / b->span, turn = 0;
    if (n_places > FAR_BYTES / b->span + 1) n_places = FAR_BYTES / b->span + 1;
    check_case one = shifted(b, 0);
    if (check_call(t, s, &one) != SAC_OK || d->stream_sync(s, NULL) != SAC_OK) return 0; /* plans are made now */
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    bool ok = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    for (int i = 0; ok && i < n_calls; i++) {
        one = shifted(b, turn++ % n_places);
        ok = check_call(t, s, &one) == SAC_OK;
    }
    ok = cudaStreamEndCapture(stream, &graph) == cudaSuccess && ok;
    ok = ok && cudaGraphInstantiate(&run, graph, 0) == cudaSuccess;
    double times[N_BATCHES];
    sac_event from, to;
    d->event_create(d, &from, NULL);
    d->event_create(d, &to, NULL);
    for (int i = 0; ok && i < N_BATCHES + 1; i++) { /* the first does not count */
        double ms = 0;
        d->event_record(s, &from);
        ok = cudaGraphLaunch(run, stream) == cudaSuccess;
        d->event_record(s, &to);
        ok = ok && d->event_elapsed(&from, &to, &ms) == SAC_OK;
        if (i) times[i - 1] = ms * 1e-3 / n_calls;
    }
    d->event_free(&from);
    d->event_free(&to);
    if (run) cudaGraphExecDestroy(run);
    if (graph) cudaGraphDestroy(graph);
    if (!ok) {
        cudaGetLastError();
        return 0;
    }
    qsort(times, N_BATCHES, sizeof *times, by_value);
    *best = times[0];
    return times[N_BATCHES / 2];
}

static void print_row(const bench *b, const char *variant, double s, double best, bool csv) {
    double gb = b->bytes / s, tf = b->flops / s;
    const char *format = csv ? "%s,%s,%s,%.2f,%.2f,%.1f,%.1f,%.2f,%.1f\n"
                             : "%-12s %-9s %-34s %10.2f %10.2f %8.1f %5.1f%% %9.2f %5.1f%%\n";
    if (s <= 0)
        printf(csv ? "%s,%s,%s,,,,,,\n" : "%-12s %-9s %-34s    refused\n", check_op_name(b->c.op), variant, b->shape);
    else
        printf(format, check_op_name(b->c.op), variant, b->shape, s * 1e6, best * 1e6, gb * 1e-9,
               100 * gb / copy_rate, tf * 1e-12, 100 * tf / matrix_rate);
    fflush(stdout);
}

/* All variants of the op, or the slot alone. */
static void time_all(bench *b, const sac_ops *t, const check_options *o, const char *only) {
    double floor_s = b->bytes / 4e12 + b->flops / 600e12;
    int n_calls = floor_s > 0 ? (int)(1.5e-3 / floor_s) : 1, n_done = 0;
    n_calls = n_calls < 1 ? 1 : n_calls > MAX_BATCH ? MAX_BATCH : n_calls;
    double s, best = 0;
    for (int i = 0; i < cuda_n_variants; i++) {
        const cuda_variant *v = &cuda_variants[i];
        if (v->op != b->c.op || strcmp(v->name, "any") == 0) continue;
        if (only && !strstr(only, v->name)) continue;
        if (o->variant && strcmp(o->variant, v->name) != 0) continue;
        sac_ops one = *t;
        v->plant(&one);
        s = seconds(b, &one, n_calls, &best);
        print_row(b, v->name, s, best, o->csv);
        n_done++;
    }
    if (n_done) return;
    s = seconds(b, t, n_calls, &best);
    print_row(b, "cuda", s, best, o->csv);
}

static void open_row(bench *b, check_op op, const char *shape) {
    memset(&b->c, 0, sizeof b->c);
    b->c.op = op;
    b->span = 0;
    b->bytes = b->flops = 0;
    snprintf(b->shape, sizeof b->shape, "%s", shape);
}

/* ---------------------------------------------------------------- rows */

static void linear_row(bench *b, int64_t m, int64_t n, int64_t k, sac_activation act, bool bias, bool accumulate) {
    char text[64];
    snprintf(text, sizeof text, "%lldx%lld->%lld%s%s%s", (long long)m, (long long)k, (long long)n,
             bias ? " bias" : "", act ? " act" : "", accumulate ? " +=" : "");
    open_row(b, CHECK_linear, text);
    sac_mat x = mat(b, m, k), y = mat(b, m, n);
    b->c.linear = (sac_linear_args){.y = y, .x = x, .act = act, .accumulate = accumulate};
    b->c.linear.w = (sac_tensor){take(b, n * k, SAC_DTYPE_BF16), SAC_DTYPE_BF16, 2, {n, k}};
    if (bias) b->c.linear.bias = floats(b, n);
    b->flops = 2.0 * (double)m * (double)n * (double)k;
    b->bytes = 2.0 * ((double)n * (double)k + (double)m * (double)k + (double)m * (double)n * (accumulate ? 2 : 1));
}

static void attention_row(bench *b, int64_t n_batch, int64_t n_q, int64_t n_kv, int heads, int kv_heads, int d,
                          bool causal) {
    char text[64];
    snprintf(text, sizeof text, "%lldx %lld of %lld, %d/%d x %d%s", (long long)n_batch, (long long)n_q,
             (long long)n_kv, heads, kv_heads, d, causal ? " causal" : "");
    open_row(b, CHECK_attention, text);
    int64_t rows = n_batch * n_kv, cols = (int64_t)kv_heads * d;
    sac_mat q = mat(b, n_batch * n_q, (int64_t)heads * d), o = mat(b, n_batch * n_q, (int64_t)heads * d);
    sac_attention_args *a = &b->c.attention;
    *a = (sac_attention_args){.o = o, .q = q, .n_q = n_q, .n_kv = n_kv, .first = n_kv - n_q, .n_batch = n_batch,
                              .batch_rows = n_batch > 1 ? n_kv : 0, .n_heads = heads, .scale = 0.1f,
                              .causal = causal};
    a->kv = (sac_kv_view){.dtype = SAC_DTYPE_BF16, .n_heads = kv_heads, .head_dim = d, .n_rows = rows,
                          .row_stride = cols, .head_stride = d};
    a->kv.k = take(b, rows * cols, SAC_DTYPE_BF16);
    a->kv.v = take(b, rows * cols, SAC_DTYPE_BF16);
    double seen = causal ? (double)n_q * ((double)n_kv - (double)n_q / 2 + 0.5) : (double)n_q * (double)n_kv;
    b->flops = 4.0 * (double)n_batch * seen * heads * d;
    b->bytes = 2.0 * (2.0 * (double)(rows * cols) + 2.0 * (double)(n_batch * n_q) * heads * d);
}

static void elementwise_row(bench *b, check_op op, int64_t rows, int64_t n) {
    char text[64];
    check_case *c = &b->c;
    snprintf(text, sizeof text, "%lldx%lld", (long long)rows, (long long)n);
    open_row(b, op, text);
    sac_mat x = mat(b, rows, n), y = mat(b, rows, n);
    double moved = 2.0 * (double)(rows * n);
    b->bytes = 2 * moved;
    switch ((int)op) {
    case CHECK_rmsnorm: c->rmsnorm = (sac_rmsnorm_args){y, x, floats(b, n), 1e-6f}; break;
    case CHECK_layernorm: c->layernorm = (sac_layernorm_args){y, x, floats(b, n), floats(b, n), 1e-6f}; break;
    case CHECK_swiglu:
        c->swiglu = (sac_swiglu_args){y, x, mat(b, rows, n)};
        b->bytes = 3 * moved;
        break;
    case CHECK_gather_rows: c->gather_rows = (sac_gather_rows_args){y, x, indices(b, rows, rows), NULL}; break;
    case CHECK_rope:
        c->rope = (sac_rope_args){x, (int)(n / 128), 128, {floats(b, rows * 128), 128, false, 1},
                                  indices(b, rows, rows), false};
        b->bytes = 2 * moved + 4.0 * 128 * (double)rows;
        break;
    case CHECK_kv_store: {
        sac_kv_view kv = {take(b, rows * n, SAC_DTYPE_BF16), take(b, rows * n, SAC_DTYPE_BF16), SAC_DTYPE_BF16,
                          (int)(n / 128), 128, rows, n, 128};
        c->kv_store = (sac_kv_store_args){kv, x, y, 0};
        b->bytes = 4 * moved;
        break;
    }
    case CHECK_embed:
        c->embed = (sac_embed_args){y, {x.data, SAC_DTYPE_BF16, 2, {rows, n}}, indices(b, rows, rows)};
        break;
    case CHECK_pool_tokens: /* rows = tiles of 24 x 24 */
        y.rows = rows / 576 * 144;
        x.rows = rows / 576 * 576;
        c->pool_tokens = (sac_pool_tokens_args){y, x, rows / 576, 24, 2};
        b->bytes = 1.25 * moved;
        break;
    default: break;
    }
}

static void patchify_row(bench *b, int64_t n_tiles) {
    open_row(b, CHECK_patchify, "pictures of 336, patch 14");
    sac_mat y = mat(b, n_tiles * 576, 588);
    uint8_t *tiles = take(b, n_tiles * 336 * 336 * 3 / 2, SAC_DTYPE_BF16);
    b->c.patchify = (sac_patchify_args){y, tiles, n_tiles, 336, 14, {0.5f, 0.5f, 0.5f}, {0.3f, 0.3f, 0.3f}};
    b->bytes = 3.0 * 336 * 336 * 3 * (double)n_tiles;
}

/* ---------------------------------------------------------------- the card */

static bool fill_arena(bench *b) {
    size_t n = (size_t)32 << 20;
    uint16_t *host = malloc(n);
    uint64_t rng = 1;
    const sac_device *d = b->w->device;
    for (size_t i = 0; i < n / 2; i++)
        host[i] = sac_f32_to_bf16((float)((double)(check_rand(&rng) >> 11) * 0x1p-52 - 1));
    d->upload(&b->w->stream, b->arena, host, n);
    for (size_t done = n; done < ARENA_BYTES; done += n) {
        n = done < ARENA_BYTES - done ? done : ARENA_BYTES - done;
        d->copy(&b->w->stream, b->arena + done, b->arena, n);
    }
    free(host);
    return d->stream_sync(&b->w->stream, NULL) == SAC_OK;
}

static double measure_copy(bench *b) {
    const sac_device *d = b->w->device;
    const size_t n = (size_t)2 << 30;
    double ms, best = 1e9;
    sac_event from, to;
    d->event_create(d, &from, NULL);
    d->event_create(d, &to, NULL);
    for (int i = 0; i < 6; i++) {
        d->event_record(&b->w->stream, &from);
        d->copy(&b->w->stream, b->arena + ARENA_BYTES / 2, b->arena, n);
        d->event_record(&b->w->stream, &to);
        d->event_elapsed(&from, &to, &ms);
        best = ms < best ? ms : best;
    }
    d->event_free(&from);
    d->event_free(&to);
    return 2 * (double)n / best * 1e3;
}

int cuda_bench(cuda_twin *w, const sac_ops *t, const check_options *o) {
    static bench b;
    sac_error err;
    b = (bench){.w = w};
    if (w->device->alloc(w->device, ARENA_BYTES, (void **)&b.arena, &err) != SAC_OK || !fill_arena(&b)) {
        printf("checkkernels: %s\n", err.text);
        return 1;
    }
    double best;
    copy_rate = measure_copy(&b);
    linear_row(&b, 8192, 8192, 8192, SAC_ACT_NONE, false, false);
    matrix_rate = b.flops / seconds(&b, t, 4, &best);
    printf("copy %.2f TB/s (read and written), bf16 product of 8192^3 %.0f TFLOP/s\n"
           "%-12s %-9s %-34s %10s %10s %8s %6s %9s %6s\n",
           copy_rate * 1e-12, matrix_rate * 1e-12, "op", "variant", "shape", "median us", "best us", "GB/s", "",
           "TFLOP/s", "");
#define WANTED(name) (!o->op || strcmp(o->op, #name) == 0)
#define ROW(call) (call, time_all(&b, t, o, NULL))
    static const int64_t qwen[][2] = {{4608, 3584}, {3584, 3584}, {37888, 3584}, {3584, 18944}, {152064, 3584}};
    for (size_t i = 0; WANTED(linear) && i < SAC_COUNT(qwen); i++) {
        ROW(linear_row(&b, 1, qwen[i][0], qwen[i][1], SAC_ACT_NONE, i == 0, i == 1 || i == 3));
        if (i == 1 || i == 2) ROW(linear_row(&b, 8, qwen[i][0], qwen[i][1], SAC_ACT_NONE, false, i == 1));
        if (i < 4) ROW(linear_row(&b, 8192, qwen[i][0], qwen[i][1], SAC_ACT_NONE, i == 0, i == 1 || i == 3));
    }
    if (WANTED(linear)) {
        ROW(linear_row(&b, 577 * 32, 1024, 592, SAC_ACT_NONE, false, false));
        ROW(linear_row(&b, 577 * 32, 1024, 1024, SAC_ACT_NONE, true, true));
        ROW(linear_row(&b, 577 * 32, 4096, 1024, SAC_ACT_QUICK_GELU, true, false));
        ROW(linear_row(&b, 577 * 32, 1024, 4096, SAC_ACT_NONE, true, true));
    }
    static const int64_t contexts[] = {1024, 4096, 8192, 16384, 32768, 131072, 524288, 1048576};
    for (size_t i = 0; WANTED(attention) && i < SAC_COUNT(contexts); i++)
        attention_row(&b, 1, 1, contexts[i], 28, 4, 128, true), time_all(&b, t, o, "decode cudnn");
    if (WANTED(attention)) {
        attention_row(&b, 1, 1, 4096, 32, 32, 128, true), time_all(&b, t, o, "decode cudnn");
        attention_row(&b, 1, 1, 32768, 32, 8, 64, true), time_all(&b, t, o, "decode cudnn");
    }
    static const int64_t lengths[] = {1024, 2048, 8192, 32768, 131072};
    for (size_t i = 0; WANTED(attention) && i < SAC_COUNT(lengths); i++)
        attention_row(&b, 1, lengths[i], lengths[i], 28, 4, 128, true),
            time_all(&b, t, o, lengths[i] > 100000 ? "cudnn" : "flash cudnn");
    if (WANTED(attention)) {
        attention_row(&b, 1, 8192, 131072, 28, 4, 128, true), time_all(&b, t, o, "flash cudnn");
        attention_row(&b, 1, 577, 577, 16, 16, 64, false), time_all(&b, t, o, "flash cudnn");
        attention_row(&b, 32, 577, 577, 16, 16, 64, false), time_all(&b, t, o, "flash cudnn");
        attention_row(&b, 32, 729, 729, 16, 16, 72, false), time_all(&b, t, o, "flash cudnn");
    }
    static const struct {
        check_op op;
        int64_t rows, n;
    } elementwise[] = {
        {CHECK_rmsnorm, 1, 3584},        {CHECK_rmsnorm, 16384, 3584},      {CHECK_rmsnorm, 8192, 8192},
        {CHECK_layernorm, 577 * 32, 1024}, {CHECK_rope, 1, 3584},            {CHECK_rope, 16384, 3584},
        {CHECK_swiglu, 1, 18944},        {CHECK_swiglu, 8192, 18944},       {CHECK_kv_store, 16384, 512},
        {CHECK_embed, 16384, 3584},      {CHECK_gather_rows, 16384, 3584},  {CHECK_pool_tokens, 576 * 128, 3584},
    };
    for (size_t i = 0; i < SAC_COUNT(elementwise); i++)
        if (!o->op || strcmp(o->op, check_op_name(elementwise[i].op)) == 0)
            ROW(elementwise_row(&b, elementwise[i].op, elementwise[i].rows, elementwise[i].n));
    if (WANTED(patchify)) ROW(patchify_row(&b, 128));
    w->device->free(w->device, b.arena);
    return 0;
}
