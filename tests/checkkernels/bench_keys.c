/* bench_keys.c - rows of the ops that read keys for a choice of rows, and of the selections.
 *
 * Keys: {type, mode, heads, kv heads, d, rows of the cache, lists or sums, every n-th row or diagonals};
 * mode: probes of attention_sums, otherwise 1 for keys turned back. top_k, top_p, softmax, soft_vote: {rows,
 * n, k}. */
#include "bench.h"

#include <math.h>

/* Every n-th row on average, the same number in each list, scattered. */
static const sac_row_lists *scattered(bench *b, int n_lists, int64_t n_rows, int64_t every) {
    int64_t n = n_rows / every;
    int32_t *rows = bench_pages((size_t)(n_lists * n) * sizeof *rows);
    int64_t *start = bench_pages(((size_t)n_lists + 1) * sizeof *start);
    for (int i = 0; i < n_lists; i++) {
        start[i + 1] = start[i] + n;
        for (int64_t j = 0; j < n; j++)
            rows[start[i] + j] = (int32_t)(j * every + check_rand_int(&b->c, 0, every - 1));
    }
    b->c.lists = (sac_row_lists){rows, start, n_lists};
    return &b->c.lists;
}

static const sac_rotation *angles(bench *b, int64_t n, int64_t d) {
    b->c.rotation = (sac_rotation){bench_floats(b, n * d), (int)d, false, 1};
    return &b->c.rotation;
}

static void bench_gather(bench *b, const int64_t a[8], sac_kv_view kv) {
    const sac_row_lists *l = scattered(b, (int)a[6], a[5], a[7]);
    int64_t n = l->start[1], d = a[4];
    sac_kv_view dst = {.dtype = a[1] ? SAC_DTYPE_F32 : kv.dtype, .n_heads = kv.n_heads, .head_dim = (int)d};
    dst.n_rows = n;
    dst.row_stride = d;
    dst.head_stride = n * d;
    size_t to_bytes = sac_dtype_row_bytes(dst.dtype, n * d * a[3]);
    dst.k = bench_pages(to_bytes);
    dst.v = bench_pages(to_bytes);
    b->c.kv_gather = (sac_kv_gather_args){.dst = dst, .src = kv, .lists = l};
    b->bytes = 2 * ((double)to_bytes + (double)sac_dtype_row_bytes(kv.dtype, n * d * a[3]));
    if (!a[1]) return;
    int32_t *turn = bench_pages((size_t)n * sizeof *turn);
    for (int64_t i = 0; i < n; i++) turn[i] = l->rows[i] - (int32_t)i;
    b->c.kv_gather.turn_back = turn;
    b->c.kv_gather.rotation = angles(b, a[5], d);
}

static void bench_sums(bench *b, const int64_t a[8], sac_kv_view kv) {
    int64_t n_q = a[1], n = a[5], cols = a[2] * a[4];
    sac_attention_sums_args *s = &b->c.attention_sums;
    *s = (sac_attention_sums_args){.sums = bench_floats(b, a[6] * n),
                                   .stride = n,
                                   .n_sums = (int)a[6],
                                   .q = sac_mat_f32(bench_floats(b, n_q * cols), n_q, cols),
                                   .first = n - n_q,
                                   .kv = kv,
                                   .n_kv = n,
                                   .n_heads = (int)a[2],
                                   .scale = 0.1f};
    if (a[7]) {
        s->diagonals = bench_floats(b, a[6] * n);
        s->n_diagonals = n;
    }
    /* two passes of products */
    b->flops = 4.0 * (double)cols * (double)n_q * ((double)n - (double)n_q / 2 + 0.5);
    b->bytes = n_q == 1 ? (double)b->copy_bytes : 0; /* half of the copy is keys, read twice */
}

static void bench_attention_lists(bench *b, const int64_t a[8], sac_kv_view kv) {
    int64_t cols = a[2] * a[4], kept = a[5] / a[7];
    b->c.attention = (sac_attention_args){.o = sac_mat_f32(bench_floats(b, cols), 1, cols),
                                          .q = sac_mat_f32(bench_floats(b, cols), 1, cols),
                                          .kv = kv,
                                          .lists = scattered(b, (int)a[6], a[5], a[7]),
                                          .n_q = 1,
                                          .first = a[5] - 1,
                                          .n_batch = 1,
                                          .n_heads = (int)a[2],
                                          .scale = 0.1f,
                                          .causal = true};
    int64_t readers = a[6] > a[3] ? a[2] : a[3]; /* lists that are read, each from its own key-value head */
    b->bytes = 2 * (double)sac_dtype_row_bytes(kv.dtype, kept * a[4]) * (double)readers;
    b->flops = 4.0 * (double)(kept * cols);
}

static void bench_scores(bench *b, const int64_t a[8], sac_kv_view kv) {
    int64_t cols = a[2] * a[4], kept = a[6] ? a[5] / a[7] : a[5];
    b->c.key_scores = (sac_key_scores_args){.scores = bench_floats(b, a[2] * a[5]),
                                            .stride = a[5],
                                            .q = bench_floats(b, cols),
                                            .kv = kv,
                                            .n_heads = (int)a[2],
                                            .n = a[5],
                                            .scale = 0.1f};
    if (a[6]) b->c.key_scores.lists = scattered(b, (int)a[6], a[5], a[7]);
    if (a[1]) b->c.key_scores.back = angles(b, a[5], a[4]);
    int64_t readers = a[6] > a[3] ? a[2] : a[3];
    b->bytes =
        (double)sac_dtype_row_bytes(kv.dtype, kept * a[4]) * (double)readers + 4.0 * (double)(kept * a[2]);
    b->flops = 2.0 * (double)(kept * cols);
}

static void bench_select(bench *b, check_op op, int64_t rows, int64_t n, int64_t k) {
    float *x = bench_floats(b, rows * n);
    b->bytes = 4.0 * (double)(rows * n);
    if (op == CHECK_top_k) {
        int32_t *found = bench_pages((size_t)(rows * k) * sizeof *found);
        b->c.top_k = (sac_top_k_args){x, n, n, (int)rows, k, found, NULL};
        return;
    }
    if (op == CHECK_largest) {
        b->c.largest = (sac_largest_args){x, n, n, (int)rows, bench_pages((size_t)rows * 4), bench_floats(b, rows)};
        return;
    }
    if (op == CHECK_weigh_scores) {
        float *of_rows = bench_floats(b, 3 * rows);
        double *sums = bench_pages((size_t)rows * 16);
        for (int64_t i = 0; i < rows; i++) of_rows[i] = of_rows[rows + i] = 1, sums[i] = 0.7;
        b->c.weigh_scores = (sac_weigh_scores_args){x,    n,           n,                              (int)rows,          of_rows, of_rows + rows,
                                                    sums, sums + rows, bench_pages((size_t)rows * 4), of_rows + 2 * rows};
        return;
    }
    if (op == CHECK_softmax || op == CHECK_soft_vote) {
        float *lse = bench_floats(b, rows);
        b->c.softmax = (sac_softmax_args){x, n, n, NULL, (int)rows, lse, NULL, NULL};
        if (op == CHECK_soft_vote)
            b->c.soft_vote = (sac_soft_vote_args){x, n, n, (int)rows, lse, bench_floats(b, n), 1, NULL};
        return;
    }
    for (int64_t i = 0; i < rows * n; i++) x[i] = expf(10 * x[i]);
    b->c.top_p = (sac_top_p_args){
        x, NULL, n, n, (int)rows, 0.9, bench_pages((size_t)rows * 4), bench_pages((size_t)rows * 8), false};
}

void bench_keys(bench *b, check_op op, const int64_t a[8]) {
    b->c.op = op;
    if (op == CHECK_top_k || op == CHECK_top_p || op == CHECK_softmax || op == CHECK_soft_vote || op == CHECK_largest ||
        op == CHECK_weigh_scores) {
        bench_select(b, op, a[0], a[1], a[2]);
        return;
    }
    sac_dtype t = (sac_dtype)a[0];
    b->first_copy = bench_copies(b, t, 2 * a[5], a[3] * a[4], op != CHECK_attention_sums || a[1] == 1);
    sac_kv_view kv = {.dtype = t, /* [head][row][d], as the cache has it */
                      .n_heads = (int)a[3],
                      .head_dim = (int)a[4],
                      .n_rows = a[5],
                      .row_stride = a[4],
                      .head_stride = a[5] * a[4]};
    switch ((int)op) {
    case CHECK_attention: bench_attention_lists(b, a, kv); break;
    case CHECK_key_scores: bench_scores(b, a, kv); break;
    case CHECK_attention_sums: bench_sums(b, a, kv); break;
    default: bench_gather(b, a, kv); break;
    }
}
