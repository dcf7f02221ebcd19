#include "projector.h"

sac_status sac_projector_forward(const sac_projector *p, const sac_ops *ops, const sac_stream *stream,
                                 sac_mat x, sac_mat mid, sac_mat y, bool fast) {
    SAC_TRY(ops->linear(
        stream,
        &(sac_linear_args){.y = mid, .x = x, .w = p->fc1, .bias = p->fc1_bias, .act = p->act, .fast = fast}));
    return ops->linear(stream,
                       &(sac_linear_args){.y = y, .x = mid, .w = p->fc2, .bias = p->fc2_bias, .fast = fast});
}
