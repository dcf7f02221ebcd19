/* cuda_bench.c - how fast, in units of what this card can do: bytes against its measured copy rate (read and
 * written), products against its measured rate at 8192^3. Calls run as a captured graph, so that launches do
 * not count, and walk over more memory than the L2 cache holds. Times are medians of batches. */
#include "cuda_bench.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { N_BATCHES = 9, MAX_BATCH = 64 };

static double copy_rate, matrix_rate; /* bytes and floating-point operations a second */

static void shift(const bench *b, size_t i, void *from, size_t n_bytes) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= n_bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (char *)from + at, sizeof word);
        if (word >= (uintptr_t)b->arena && word < (uintptr_t)b->arena + b->span) word += i * b->span;
        memcpy((char *)from + at, &word, sizeof word);
    }
}

/* A case moved to the i-th stretch of the arena. */
static void shifted(const bench *b, const check_case *c, size_t i, check_case *d) {
    *d = *c;
    if (c->attention.lists == &c->lists && c->op == CHECK_attention) d->attention.lists = &d->lists;
    if (c->kv_gather.lists == &c->lists && c->op == CHECK_kv_gather) d->kv_gather.lists = &d->lists;
    shift(b, i, &d->lists, sizeof d->lists);
    shift(b, i, (char *)d + offsetof(check_case, linear),
          offsetof(check_case, lists) - offsetof(check_case, linear));
    shift(b, i, d->parts, sizeof d->parts);
    if (d->op == CHECK_packed_step) d->packed_step.parts = d->parts;
    shift(b, i, &d->many, sizeof d->many);
    if (d->op == CHECK_attention_many) d->attention_many.each = d->many.attention;
    if (d->op != CHECK_packed_step_many) return;
    d->packed_step_many.each = d->many.packed_step;
    for (int j = 0; j < d->packed_step_many.n; j++)
        d->many.packed_step[j].parts = d->parts + (d->many.packed_step[j].parts - b->c.parts);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The call at the i-th stretch: the case, and those that follow it. */
static sac_status call_at(const bench *b, const sac_ops *t, size_t i) {
    check_case one;
    shifted(b, &b->c, i, &one);
    sac_status st = check_call(t, &b->w->stream, &one);
    for (int j = 0; j < b->n_more && st == SAC_OK; j++) {
        shifted(b, &b->more[j], i, &one);
        st = check_call(t, &b->w->stream, &one);
    }
    return st;
}

/* Seconds a call; 0 when the op refuses. */
static double seconds(bench *b, const sac_ops *t, int n_calls, double *best) {
    const sac_device *d = b->w->device;
    const sac_stream *s = &b->w->stream;
    cudaStream_t stream = s->native;
    size_t n_places = (ARENA_BYTES - SHARED_BYTES) / b->span, turn = 0;
    if (n_places > FAR_BYTES / b->span + 1) n_places = FAR_BYTES / b->span + 1;
    if (call_at(b, t, 0) != SAC_OK || d->stream_sync(s, NULL) != SAC_OK) return 0; /* plans are made now */
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    bool ok = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    for (int i = 0; ok && i < n_calls; i++) {
        ok = call_at(b, t, turn++ % n_places) == SAC_OK;
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
    const char *name = b->name ? b->name : check_op_name(b->c.op);
    const char *format = csv ? "%s,%s,%s,%.2f,%.2f,%.1f,%.1f,%.2f,%.1f\n"
                             : "%-12s %-9s %-34s %10.2f %10.2f %8.1f %5.1f%% %9.2f %5.1f%%\n";
    if (s <= 0)
        printf(csv ? "%s,%s,%s,,,,,,\n" : "%-12s %-9s %-34s    refused\n", name, variant, b->shape);
    else
        printf(format, name, variant, b->shape, s * 1e6, best * 1e6, gb * 1e-9, 100 * gb / copy_rate,
               tf * 1e-12, 100 * tf / matrix_rate);
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
        if (v->op == CHECK_linear &&
            (strcmp(v->name, "blocks") == 0) != (sac_dtype_block(b->c.linear.w.tensor.dtype) > 1))
            continue;
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

/* A chain as a whole, then each of its ops alone. */
static void time_chain(bench *b, const sac_ops *t, const check_options *o) {
    static bench one;
    time_all(b, t, o, NULL);
    for (int i = 0; i <= b->n_more; i++) {
        one = *b;
        one.c = i ? b->more[i - 1] : b->c;
        if (one.c.op == CHECK_kv_gather) one.c.kv_gather.lists = &one.c.lists;
        one.n_more = 0;
        one.name = check_op_name(one.c.op);
        one.bytes = 0;
        if (one.c.op != CHECK_attention) one.flops = 0;
        time_all(&one, t, o, "cudnn hopper hopper_long alone");
    }
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
    cuda_bench_linear(&b, 8192, 8192, 8192, SAC_ACT_NONE, false, false);
    matrix_rate = b.flops / seconds(&b, t, 4, &best);
    printf("copy %.2f TB/s (read and written), bf16 product of 8192^3 %.0f TFLOP/s\n"
           "%-12s %-9s %-34s %10s %10s %8s %6s %9s %6s\n",
           copy_rate * 1e-12, matrix_rate * 1e-12, "op", "variant", "shape", "median us", "best us", "GB/s",
           "", "TFLOP/s", "");
#define WANTED(name) (!o->op || strcmp(o->op, #name) == 0)
#define ROW(call)    (call, time_all(&b, t, o, NULL))
    static const int64_t qwen[][2] = {
        {4608, 3584}, {3584, 3584}, {37888, 3584}, {3584, 18944}, {152064, 3584}};
    for (size_t i = 0; WANTED(linear) && i < SAC_COUNT(qwen); i++) {
        ROW(cuda_bench_linear(&b, 1, qwen[i][0], qwen[i][1], SAC_ACT_NONE, i == 0, i == 1 || i == 3));
        for (int64_t m = 2; m <= 16; m *= 2)
            ROW(cuda_bench_linear(&b, m, qwen[i][0], qwen[i][1], SAC_ACT_NONE, i == 0, i == 1 || i == 3));
        for (int64_t m = 8192; i < 4 && m <= 16384; m *= 2)
            ROW(cuda_bench_linear(&b, m, qwen[i][0], qwen[i][1], SAC_ACT_NONE, i == 0, i == 1 || i == 3));
    }
    if (WANTED(linear)) {
        ROW(cuda_bench_linear(&b, 577 * 32, 1024, 592, SAC_ACT_NONE, false, false));
        ROW(cuda_bench_linear(&b, 577 * 32, 1024, 1024, SAC_ACT_NONE, true, true));
        ROW(cuda_bench_linear(&b, 577 * 32, 4096, 1024, SAC_ACT_QUICK_GELU, true, false));
        ROW(cuda_bench_linear(&b, 577 * 32, 1024, 4096, SAC_ACT_NONE, true, true));
    }
    for (int type = SAC_DTYPE_Q8_0; WANTED(blocks) && type <= SAC_DTYPE_E2M1_32;
         type++) { /* named here only */
        static const int64_t rows[] = {1, 8, 16, 32, 64, 2048};
        if (type == SAC_DTYPE_Q8_0 + CHECK_BLOCK_TYPES) type = SAC_DTYPE_C4_32; /* code_layout.h's */
        for (size_t i = 0; i < SAC_COUNT(rows); i++)
            ROW(cuda_bench_blocks(&b, (sac_dtype)type, rows[i], 8192, 8192));
    }
    if (o->op && strcmp(o->op, "gguf_step") == 0) { /* named here only: what a step of Llama-3.1-8B reads, one by one */
        static const sac_dtype kinds[] = {SAC_DTYPE_Q4_K, SAC_DTYPE_Q6_K, SAC_DTYPE_Q8_0};
        static const int64_t products[][2] = {{1024, 4096}, {4096, 4096}, {4096, 14336}, {128256, 4096}};
        for (size_t i = 0; i < SAC_COUNT(kinds); i++) {
            for (size_t p = 0; p < SAC_COUNT(products); p++)
                cuda_bench_blocks(&b, kinds[i], 1, products[p][0], products[p][1]), time_all(&b, t, o, "slot");
            ROW(cuda_bench_gate_blocks(&b, kinds[i]));
            for (int interleaved = 0; interleaved < 2; interleaved++)
                ROW(cuda_bench_qkv_blocks(&b, kinds[i], kinds[i], interleaved));
        }
        ROW(cuda_bench_qkv_blocks(&b, SAC_DTYPE_Q4_K, SAC_DTYPE_Q6_K, false));
        ROW(cuda_bench_qkv_blocks(&b, SAC_DTYPE_Q4_K, SAC_DTYPE_Q6_K, true));
    }
    static const int64_t fp8[][2] = {{4608, 3584}, {3584, 3584}, {18944, 3584}, {3584, 18944}, {8192, 8192}};
    for (size_t i = 0; o->op && strcmp(o->op, "fp8") == 0 && i < 2 * SAC_COUNT(fp8); i++) { /* named here only */
        static const int64_t rows[] = {1, 2, 8, 16, 32, 64, 128, 2048, 16384};
        for (size_t r = 0; r < SAC_COUNT(rows); r++) {
            cuda_bench_fp8(&b, rows[r], fp8[i / 2][0], fp8[i / 2][1], i % 2);
            time_all(&b, t, o, "slot");
        }
    }
    for (int i = 0; o->op && strcmp(o->op, "step") == 0 && i < 3 * 5; i++) { /* a chain of ops, named here only */
        static const int64_t rows[] = {1, 8, 16, 32, 64};
        const bench_weights of = (bench_weights)(i / 5);
        for (int in_one = 0; in_one <= (of != STEP_BF16); in_one++)
            cuda_bench_step(&b, of, rows[i % 5], in_one), time_chain(&b, t, o);
    }
    static const int64_t contexts[] = {1024, 4096, 8192, 16384, 32768, 131072, 524288, 1048576};
    for (size_t i = 0; WANTED(attention) && i < SAC_COUNT(contexts); i++)
        cuda_bench_attention(&b, 1, 1, contexts[i], 28, 4, 128, true), time_all(&b, t, o, "decode cudnn");
    if (WANTED(attention)) {
        cuda_bench_attention(&b, 1, 1, 4096, 32, 32, 128, true), time_all(&b, t, o, "decode cudnn");
        cuda_bench_attention(&b, 1, 1, 32768, 32, 8, 64, true), time_all(&b, t, o, "decode cudnn");
    }
    static const int64_t lengths[] = {1024, 2048, 8192, 32768, 131072};
    for (size_t i = 0; WANTED(attention) && i < SAC_COUNT(lengths); i++)
        cuda_bench_attention(&b, 1, lengths[i], lengths[i], 28, 4, 128, true),
            time_all(&b, t, o, lengths[i] > 100000 ? "cudnn hopper" : "flash cudnn hopper");
    if (WANTED(attention)) {
        cuda_bench_attention(&b, 1, 8192, 131072, 28, 4, 128, true), time_all(&b, t, o, "flash cudnn hopper");
        cuda_bench_attention(&b, 1, 512, 2688, 28, 4, 128, true), time_all(&b, t, o, "flash cudnn hopper");
        for (int64_t n = 128; n <= 1024; n *= 2) /* rows of a prompt in a pass with steps */
            for (int64_t kv = 32768; kv <= 131072; kv *= 4)
                cuda_bench_attention(&b, 1, n, kv, 28, 4, 128, true), time_all(&b, t, o, "flash hopper");
        for (int64_t n = 2; n <= 64; n *= 2) /* drafted rows; a second question */
            cuda_bench_attention(&b, 1, n, 131072, 32, 8, 128, true), time_all(&b, t, o, n <= 16 ? "decode spread" : "flash spread"),
                cuda_bench_attention(&b, 1, n, 131072, 28, 4, 128, true), time_all(&b, t, o, n <= 8 ? "decode spread" : "flash spread");
        cuda_bench_attention(&b, 16, 512, 2688, 28, 4, 128, true), time_all(&b, t, o, "flash cudnn hopper");
        cuda_bench_attention(&b, 1, 577, 577, 16, 16, 64, false), time_all(&b, t, o, "flash cudnn");
        cuda_bench_attention(&b, 32, 577, 577, 16, 16, 64, false), time_all(&b, t, o, "flash cudnn");
        cuda_bench_attention(&b, 32, 729, 729, 16, 16, 72, false), time_all(&b, t, o, "flash cudnn");
    }
    if (WANTED(attention)) { /* Gemma 3 4B, and Gemma 2 9B with its cap */
        cuda_bench_attention(&b, 1, 1, 4096, 8, 4, 256, true), time_all(&b, t, o, "decode");
        cuda_bench_attention(&b, 1, 1, 32768, 8, 4, 256, true), time_all(&b, t, o, "decode");
        cuda_bench_attention(&b, 1, 2048, 2048, 8, 4, 256, true), time_all(&b, t, o, "flash cudnn");
        cuda_bench_attention(&b, 1, 8192, 8192, 8, 4, 256, true), time_all(&b, t, o, "flash cudnn");
        cuda_bench_capped_attention(&b, 1, 4096, 16, 8, 256), time_all(&b, t, o, "decode");
        cuda_bench_capped_attention(&b, 4096, 4096, 16, 8, 256), time_all(&b, t, o, "flash");
    }
    static const struct {
        check_op op;
        int64_t rows, n;
    } elementwise[] = {
        {CHECK_rmsnorm, 1, 3584},
        {CHECK_rmsnorm, 16384, 3584},
        {CHECK_rmsnorm, 8192, 8192},
        {CHECK_layernorm, 577 * 32, 1024},
        {CHECK_rope, 1, 3584},
        {CHECK_rope, 16384, 3584},
        {CHECK_swiglu, 1, 18944},
        {CHECK_swiglu, 8192, 18944},
        {CHECK_kv_store, 16384, 512},
        {CHECK_embed, 16384, 3584},
        {CHECK_gather_rows, 16384, 3584},
        {CHECK_blend_rows, 16384, 3584},
        {CHECK_scale_add, 1025 * 32, 1024},
        {CHECK_causal_conv, 1, 8192},
        {CHECK_causal_conv, 2048, 8192},
        {CHECK_delta_rule, 1, 4096},
        {CHECK_delta_rule, 2048, 4096},
        {CHECK_scatter_rows, 16384, 3584},
        {CHECK_pool_tokens, 576 * 128, 3584},
    };
    for (size_t i = 0; i < SAC_COUNT(elementwise); i++)
        if (!o->op || strcmp(o->op, check_op_name(elementwise[i].op)) == 0)
            ROW(cuda_bench_elementwise(&b, elementwise[i].op, elementwise[i].rows, elementwise[i].n));
    if (WANTED(patchify)) ROW(cuda_bench_patchify(&b, 128));
    if (WANTED(key_scores)) {
        ROW(cuda_bench_scores(&b, 8192, 1, false));
        ROW(cuda_bench_scores(&b, 131072, 1, false));
        ROW(cuda_bench_scores(&b, 131072, 1, true));
        ROW(cuda_bench_scores(&b, 131072, 16, false));
    }
    if (WANTED(softmax))
        ROW(cuda_bench_vote(&b, CHECK_softmax, 1, 131072)),
            ROW(cuda_bench_vote(&b, CHECK_softmax, 16, 131072));
    if (WANTED(soft_vote))
        ROW(cuda_bench_vote(&b, CHECK_soft_vote, 1, 131072)),
            ROW(cuda_bench_vote(&b, CHECK_soft_vote, 16, 131072));
    if (WANTED(attention_sums))
        ROW(cuda_bench_sums(&b, 32768, 128, 1)), ROW(cuda_bench_sums(&b, 131072, 128, 4));
    if (WANTED(kv_gather))
        ROW(cuda_bench_gather(&b, 131072, 2, 1)), ROW(cuda_bench_gather(&b, 131072, 64, 4));
    if (WANTED(attention)) {
        cuda_bench_listed_attention(&b, 131072, 64, 4), time_all(&b, t, o, "decode uneven");
        cuda_bench_listed_attention(&b, 131072, 8, 1), time_all(&b, t, o, "decode uneven");
    }
    if (WANTED(top_k)) {
        ROW(cuda_bench_choice(&b, CHECK_top_k, 1, 131072, 2048));
        ROW(cuda_bench_choice(&b, CHECK_top_k, 4, 131072, 2048));
        ROW(cuda_bench_choice(&b, CHECK_top_k, 28, 32768, 2048));
        ROW(cuda_bench_choice(&b, CHECK_top_k, 16, 131072, 2048));
    }
    for (int rows = 1; WANTED(largest) && rows <= 64; rows *= 4) ROW(cuda_bench_largest(&b, rows, 151936));
    for (int rows = 1; WANTED(weigh_scores) && rows <= 64; rows *= 4) ROW(cuda_bench_weights(&b, rows, 151936));
    for (int rows = 1; WANTED(edit_scores) && rows <= 64; rows *= 4) ROW(cuda_bench_edits(&b, rows, 151936));
    for (int rows = 1; WANTED(top_k) && rows <= 64; rows *= 4) ROW(cuda_bench_choice(&b, CHECK_top_k, rows, 151936, 1024));
    if (WANTED(top_p))
        ROW(cuda_bench_choice(&b, CHECK_top_p, 28, 8192, 95)),
            ROW(cuda_bench_choice(&b, CHECK_top_p, 28, 131072, 95)),
            ROW(cuda_bench_choice(&b, CHECK_top_p, 28, 8192, -95)),
            ROW(cuda_bench_choice(&b, CHECK_top_p, 28, 131072, -95));
    if (WANTED(page_bounds)) ROW(cuda_bench_pages(&b, CHECK_page_bounds, 131072));
    if (WANTED(page_scores)) ROW(cuda_bench_pages(&b, CHECK_page_scores, 131072));
    if (WANTED(channel_sums)) ROW(cuda_bench_channel_sums(&b, 32768));
    if (WANTED(pick_channels)) ROW(cuda_bench_labels(&b, 131072));
    if (WANTED(packed_scores)) {
        ROW(cuda_bench_packed_scores(&b, 8192, 0));
        ROW(cuda_bench_packed_scores(&b, 131072, 0));
        ROW(cuda_bench_packed_scores(&b, 131072, 2688));
    }
    if (WANTED(packed_vote)) {
        ROW(cuda_bench_packed_vote(&b, 8192));
        ROW(cuda_bench_packed_vote(&b, 32768));
        ROW(cuda_bench_packed_vote(&b, 131072));
        ROW(cuda_bench_packed_vote(&b, 1 << 20));
    }
    if (WANTED(selection)) { /* a chain of ops, named here only */
        fill_arena(&b);      /* what others have written there are no keys */
        ROW(cuda_bench_selection(&b, 131072, 2048, 4, false));
        fill_arena(&b);
        ROW(cuda_bench_selection(&b, 131072, 2048, 4, true));
        fill_arena(&b);
        ROW(cuda_bench_selection(&b, 131072, 2048, 16, false));
    }
    static const int64_t prompts[] = {16384, 32768, 65536, 131072, 200000};
    for (size_t i = 0; WANTED(prefill_selection) && i < SAC_COUNT(prompts); i++) {
        cuda_bench_prefill_selection(&b, prompts[i]), time_chain(&b, t, o);
        ROW(cuda_bench_unturn(&b, prompts[i]));
    }
    if (WANTED(kept_rows)) {
        ROW(cuda_bench_kept_rows(&b, 8192, 4));
        ROW(cuda_bench_kept_rows(&b, 131072, 4));
        ROW(cuda_bench_kept_rows(&b, 131072, 28));
    }
    if (WANTED(qkv_step)) ROW(cuda_bench_qkv_step(&b));
    for (int64_t rows = 1; WANTED(gate_up_step) && rows <= 8; rows *= 2)
        ROW(cuda_bench_gate_up_step(&b, rows));
    if (WANTED(packed_step)) {
        ROW(cuda_bench_packed_step(&b, 8192));
        ROW(cuda_bench_packed_step(&b, 32768));
        ROW(cuda_bench_packed_step(&b, 131072));
    }
    if (WANTED(attention_many))
        ROW(cuda_bench_attention_many(&b, 8, 1024)), ROW(cuda_bench_attention_many(&b, 8, 32768));
    if (WANTED(even_step)) {
        ROW(cuda_bench_even_step(&b, 8192));
        ROW(cuda_bench_even_step(&b, 32768));
        ROW(cuda_bench_even_step(&b, 131072));
    }
    if (WANTED(even_factors)) {
        ROW(cuda_bench_pack_even(&b, 128, true));
        ROW(cuda_bench_pack_even(&b, 131072, true));
    }
    if (WANTED(pack_even)) {
        ROW(cuda_bench_pack_even(&b, 128, false));
        ROW(cuda_bench_pack_even(&b, 131072, false));
    }
    if (WANTED(packed_step_many)) ROW(cuda_bench_packed_step_many(&b, 8, 32768));
    if (WANTED(pack_rows)) {
        ROW(cuda_bench_pack_rows(&b, 131072));
        ROW(cuda_bench_pack_keys(&b, 131072, 1));
        ROW(cuda_bench_pack_keys(&b, 131072, 131072));
    }
    w->device->free(w->device, b.arena);
    return 0;
}
