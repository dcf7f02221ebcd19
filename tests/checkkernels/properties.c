/* properties.c - what must hold of results whatever the reference says: an error that reference and variants
 * share shows here. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct property_test {
    const sac_ops *t;
    const sac_stream *s;
    check_case c; /* its random numbers and buffers */
    int n_bad;
    char *text;
} property_test;

static void expect(property_test *p, bool holds, const char *what, double got, double want) {
    if (holds) return;
    if (!p->n_bad++) snprintf(p->text, 160, "%s: %.9g, want %.9g", what, got, want);
}
static void expect_near(property_test *p, const char *what, double got, double want, double allowed) {
    expect(p, fabs(got - want) <= allowed, what, got, want);
}

enum { N_KEYS = 700, N_HEADS = 6, N_KV_HEADS = 2, D = 64, N_COLS = N_HEADS * D };

static sac_kv_view random_kv(property_test *p) {
    check_kv_shape shape = {
        .dtype = SAC_DTYPE_F16, .n_heads = N_KV_HEADS, .head_dim = D, .n_rows = N_KEYS, .n_valid = N_KEYS};
    return check_kv(&p->c, &shape, NULL, NULL);
}

/* Attention over two halves of the keys, joined by the logarithms of their denominators, is attention over
 * all of them. */
static void attention_joins(property_test *p) {
    enum { N_Q = 5 };
    check_case *c = &p->c;
    sac_mat q = check_mat(c, false, N_Q, N_COLS, 0, 0, CHECK_UNIFORM), o[3];
    float *lse[3];
    int32_t *rows = check_buffer_add(c, false, SAC_DTYPE_F32, 1, N_KEYS, N_KEYS, 0);
    int64_t n[2] = {0, 0}, start[2][2] = {{0, 0}, {0, 0}};
    for (int64_t i = 0; i < N_KEYS; i++) /* one part from the front, the other from the back */
        if (check_rand_int(c, 0, 2)) rows[n[0]++] = (int32_t)i;
    int32_t *rest = check_buffer_add(c, false, SAC_DTYPE_F32, 1, N_KEYS, N_KEYS, 0);
    for (int64_t i = 0, j = 0; i < N_KEYS; i++)
        if (j < n[0] && rows[j] == i)
            j++;
        else
            rest[n[1]++] = (int32_t)i;
    start[0][1] = n[0];
    start[1][1] = n[1];
    sac_row_lists lists[2] = {{rows, start[0], 1}, {rest, start[1], 1}};
    sac_attention_args a = {.q = q,
                            .kv = random_kv(p),
                            .n_q = N_Q,
                            .n_kv = N_KEYS,
                            .first = N_KEYS - N_Q,
                            .n_batch = 1,
                            .n_heads = N_HEADS,
                            .scale = 0.3f,
                            .causal = true};
    for (int i = 0; i < 3; i++) {
        a.o = o[i] = check_mat(c, false, N_Q, N_COLS, 0, 0, CHECK_UNIFORM);
        a.lse = lse[i] = check_mat(c, false, N_Q, N_HEADS, 0, 0, CHECK_UNIFORM).data;
        a.lists = i ? &lists[i - 1] : NULL;
        p->t->attention(p->s, &a);
    }
    for (int64_t i = 0; i < (int64_t)N_Q * N_COLS; i++) {
        int64_t h = i / D;
        double whole = (double)lse[0][h], left = exp((double)lse[1][h] - whole);
        double right = exp((double)lse[2][h] - whole);
        expect_near(p, "the weights of two halves add up", left + right, 1, 1e-5);
        double joined = left * (double)((float *)o[1].data)[i] + right * (double)((float *)o[2].data)[i];
        expect_near(p, "two halves joined", joined, (double)((float *)o[0].data)[i], 1e-5);
    }
}

/* Scores and lse of one query give the sums; all of a probe's attention is somewhere, by key and by distance.
 */
static void sums_add_up(property_test *p) {
    enum { N_Q = 40 };
    check_case *c = &p->c;
    sac_kv_view kv = random_kv(p);
    sac_mat q = check_mat(c, false, N_Q, N_COLS, 0, 0, CHECK_UNIFORM);
    sac_mat sums = check_mat(c, false, N_KV_HEADS, N_KEYS, 0, 0, CHECK_UNIFORM);
    sac_mat by_distance = check_mat(c, false, N_KV_HEADS, N_KEYS, 0, 0, CHECK_UNIFORM);
    sac_attention_sums_args a = {.sums = sums.data,
                                 .stride = N_KEYS,
                                 .n_sums = N_KV_HEADS,
                                 .q = q,
                                 .first = N_KEYS - N_Q,
                                 .kv = kv,
                                 .n_kv = N_KEYS,
                                 .n_heads = N_HEADS,
                                 .scale = 0.3f,
                                 .diagonals = by_distance.data,
                                 .n_diagonals = N_KEYS};
    p->t->attention_sums(p->s, &a);
    for (int set = 0; set < N_KV_HEADS; set++) {
        double total[2] = {0, 0}, want = (double)N_Q * N_HEADS / N_KV_HEADS;
        for (int64_t i = 0; i < N_KEYS; i++) {
            total[0] += (double)sac_mat_row_f32(sums, set)[i];
            total[1] += (double)sac_mat_row_f32(by_distance, set)[i];
        }
        expect_near(p, "attention over all keys", total[0], want, 1e-4 * want);
        expect_near(p, "attention over all distances", total[1], want, 1e-4 * want);
    }

    int32_t last = N_Q - 1;
    a.probes = &last;
    a.n_probes = 1;
    a.n_diagonals = 0;
    p->t->attention_sums(p->s, &a);
    float lse[N_HEADS];
    sac_mat row = sac_mat_rows(q, N_Q - 1, 1), o = check_mat(c, false, 1, N_COLS, 0, 0, CHECK_UNIFORM);
    sac_mat scores = check_mat(c, false, N_HEADS, N_KEYS, 0, 0, CHECK_UNIFORM);
    p->t->attention(p->s, &(sac_attention_args){.o = o,
                                                .q = row,
                                                .kv = kv,
                                                .lse = lse,
                                                .n_q = 1,
                                                .n_kv = N_KEYS,
                                                .n_batch = 1,
                                                .n_heads = N_HEADS,
                                                .scale = 0.3f});
    p->t->key_scores(p->s, &(sac_key_scores_args){.scores = scores.data,
                                                  .stride = N_KEYS,
                                                  .q = row.data,
                                                  .kv = kv,
                                                  .n_heads = N_HEADS,
                                                  .n = N_KEYS,
                                                  .scale = 0.3f});
    for (int64_t i = 0; i < N_KEYS; i++) {
        double want = 0;
        for (int h = 0; h < N_HEADS / N_KV_HEADS; h++)
            want += exp((double)sac_mat_row_f32(scores, h)[i] - (double)lse[h]);
        expect_near(p, "attention of one query from its scores", (double)sac_mat_row_f32(sums, 0)[i], want,
                    1e-5 * want);
    }
}

/* Keys turned by rope and gathered back are what they were; their scores are those of unturned keys. */
static void turns_undo(property_test *p) {
    enum { N = 50 };
    check_case *c = &p->c;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        const float factor = 1.25f;
        float *table = check_mat(c, false, N, D, 0, 0, CHECK_UNIFORM).data;
        for (int i = 0; i < N * D; i += 2) {
            double angle = 6.28 * check_rand_unit(c);
            table[i] = (float)cos(angle) * factor;
            table[i + 1] = (float)sin(angle) * factor;
        }
        sac_rotation r = {table, D, interleaved, factor};
        sac_mat k = check_mat(c, false, N, D, 0, 0, CHECK_UNIFORM), turned = k;
        turned.data = memcpy(check_mat(c, false, N, D, 0, 0, CHECK_UNIFORM).data, k.data, N * D * 4);
        int32_t *pos = check_buffer_add(c, false, SAC_DTYPE_F32, 1, N, N, 0);
        int64_t start[2] = {0, N};
        for (int32_t i = 0; i < N; i++) pos[i] = i;
        p->t->rope(p->s, &(sac_rope_args){turned, 1, D, r, pos, false});

        sac_kv_view src = {.k = turned.data,
                           .v = turned.data,
                           .dtype = SAC_DTYPE_F32,
                           .n_heads = 1,
                           .head_dim = D,
                           .n_rows = N,
                           .row_stride = D,
                           .head_stride = D},
                    dst = src;
        dst.k = dst.v = check_mat(c, false, N, D, 0, 0, CHECK_UNIFORM).data;
        sac_row_lists all = {pos, start, 1};
        p->t->kv_gather(
            p->s,
            &(sac_kv_gather_args){
                .dst = dst, .src = src, .lists = &all, .turn_back = pos, .rotation = &r, .keys_only = true});
        float scores[N];
        p->t->key_scores(p->s, &(sac_key_scores_args){.scores = scores,
                                                      .stride = N,
                                                      .q = k.data,
                                                      .kv = src,
                                                      .n_heads = 1,
                                                      .n = N,
                                                      .scale = 1,
                                                      .back = &r});
        p->t->rope(p->s, &(sac_rope_args){turned, 1, D, r, pos, true});
        for (int i = 0; i < N; i++) { /* the attention factor stays with the keys */
            double want = 0;
            for (int j = 0; j < D; j++) {
                double was = (double)factor * (double)((float *)k.data)[i * D + j];
                expect_near(p, "turned and turned back", (double)((float *)turned.data)[i * D + j], was,
                            1e-5);
                expect_near(p, "turned and gathered back", (double)((float *)dst.k)[i * D + j], was, 1e-5);
                want += was * (double)((float *)k.data)[j];
            }
            expect_near(p, "score of a key turned back", (double)scores[i], want, 1e-4);
        }
    }
}

/* The best k: as many, ascending, and none left out is better than the worst of them. */
static void top_k_selects(property_test *p) {
    enum { N = 5000, K = 700 };
    float *scores = check_mat(&p->c, false, 1, N, 0, 0, CHECK_UNIFORM).data, worst = INFINITY,
          best_out = -INFINITY;
    int32_t found[K];
    for (int i = 0; i < N; i++) scores[i] = floorf(scores[i] * 100) / 100;
    p->t->top_k(p->s, &(sac_top_k_args){scores, N, N, 1, K, found, NULL});
    for (int i = 0, j = 0; i < N; i++) {
        bool in = j < K && found[j] == i;
        if (in) worst = fminf(worst, scores[i]);
        if (!in) best_out = fmaxf(best_out, scores[i]);
        j += in;
        if (i == N - 1) expect(p, j == K, "number of the best", j, K);
    }
    expect(p, worst >= best_out, "the worst of the best", (double)worst, (double)best_out);
}

/* What is kept weighs enough, and without its lightest class it would not. */
static void top_p_is_least(property_test *p) {
    enum { N = 5000 };
    float *w = check_mat(&p->c, false, 1, N, 0, 0, CHECK_UNIFORM).data, threshold;
    int64_t n_kept;
    double total = 0, kept = 0, above = 0, number = 0;
    for (int i = 0; i < N; i++) w[i] = expf(10 * w[i]);
    p->t->top_p(p->s, &(sac_top_p_args){w, NULL, N, N, 1, 0.9, &threshold, &n_kept, false});
    for (int i = 0; i < N; i++) {
        total += (double)w[i];
        number += w[i] >= threshold;
        if (w[i] >= threshold) kept += (double)w[i];
        if (w[i] > threshold) above += (double)w[i];
    }
    expect(p, number == (double)n_kept, "number kept", (double)n_kept, number);
    expect(p, kept >= 0.9 * total * (1 - 1e-12), "weight kept", kept, 0.9 * total);
    expect(p, above < 0.9 * total, "weight without the lightest", above, 0.9 * total);
}

/* Scores, their softmaxes' sums and the vote over them, one after the other, come to the same. */
static void vote_is_of_scores(property_test *p) {
    check_case *c = &p->c;
    expect(p, check_make_packed_vote(c, 0, true), "no case", 0, 1);
    sac_packed_vote_args *a = &c->packed_vote;
    float *scores = check_mat(c, false, a->n_heads, a->n, 0, 0, CHECK_UNIFORM).data,
          *lse = check_mat(c, false, 1, a->n_heads, 0, 0, CHECK_UNIFORM).data,
          *votes = check_mat(c, false, 1, a->n, 0, 0, CHECK_UNIFORM).data;
    p->t->packed_vote(p->s, a);
    p->t->packed_scores(p->s, &(sac_packed_scores_args){.scores = scores,
                                                        .stride = a->n,
                                                        .n = a->n,
                                                        .q = a->q,
                                                        .keys = a->keys,
                                                        .n_heads = a->n_heads,
                                                        .scale = a->scale,
                                                        .first = a->first,
                                                        .lse = lse});
    p->t->soft_vote(
        p->s,
        &(sac_soft_vote_args){
            .scores = scores, .stride = a->n, .n = a->n, .n_rows = a->n_heads, .lse = lse, .votes = votes});
    for (int64_t i = 0; i < a->n; i++) expect_near(p, "vote", (double)a->votes[i], (double)votes[i], 1e-4);
}

static sac_mat product_of(property_test *p, sac_mat x, sac_weight w, const float *bias) {
    sac_mat y = check_mat(&p->c, false, x.rows, w.tensor.dim[0], 0, 0, CHECK_UNIFORM);
    p->t->linear(p->s, &(sac_linear_args){.y = y, .x = x, .w = w, .bias = bias});
    return y;
}

static sac_mat norm_of(property_test *p, sac_mat x, const float *w, float eps) {
    sac_mat y = check_mat(&p->c, false, x.rows, x.cols, 0, 0, CHECK_UNIFORM);
    p->t->rmsnorm(p->s, &(sac_rmsnorm_args){y, x, w, eps});
    return y;
}

/* Every row is norm, products and swiglu, one after the other. */
static void gate_is_of_parts(property_test *p) {
    const sac_gate_up_step_args *a = &p->c.gate_up_step;
    expect(p, check_make_step_of(&p->c, CHECK_STEP_SHAPES + 1, SAC_DTYPE_F32), "no case", 0, 1);
    p->t->gate_up_step(p->s, a);
    sac_mat x = norm_of(p, a->x, a->norm, a->eps), gate = product_of(p, x, a->gate, NULL),
            up = product_of(p, x, a->up, NULL);
    p->t->swiglu(p->s, &(sac_swiglu_args){.y = gate, .gate = gate, .up = up});
    for (int64_t i = 0; i < a->y.rows; i++)
        for (int64_t j = 0; j < a->y.cols; j++)
            expect_near(p, "gate", (double)sac_mat_row_f32(a->y, i)[j], (double)sac_mat_row_f32(gate, i)[j],
                        1e-4);
}

/* Product, norm, gate and up, swiglu and the last product, one after the other. */
static void out_is_of_parts(property_test *p) {
    const sac_out_step_args *a = &p->c.out_step;
    expect(p, check_make_step_of(&p->c, 2, SAC_DTYPE_F32), "no case", 0, 1);
    sac_mat h = check_mat(&p->c, false, a->x.rows, a->x.cols, 0, 0, CHECK_UNIFORM);
    for (int64_t i = 0; i < h.rows; i++)
        memcpy(sac_mat_row_f32(h, i), sac_mat_row_f32(a->x, i), (size_t)h.cols * sizeof(float));
    p->t->out_step(p->s, a);
    p->t->linear(p->s,
                 &(sac_linear_args){.y = h, .x = a->o, .w = a->wo, .bias = a->o_bias, .accumulate = true});
    sac_mat x = norm_of(p, h, a->norm, a->eps), gate = product_of(p, x, a->gate, NULL),
            up = product_of(p, x, a->up, NULL);
    p->t->swiglu(p->s, &(sac_swiglu_args){.y = gate, .gate = gate, .up = up});
    p->t->linear(p->s, &(sac_linear_args){.y = h, .x = gate, .w = a->down, .accumulate = true});
    for (int64_t i = 0; i < h.rows; i++) {
        for (int64_t j = 0; j < gate.cols; j++)
            expect_near(p, "wide", (double)sac_mat_row_f32(a->wide, i)[j],
                        (double)sac_mat_row_f32(gate, i)[j], 1e-4);
        for (int64_t j = 0; j < h.cols; j++)
            expect_near(p, "x", (double)sac_mat_row_f32(a->x, i)[j], (double)sac_mat_row_f32(h, i)[j], 1e-3);
    }
}

/* Norm, products and rotation, one after the other. */
static void qkv_is_of_parts(property_test *p) {
    const sac_qkv_step_args *a = &p->c.qkv_step;
    expect(p, check_make_step_of(&p->c, 1, SAC_DTYPE_F32), "no case", 0, 1);
    p->t->qkv_step(p->s, a);
    sac_mat x = norm_of(p, a->x, a->norm, a->eps), q = product_of(p, x, a->wq, a->q_bias),
            k = product_of(p, x, a->wk, a->k_bias), v = product_of(p, x, a->wv, a->v_bias);
    int d = a->kv.head_dim;
    p->t->rope(p->s, &(sac_rope_args){q, a->n_heads, d, a->rotation, a->pos, false});
    p->t->rope(p->s, &(sac_rope_args){k, a->kv.n_heads, d, a->rotation, a->pos, false});
    for (int64_t j = 0; j < q.cols; j++)
        expect_near(p, "query", (double)sac_mat_row_f32(a->q, 0)[j], (double)sac_mat_row_f32(q, 0)[j], 1e-4);
    for (int64_t j = 0; j < k.cols; j++) {
        int64_t at = a->first * a->kv.row_stride + j / d * a->kv.head_stride + j % d;
        expect_near(p, "key", (double)((float *)a->kv.k)[at], (double)sac_mat_row_f32(k, 0)[j], 1e-4);
        expect_near(p, "value", (double)((float *)a->kv.v)[at], (double)sac_mat_row_f32(v, 0)[j], 1e-4);
    }
}

/* Rows of a sequence one by one have the bits that they have together. */
static void delta_goes_by_rows(property_test *p) {
    enum { HEADS = 2, DIM = 24, ROWS = 21, N_STATE = HEADS * DIM * DIM };
    check_case *c = &p->c;
    sac_mat y[2], x[3], gate[2];
    float *state[2], *numbers[2];
    for (int i = 0; i < 3; i++) x[i] = check_mat(c, false, ROWS, HEADS * DIM, 0, 0, CHECK_UNIFORM);
    for (int i = 0; i < 2; i++) {
        y[i] = check_mat(c, false, ROWS, HEADS * DIM, 0, 0, CHECK_UNIFORM);
        gate[i] = check_mat(c, false, ROWS, HEADS, 0, 0, CHECK_UNIFORM);
        numbers[i] = check_mat(c, false, 1, HEADS, 0, 0, CHECK_UNIFORM).data;
        state[i] = check_mat(c, false, 1, N_STATE, 0, 0, CHECK_UNIFORM).data;
        memset(state[i], 0, N_STATE * sizeof(float));
    }
    for (int i = 0; i < 2; i++)
        for (int64_t row = 0, n = i ? 1 : ROWS; row < ROWS; row += n) {
            const sac_state_rows part = {n, state[i]};
            p->t->delta_rule(p->s, &(sac_delta_rule_args){.y = sac_mat_rows(y[i], row, n),
                                                          .q = sac_mat_rows(x[0], row, n),
                                                          .k = sac_mat_rows(x[1], row, n),
                                                          .v = sac_mat_rows(x[2], row, n),
                                                          .a = sac_mat_rows(gate[0], row, n),
                                                          .b = sac_mat_rows(gate[1], row, n),
                                                          .a_log = numbers[0],
                                                          .dt_bias = numbers[1],
                                                          .n_heads = HEADS,
                                                          .n_key_heads = HEADS,
                                                          .eps = 1e-6f,
                                                          .parts = &part,
                                                          .n_parts = 1});
        }
    expect(p, !memcmp(y[0].data, y[1].data, ROWS * HEADS * DIM * sizeof(float)), "rows one by one", 1, 0);
    expect(p, !memcmp(state[0], state[1], N_STATE * sizeof(float)), "their state", 1, 0);
}

int check_properties(check_op op, const sac_ops *t, const sac_stream *s, uint64_t seed, char text[160]) {
    static void (*const tests[CHECK_N_OPS])(property_test *) = {
        [CHECK_attention] = attention_joins,
        [CHECK_attention_sums] = sums_add_up,
        [CHECK_rope] = turns_undo,
        [CHECK_key_scores] = sums_add_up,
        [CHECK_kv_gather] = turns_undo,
        [CHECK_top_k] = top_k_selects,
        [CHECK_top_p] = top_p_is_least,
        [CHECK_packed_vote] = vote_is_of_scores,
        [CHECK_gate_up_step] = gate_is_of_parts,
        [CHECK_qkv_step] = qkv_is_of_parts,
        [CHECK_out_step] = out_is_of_parts,
        [CHECK_delta_rule] = delta_goes_by_rows,
    };
    property_test p = {.t = t, .s = s, .c = {.op = op, .rng = seed}, .text = text};
    if (!tests[op]) return 0;
    tests[op](&p);
    check_case_free(&p.c);
    return p.n_bad;
}
