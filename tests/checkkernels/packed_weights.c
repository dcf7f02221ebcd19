/* packed_weights.c - random weights in the packings of quantised checkpoints. */
#include "check.h"

static void *words(check_case *c, sac_dtype t, int64_t rows, int64_t cols) {
    uint8_t *at = check_buffer_add(c, false, t, rows, cols, cols, (size_t)check_rand_int(c, 0, 3));
    for (size_t i = 0; i < (size_t)rows * sac_dtype_row_bytes(t, cols); i++)
        at[i] = (uint8_t)check_rand_int(c, 0, 255);
    return at;
}

/* Groups of which k is a multiple. */
static int64_t group_of(check_case *c, int64_t k, int64_t step) {
    const int64_t groups[] = {k, 32, 8, 128};
    int64_t group = groups[check_rand_int(c, 0, 3)];
    return k % group || group % step ? k : group;
}

static sac_weight awq(check_case *c, int64_t n, int64_t k) {
    sac_weight w = {.format = SAC_WEIGHT_AWQ, .group = group_of(c, k, 1)};
    const int64_t n_groups = k / w.group;
    w.tensor = (sac_tensor){words(c, SAC_DTYPE_AWQ, k, n), SAC_DTYPE_AWQ, 2, {n, k}};
    w.scales = check_weights(c, SAC_DTYPE_F16, n_groups, n, 0, CHECK_UNIFORM).tensor;
    w.zeros = (sac_tensor){words(c, SAC_DTYPE_AWQ, n_groups, n), SAC_DTYPE_AWQ, 2, {n_groups, n}};
    return w;
}

sac_weight check_packed_weights(check_case *c, sac_dtype t, int64_t n, int64_t k) {
    (void)t;
    return awq(c, n, k);
}
