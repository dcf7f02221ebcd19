/* cuda_large.c - prefill of whole prompts, where the slot cuts queries into pieces and makes plans for
 * lengths: each element beside the flash kernel's, which the small cases have compared with the reference. */
#include "cuda_twin.h"

#include <math.h>
#include <stdlib.h>

enum { HEADS = 4, D = 128, COLS = HEADS * D };

typedef struct prompt {
    int64_t n, first; /* queries; keys before them */
} prompt;

static uint16_t *random_halves(int64_t n, uint64_t *rng) {
    uint16_t *x = malloc((size_t)n * 2);
    for (int64_t i = 0; i < n; i++)
        x[i] = sac_f32_to_bf16((float)((double)(check_rand(rng) >> 11) * 0x1p-52 - 1));
    return x;
}

/* Largest difference; both are averages of numbers below 1, rounded to bf16. */
static double worst_difference(const uint16_t *x, const uint16_t *y, int64_t n) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)sac_bf16_to_f32(x[i]) - (double)sac_bf16_to_f32(y[i]));
        if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

static double compare(cuda_twin *w, const sac_ops *t, prompt p) {
    const sac_device *d = w->device;
    uint64_t rng = 7;
    int64_t n_kv = p.first + p.n, n_q = p.n * COLS, n_k = n_kv * D; /* one key-value head */
    uint16_t *q = random_halves(n_q, &rng), *k = random_halves(2 * n_k, &rng),
             *o[2] = {malloc((size_t)n_q * 2), malloc((size_t)n_q * 2)};
    uint8_t *mq = w->memory, *mk = mq + (size_t)n_q * 2, *mo = mk + (size_t)n_k * 4;
    sac_attention_args a = {.n_q = p.n,
                            .n_kv = n_kv,
                            .first = p.first,
                            .n_batch = 1,
                            .n_heads = HEADS,
                            .scale = 0.3f,
                            .causal = true};
    a.q = (sac_mat){mq, p.n, COLS, COLS, SAC_DTYPE_BF16};
    a.o = (sac_mat){mo, p.n, COLS, COLS, SAC_DTYPE_BF16};
    a.kv = (sac_kv_view){.k = mk,
                         .v = mk + n_k * 2,
                         .dtype = SAC_DTYPE_BF16,
                         .n_heads = 1,
                         .head_dim = D,
                         .n_rows = n_kv,
                         .row_stride = D,
                         .head_stride = D};
    double worst = INFINITY;
    if ((size_t)(mo - w->memory) + (size_t)n_q * 2 <= w->image_bytes) {
        d->upload(&w->stream, mq, q, (size_t)n_q * 2);
        d->upload(&w->stream, mk, k, (size_t)n_k * 4);
        sac_status st = t->attention(&w->stream, &a);
        d->download(&w->stream, o[0], mo, (size_t)n_q * 2);
        if (st == SAC_OK) st = sac_cuda_attention_flash(&w->stream, &a);
        d->download(&w->stream, o[1], mo, (size_t)n_q * 2);
        if (st == SAC_OK && d->stream_sync(&w->stream, NULL) == SAC_OK)
            worst = worst_difference(o[0], o[1], n_q);
    }
    free(q);
    free(k);
    free(o[0]);
    free(o[1]);
    return worst;
}

int cuda_check_large(cuda_twin *w, const sac_ops *t) {
    static const prompt prompts[] = {{9300, 0}, {16384, 1000}, {40000, 70}};
    int n_bad = 0;
    for (size_t i = 0; i < SAC_COUNT(prompts); i++) {
        double worst = compare(w, t, prompts[i]);
        bool ok = worst <= 4 * 0x1p-8; /* two results rounded, of weights rounded */
        printf("attention, %lld queries after %lld: largest difference to flash %.3g %s\n",
               (long long)prompts[i].n, (long long)prompts[i].first, worst, ok ? "ok" : "FAILED");
        n_bad += !ok;
    }
    return n_bad;
}
