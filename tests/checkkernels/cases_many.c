/* cases_many.c - cases of store_many, attention_many and packed_step_many: sequences of unequal length. */
#include "check.h"

#include <math.h>

#define EPS 0x1p-24

static double dtype_eps(sac_dtype t) {
    return t == SAC_DTYPE_F32 ? EPS : t == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}

/* Groups of 1, 2, 4, 7, 8, 9 and 18 heads, heads of 64 to 256 channels, capped scores; one row, either side of a tile
 * (16 keys) and of a block's (128); one long sequence among short ones; more than a launch takes. With `every`
 * attention reads lists of one row in so many, but for each third sequence, which reads all its rows: lists of
 * key-value heads and of all heads in turn, some without a row. */
static const struct many_shape {
    int n, n_heads, n_kv_heads, head_dim;
    int64_t n_keys[4]; /* taken in turn */
    int64_t window;
    int rot_dim;
    bool interleaved;
    int every; /* 0: no lists */
    float softcap;
} shapes[] = {
    {1, 4, 4, 64, {1}, 0, 64, false, 0, 0},
    {2, 14, 2, 128, {1, 700}, 0, 128, false, 0, 0},
    {3, 28, 4, 128, {1300, 16, 129}, 0, 128, false, 0, 0},
    {8, 28, 4, 128, {200, 200, 200, 200}, 0, 128, false, 0, 0},
    {5, 8, 8, 64, {300, 15, 17, 1}, 0, 40, true, 0, 0},
    {4, 8, 1, 128, {31, 1000, 33, 127}, 50, 64, false, 0, 0},
    {6, 8, 2, 80, {255, 5, 128, 600}, 0, 80, false, 0, 0},
    {3, 18, 1, 96, {90, 2, 350}, 0, 96, true, 0, 0},
    {37, 9, 1, 64, {40, 3, 300, 64}, 0, 32, false, 0, 0},
    {9, 32, 32, 128, {3, 65, 10, 1}, 0, 128, false, 0, 0},
    {3, 6, 3, 20, {30, 9, 2}, 0, 12, false, 0, 0},
    {1, 28, 4, 128, {900}, 0, 128, false, 2, 0},
    {5, 28, 4, 128, {1300, 700, 260, 900}, 0, 128, false, 3, 0},
    {7, 8, 8, 64, {300, 400, 317, 290}, 90, 40, true, 1, 0},
    {34, 9, 1, 80, {140, 133, 300, 164}, 0, 32, false, 2, 0},
    {5, 8, 4, 256, {1300, 7, 260, 33}, 0, 256, false, 0, 0},
    {4, 16, 8, 160, {90, 700, 17, 128}, 100, 160, false, 0, 0},
    {5, 28, 4, 192, {300, 700, 260, 90}, 0, 192, false, 3, 0},
    {34, 8, 4, 256, {40, 3, 300, 64}, 0, 256, false, 0, 2},
    {3, 28, 4, 128, {1300, 16, 129}, 60, 128, false, 0, 0.5f},
    {4, 8, 2, 72, {31, 1000, 33, 127}, 0, 72, false, 0, 1},
};

/* Sequence i of the case's keys: rows of one view, from another one on. */
static sac_kv_view part_of(const sac_kv_view *all, int64_t first, int64_t n) {
    sac_kv_view kv = *all;
    size_t bytes = (size_t)(first * all->row_stride) * sac_dtype_row_bytes(all->dtype, 1);
    kv.k = (char *)all->k + bytes;
    kv.v = (char *)all->v + bytes;
    kv.n_rows = n;
    return kv;
}

/* Lists of the first n rows for every sequence. */
static void list_rows(check_case *c, const struct many_shape *sh, int64_t n) {
    const sac_row_lists *all = check_row_lists(c, sh->n * sh->n_kv_heads, n, sh->every);
    for (int i = 0; i < sh->n; i++)
        c->many_lists[i] =
            (sac_row_lists){all->rows, all->start + (int64_t)i * sh->n_kv_heads, i % 2 ? 1 : sh->n_kv_heads};
}
static int64_t longest_list(const sac_row_lists *l) {
    int64_t n = 1;
    for (int i = 0; i < l->n_lists; i++) {
        int64_t length = l->start[i + 1] - l->start[i];
        n = length > n ? length : n;
    }
    return n;
}

static bool make_attention(check_case *c, const struct many_shape *sh, sac_dtype t) {
    sac_attention_args *each = c->many.attention;
    int64_t most = 0, least = INT64_MAX, cols = (int64_t)sh->n_heads * sh->head_dim;
    for (int i = 0; i < 4; i++) most = sh->n_keys[i] > most ? sh->n_keys[i] : most;
    for (int i = 0; i < 4 && i < sh->n; i++) least = sh->n_keys[i] < least ? sh->n_keys[i] : least;
    check_kv_shape shape = {.dtype = t,
                            .n_heads = sh->n_kv_heads,
                            .head_dim = sh->head_dim,
                            .n_rows = most + sh->n,
                            .n_valid = most + sh->n,
                            .k = CHECK_OUTLIERS};
    double k_norm, v_max;
    sac_kv_view kv = check_kv(c, &shape, &k_norm, &v_max);
    sac_mat o = check_mat(c, true, sh->n, cols, 8, 0, CHECK_UNIFORM), q = o;
    if (check_rand_int(c, 0, 1)) q = check_mat(c, false, sh->n, cols, 0, 0, CHECK_UNIFORM);
    if (sh->every) list_rows(c, sh, least);
    double *allowed = check_allow(c, sh->n * cols), scale = 1 / sqrt((double)sh->head_dim);
    for (int i = 0; i < sh->n; i++) {
        int64_t n = sh->n_keys[i % 4] ? sh->n_keys[i % 4] : 1;
        int at = sh->n - 1 - i; /* rows of the matrix in another order */
        each[i] = (sac_attention_args){.o = sac_mat_rows(o, at, 1),
                                       .q = sac_mat_rows(q, at, 1),
                                       .kv = part_of(&kv, i % 8, n),
                                       .n_q = 1,
                                       .n_kv = n,
                                       .first = n - 1,
                                       .n_batch = 1,
                                       .n_heads = sh->n_heads,
                                       .scale = (float)scale,
                                       .causal = true,
                                       .window = sh->window,
                                       .softcap = sh->softcap};
        if (sh->every && i % 3 < 2) {
            each[i].lists = &c->many_lists[i];
            each[i].n_kv = longest_list(each[i].lists);
        }
        for (int64_t j = 0; j < cols; j++) {
            double q_norm = sqrt((double)sh->head_dim); /* at most */
            allowed[at * cols + j] =
                EPS * v_max *
                (4 + sqrt((double)n) +
                 2 * (4 + sqrt((double)sh->head_dim)) * (q_norm * k_norm * scale + (double)sh->softcap));
        }
    }
    c->attention_many = (sac_attention_many_args){each, sh->n};
    c->relative = 2 * EPS;
    return true;
}

static bool make_store(check_case *c, const struct many_shape *sh, sac_dtype t) {
    sac_token_store *each = c->many.store;
    int64_t q_cols = (int64_t)sh->n_heads * sh->head_dim, kv_cols = (int64_t)sh->n_kv_heads * sh->head_dim;
    check_kv_shape shape = {.dtype = t,
                            .n_heads = sh->n_kv_heads,
                            .head_dim = sh->head_dim,
                            .n_rows = 3 * sh->n,
                            .n_valid = 3 * sh->n,
                            .output = true};
    sac_mat q = check_mat(c, true, sh->n, q_cols, check_rand_int(c, 0, 3), 4, CHECK_OUTLIERS);
    sac_mat k = check_mat(c, false, sh->n, kv_cols, check_rand_int(c, 0, 3), 4, CHECK_UNIFORM);
    sac_mat v = check_mat(c, false, sh->n, kv_cols, check_rand_int(c, 0, 3), 4, CHECK_UNIFORM);
    sac_kv_view kv = check_kv(c, &shape, NULL, NULL);
    int32_t *pos = check_buffer_add(c, false, SAC_DTYPE_F32, 1, sh->n, sh->n, 4);
    const sac_rotation *r = check_rotation(c, 40, sh->rot_dim, sh->interleaved, 1);
    for (int i = 0; i < sh->n; i++) {
        pos[i] = (int32_t)check_rand_int(c, 0, 39);
        each[i] = (sac_token_store){.q = sac_mat_rows(q, i, 1),
                                    .k = sac_mat_rows(k, i, 1),
                                    .v = sac_mat_rows(v, i, 1),
                                    .rotation = *r,
                                    .pos = pos + i,
                                    .kv = part_of(&kv, i, kv.n_rows - i),
                                    .first = (int64_t)2 * (sh->n - i - 1) + 1,
                                    .n_heads = sh->n_heads};
    }
    c->store_many = (sac_store_many_args){each, sh->n};
    int64_t n_q = sh->n * q_cols, n = n_q + 2 * kv.n_rows * kv_cols;
    double *allowed = check_allow(c, n);
    for (int64_t i = 0; i < n; i++) /* rounded to the matrix's type, then to the view's */
        allowed[i] = i < n_q ? 400 * EPS : 8 * EPS + 4 * dtype_eps(t);
    c->relative = 2 * EPS;
    return true;
}

bool check_make_many_of(check_case *c, int i, sac_dtype t) {
    if (i >= (int)SAC_COUNT(shapes)) return false;
    const struct many_shape *sh = &shapes[i];
    c->same_bits = true;
    snprintf(c->text, sizeof c->text,
             "%s %d sequences heads=%d/%d d=%d keys=%lld, %lld .. window=%lld lists=%d", sac_dtype_name(t),
             sh->n, sh->n_heads, sh->n_kv_heads, sh->head_dim, (long long)sh->n_keys[0],
             (long long)sh->n_keys[1], (long long)sh->window, sh->every);
    return c->op == CHECK_store_many ? make_store(c, sh, t) : make_attention(c, sh, t);
}

int check_n_many(void) {
    return (int)SAC_COUNT(shapes);
}

bool check_make_many(check_case *c, int i) {
    int n = check_n_many();
    return i < 3 * n && check_make_many_of(c, i % n, (sac_dtype)(i / n));
}
