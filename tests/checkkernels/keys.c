/* keys.c - random keys and values, lists of rows and tables of angles for the cases that read them. */
#include "check.h"

#include <math.h>

double check_norm(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, (const char *)x + i * 4, 4);
        sum += (double)f * (double)f;
    }
    return sqrt(sum);
}

static void put(sac_dtype t, void *p, int64_t at, float f) {
    uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
    if (t == SAC_DTYPE_F32)
        memcpy((char *)p + at * 4, &f, 4);
    else
        memcpy((char *)p + at * 2, &h, 2);
}

static void fill(check_case *c, void *p, const sac_kv_view *kv, check_values v, int64_t n_valid,
                 double *largest_norm, double *largest) {
    for (int64_t row = 0; row < kv->n_rows; row++)
        for (int head = 0; head < kv->n_heads; head++) {
            double norm = 0;
            for (int i = 0; i < kv->head_dim; i++) {
                float f;
                check_fill(c, &f, 1, v);
                put(kv->dtype, p, row * kv->row_stride + head * kv->head_stride + i, row < n_valid ? f : NAN);
                if (row < n_valid) {
                    norm += (double)f * (double)f;
                    *largest = fmax(*largest, fabs((double)f));
                }
            }
            *largest_norm = fmax(*largest_norm, sqrt(norm));
        }
}

static void *add_kv(check_case *c, const check_kv_shape *sh, int64_t rows, size_t misalign) {
    int64_t cols = (int64_t)sh->n_heads * sh->head_dim, n = rows * cols;
    if (sh->far) return check_buffer_add_sparse(c, sh->output, sh->dtype, rows, cols, sh->far);
    return check_buffer_add(c, sh->output, sh->dtype, 1, n, n, misalign);
}

sac_kv_view check_kv(check_case *c, const check_kv_shape *sh, double *k_norm, double *v_max) {
    double norm = 0, largest = 0, unused = 0;
    sac_kv_view kv = {.dtype = sh->dtype, .n_heads = sh->n_heads, .head_dim = sh->head_dim};
    kv.n_rows = sh->n_rows + check_rand_int(c, 0, 4);
    bool by_head = check_rand_int(c, 0, 1); /* [head][row][d] or [row][head][d] */
    kv.row_stride = by_head ? sh->head_dim : (int64_t)sh->n_heads * sh->head_dim;
    kv.head_stride = by_head ? kv.n_rows * sh->head_dim : sh->head_dim;
    if (sh->far) {
        kv.row_stride = sh->far;
        kv.head_stride = sh->head_dim;
    }
    size_t misalign = sh->dtype == SAC_DTYPE_F32 ? 4 : 2;
    kv.k = add_kv(c, sh, kv.n_rows, misalign * (size_t)check_rand_int(c, 0, 3));
    kv.v = add_kv(c, sh, kv.n_rows, misalign);
    if (!kv.k || !kv.v) return kv;
    fill(c, kv.k, &kv, sh->k, sh->n_valid, &norm, &unused);
    fill(c, kv.v, &kv, sh->v, sh->n_valid, &unused, &largest);
    if (k_norm) *k_norm = norm;
    if (v_max) *v_max = largest;
    return kv;
}

/* Copies rows of head h to where they are in pages. */
static void copy_head(const sac_kv_view *from, const sac_kv_view *to, int h) {
    size_t element = sac_dtype_row_bytes(from->dtype, 1), n_bytes = (size_t)from->head_dim * element;
    for (int64_t row = 0; row < from->n_rows; row++) {
        size_t source = (size_t)(sac_kv_row_at(from, row) + h * from->head_stride) * element;
        size_t target = (size_t)(sac_kv_row_at(to, row) + h * to->head_stride) * element;
        memcpy((char *)to->k + target, (const char *)from->k + source, n_bytes);
        memcpy((char *)to->v + target, (const char *)from->v + source, n_bytes);
    }
}

/* Every third page of twice and a half as many, from the last to the first and around. */
static int32_t *take_pages(check_case *c, int64_t n_pages, int64_t *n_all) {
    int32_t *pages =
        check_buffer_add(c, false, SAC_DTYPE_F32, 1, n_pages, n_pages, 4); /* int32 are 4 bytes too */
    *n_all = 3 * n_pages + 1;
    for (int64_t i = 0; i < n_pages; i++) pages[i] = (int32_t)((n_pages - 1 - i) * 3 + i % 3);
    return pages;
}

sac_kv_view check_kv_pages(check_case *c, const sac_kv_view *kv, int page_rows) {
    sac_kv_view p = *kv;
    int64_t n_all, row = (int64_t)kv->n_heads * kv->head_dim;
    bool by_head = check_rand_int(c, 0, 1); /* a page is [head][row][d] or [row][head][d] */
    p.pages = take_pages(c, (kv->n_rows + page_rows - 1) / page_rows, &n_all);
    p.page_rows = page_rows;
    p.page_stride = page_rows * row + 8 * check_rand_int(c, 0, 2);
    p.row_stride = by_head ? kv->head_dim : row;
    p.head_stride = by_head ? (int64_t)page_rows * kv->head_dim : kv->head_dim;
    size_t n_bytes = (size_t)n_all * sac_dtype_row_bytes(kv->dtype, p.page_stride);
    p.k = check_buffer_add(c, false, kv->dtype, n_all, p.page_stride, p.page_stride, 4);
    p.v = check_buffer_add(c, false, kv->dtype, n_all, p.page_stride, p.page_stride, 4);
    memset(p.k, 0xff, n_bytes);
    memset(p.v, 0xff, n_bytes);
    for (int h = 0; h < kv->n_heads; h++) copy_head(kv, &p, h);
    return p;
}

const sac_row_lists *check_row_lists(check_case *c, int n_lists, int64_t n_rows, int every) {
    int64_t most = n_lists * n_rows, n = 0, n_start = 2 * ((int64_t)n_lists + 1);
    int32_t *rows = check_buffer_add(c, false, SAC_DTYPE_F32, 1, most, most, 4); /* int32 are 4 bytes too */
    int64_t *start = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n_start, n_start, 0);
    for (int i = 0; i < n_lists; i++) {
        start[i] = n;
        if (i % 5 == 3) continue;
        for (int64_t row = 0; row < n_rows; row++)
            if (check_rand_int(c, 0, (int64_t)every * (1 + i % 3) - 1) == 0) rows[n++] = (int32_t)row;
    }
    start[n_lists] = n;
    c->lists = (sac_row_lists){rows, start, n_lists};
    return &c->lists;
}

const sac_rotation *check_rotation(check_case *c, int64_t n, int rot_dim, bool interleaved, float factor) {
    float *cos_sin = check_mat(c, false, n, rot_dim, 0, 4, CHECK_UNIFORM).data;
    c->rotation = (sac_rotation){cos_sin, rot_dim, interleaved, factor};
    return &c->rotation;
}

const int32_t *check_skip(check_case *c, int i) {
    if (i % 11 != 5 && i % 11 != 7) return NULL;
    int32_t *skip = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 1, 1, 4);
    *skip = i % 11 == 5 ? 7 : 0;
    return skip;
}
