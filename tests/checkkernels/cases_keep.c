/* cases_keep.c - cases of keep_rows and evict_row, which move in place, and of pattern_rows. */
#include "check.h"

/* Rounds of the device's kernel are 128 to 1024 rows. */
static const struct keep_shape {
    int n_heads, head_dim, n_lists;
    int64_t n_rows;
    int every; /* one row in so many stays */
} keep_shapes[] = {{1, 64, 1, 1, 1},   {4, 128, 4, 700, 2}, {2, 80, 1, 300, 1},
                   {3, 20, 3, 90, 5},  {8, 64, 8, 2500, 1}, {4, 128, 1, 3000, 3},
                   {2, 44, 2, 600, 2}, {2, 12, 2, 1500, 1}, {1, 264, 1, 400, 2}};
#define N_KEEPS ((int)SAC_COUNT(keep_shapes))

static sac_kv_view make_kv(check_case *c, sac_dtype t, int n_heads, int head_dim, int64_t n_rows) {
    check_kv_shape kv = {.dtype = t,
                         .n_heads = n_heads,
                         .head_dim = head_dim,
                         .n_rows = n_rows,
                         .n_valid = n_rows,
                         .output = true};
    sac_kv_view view = check_kv(c, &kv, NULL, NULL);
    view.n_rows = n_rows;
    return view;
}

static bool make_keep(check_case *c, int i) {
    if (i >= 3 * N_KEEPS) return false;
    const struct keep_shape *sh = &keep_shapes[i % N_KEEPS];
    sac_keep_rows_args *a = &c->keep_rows;
    int64_t n = sh->n_rows / sh->every, all = n * sh->n_lists;
    *a = (sac_keep_rows_args){.n = n, .n_lists = sh->n_lists};
    a->kv = make_kv(c, (sac_dtype)(i / N_KEEPS), sh->n_heads, sh->head_dim, sh->n_rows);
    int32_t *rows = check_buffer_add(c, false, SAC_DTYPE_F32, 1, all, all, 4);
    for (int list = 0; list < sh->n_lists; list++) {
        int64_t left = n; /* each row with the same chance */
        for (int64_t row = 0; row < sh->n_rows && left > 0; row++)
            if (check_rand_int(c, 0, sh->n_rows - row - 1) < left) {
                rows[list * n + n - left] = (int32_t)row;
                left--;
            }
    }
    a->rows = rows;
    snprintf(c->text, sizeof c->text, "%s heads=%dx%d %lld of %lld rows, lists=%d",
             sac_dtype_name(a->kv.dtype), sh->n_heads, sh->head_dim, (long long)n, (long long)sh->n_rows,
             sh->n_lists);
    return true;
}

static const struct evict_shape {
    int n_heads, head_dim;
    int64_t n_rows;
    int n_recent;
    bool evict, ties;
} evict_shapes[] = {{1, 64, 2, 1, true, false},      {4, 128, 700, 70, true, false},
                    {2, 80, 33, 5, true, true},      {3, 20, 90, 89, true, true},
                    {4, 128, 3000, 300, true, true}, {2, 44, 65, 9, false, false},
                    {1, 12, 1, 1, false, false},     {8, 64, 1500, 1, true, true}};
#define N_EVICTS ((int)SAC_COUNT(evict_shapes))

/* Ages are a shuffle of 0 .. n - 2, as rows of a cache are in no order. */
static void shuffle_ages(check_case *c, int32_t *ages, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t j = check_rand_int(c, 0, i);
        ages[i] = ages[j];
        ages[j] = (int32_t)i;
    }
}

static bool make_evict(check_case *c, int i) {
    if (i >= 3 * N_EVICTS) return false;
    const struct evict_shape *sh = &evict_shapes[i % N_EVICTS];
    sac_evict_row_args *a = &c->evict_row;
    int64_t n = sh->n_rows, stride = n + check_rand_int(c, 0, 3), other = n + check_rand_int(c, 0, 3);
    *a = (sac_evict_row_args){.stride = stride, .weights_stride = other, .evict = sh->evict};
    a->kv = make_kv(c, (sac_dtype)(i / N_EVICTS), sh->n_heads, sh->head_dim, n);
    a->score = check_buffer_add(c, true, SAC_DTYPE_F32, sh->n_heads, n, stride, 4);
    a->ages = check_buffer_add(c, true, SAC_DTYPE_F32, sh->n_heads, n, stride, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    float *weights = check_buffer_add(c, false, SAC_DTYPE_F32, sh->n_heads, n, other, 4);
    for (int head = 0; head < sh->n_heads; head++) {
        for (int64_t j = 0; j < n; j++) {
            a->score[head * stride + j] =
                sh->ties ? (float)check_rand_int(c, 0, 3) : 2 * (float)check_rand_unit(c);
            weights[head * other + j] = sh->ties ? 0.5f : (float)check_rand_unit(c);
        }
        shuffle_ages(c, a->ages + head * stride, n - 1);
    }
    a->weights = weights;
    a->age = (int32_t)n - 1;
    a->recent_from = (int32_t)(n - sh->n_recent);
    snprintf(c->text, sizeof c->text, "%s heads=%dx%d rows=%lld recent=%d%s%s", sac_dtype_name(a->kv.dtype),
             sh->n_heads, sh->head_dim, (long long)n, sh->n_recent, sh->evict ? "" : " none leaves",
             sh->ties ? " ties" : "");
    return true;
}

bool check_make_keep(check_case *c, int i) {
    c->exact = c->same_bits = true;
    return c->op == CHECK_keep_rows ? make_keep(c, i) : make_evict(c, i);
}

/* ---------------------------------------------------------------- pattern_rows */

static const struct pattern_shape {
    int n_lists;
    int64_t n_columns, n_diagonals, width, first, block, n_blocks, n_rows;
    bool by_block, own;
} pattern_shapes[] = {
    {1, 1, 1, 1, 0, 64, 1, 1, false, false},
    {4, 30, 50, 1, 0, 64, 5, 300, false, false},
    {7, 100, 20, 1, 77, 64, 3, 269, false, false},
    {2, 0, 40, 1, 31, 17, 9, 180, false, false},
    {3, 60, 0, 1, 0, 64, 4, 256, false, true},
    {4, 6, 0, 64, 0, 64, 9, 570, true, true},
    {2, 3, 1, 64, 100, 64, 4, 350, true, true},
    {28, 40, 300, 1, 1000, 64, 2, 1128, false, false},
    {2, 500, 2000, 1, 9000, 64, 3, 9192, false, false},
    {1, 9, 1, 7, 5, 3, 20, 65, true, false},
};

static int32_t *random_numbers(check_case *c, int64_t n, int64_t min, int64_t max) {
    int32_t *p = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n, n, 4);
    for (int64_t i = 0; i < n; i++) p[i] = (int32_t)check_rand_int(c, min, max);
    return p;
}

static void *add_numbers(check_case *c, int64_t n, size_t misalign) {
    void *p = check_buffer_add(c, true, SAC_DTYPE_F32, 1, n, n, misalign);
    c->buffer[c->n_buffers - 1].integers = true;
    return p;
}

bool check_make_pattern(check_case *c, int i) {
    if (i >= 3 * (int)SAC_COUNT(pattern_shapes)) return false;
    const struct pattern_shape *sh = &pattern_shapes[i / 3];
    sac_pattern_rows_args *a = &c->pattern_rows;
    int64_t n_all = sh->n_lists * sh->n_blocks, last = sh->n_rows / sh->width;
    *a = (sac_pattern_rows_args){.n_columns = sh->n_columns,
                                 .n_diagonals = sh->n_diagonals,
                                 .width = sh->width,
                                 .first = sh->first,
                                 .block = sh->block,
                                 .n_blocks = sh->n_blocks,
                                 .n_rows = sh->n_rows,
                                 .n_lists = sh->n_lists,
                                 .by_block = sh->by_block,
                                 .own = sh->own};
    /* with repeats, past the end, and none at all */
    a->columns = random_numbers(c, (sh->by_block ? n_all : sh->n_lists) * sh->n_columns, -1, last + 1);
    a->diagonals = random_numbers(c, sh->n_lists * sh->n_diagonals, 0, i % 3 ? sh->n_rows : sh->block);
    a->rows = add_numbers(c, n_all * sh->n_rows, 4);
    a->start = add_numbers(c, 2 * (n_all + 1), 0);
    a->pairs = add_numbers(c, 2 * n_all, 0);
    c->exact = c->same_bits = true;
    snprintf(c->text, sizeof c->text,
             "%lld blocks of %lld from %lld of %lld, lists=%d, %lld columns of %lld, %lld diagonals%s%s",
             (long long)sh->n_blocks, (long long)sh->block, (long long)sh->first, (long long)sh->n_rows,
             sh->n_lists, (long long)sh->n_columns, (long long)sh->width, (long long)sh->n_diagonals,
             sh->by_block ? ", by block" : "", sh->own ? ", own" : "");
    return true;
}
