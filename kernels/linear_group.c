/* linear_group.c - several products of the same rows: each of them, or all as one. */
#include "op_linear_group.h"

sac_linear_args sac_linear_group_part(const sac_linear_group_args *a, int i) {
    return (sac_linear_args){.y = a->y[i],
                             .x = a->x,
                             .w = a->w[i],
                             .bias = a->bias[i],
                             .fast = a->fast,
                             .steady = a->steady,
                             .n_unsteady = a->n_unsteady};
}

static bool joins_weights(sac_weight *all, const sac_weight *next) {
    sac_tensor *t = &all->tensor;
    const sac_tensor *n = &next->tensor;
    if (all->scales.data || next->scales.data || next->format != all->format) return false;
    if (n->dtype != t->dtype || n->dim[1] != t->dim[1]) return false;
    if ((const uint8_t *)t->data + sac_weight_part_bytes(t) != n->data) return false;
    t->dim[0] += n->dim[0];
    return true;
}

static bool joins_outputs(sac_mat *all, const sac_mat *next) {
    if (next->dtype != all->dtype || next->stride != all->stride) return false;
    if ((const uint8_t *)all->data + sac_dtype_row_bytes(all->dtype, all->cols) != next->data) return false;
    all->cols += next->cols;
    return true;
}

bool sac_linear_group_join(const sac_linear_group_args *a, sac_linear_args *all) {
    *all = sac_linear_group_part(a, 0);
    for (int i = 1; i < a->n; i++) {
        const float *bias = all->bias ? all->bias + all->w.tensor.dim[0] : NULL;
        if (a->bias[i] != bias) return false;
        if (!joins_weights(&all->w, &a->w[i]) || !joins_outputs(&all->y, &a->y[i])) return false;
    }
    return true;
}
