/* cases_states.c - cases of the ops that go down a sequence with a state: causal_conv, delta_rule. */
#include "check.h"

#include <math.h>

#define EPS 0x1p-24

enum { MOST_PARTS = 5 };

/* Rows of each part, up to a -1: a step, a prompt's chunk, one token each of several sequences, parts without rows,
 * either side of a block of rows. */
static const int cuts[][MOST_PARTS + 1] = {{1, -1},          {7, -1},        {1, 1, 1, -1}, {5, 0, 1, 9, -1}, {16, -1},
                                           {17, 3, -1},      {33, -1},       {0, 2, -1},    {1, 1, 1, 1, 1, -1}};
#define N_CUTS ((int)SAC_COUNT(cuts))

static int64_t n_rows(int cut) {
    int64_t sum = 0;
    for (const int *n = cuts[cut]; *n >= 0; n++) sum += *n;
    return sum;
}

/* States are outputs, behind y. */
static int take_states(check_case *c, int cut, int64_t rows, int64_t cols, check_values v) {
    int n = 0;
    for (; cuts[cut][n] >= 0; n++)
        c->many.states[n] = (sac_state_rows){cuts[cut][n], check_mat(c, true, rows, cols, 0, 4, v).data};
    return n;
}

static double largest(sac_mat m) {
    double max = 0;
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t j = 0; j < m.cols; j++) max = fmax(max, fabs((double)sac_mat_row_f32(m, i)[j]));
    return max;
}

/* ---------------------------------------------------------------- causal_conv */

static bool make_conv(check_case *c, int i) {
    static const int channels[] = {1, 8, 17, 64, 130, 1000}, widths[] = {4, 4, 4, 2, 3, 8, 1};
    if (i >= N_CUTS * 6 * 3) return false;
    const int cut = i % N_CUTS, n = channels[i / N_CUTS % 6];
    const int64_t rows = n_rows(cut), gap = check_rand_int(c, 0, 1) * check_rand_int(c, 1, 9);
    const check_values v = (check_values)(i % CHECK_N_VALUES);
    const bool in_place = i % 2;
    sac_causal_conv_args *a = &c->causal_conv;
    a->width = widths[i % 7];
    a->y = check_mat(c, true, rows, n, gap, 4, v);
    a->x = in_place ? a->y : check_mat(c, false, rows, n, 2 * gap, 8, v);
    if (a->width > 1)
        a->n_parts = take_states(c, cut, a->width - 1, n, v);
    else /* no state: no output */
        for (; cuts[cut][a->n_parts] >= 0; a->n_parts++)
            c->many.states[a->n_parts] = (sac_state_rows){cuts[cut][a->n_parts], (float *)a->x.data};
    a->parts = c->many.states;
    a->w = check_mat(c, false, a->width, n, 0, 4, CHECK_UNIFORM).data;
    double max = largest(a->x);
    for (int p = 0; p < a->n_parts && a->width > 1; p++)
        max = fmax(max, largest((sac_mat){a->parts[p].state, a->width - 1, n, n, SAC_DTYPE_F32}));
    const int64_t n_y = rows * n;
    double *allowed = check_allow(c, n_y + (int64_t)a->n_parts * (a->width - 1) * n);
    for (int64_t k = 0; k < n_y; k++) allowed[k] = 4 * EPS * a->width * max + 1e-33; /* SiLU's slope is below 1.1 */
    c->relative = 8 * EPS; /* rows of states are moved: no difference is allowed to 0, and they have none */
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%d channels, width %d, cut %d gap=%lld%s %s", n, a->width, cut, (long long)gap,
             in_place ? " in place" : "", check_values_name(v));
    return true;
}

/* ---------------------------------------------------------------- delta_rule */

/* heads, key heads, key_dim, value_dim: one of each, odd, either side of vectors and of groups of them, real ones */
static const int shapes[][4] = {{1, 1, 1, 1},   {2, 1, 8, 8},   {3, 3, 7, 5},     {4, 2, 16, 17}, {1, 1, 33, 31},
                                {2, 2, 32, 64}, {6, 2, 40, 72}, {4, 2, 128, 128}, {2, 1, 256, 40}, {1, 1, 64, 130}};
#define N_SHAPES ((int)SAC_COUNT(shapes))

/* A row's rounding is of what its state may hold, which no row makes larger than the largest value and what was there: keys
 * have length 1. It goes on to the rows behind it. */
static void allow_delta(check_case *c) {
    const sac_delta_rule_args *a = &c->delta_rule;
    const int64_t dk = sac_delta_key_dim(a), dv = sac_delta_value_dim(a), n_y = a->y.rows * a->y.cols,
                  n_state = (int64_t)a->n_heads * dk * dv;
    double max = largest(a->v), most = 0;
    for (int p = 0; p < a->n_parts; p++) {
        max = fmax(max, sqrt((double)dk) * largest((sac_mat){a->parts[p].state, 1, n_state, n_state, SAC_DTYPE_F32}));
        most = fmax(most, (double)a->parts[p].n);
    }
    double *allowed = check_allow(c, n_y + a->n_parts * n_state);
    for (int64_t i = 0; i < n_y + a->n_parts * n_state; i++)
        allowed[i] = EPS * (4 + sqrt((double)dk)) * (4 + sqrt(most)) * max + 1e-37;
    c->relative = 16 * EPS;
}

static bool make_delta(check_case *c, int i) {
    if (i >= N_CUTS * N_SHAPES * 2) return false;
    const int cut = i % N_CUTS, *sh = shapes[i / N_CUTS % N_SHAPES];
    const int64_t rows = n_rows(cut), gap = check_rand_int(c, 0, 1) * check_rand_int(c, 1, 9);
    const check_values v = (check_values)(i % CHECK_N_VALUES);
    const bool in_place = check_rand_int(c, 0, 1);
    sac_delta_rule_args *a = &c->delta_rule;
    a->n_heads = sh[0], a->n_key_heads = sh[1];
    a->eps = 1e-6f;
    a->y = check_mat(c, true, rows, (int64_t)sh[0] * sh[3], gap, 4, v);
    a->v = in_place ? a->y : check_mat(c, false, rows, (int64_t)sh[0] * sh[3], 2 * gap, 8, v);
    a->n_parts = take_states(c, cut, sh[0], (int64_t)sh[2] * sh[3], v);
    a->parts = c->many.states;
    a->q = check_mat(c, false, rows, (int64_t)sh[1] * sh[2], gap, 4, v);
    a->k = check_mat(c, false, rows, (int64_t)sh[1] * sh[2], 0, 12, v);
    a->a = check_mat(c, false, rows, sh[0], gap, 4, i % 3 ? CHECK_UNIFORM : CHECK_LARGE);
    a->b = check_mat(c, false, rows, sh[0], 0, 4, i % 3 ? CHECK_UNIFORM : CHECK_LARGE);
    a->a_log = check_mat(c, false, 1, sh[0], 0, 4, CHECK_UNIFORM).data;
    a->dt_bias = check_mat(c, false, 1, sh[0], 0, 4, CHECK_UNIFORM).data;
    allow_delta(c);
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%d heads of %d, %dx%d, cut %d gap=%lld%s %s", sh[0], sh[1], sh[2], sh[3], cut,
             (long long)gap, in_place ? " in place" : "", check_values_name(v));
    return true;
}

bool check_make_states(check_case *c, int i) {
    return c->op == CHECK_causal_conv ? make_conv(c, i) : make_delta(c, i);
}
