/* cases_keys.c - cases of the ops that read keys for a choice of rows: key_scores, attention_sums, kv_gather.
 */
#include "check.h"

#include <math.h>

#define EPS 0x1p-24

static double dtype_eps(sac_dtype t) {
    return t == SAC_DTYPE_F32 ? EPS : t == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}

/* ---------------------------------------------------------------- key_scores */

static const struct scores_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t n_rows, first; /* first -1: lists */
    int n_lists, every;
    int rot_dim; /* 0: keys as they lie */
    bool interleaved;
} scores_shapes[] = {{1, 1, 64, 1, 0, 0, 0, 0, false},         {4, 1, 64, 300, 0, 0, 0, 0, false},
                     {7, 1, 128, 259, 3, 0, 0, 0, false},      {8, 1, 80, 513, 0, 0, 0, 0, false},
                     {28, 4, 128, 700, 0, 0, 0, 0, false},     {8, 8, 64, 300, 17, 0, 0, 0, false},
                     {12, 1, 64, 100, 0, 0, 0, 0, false},      {6, 2, 20, 90, 0, 0, 0, 0, false},
                     {28, 4, 64, 900, -1, 1, 2, 0, false},     {14, 2, 80, 800, -1, 2, 1, 0, false},
                     {14, 2, 64, 800, -1, 14, 2, 0, false},    {8, 8, 128, 600, -1, 8, 2, 0, false},
                     {8, 2, 64, 500, 40, 0, 0, 64, false},     {7, 1, 128, 300, 0, 0, 0, 128, false},
                     {8, 4, 80, 270, 0, 0, 0, 80, false},      {4, 4, 64, 300, -1, 4, 2, 32, false},
                     {8, 2, 64, 300, 0, 0, 0, 64, true},       {6, 2, 44, 300, -1, 6, 1, 20, true},
                     {7, 1, 128, 0, 0, 0, 0, 0, false},        {4, 1, 1056, 20, 0, 0, 0, 0, false},
                     {28, 4, 128, 5000, 11, 0, 0, 128, false}, {28, 4, 128, 3001, 5, 0, 0, 0, false},
                     {7, 1, 128, 9000, 128, 0, 0, 0, false},   {1, 1, 3584, 40, 0, 0, 0, 0, false}};
#define N_SCORES ((int)SAC_COUNT(scores_shapes))

/* The logarithm of a sum is off by what a score is, and by the rounding of itself and of its differences. */
void check_allow_scores(check_case *c, int64_t n_rows, double k_norm) {
    const sac_key_scores_args *a = &c->key_scores;
    int d = a->kv.head_dim;
    double *allowed = check_allow(c, n_rows * a->stride + (a->lse ? n_rows : 0));
    for (int64_t r = 0; r < n_rows; r++) {
        double largest = check_norm(a->q + r * d, d) * k_norm * (double)a->scale,
               off = EPS * (8 + sqrt(d)) * largest * 1.5 + 1e-44;
        for (int64_t j = 0; j < a->stride; j++) allowed[r * a->stride + j] = off;
        if (a->lse) allowed[n_rows * a->stride + r] = off + 2 * EPS * (16 + 2 * largest);
    }
}

static bool make_key_scores(check_case *c, int i, bool quick) {
    if (i >= N_SCORES * 3) return false;
    const struct scores_shape *sh = &scores_shapes[i % N_SCORES];
    if (quick && sh->n_rows > 1000 && i / N_SCORES != SAC_DTYPE_BF16) return true;
    sac_key_scores_args *a = &c->key_scores;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    check_kv_shape kv = {.dtype = (sac_dtype)(i / N_SCORES),
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = sh->n_rows,
                         .n_valid = sh->n_rows,
                         .k = v == CHECK_LARGE ? CHECK_UNIFORM : v};
    double k_norm;
    *a = (sac_key_scores_args){.n_heads = sh->n_heads,
                               .first = sh->first < 0 ? 0 : sh->first,
                               .stride = sh->n_rows + check_rand_int(c, 0, 9),
                               .scale = 1 / sqrtf((float)sh->head_dim)};
    a->n = sh->n_rows - a->first;
    int64_t n_q = 1;
    if (sh->first >= 0 && i % 2) { /* several queries, the later ones with more keys */
        n_q = a->n_queries = (int)check_rand_int(c, 2, sh->head_dim == 128 ? 24 : 9);
        int64_t more = check_rand_int(c, 0, 30);
        a->n_more = more < a->n / n_q ? more : a->n / n_q;
        a->n -= (n_q - 1) * a->n_more;
    }
    a->kv = check_kv(c, &kv, &k_norm, NULL);
    a->q = check_mat(c, false, n_q, (int64_t)sh->n_heads * sh->head_dim, 0, 4, v).data;
    if (sh->first < 0) a->lists = check_row_lists(c, sh->n_lists, sh->n_rows, sh->every);
    if (sh->rot_dim) a->back = check_rotation(c, sh->n_rows, sh->rot_dim, sh->interleaved, i % 2 ? 1.25f : 1);
    a->scores = check_mat(c, true, n_q * sh->n_heads, a->stride, 0, 4, CHECK_UNIFORM).data;
    if (!a->lists && check_rand_int(c, 0, 2) > 0)
        a->lse = check_mat(c, true, 1, n_q * sh->n_heads, 0, 4, CHECK_UNIFORM).data;
    check_allow_scores(c, n_q * sh->n_heads, k_norm);
    a->skip = check_skip(c, i);
    snprintf(c->text, sizeof c->text,
             "%s queries=%d+%lld heads=%d/%d d=%d n=%lld first=%lld lists=%d rot=%d%s%s %s",
             sac_dtype_name(kv.dtype), (int)n_q, (long long)a->n_more, sh->n_heads, sh->n_kv_heads,
             sh->head_dim, (long long)sh->n_rows, (long long)sh->first, sh->n_lists, sh->rot_dim,
             sh->interleaved ? " interleaved" : "", a->lse ? " sums" : "", check_values_name(v));
    return true;
}

/* ---------------------------------------------------------------- attention_sums */

static const struct sums_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t n_q, n_probes, n_kv, first; /* n_probes 0: all; first -1: the queries are the last keys */
    int n_sums;
    int64_t window, n_diagonals;
    bool slow;
} sums_shapes[] = {
    {1, 1, 64, 1, 0, 1, -1, 1, 0, 0, false},       {4, 1, 64, 1, 0, 300, -1, 1, 0, 0, false},
    {7, 1, 128, 1, 0, 1100, -1, 7, 0, 0, false},   {28, 4, 64, 1, 0, 300, -1, 4, 0, 300, false},
    {8, 8, 80, 1, 0, 300, -1, 8, 100, 0, false},   {4, 2, 64, 3, 0, 200, -1, 2, 0, 0, false},
    {14, 2, 64, 40, 9, 150, 110, 2, 0, 0, false},  {8, 1, 128, 16, 0, 260, -1, 1, 0, 300, false},
    {7, 1, 64, 33, 0, 400, -1, 7, 0, 0, true},     {4, 4, 80, 64, 0, 300, -1, 4, 0, 300, true},
    {4, 2, 64, 40, 0, 1200, -1, 1, 0, 1200, true}, {6, 2, 64, 64, 0, 700, -1, 6, 0, 90, true},
    {8, 2, 64, 150, 0, 150, 0, 2, 0, 0, true},     {8, 2, 64, 300, 50, 300, 0, 8, 70, 150, true},
    {2, 1, 24, 130, 60, 90, 0, 1, 30, 200, false}, {2, 2, 64, 40, 0, 60, -30, 2, 0, 0, false},
    {4, 2, 12, 20, 0, 60, -1, 2, 20, 60, false},   {3, 1, 64, 10, 0, 0, 0, 1, 0, 4, false},
    {56, 1, 512, 13, 0, 150, -1, 1, 0, 150, true}, {2, 1, 8, 6000, 30, 6000, 0, 2, 0, 6000, true},
    {28, 4, 128, 20, 0, 400, -1, 4, 0, 0, true},
};
#define N_SUMS ((int)SAC_COUNT(sums_shapes))

static void add_probes(check_case *c, sac_attention_sums_args *a, const struct sums_shape *sh) {
    int32_t *probes = check_buffer_add(c, false, SAC_DTYPE_F32, 1, sh->n_probes, sh->n_probes, 4);
    int64_t wanted = sh->n_probes;
    for (int64_t row = 0; row < sh->n_q && wanted > 0; row++) /* each of the rest with the same chance */
        if (check_rand_int(c, 0, sh->n_q - row - 1) < wanted) {
            probes[sh->n_probes - wanted] = (int32_t)row;
            wanted--;
        }
    a->probes = probes;
    a->n_probes = sh->n_probes;
}

/* The logarithm of a weight is wrong by what score and denominator are; weights are positive, so their sum is
 * wrong by no more than the worst of them, and by its own rounding. */
static void allow_sums(check_case *c, const sac_attention_sums_args *a, double k_norm) {
    double q_norm = 0, d = a->kv.head_dim, n = (double)(a->probes ? a->n_probes : a->q.rows) * a->n_heads;
    for (int64_t r = 0; r < a->q.rows; r++)
        for (int h = 0; h < a->n_heads; h++)
            q_norm = fmax(q_norm, check_norm(sac_mat_row_f32(a->q, r) + h * a->kv.head_dim, a->kv.head_dim));
    double score = q_norm * k_norm * (double)a->scale;
    int64_t total = a->n_sums * (a->stride + a->n_diagonals);
    double *allowed = check_allow(c, total);
    for (int64_t i = 0; i < total; i++) allowed[i] = 1e-36;
    c->relative = EPS * (24 + n / 8 + 2 * (6 + sqrt(d)) * score);
}

static bool make_attention_sums(check_case *c, int i, bool quick) {
    if (i >= N_SUMS * 3) return false;
    const struct sums_shape *sh = &sums_shapes[i % N_SUMS];
    sac_attention_sums_args *a = &c->attention_sums;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    sac_dtype t = (sac_dtype)(i / N_SUMS);
    if (sh->slow && t != SAC_DTYPE_BF16 && (quick || i % 2)) return true;
    if (v == CHECK_OUTLIERS) v = CHECK_UNIFORM; /* weights of nothing but the largest score */
    *a = (sac_attention_sums_args){.n_heads = sh->n_heads,
                                   .n_sums = sh->n_sums,
                                   .stride = sh->n_kv + check_rand_int(c, 0, 5),
                                   .first = sh->first == -1 ? sh->n_kv - sh->n_q : sh->first,
                                   .n_kv = sh->n_kv,
                                   .scale = 1 / sqrtf((float)sh->head_dim),
                                   .window = sh->window,
                                   .n_diagonals = sh->n_diagonals};
    check_kv_shape kv = {.dtype = t,
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = sh->n_kv,
                         .n_valid = sh->n_kv,
                         .k = v == CHECK_LARGE ? CHECK_UNIFORM : v};
    if (a->first + sh->n_q < sh->n_kv) kv.n_valid = a->first + sh->n_q;
    double k_norm;
    a->kv = check_kv(c, &kv, &k_norm, NULL);
    a->q = check_mat(c, false, sh->n_q, (int64_t)sh->n_heads * sh->head_dim, check_rand_int(c, 0, 5), 4, v);
    if (sh->n_probes) add_probes(c, a, sh);
    a->sums = check_mat(c, true, sh->n_sums, sh->n_kv, a->stride - sh->n_kv, 4, CHECK_UNIFORM).data;
    if (sh->n_diagonals)
        a->diagonals = check_mat(c, true, sh->n_sums, sh->n_diagonals, 0, 4, CHECK_UNIFORM).data;
    allow_sums(c, a, k_norm);
    snprintf(
        c->text, sizeof c->text,
        "%s heads=%d/%d d=%d n_q=%lld probes=%lld n_kv=%lld first=%lld sums=%d window=%lld diagonals=%lld %s",
        sac_dtype_name(t), sh->n_heads, sh->n_kv_heads, sh->head_dim, (long long)sh->n_q,
        (long long)sh->n_probes, (long long)sh->n_kv, (long long)a->first, sh->n_sums, (long long)sh->window,
        (long long)sh->n_diagonals, check_values_name(v));
    return true;
}

/* ---------------------------------------------------------------- kv_gather */

static const struct gather_shape {
    int n_heads, head_dim;
    int64_t n_rows;
    int n_lists, every;
    int rot_dim;
    bool interleaved, keys_only;
    int read; /* lists for each key-value head of the rows that are going to be read; 0: all are */
} gather_shapes[] = {{1, 64, 1, 1, 1, 0, false, false, 0},      {4, 64, 300, 1, 2, 0, false, false, 0},
                     {2, 128, 150, 2, 1, 0, false, true, 0},    {8, 80, 200, 8, 2, 0, false, false, 0},
                     {4, 64, 300, 1, 2, 64, false, false, 0},   {6, 64, 300, 1, 2, 64, false, false, 0},
                     {2, 128, 200, 2, 1, 128, false, false, 0}, {4, 80, 100, 4, 1, 80, false, true, 0},
                     {2, 64, 100, 1, 3, 32, true, false, 0},    {3, 20, 50, 3, 1, 12, false, false, 0},
                     {2, 44, 50, 1, 1, 20, true, true, 0},      {2, 64, 0, 1, 1, 0, false, false, 0},
                     {1, 1056, 10, 1, 2, 64, false, false, 0},  {4, 128, 3000, 4, 1, 128, false, false, 0},
                     {4, 64, 700, 1, 1, 64, false, false, 1},   {2, 80, 600, 2, 1, 0, false, false, 3}};
#define N_GATHERS ((int)SAC_COUNT(gather_shapes))

/* Some rows of what each head gathers, in so many lists for each head. */
static const sac_row_lists *read_lists(check_case *c, const sac_row_lists *gathered, int n_heads, int each) {
    int64_t n_lists = (int64_t)n_heads * each, n = 0, most = 0;
    for (int i = 0; i < gathered->n_lists; i++) {
        int64_t length = gathered->start[i + 1] - gathered->start[i];
        most = length > most ? length : most;
    }
    int32_t *rows = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n_lists * most, n_lists * most, 4);
    int64_t *start = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * (n_lists + 1), 2 * (n_lists + 1),
                                      0); /* 8 bytes each */
    for (int64_t i = 0; i < n_lists; i++) {
        int64_t list = i / each / (n_heads / gathered->n_lists);
        start[i] = n;
        for (int64_t row = 0; row < gathered->start[list + 1] - gathered->start[list]; row++)
            if (check_rand_int(c, 0, 3) == 0) rows[n++] = (int32_t)row;
    }
    start[n_lists] = n;
    c->many_lists[0] = (sac_row_lists){rows, start, (int)n_lists};
    return &c->many_lists[0];
}

static bool is_read(const sac_row_lists *read, int n_heads, int head, int64_t row) {
    int each = read->n_lists / n_heads;
    for (int64_t i = read->start[head * each]; i < read->start[(head + 1) * each]; i++)
        if (read->rows[i] == row) return true;
    return false;
}

/* A turned key is rounded once more, to the type it goes to. Rows that nobody is going to read may be written
 * or not. */
static void allow_gather(check_case *c, const sac_kv_gather_args *a, double k_norm) {
    const sac_kv_view *dst = &a->dst;
    int64_t n = dst->n_rows * dst->n_heads * dst->head_dim;
    double *allowed = check_allow(c, 2 * n), error = (8 * EPS + 2 * dtype_eps(dst->dtype)) * k_norm * 1.5;
    for (int64_t i = 0; a->turn_back && i < n; i++)
        allowed[i] = error + (dst->dtype == SAC_DTYPE_F16 ? 0x1p-24 : 1e-38);
    for (int head = 0; a->read && head < dst->n_heads; head++)
        for (int64_t row = 0; row < dst->n_rows; row++) {
            int64_t at = row * dst->row_stride + head * dst->head_stride;
            if (is_read(a->read, dst->n_heads, head, row)) continue;
            for (int64_t i = at; i < at + dst->head_dim; i++) allowed[i] = allowed[n + i] = INFINITY;
        }
}

static bool make_kv_gather(check_case *c, int i, bool quick) {
    if (i >= N_GATHERS * 9) return false;
    const struct gather_shape *sh = &gather_shapes[i % N_GATHERS];
    if (quick && sh->n_rows > 1000 && i / N_GATHERS != 1) return true;
    sac_kv_gather_args *a = &c->kv_gather;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    check_kv_shape src = {.dtype = (sac_dtype)(i / N_GATHERS % 3),
                          .n_heads = sh->n_heads,
                          .head_dim = sh->head_dim,
                          .n_rows = sh->n_rows,
                          .n_valid = sh->n_rows,
                          .k = v,
                          .v = v},
                   dst = src;
    double k_norm;
    *a = (sac_kv_gather_args){.keys_only = sh->keys_only};
    a->src = check_kv(c, &src, &k_norm, NULL);
    a->lists = check_row_lists(c, sh->n_lists, sh->n_rows, sh->every);
    int64_t total = a->lists->start[a->lists->n_lists];
    if (sh->read) a->read = read_lists(c, a->lists, sh->n_heads, sh->read);
    dst.dtype = (sac_dtype)(i / N_GATHERS / 3);
    dst.output = true;
    a->dst = check_kv(c, &dst, NULL, NULL);
    c->exact = !sh->rot_dim && !sh->read;
    if (sh->rot_dim) {
        a->rotation = check_rotation(c, 60, sh->rot_dim, sh->interleaved, i % 2 ? 1.25f : 1);
        int32_t *turn = check_buffer_add(c, false, SAC_DTYPE_F32, 1, total, total, 4);
        for (int64_t j = 0; j < total; j++) turn[j] = (int32_t)check_rand_int(c, 0, 59);
        a->turn_back = turn;
    }
    if (!c->exact) allow_gather(c, a, k_norm);
    snprintf(c->text, sizeof c->text, "%s to %s heads=%dx%d rows=%lld lists=%d rot=%d read=%d%s%s %s",
             sac_dtype_name(src.dtype), sac_dtype_name(dst.dtype), sh->n_heads, sh->head_dim,
             (long long)sh->n_rows, sh->n_lists, sh->rot_dim, sh->read, sh->interleaved ? " interleaved" : "",
             sh->keys_only ? " keys only" : "", check_values_name(v));
    return true;
}

bool check_make_keys(check_case *c, int i, bool quick) {
    c->same_bits = true;
    switch ((int)c->op) {
    case CHECK_key_scores: return make_key_scores(c, i, quick);
    case CHECK_attention_sums: return make_attention_sums(c, i, quick);
    default: return make_kv_gather(c, i, quick);
    }
}
