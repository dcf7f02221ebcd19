/* linear_group.cu - several products of the same rows: one product where the parts lie so, else one each;
 * blocks of one type in one kernel. */
#include "context.cuh"

namespace sac::linear {

/* Parts of the same type of blocks that follow each other; blocks are in an order of their matrix's own, so matrices do
 * not join. */
static sac_linear_group_args blocks_from(const sac_linear_group_args *a, int first) {
    sac_linear_group_args some = {0, a->x, {}, {}, {}, a->fast, a->steady, a->n_unsteady};
    for (int i = first; i < a->n && a->w[i].tensor.dtype == a->w[first].tensor.dtype; i++) {
        some.y[some.n] = a->y[i], some.w[some.n] = a->w[i], some.bias[some.n] = a->bias[i];
        some.n++;
    }
    return some;
}

static sac_status each_alone(const sac_stream *s, const sac_linear_group_args *a) {
    for (int i = 0; i < a->n; i++) {
        const sac_linear_args one = sac_linear_group_part(a, i);
        SAC_TRY(sac_cuda_linear(s, &one));
    }
    return SAC_OK;
}

static sac_status group_with_blocks(const sac_stream *s, const sac_linear_group_args *a) {
    for (int i = 0; i < a->n;) {
        const sac_linear_group_args some = blocks_from(a, i);
        sac_status st = sac_cuda_linear_group_blocks(s, &some, SAC_ACT_NONE, false);
        if (st == SAC_UNSUPPORTED) st = each_alone(s, &some);
        SAC_TRY(st);
        i += some.n;
    }
    return SAC_OK;
}

extern "C" sac_status sac_cuda_linear_group(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_args one;
    for (int i = 0; i < a->n; i++)
        if (sac_dtype_block(a->w[i].tensor.dtype) > 1) return group_with_blocks(s, a);
    return sac_linear_group_join(a, &one) ? sac_cuda_linear(s, &one) : each_alone(s, a);
}

} // namespace sac::linear
