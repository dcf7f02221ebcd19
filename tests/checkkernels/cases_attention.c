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
#define N_SHAPES ((int)SAC_COUNT(shapes))

static float load(const float *p) {
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* A score of s is wrong by eps (4 + sqrt d) |q| |k| scale, so is the logarithm of its weight; the output, an
 * average of v, moves by twice that times max|v|, and by eps (4 + sqrt n) max|v| for its own sums. */
static void allow_attention(check_case *c, double k_norm, double v_max) {
    const sac_attention_args *a = &c->attention;
    int64_t d = a->kv.head_dim, cols = d * a->n_heads;
    double *allowed = check_allow(c, a->o.rows * cols + (a->lse ? a->n_q * a->n_heads : 0));
    for (int64_t r = 0; r < a->q.rows; r++)
        for (int64_t col = 0; col < cols; col++) {
            double q2 = 0;
            for (int64_t i = 0; i < d; i++) {
                double q = (double)load((const float *)a->q.data + r * a->q.stride + col / d * d + i);
                q2 += q * q;
            }
            double score = sqrt(q2) * k_norm * (double)a->scale;
            allowed[r * cols + col] =
                EPS * v_max * (4 + sqrt((double)a->n_kv) + 2 * (4 + sqrt((double)d)) * score) + 1e-40;
            if (col % d) allowed[r * cols + col] = allowed[r * cols + col - 1];
        }
    c->relative = 2 * EPS;
    for (int64_t i = 0; a->lse && i < a->n_q * a->n_heads; i++) /* the score's error, and the logarithm's own */
        allowed[a->o.rows * cols + i] =
            allowed[i / a->n_heads * cols + i % a->n_heads * d] / (v_max > 0 ? v_max : 1) + 16 * EPS;
}

/* Random keys or values; what no query may see is NaN, so that a look at it shows. */
static void fill_kv(check_case *c, void *p, const sac_kv_view *kv, check_values v, int64_t n_valid,
                    double *largest_norm, double *largest) {
    for (int64_t row = 0; row < kv->n_rows; row++)
        for (int head = 0; head < kv->n_heads; head++) {
            double norm = 0;
            for (int i = 0; i < kv->head_dim; i++) {
                float f;
                check_fill(c, &f, 1, v);
                if (row >= n_valid) f = NAN;
                int64_t at = row * kv->row_stride + head * kv->head_stride + i;
                uint16_t h = kv->dtype == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
                if (kv->dtype == SAC_DTYPE_F32)
                    memcpy((char *)p + at * 4, &f, 4);
                else
                    memcpy((char *)p + at * 2, &h, 2);
                if (row < n_valid) {
                    norm += (double)f * (double)f;
                    *largest = fmax(*largest, fabs((double)f));
                }
            }
            *largest_norm = fmax(*largest_norm, sqrt(norm));
        }
}

/* Keys or values of a case: n elements in one row, or `far` apart by row of the view. */
static void *add_kv(check_case *c, const sac_kv_view *kv, int64_t far, size_t misalign) {
    int64_t cols = (int64_t)kv->n_heads * kv->head_dim, n = kv->n_rows * cols;
    if (far) return check_buffer_add_sparse(c, false, kv->dtype, kv->n_rows, cols, far);
    return check_buffer_add(c, false, kv->dtype, 1, n, n, misalign);
}

bool check_make_attention_of(check_case *c, const check_attention_shape *sh, sac_dtype t,
                             const check_attention_extra *x) {
    sac_attention_args *a = &c->attention;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    int64_t batch_rows = sh->n_batch > 1 ? sh->n_kv + check_rand_int(c, 0, 3) : 0;
    int64_t q_rows = sh->n_batch > 1 ? sh->n_batch * batch_rows : sh->n_q,
            cols = (int64_t)sh->n_heads * sh->head_dim;
    *a = (sac_attention_args){.n_q = sh->n_q,
                              .n_kv = sh->n_kv,
                              .n_batch = sh->n_batch,
                              .batch_rows = batch_rows,
                              .n_heads = sh->n_heads,
                              .scale = 1 / sqrtf((float)sh->head_dim),
                              .causal = sh->causal,
                              .window = sh->window};
    a->first = sh->first == -1 ? sh->n_kv - sh->n_q : sh->first;
    int64_t n_valid = sh->n_batch > 1 ? q_rows : sh->n_kv; /* a batch's spare rows are ordinary numbers */
    if (a->causal && a->first + a->n_q < n_valid) n_valid = a->first + a->n_q;
    sac_kv_view *kv = &a->kv;
    *kv = (sac_kv_view){.dtype = t, .n_heads = sh->n_kv_heads, .head_dim = sh->head_dim};
    kv->n_rows = (sh->n_batch > 1 ? q_rows : sh->n_kv) + check_rand_int(c, 0, 4);
    bool by_head = check_rand_int(c, 0, 1); /* [head][row][d] or [row][head][d] */
    kv->row_stride = by_head ? sh->head_dim : (int64_t)sh->n_kv_heads * sh->head_dim;
    kv->head_stride = by_head ? kv->n_rows * sh->head_dim : sh->head_dim;
    if (x->far) {
        kv->row_stride = x->far;
        kv->head_stride = sh->head_dim;
    }
    size_t misalign = t == SAC_DTYPE_F32 ? 4 : 2;
    kv->k = add_kv(c, kv, x->far, misalign * (size_t)check_rand_int(c, 0, 3));
    kv->v = add_kv(c, kv, x->far, misalign);
    if (!kv->k || !kv->v) return false;
    double k_norm = 0, v_max = 0, unused = 0;
    fill_kv(c, kv->k, kv, v == CHECK_LARGE ? CHECK_UNIFORM : v, n_valid, &k_norm, &unused);
    fill_kv(c, kv->v, kv, CHECK_UNIFORM, n_valid, &unused, &v_max);
    if (sh->list) a->lists = check_row_lists(c, x->n_lists ? x->n_lists : 1, sh->n_kv, sh->list);
    int64_t gap = x->wide ? 8 * check_rand_int(c, 0, 2) : check_rand_int(c, 0, 5);
    a->o = check_mat(c, true, q_rows, cols, gap, 4, v);
    a->q = a->o;
    if (check_rand_int(c, 0, 2))
        a->q = check_mat(c, false, q_rows, cols, x->wide ? 16 : check_rand_int(c, 0, 5), 4, v);
    if (x->lse) {
        a->lse = check_buffer_add(c, true, SAC_DTYPE_F32, 1, sh->n_q * sh->n_heads, sh->n_q * sh->n_heads, 0);
        c->buffer[c->n_buffers - 1].allowed_at = q_rows * cols;
    }
    c->same_bits = true;
    allow_attention(c, k_norm, v_max);
    snprintf(c->text, sizeof c->text,
             "%s batch=%lld n_q=%lld n_kv=%lld first=%lld heads=%d/%d d=%d%s window=%lld%s%s%s %s",
             sac_dtype_name(t), (long long)a->n_batch, (long long)a->n_q, (long long)a->n_kv,
             (long long)a->first, sh->n_heads, sh->n_kv_heads, sh->head_dim, a->causal ? " causal" : "",
             (long long)a->window, a->lists ? " list" : "", a->q.data == a->o.data ? " in place" : "",
             a->lse ? " lse" : "",
             check_values_name(v));
    return true;
}

bool check_make_attention(check_case *c, int i, bool quick) {
    if (i >= N_SHAPES * 3) return false;
    const check_attention_shape *sh = &shapes[i % N_SHAPES];
    sac_dtype t = (sac_dtype)(i / N_SHAPES);
    if (quick && sh->slow && t != SAC_DTYPE_BF16) return true;
    return check_make_attention_of(c, sh, t, &(check_attention_extra){0});
}
