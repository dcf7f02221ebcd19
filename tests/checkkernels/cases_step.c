/* cases_step.c - cases of qkv_step, gate_up_step, out_step, mean_rows, choice_rows, choice_step and choice_attend. */
#include "check.h"

#include <math.h>
#include <string.h>

#define EPS 0x1p-24

static const struct step_shape {
    int n_heads, n_kv_heads, head_dim, hidden, rot_dim;
    bool interleaved, bias, by_head;
    int64_t first;
} shapes[] = {
    {1, 1, 8, 8, 8, false, false, false, 0},      {4, 2, 64, 256, 64, false, true, true, 3},
    {7, 1, 128, 512, 128, false, true, true, 9},  {6, 3, 80, 264, 40, false, false, false, 1},
    {4, 4, 24, 1000, 16, true, true, true, 2},    {8, 2, 64, 72, 64, true, false, false, 0},
    {28, 4, 128, 640, 128, false, true, true, 5}, {3, 1, 20, 44, 12, false, true, true, 1},
    {2, 1, 64, 4616, 64, false, true, true, 3},   {28, 4, 128, 3584, 128, false, true, true, 5},
    {8, 4, 256, 640, 256, false, false, true, 4}, {3, 1, 160, 264, 40, true, true, false, 2},
    {168, 8, 128, 264, 128, false, true, true, 1}, /* several units of work for each block of a GPU */
};
enum { N_SHAPES = CHECK_STEP_SHAPES };
_Static_assert(SAC_COUNT(shapes) == N_SHAPES, "as the devices' cases have it");

static double dtype_eps(sac_dtype t) {
    return t == SAC_DTYPE_F32 ? EPS : t == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}

/* So that products with weights below 1 come to about 1. */
static const float *norm_of(check_case *c, int64_t k) {
    float *norm = check_mat(c, false, 1, k, 0, 4, CHECK_UNIFORM).data;
    for (int64_t i = 0; i < k; i++) norm[i] *= 3 / sqrtf((float)k);
    return norm;
}
static const float *bias_of(check_case *c, bool has, int64_t n) {
    return has ? check_mat(c, false, 1, n, 0, 4, CHECK_UNIFORM).data : NULL;
}

static void make_qkv(check_case *c, const struct step_shape *sh, sac_dtype t) {
    sac_qkv_step_args *a = &c->qkv_step;
    int64_t d = sh->head_dim, k = sh->hidden, n_q = sh->n_heads * d, n_kv = sh->n_kv_heads * d;
    check_kv_shape kv = {.dtype = t,
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = sh->first + 1,
                         .n_valid = sh->first + 4,
                         .output = true};
    *a = (sac_qkv_step_args){.n_heads = sh->n_heads, .eps = 1e-6f, .first = sh->first};
    a->q = check_mat(c, true, 1, n_q, 0, 4, CHECK_UNIFORM);
    a->kv = check_kv(c, &kv, NULL, NULL);
    a->x = check_mat(c, false, 1, k, 0, 4, CHECK_OUTLIERS);
    a->norm = norm_of(c, k);
    a->wq = check_weights(c, t, n_q, k, 4, CHECK_UNIFORM);
    a->wk = check_weights(c, t, n_kv, k, 4, CHECK_UNIFORM);
    a->wv = check_weights(c, t, n_kv, k, 4, CHECK_UNIFORM);
    a->q_bias = bias_of(c, sh->bias, n_q);
    a->k_bias = bias_of(c, sh->bias, n_kv);
    a->v_bias = bias_of(c, sh->bias, n_kv);
    a->rotation = *check_rotation(c, 40, sh->rot_dim, sh->interleaved, 1);
    int32_t *pos = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 1, 1, 4);
    pos[0] = (int32_t)check_rand_int(c, 0, 39);
    a->pos = pos;
    int64_t stored = 2 * a->kv.n_rows * n_kv;
    double *allowed = check_allow(c, n_q + stored), error = EPS * (32 + 8 * sqrt((double)k));
    for (int64_t i = 0; i < n_q; i++) allowed[i] = error;
    /* the device rounds the normalised token to its type, then what it stores */
    for (int64_t i = 0; i < stored; i++) allowed[n_q + i] = error + 4 * dtype_eps(t);
    c->relative = 4 * EPS + 2 * dtype_eps(t);
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d hidden=%d rot=%d%s%s", sac_dtype_name(t),
             sh->n_heads, sh->n_kv_heads, sh->head_dim, sh->hidden, sh->rot_dim,
             sh->interleaved ? " interleaved" : "", sh->bias ? " bias" : "");
}

void check_make_gates(check_case *c, int64_t rows, int64_t n, int64_t k, sac_dtype t) {
    sac_gate_up_step_args *a = &c->gate_up_step;
    *a = (sac_gate_up_step_args){.eps = 1e-6f};
    a->y = check_mat(c, true, rows, n, rows == 1 ? 0 : 8, 4, CHECK_UNIFORM);
    a->x = check_mat(c, false, rows, k, rows == 1 ? 0 : 8, 4, CHECK_OUTLIERS);
    a->norm = norm_of(c, k);
    a->gate = check_weights(c, t, n, k, 4, CHECK_UNIFORM);
    a->up = check_weights(c, t, n, k, 4, CHECK_UNIFORM);
    double *allowed = check_allow(c, rows * n);
    for (int64_t i = 0; i < rows * n; i++) allowed[i] = EPS * (64 + 16 * sqrt((double)k));
    c->relative = 8 * EPS;
    snprintf(c->text, sizeof c->text, "%s %lld rows, %lld x %lld", sac_dtype_name(t), (long long)rows,
             (long long)n, (long long)k);
}

static void make_gate_up(check_case *c, const struct step_shape *sh, int64_t rows, sac_dtype t) {
    check_make_gates(c, rows, sh->n_heads * sh->head_dim + (sh->first % 2), sh->hidden, t);
}

/* Sums of o and of what the MLP makes come to about 1, beside rows of x with outliers. */
void check_make_out_rows(check_case *c, int64_t rows, int64_t hidden, int64_t k, int64_t wide, bool bias) {
    sac_out_step_args *a = &c->out_step;
    const int64_t gap = rows == 1 ? 0 : 8;
    *a = (sac_out_step_args){.eps = 1e-6f};
    a->x = check_mat(c, true, rows, hidden, gap, 4, CHECK_OUTLIERS);
    a->wide = check_mat(c, true, rows, wide, gap, 4, CHECK_UNIFORM);
    a->o = check_mat(c, false, rows, k, gap, 4, CHECK_UNIFORM);
    a->norm = norm_of(c, hidden);
    a->o_bias = bias_of(c, bias, hidden);
    snprintf(c->text, sizeof c->text, "%lld rows, %lld, o %lld, wide %lld%s", (long long)rows,
             (long long)hidden, (long long)k, (long long)wide, bias ? " bias" : "");
}

/* Tokens, hidden, columns of o, channels of the MLP. */
static const int64_t outs[][4] = {{1, 8, 8, 8},      {1, 264, 136, 520}, {8, 96, 100, 72},
                                  {2, 256, 128, 96}, {9, 44, 24, 33},    {1, 1000, 512, 264},
                                  {33, 40, 24, 56},  {5, 130, 257, 129}, {1, 640, 1160, 300},
                                  {3, 1000, 72, 50}, {64, 24, 40, 16}};

static void make_out(check_case *c, int i, sac_dtype t) {
    const int64_t rows = outs[i][0], hidden = outs[i][1], k = outs[i][2], wide = outs[i][3];
    sac_out_step_args *a = &c->out_step;
    check_make_out_rows(c, rows, hidden, k, wide, i % 2 == 0);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < k; j++) sac_mat_row_f32(a->o, r)[j] *= 3 / sqrtf((float)k);
    a->wo = check_weights(c, t, hidden, k, 4, CHECK_UNIFORM);
    a->gate = check_weights(c, t, wide, hidden, 4, CHECK_UNIFORM);
    a->up = check_weights(c, t, wide, hidden, 4, CHECK_UNIFORM);
    a->down = check_weights(c, t, hidden, wide, 4, CHECK_UNIFORM);
    /* a sum of o, which a channel of the MLP sees through its norm; those channels, each a term of a sum */
    double *allowed = check_allow(c, rows * (hidden + wide)), of_o = EPS * (16 + 4 * sqrt((double)k));
    const double of_wide = 2 * of_o + EPS * (64 + 16 * sqrt((double)hidden)),
                 of_x = of_o + sqrt((double)wide) * (of_wide + 4 * EPS);
    for (int64_t j = 0; j < rows * hidden; j++) allowed[j] = of_x;
    for (int64_t j = rows * hidden; j < rows * (hidden + wide); j++) allowed[j] = of_wide;
    c->relative = 8 * EPS;
    char text[sizeof c->text];
    memcpy(text, c->text, sizeof text);
    snprintf(c->text, sizeof c->text, "%s %.150s", sac_dtype_name(t), text);
}

static bool make_mean(check_case *c, int i) {
    static const int64_t sizes[][2] = {{1, 1},      {1, 300}, {7, 33},    {512, 128},
                                       {100, 3584}, {17, 40}, {68, 5000}, {1200, 4360}};
    if (i >= (int)SAC_COUNT(sizes) * CHECK_N_VALUES) return false;
    int64_t rows = sizes[i / CHECK_N_VALUES][0], cols = sizes[i / CHECK_N_VALUES][1];
    check_values v = (check_values)(i % CHECK_N_VALUES);
    sac_mat x = check_mat(c, false, rows, cols, check_rand_int(c, 0, 3), 4, v);
    int64_t n_groups = rows % 4 == 0 ? 4 : 1, each = rows / n_groups;
    float *y = check_mat(c, true, n_groups, cols, 0, 4, v).data;
    c->mean_rows = (sac_mean_rows_args){y, x, 1 / (float)each, .n_groups = n_groups};
    if (i % 3 == 2) c->mean_rows.scale = 1, c->mean_rows.divisor = (float)each;
    double *allowed = check_allow(c, n_groups * cols);
    for (int64_t j = 0; j < n_groups * cols; j++) {
        double sum = 0;
        for (int64_t r = j / cols * each; r < (j / cols + 1) * each; r++)
            sum += fabs((double)sac_mat_row_f32(x, r)[j % cols]);
        allowed[j] = 2 * EPS * (sqrt((double)each) + 4) * sum / (double)each + 1e-44;
    }
    snprintf(c->text, sizeof c->text, "%lldx%lld %s", (long long)rows, (long long)cols, check_values_name(v));
    return true;
}

static bool make_choice(check_case *c, int i) {
    static const int64_t sizes[][4] = {{0, 5, 0, 0},   {3, 0, 2, 0},   {128, 2048, 512, 1}, {1, 300, 7, 0},
                                       {0, 63, 9, 16}, {2, 20, 0, 3},  {0, 0, 5, 16},       {4, 0, 2000, 0},
                                       {0, 7, 1, 100}, {9, 33, 40, 16}};
    if (i >= 2 * (int)SAC_COUNT(sizes)) return false;
    int64_t init = sizes[i / 2][0], n = sizes[i / 2][1], local = sizes[i / 2][2], n_lists = i / 2 % 3;
    int64_t page = sizes[i / 2][3] ? sizes[i / 2][3] : 1, each = init + n * page + local;
    int64_t all = each * (n_lists ? n_lists : 1), n_all = n * (n_lists ? n_lists : 1);
    int32_t *chosen = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n_all, n_all, 4);
    for (int64_t j = 0; j < n_all; j++) chosen[j] = (int32_t)(2 * (j % n) + check_rand_int(c, 0, 1));
    c->choice_rows = (sac_choice_rows_args){.chosen = chosen, .n_chosen = n, .init = init, .local = local};
    c->choice_rows.n_lists = n_lists, c->choice_rows.n_more = check_rand_int(c, 0, 9);
    c->choice_rows.page = sizes[i / 2][3];
    c->choice_rows.n_rows = init + 2 * n * page + local + check_rand_int(c, 0, 9);
    c->choice_rows.rows = check_buffer_add(c, true, SAC_DTYPE_F32, 1, all, all, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    if (i % 2) {
        c->choice_rows.turn_back = check_buffer_add(c, true, SAC_DTYPE_F32, 1, all, all, 4);
        c->buffer[c->n_buffers - 1].integers = true;
    }
    if (i % 2 || page > 1) {
        int64_t words = 2 * ((n_lists ? n_lists : 1) + 1);
        c->choice_rows.start = check_buffer_add(c, true, SAC_DTYPE_F32, 1, words, words, 0);
        c->buffer[c->n_buffers - 1].integers = true;
    }
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lld, %lld x %lld, %lld, %lld lists", (long long)init, (long long)n,
             (long long)page, (long long)local, (long long)n_lists);
    return true;
}

static const struct choice_step_shape {
    int n_heads, n_kv_heads, head_dim, init, n_chosen, local, rot_dim;
    bool interleaved, kept;
    int skip, no_query; /* skip 1: there and 0, 2: there and not */
} choice_steps[] = {
    {4, 2, 64, 3, 20, 7, 64, false, false, 0, 0},     {28, 4, 128, 16, 200, 50, 128, false, false, 0, 0},
    {7, 1, 128, 0, 33, 9, 128, false, true, 0, 0},    {2, 2, 80, 5, 1, 2, 80, false, true, 0, 0},
    {6, 2, 44, 2, 9, 4, 20, true, false, 0, 0},       {8, 2, 64, 1, 12, 5, 32, false, true, 0, 0},
    {28, 4, 128, 9, 70, 30, 128, false, false, 1, 0}, {28, 4, 128, 9, 70, 30, 128, false, false, 2, 0},
    {6, 2, 64, 9, 70, 0, 64, false, false, 2, 1},     {7, 1, 80, 9, 70, 0, 80, false, false, 1, 1},
    {8, 8, 128, 4, 31, 5, 128, false, false, 0, 1},   {7, 1, 44, 9, 20, 6, 20, true, false, 2, 0}};

static bool make_choice_step(check_case *c, int i) {
    if (i >= 3 * (int)SAC_COUNT(choice_steps)) return false;
    const struct choice_step_shape *sh = &choice_steps[i / 3];
    sac_choice_step_args *a = &c->choice_step;
    sac_dtype t = (sac_dtype)(i % 3);
    int64_t n = sh->init + sh->n_chosen + sh->local, cols = (int64_t)sh->n_heads * sh->head_dim;
    *a = (sac_choice_step_args){.n_chosen = sh->n_chosen,
                                .init = sh->init,
                                .local = sh->local,
                                .n_rows = n + sh->n_chosen + check_rand_int(c, 0, 9),
                                .n_heads = sh->n_heads,
                                .kept = sh->kept};
    check_kv_shape kv = {.dtype = t,
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = n,
                         .n_valid = n,
                         .output = true};
    a->q = check_mat(c, !sh->no_query, 1, cols, 0, 4, CHECK_UNIFORM);
    if (sh->no_query) a->n_heads = 0, a->q.cols = cols = 0;
    a->dst = check_kv(c, &kv, NULL, NULL);
    kv.output = false, kv.n_rows = kv.n_valid = a->n_rows;
    double norm;
    a->src = check_kv(c, &kv, &norm, NULL);
    int32_t *chosen = check_buffer_add(c, false, SAC_DTYPE_F32, 1, sh->n_chosen, sh->n_chosen, 4);
    for (int j = 0; j < sh->n_chosen; j++) chosen[j] = 2 * j + (int32_t)check_rand_int(c, 0, 1);
    a->chosen = chosen;
    if (sh->skip) {
        int32_t *skip = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 1, 1, 0);
        *skip = sh->skip - 1;
        a->skip = skip;
    }
    a->rotation = *check_rotation(c, a->n_rows, sh->rot_dim, sh->interleaved, i % 2 ? 1.25f : 1);
    int64_t all = cols + 2 * a->dst.n_rows * sh->n_kv_heads * sh->head_dim;
    double *allowed = check_allow(c, all), error = (8 * EPS + 2 * dtype_eps(t)) * norm * 1.5;
    for (int64_t j = 0; j < cols; j++) allowed[j] = 16 * EPS;
    for (int64_t j = cols; j < all; j++) allowed[j] = error + (t == SAC_DTYPE_F16 ? 0x1p-24 : 1e-38);
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d %d + %d + %d rot=%d%s%s skip=%d%s",
             sac_dtype_name(t), sh->n_heads, sh->n_kv_heads, sh->head_dim, sh->init, sh->n_chosen, sh->local,
             sh->rot_dim, sh->interleaved ? " interleaved" : "", sh->kept ? " kept" : "", sh->skip - 1,
             sh->no_query ? " no query" : "");
    return true;
}

/* Rows that lie side by side already, and the last ones where they lie. */
static bool make_choice_attend(check_case *c, int i) {
    static const struct attend_shape {
        int n_heads, n_kv_heads, head_dim, n_far, local, more, rot_dim;
        bool interleaved;
    } attends[] = {{4, 2, 64, 20, 7, 31, 64, false},       {28, 4, 128, 330, 90, 77, 128, false},
                   {7, 1, 128, 33, 1, 0, 128, false},      {7, 1, 128, 0, 40, 0, 128, false},
                   {28, 4, 128, 1150, 261, 5, 128, false}, {6, 2, 44, 9, 4, 12, 20, true},
                   {8, 2, 64, 100, 16, 9, 32, false},      {28, 4, 128, 2176, 512, 5, 128, false},
                   {14, 2, 128, 17000, 300, 5, 128, false}};
    if (i >= 3 * (int)SAC_COUNT(attends)) return false;
    const struct attend_shape *sh = &attends[i / 3];
    sac_choice_attend_args *a = &c->choice_attend;
    sac_dtype t = (sac_dtype)(i % 3);
    int d = sh->head_dim, n_heads = sh->n_heads;
    int64_t cols = (int64_t)n_heads * d;
    *a = (sac_choice_attend_args){.n_far = sh->n_far, .local = sh->local};
    a->n_rows = a->n_far + a->local + sh->more;
    a->n_heads = n_heads, a->scale = 1.5f / sqrtf((float)d);
    check_kv_shape kv = {.dtype = t, .n_heads = sh->n_kv_heads, .head_dim = d};
    double q_norm = 0, k_norm[2], v_norm[2];
    a->q = check_mat(c, true, 1, cols, 0, 4, CHECK_UNIFORM);
    for (int64_t j = 0; j < cols; j++) q_norm = fmax(q_norm, fabs((double)sac_mat_row_f32(a->q, 0)[j]));
    kv.n_rows = kv.n_valid = a->n_far + 1;
    a->far = check_kv(c, &kv, &k_norm[0], &v_norm[0]);
    kv.n_rows = kv.n_valid = a->n_rows;
    a->src = check_kv(c, &kv, &k_norm[1], &v_norm[1]);
    a->rotation = *check_rotation(c, a->n_rows + 2, sh->rot_dim, sh->interleaved, i % 2 ? 1.25f : 1);
    /* a score is off by roundings of its products, an output by twice that */
    double *allowed = check_allow(c, cols), k = fmax(k_norm[0], k_norm[1]), v = fmax(v_norm[0], v_norm[1]);
    double score = 1.5 * q_norm * sqrt((double)d) * k * (double)a->scale;
    for (int64_t j = 0; j < cols; j++) allowed[j] = EPS * (32 + 16 * score) * v;
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d %lld + %lld of %lld rot=%d%s", sac_dtype_name(t),
             n_heads, sh->n_kv_heads, d, (long long)a->n_far, (long long)a->local, (long long)a->n_rows,
             sh->rot_dim, sh->interleaved ? " interleaved" : "");
    return true;
}

/* Tokens of gate_up_step's cases beyond the first of each shape. */
static const int64_t few[CHECK_FEW_STEPS] = {8, 2, 9, 6, 5, 3, 12, 7, 4, 8};

bool check_make_step_of(check_case *c, int i, sac_dtype t) {
    c->same_bits = true;
    if (c->op == CHECK_qkv_step && i < N_SHAPES)
        make_qkv(c, &shapes[i], t);
    else if (c->op == CHECK_gate_up_step && i < N_SHAPES + CHECK_FEW_STEPS)
        make_gate_up(c, &shapes[i % N_SHAPES], i < N_SHAPES ? 1 : few[i - N_SHAPES], t);
    else if (c->op == CHECK_out_step && i < (int)SAC_COUNT(outs))
        make_out(c, i, t);
    else
        return false;
    return true;
}

/* Several tokens by a wide matrix: the plain reference takes seconds over each. */
static bool is_slow(const check_case *c, int i) {
    return c->op == CHECK_gate_up_step && i >= N_SHAPES && i < N_SHAPES + CHECK_FEW_STEPS &&
           shapes[i % N_SHAPES].hidden > 3000;
}

/* On a CPU only the reference has these ops, and other builds run it with all types, and with several tokens. */
static bool is_left_out(int i, sac_dtype t) {
    const struct step_shape *sh = &shapes[i % N_SHAPES];
    return CHECK_IS_SANITIZED && (t != SAC_DTYPE_BF16 || i >= N_SHAPES) && sh->n_heads * sh->head_dim * sh->hidden > 1 << 20;
}

bool check_make_step(check_case *c, int i, bool quick) {
    c->same_bits = true;
    if (quick && is_slow(c, i / 3) && i % 3 != SAC_DTYPE_BF16) return true; /* no buffers: skipped */
    if (c->op == CHECK_mean_rows) return make_mean(c, i);
    if (c->op == CHECK_choice_rows) return make_choice(c, i);
    if (c->op == CHECK_choice_step) return make_choice_step(c, i);
    if (c->op == CHECK_choice_attend) return make_choice_attend(c, i);
    if (c->op == CHECK_out_step) return check_make_step_of(c, i / 3, (sac_dtype)(i % 3));
    if (quick && is_left_out(i / 3, (sac_dtype)(i % 3))) return true; /* no buffers: skipped */
    return check_make_step_of(c, i / 3, (sac_dtype)(i % 3));
}
