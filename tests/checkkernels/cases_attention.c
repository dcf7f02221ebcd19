#include "check.h"

#include <math.h>
#include <stdlib.h>

#define EPS 0x1p-24

/* One and few queries (decode), either side of tiles of rows (6, 12, 96) and keys (128), chunks of keys,
 * groups, towers, windows, lists, queries that see nothing. */
static const check_attention_shape shapes[] = {
    {1, 1, 1, -1, 1, 1, 8, true, false, 0, 0},       {1, 1, 7, -1, 3, 1, 64, true, false, 0, 0},
    {1, 1, 127, -1, 6, 2, 64, true, false, 0, 0},    {1, 1, 129, -1, 6, 2, 80, true, false, 0, 0},
    {1, 2, 300, -1, 4, 4, 128, true, false, 0, 0},   {1, 3, 65, -1, 4, 2, 96, true, false, 0, 0},
    {1, 1, 1100, -1, 6, 2, 64, true, false, 0, 0},   {1, 1, 1537, -1, 7, 1, 128, true, false, 0, 0},
    {1, 4, 700, -1, 2, 1, 64, true, false, 0, 0},    {1, 1, 600, -1, 4, 2, 64, true, false, 100, 0},
    {1, 1, 900, -1, 4, 2, 64, true, false, 0, 3},    {1, 1, 500, -1, 2, 2, 72, true, false, 300, 2},
    {1, 12, 12, 0, 6, 2, 64, true, false, 0, 0},     {1, 13, 200, -1, 6, 2, 64, true, false, 0, 0},
    {1, 33, 129, -1, 3, 1, 64, true, false, 0, 0},   {1, 97, 97, 0, 2, 2, 24, true, false, 0, 0},
    {1, 150, 150, 0, 6, 2, 64, true, false, 0, 0},   {1, 60, 400, -1, 2, 1, 80, true, false, 50, 0},
    {1, 20, 400, -1, 4, 2, 64, true, false, 0, 4},   {1, 30, 300, -1, 2, 2, 64, true, false, 64, 2},
    {1, 40, 300, 100, 2, 1, 64, true, false, 16, 0}, {1, 9, 50, -4, 2, 1, 32, true, false, 0, 0},
    {3, 64, 64, 0, 4, 4, 64, false, false, 0, 0},    {2, 65, 65, 0, 3, 3, 88, false, false, 0, 0},
    {4, 17, 17, 0, 2, 2, 16, false, false, 0, 0},    {1, 16, 640, -1, 8, 1, 64, true, false, 0, 0},
    {1, 5, 20, 0, 2, 2, 12, false, false, 0, 0},     {1, 5, 0, 0, 2, 2, 64, false, false, 0, 0},
    {1, 100, 1400, -1, 6, 2, 64, true, true, 0, 0},  {2, 257, 257, 0, 2, 2, 64, false, true, 0, 0},
    {1, 1, 9000, -1, 8, 8, 128, true, true, 0, 0},   {1, 260, 800, -1, 4, 4, 128, true, true, 300, 0},
};

/* Lists for each key-value head and each head, of unequal lengths, and the softmax's denominator. */
static const struct lists_shape {
    check_attention_shape shape;
    int n_lists; /* 0: no lists or one */
    bool lse;
    int64_t list_block;
} lists_shapes[] = {
    {{1, 150, 300, -1, 4, 2, 64, true, false, 0, 2}, 4, true, 64},
    {{1, 64, 400, 100, 4, 2, 80, true, false, 0, 3}, 2, true, 32},
    {{1, 100, 200, -1, 6, 2, 64, true, false, 70, 2}, 1, false, 37},
    {{1, 129, 129, 0, 7, 1, 128, true, false, 0, 1}, 7, true, 64},
    {{1, 9, 90, -1, 4, 2, 12, true, false, 0, 2}, 4, true, 4},
    {{1, 1, 40, -1, 7, 1, 64, true, false, 0, 2}, 7, true, 0},
    {{1, 1, 1300, -1, 8, 2, 64, true, false, 0, 1}, 2, true, 0},
    {{1, 1, 1300, -1, 8, 2, 128, true, false, 0, 2}, 8, true, 0},
    {{1, 1, 2700, -1, 28, 4, 80, true, true, 0, 1}, 4, true, 0},
    {{1, 1, 700, -1, 28, 4, 64, true, false, 200, 2}, 28, false, 0},
    {{1, 1, 5000, -1, 8, 8, 64, true, true, 0, 1}, 8, true, 0},
    {{1, 3, 900, -1, 8, 1, 64, true, false, 0, 3}, 8, true, 0},
    {{1, 17, 300, -1, 14, 2, 64, true, false, 0, 2}, 2, true, 0},
    {{1, 17, 300, -1, 14, 2, 64, true, false, 0, 2}, 14, true, 0},
    {{1, 40, 300, -1, 4, 4, 80, true, false, 70, 1}, 4, true, 0},
    {{1, 6, 100, -1, 4, 2, 12, true, false, 0, 2}, 4, true, 0},
    {{1, 1, 2100, -1, 7, 1, 128, true, false, 0, 0}, 0, true, 0},
    {{1, 30, 200, -1, 6, 2, 64, true, false, 0, 0}, 0, true, 0},
    {{1, 40, 300, 100, 2, 1, 64, true, false, 16, 0}, 0, true, 0},
    {{1, 9, 50, -4, 2, 1, 32, true, false, 0, 0}, 0, true, 0},
    {{1, 5, 0, 0, 2, 2, 64, false, false, 0, 0}, 0, true, 0},
};

/* Chunks of a prompt, each with keys of its own: neither side's rows are as far apart as the other's. */
static const check_attention_shape chunk_shapes[] = {
    {3, 20, 50, -1, 4, 2, 64, true, false, 0, 0}, {2, 70, 200, -1, 7, 1, 128, true, false, 0, 0},
    {4, 9, 9, 0, 2, 2, 12, true, false, 0, 0},    {2, 30, 90, -1, 6, 2, 80, true, false, 40, 0},
    {3, 40, 25, 0, 2, 1, 64, false, false, 0, 0},
};
/* Problems of a tower: equal ones, pictures of several sizes, windows that the picture's edge cuts (16, 12 and
 * 9 patches), either side of tiles of rows and keys, an empty one, runs of equal ones between others. */
static const struct segments_shape {
    check_attention_shape shape;
    int length[CHECK_MAX_SEGMENTS + 1]; /* up to a -1 */
} segments_shapes[] = {
    {{1, 17, 17, 0, 2, 2, 16, false, false, 0, 0}, {17, 17, 17, -1}},
    {{1, 129, 129, 0, 4, 4, 64, false, false, 0, 0}, {64, 129, 1, 97, -1}},
    {{1, 16, 16, 0, 2, 2, 80, false, false, 0, 0},
     {16, 16, 12, 16, 16, 12, 12, 12, 9, 16, 16, 12, 16, 16, 12, 12, 12, 9, -1}},
    {{1, 300, 300, 0, 2, 2, 72, false, false, 0, 0}, {300, 5, 0, 5, 128, 6, -1}},
    {{1, 1, 1, 0, 3, 3, 64, false, false, 0, 0}, {1, -1}},
};
/* In pages: either side of a page's end, pages of one row, of an odd number, longer than all. */
static const struct pages_shape {
    check_attention_shape shape;
    int page_rows;
} pages_shapes[] = {
    {{1, 1, 300, -1, 6, 2, 64, true, false, 0, 0}, 16},
    {{1, 1, 1537, -1, 7, 1, 128, true, false, 0, 0}, 128},
    {{1, 97, 97, 0, 2, 2, 24, true, false, 0, 0}, 7},
    {{1, 60, 400, -1, 2, 1, 80, true, false, 50, 0}, 48},
    {{1, 20, 400, -1, 4, 2, 64, true, false, 0, 4}, 33},
    {{1, 5, 20, 0, 2, 2, 12, true, false, 0, 0}, 6},
    {{1, 150, 256, -1, 4, 2, 64, true, false, 0, 0}, 64},
    {{1, 3, 129, -1, 4, 2, 72, true, false, 0, 3}, 1},
    {{1, 1, 40, -1, 7, 1, 64, true, false, 0, 0}, 100},
};
/* Spans that begin and end inside a tile of queries, before the first query and behind the last, longer than a window,
 * of one row, next to one another; and capped scores, of few queries and of many. */
static const sac_row_span one_span[] = {{3, 9}}, whole[] = {{0, 200}},
                          several[] = {{0, 1}, {5, 40}, {45, 3}, {90, 130}, {260, 40}};
#define SPANS(s) s, SAC_COUNT(s)
static const struct spans_shape {
    check_attention_shape shape;
    const sac_row_span *spans;
    int64_t n_spans;
    float softcap;
    int page_rows;
    bool lse;
} spans_shapes[] = {
    {{1, 16, 16, 0, 2, 1, 24, true, false, 0, 0}, SPANS(one_span), 0, 0, true},
    {{1, 16, 16, 0, 2, 1, 12, true, false, 4, 0}, SPANS(one_span), 0, 0, true},
    {{1, 150, 300, 100, 4, 2, 64, true, false, 0, 0}, SPANS(several), 0, 0, true},
    {{1, 300, 300, 0, 4, 2, 80, true, false, 60, 0}, SPANS(several), 0, 0, false},
    {{1, 3, 260, 95, 6, 2, 64, true, false, 0, 0}, SPANS(several), 3, 0, false},
    {{1, 1, 200, 7, 4, 1, 256, true, false, 0, 0}, SPANS(whole), 0, 0, true},
    {{1, 200, 200, 0, 6, 2, 64, true, false, 33, 0}, SPANS(whole), 0.5f, 16, false},
    {{1, 1, 1100, -1, 6, 2, 64, true, false, 0, 0}, NULL, 0, 2, 0, true},
    {{1, 97, 200, -1, 2, 2, 24, true, false, 50, 0}, NULL, 0, 0.7f, 0, true},
    {{1, 5, 20, 0, 2, 2, 12, true, false, 0, 0}, NULL, 0, 1, 0, false},
    {{3, 64, 64, 0, 4, 4, 64, false, false, 0, 0}, NULL, 0, 30, 0, false},
    {{1, 40, 300, -1, 4, 4, 80, true, false, 0, 1}, NULL, 0, 1.5f, 0, false},
};
#define N_SPANS ((int)SAC_COUNT(spans_shapes))
#define N_PAGES    ((int)SAC_COUNT(pages_shapes))
#define N_PLAIN    ((int)SAC_COUNT(shapes))
#define N_LISTS    ((int)SAC_COUNT(lists_shapes))
#define N_CHUNKS   ((int)SAC_COUNT(chunk_shapes))
#define N_SEGMENTS ((int)SAC_COUNT(segments_shapes))
#define N_SHAPES   (N_PLAIN + N_LISTS + N_CHUNKS + N_SEGMENTS + N_PAGES + N_SPANS)

/* A score of s is wrong by eps (4 + sqrt d) |q| |k| scale, so is the logarithm of its weight; the output, an
 * average of v, moves by twice that times max|v|, and by eps (4 + sqrt n) max|v| for its own sums. */
static void allow_attention(check_case *c, double k_norm, double v_max) {
    const sac_attention_args *a = &c->attention;
    int64_t d = a->kv.head_dim, cols = d * a->n_heads;
    int64_t n_lse = a->lse ? a->n_q * a->n_heads : 0;
    double *allowed = check_allow(c, a->o.rows * cols + n_lse), *lse = allowed + a->o.rows * cols;
    for (int64_t r = 0; r < a->q.rows; r++)
        for (int64_t col = 0; col < cols; col++) {
            if (col % d) {
                allowed[r * cols + col] = allowed[r * cols + col - 1];
                continue;
            }
            double q_norm = check_norm((const float *)a->q.data + r * a->q.stride + col, d);
            double score = q_norm * k_norm * (double)a->scale + (double)a->softcap;
            allowed[r * cols + col] =
                EPS * v_max * (4 + sqrt((double)a->n_kv) + 2 * (4 + sqrt((double)d)) * score) + 1e-40;
            if (n_lse) lse[r * a->n_heads + col / d] = EPS * (8 + 2 * (4 + sqrt((double)d)) * score);
        }
    c->relative = 2 * EPS;
}

/* Lays the segments out behind a few rows that are in none, and returns the rows of all. */
static int64_t take_segments(check_case *c, const int *length) {
    sac_attention_args *a = &c->attention;
    c->segment_start[0] = (int32_t)check_rand_int(c, 0, 3);
    for (; length[a->n_segments] >= 0; a->n_segments++)
        c->segment_start[a->n_segments + 1] = c->segment_start[a->n_segments] + length[a->n_segments];
    a->segment_start = c->segment_start;
    return c->segment_start[a->n_segments] + check_rand_int(c, 0, 3);
}

bool check_make_attention_of(check_case *c, const check_attention_shape *sh, sac_dtype t,
                             const check_attention_extra *x) {
    sac_attention_args *a = &c->attention;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    int64_t batch_rows = sh->n_batch > 1 ? (x->own ? sh->n_q : sh->n_kv) + check_rand_int(c, 0, 3) : 0;
    int64_t kv_batch_rows = x->own ? sh->n_kv + check_rand_int(c, 0, 3) : 0;
    int64_t q_rows = sh->n_batch > 1 ? sh->n_batch * batch_rows : sh->n_q,
            cols = (int64_t)sh->n_heads * sh->head_dim;
    *a = (sac_attention_args){.n_q = sh->n_q,
                              .n_kv = sh->n_kv,
                              .n_batch = sh->n_batch,
                              .batch_rows = batch_rows,
                              .kv_batch_rows = kv_batch_rows,
                              .n_heads = sh->n_heads,
                              .scale = 1 / sqrtf((float)sh->head_dim),
                              .causal = sh->causal,
                              .window = sh->window};
    a->first = sh->first == -1 ? sh->n_kv - sh->n_q : sh->first;
    if (x->segments) q_rows = take_segments(c, x->segments);
    int64_t n_rows = x->own                           ? sh->n_batch * kv_batch_rows
                     : sh->n_batch > 1 || x->segments ? q_rows
                                                      : sh->n_kv;
    int64_t n_valid = n_rows; /* a batch's spare rows are ordinary numbers */
    if (a->causal && sh->n_batch == 1 && !x->n_spans && a->first + a->n_q < n_valid) n_valid = a->first + a->n_q;
    a->spans = x->spans, a->n_spans = x->n_spans, a->softcap = x->softcap;
    a->steady = !x->segments && !x->list_block && check_rand_int(c, 0, 3) == 0;
    check_kv_shape kv = {.dtype = t,
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = n_rows,
                         .n_valid = n_valid,
                         .k = v == CHECK_LARGE ? CHECK_UNIFORM : v,
                         .far = x->far};
    double k_norm, v_max;
    a->kv = check_kv(c, &kv, &k_norm, &v_max);
    if (!a->kv.k || !a->kv.v) return false;
    if (x->page_rows) a->kv = check_kv_pages(c, &a->kv, x->page_rows);
    a->uneven = x->uneven;
    if (sh->list) {
        int n_lists = x->n_lists ? x->n_lists : 1;
        int64_t n_blocks = x->list_block ? (sh->n_q + x->list_block - 1) / x->list_block : 1;
        a->lists = check_row_lists(c, n_lists * (int)n_blocks, sh->n_kv, sh->list);
        c->lists.n_lists = n_lists;
        a->list_block = x->list_block;
    }
    int64_t gap = x->wide ? 8 * check_rand_int(c, 0, 2) : check_rand_int(c, 0, 5);
    a->o = check_mat(c, true, q_rows, cols, gap, 4, v);
    a->q = a->o;
    if (check_rand_int(c, 0, 2))
        a->q = check_mat(c, false, q_rows, cols, x->wide ? 16 : check_rand_int(c, 0, 5), 4, v);
    if (x->lse) a->lse = check_mat(c, true, sh->n_q, sh->n_heads, 0, 4, CHECK_UNIFORM).data;
    c->same_bits = true;
    allow_attention(c, k_norm, v_max);
    char lists[48] = "";
    if (x->n_spans || x->softcap > 0)
        snprintf(lists, sizeof lists, " spans=%lld cap=%g", (long long)x->n_spans, (double)x->softcap);
    if (x->segments) snprintf(lists, sizeof lists, " segments=%lld", (long long)a->n_segments);
    if (x->page_rows) snprintf(lists, sizeof lists, " pages of %d", x->page_rows);
    if (a->lists)
        snprintf(lists, sizeof lists, " lists=%d a %lld", a->lists->n_lists, (long long)a->list_block);
    snprintf(c->text, sizeof c->text,
             "%s batch=%lld%s n_q=%lld n_kv=%lld first=%lld heads=%d/%d d=%d%s window=%lld%s%s%s %s",
             sac_dtype_name(t), (long long)a->n_batch, x->own ? " own keys" : "", (long long)a->n_q,
             (long long)a->n_kv, (long long)a->first, sh->n_heads, sh->n_kv_heads, sh->head_dim,
             a->causal ? " causal" : "", (long long)a->window, lists, a->lse ? " lse" : "",
             a->q.data == a->o.data ? " in place" : "", check_values_name(v));
    return true;
}

bool check_make_attention(check_case *c, int i, bool quick) {
    if (i >= N_SHAPES * 3) return false;
    int number = i % N_SHAPES;
    int list = number - N_PLAIN, chunk = list - N_LISTS, segments = chunk - N_CHUNKS,
        pages = segments - N_SEGMENTS, spans = pages - N_PAGES;
    bool own = chunk >= 0 && segments < 0;
    const struct lists_shape *more = list >= 0 && chunk < 0 ? &lists_shapes[list] : NULL;
    const check_attention_shape *sh = more            ? &more->shape
                                      : own           ? &chunk_shapes[chunk]
                                      : spans >= 0    ? &spans_shapes[spans].shape
                                      : pages >= 0    ? &pages_shapes[pages].shape
                                      : segments >= 0 ? &segments_shapes[segments].shape
                                                      : &shapes[number];
    sac_dtype t = (sac_dtype)(i / N_SHAPES);
    if (quick && sh->slow && t != SAC_DTYPE_BF16) return true;
    check_attention_extra extra = {.own = own,
                                   .segments =
                                       segments >= 0 && pages < 0 ? segments_shapes[segments].length : NULL,
                                   .page_rows = pages >= 0 && spans < 0 ? pages_shapes[pages].page_rows : 0};
    if (spans >= 0) {
        const struct spans_shape *x = &spans_shapes[spans];
        extra = (check_attention_extra){.spans = x->spans,
                                        .n_spans = x->n_spans,
                                        .softcap = x->softcap,
                                        .page_rows = x->page_rows,
                                        .lse = x->lse};
    }
    if (more)
        extra = (check_attention_extra){
            .n_lists = more->n_lists, .lse = more->lse, .list_block = more->list_block};
    return check_make_attention_of(c, sh, t, &extra);
}
