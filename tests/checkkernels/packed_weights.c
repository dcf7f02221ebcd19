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

static sac_tensor numbers(check_case *c, sac_dtype t, int64_t n, int64_t k) {
    return (sac_tensor){words(c, t, n, k), t, 2, {n, k}};
}

static sac_tensor floats(check_case *c, int64_t rows, int64_t cols) {
    static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    return check_weights(c, types[check_rand_int(c, 0, 2)], rows, cols, 0, CHECK_UNIFORM).tensor;
}

static sac_weight awq(check_case *c, int64_t n, int64_t k) {
    sac_weight w = {.format = SAC_WEIGHT_AWQ, .group = group_of(c, k, 1)};
    const int64_t n_groups = k / w.group;
    w.tensor = numbers(c, SAC_DTYPE_AWQ, n, k);
    w.scales = check_weights(c, SAC_DTYPE_F16, n_groups, n, 0, CHECK_UNIFORM).tensor;
    w.zeros = numbers(c, SAC_DTYPE_AWQ, n_groups, n);
    return w;
}

/* Groups that k is no multiple of, and groups of scattered inputs, among them. */
static sac_weight gptq(check_case *c, sac_dtype t, int64_t n, int64_t k) {
    const int64_t groups[] = {k, 32, 8, 128};
    sac_weight w = {.format = SAC_WEIGHT_GPTQ, .group = groups[check_rand_int(c, 0, 3)]};
    if (w.group > k) w.group = k;
    const int64_t n_groups = (k + w.group - 1) / w.group;
    w.tensor = numbers(c, t, n, k);
    w.scales = floats(c, n_groups, n);
    w.zeros = numbers(c, t, n_groups, n);
    w.zero_add = (int)check_rand_int(c, 0, 1);
    if (check_rand_int(c, 0, 2)) return w;
    int32_t *order = check_buffer_add(c, false, SAC_DTYPE_I32, 1, k, k, 0);
    for (int64_t i = 0; i < k; i++) order[i] = (int32_t)check_rand_int(c, 0, (int)n_groups - 1);
    w.order = (sac_tensor){order, SAC_DTYPE_I32, 2, {1, k}};
    return w;
}

static sac_weight packed(check_case *c, sac_dtype t, int64_t n, int64_t k) {
    sac_weight w = {.format = SAC_WEIGHT_PACKED, .group = group_of(c, k, 8)};
    const bool one = w.group == k && check_rand_int(c, 0, 3) == 0;
    w.tensor = numbers(c, t, n, k);
    w.scales = floats(c, one ? 1 : n, k / w.group);
    if (check_rand_int(c, 0, 1)) w.zeros = numbers(c, t, k / w.group, one ? 8 : n);
    return w;
}

/* Without the bytes that are no numbers: what they make of a product is no number either, and is not compared. */
static sac_weight fp8(check_case *c, int64_t n, int64_t k) {
    const int64_t cols[] = {k, 24, 40, 128};
    sac_weight w = {.format = SAC_WEIGHT_FP8, .group = cols[check_rand_int(c, 0, 3)]};
    w.group_rows = w.group < k ? check_rand_int(c, 1, 130) : 0;
    if (w.group > k) w.group = k;
    w.tensor = numbers(c, SAC_DTYPE_FP8, n, k);
    uint8_t *q = (uint8_t *)(uintptr_t)w.tensor.data;
    for (int64_t i = 0; i < n * k; i++) q[i] = (q[i] & 0x7f) == 0x7f ? q[i] - 1 : q[i];
    const int64_t rows = w.group_rows              ? (n + w.group_rows - 1) / w.group_rows
                         : check_rand_int(c, 0, 1) ? n
                                                   : 1;
    w.scales = floats(c, rows, (k + w.group - 1) / w.group);
    return w;
}

/* NF4 and FP4: levels with scales. */
static sac_weight levels(check_case *c, sac_dtype t, int64_t n, int64_t k) {
    sac_weight w = {.format = t == SAC_DTYPE_NF4 ? SAC_WEIGHT_NF4 : SAC_WEIGHT_FP4, .group = group_of(c, k, 8)};
    w.tensor = numbers(c, t, n, k);
    w.scales = floats(c, n, k / w.group);
    return w;
}

static sac_weight hqq(check_case *c, int64_t n, int64_t k) {
    sac_weight w = {.format = SAC_WEIGHT_HQQ, .group = group_of(c, k, 8)};
    w.tensor = numbers(c, SAC_DTYPE_HQQ_4, n, k);
    w.scales = floats(c, n, k / w.group);
    w.zeros = floats(c, n, k / w.group);
    return w;
}

sac_weight check_packed_weights(check_case *c, sac_dtype t, int64_t n, int64_t k) {
    switch ((int)t) {
    case SAC_DTYPE_AWQ: return awq(c, n, k);
    case SAC_DTYPE_GPTQ_4:
    case SAC_DTYPE_GPTQ_8: return gptq(c, t, n, k);
    case SAC_DTYPE_PACKED_4:
    case SAC_DTYPE_PACKED_8: return packed(c, t, n, k);
    case SAC_DTYPE_FP8: return fp8(c, n, k);
    case SAC_DTYPE_HQQ_4: return hqq(c, n, k);
    default: return levels(c, t, n, k);
    }
}
