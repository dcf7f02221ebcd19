/* projector.h - from the tower's features to the language model's embeddings: linear, GELU, linear
 * (LLaVA-1.5, sec. 3). */
#ifndef SAC_VISION_PROJECTOR_H
#define SAC_VISION_PROJECTOR_H

#include "ops.h"

typedef struct sac_projector {
    int in, hidden, out;
    sac_activation act;
    sac_tensor fc1, fc2;              /* [hidden][in], [out][hidden] */
    const float *fc1_bias, *fc2_bias; /* NULL where absent */
} sac_projector;

/* y [n][out] from x [n][in]; mid [n][hidden] is scratch; fast allows bf16 products. */
sac_status sac_projector_forward(const sac_projector *p, const sac_ops *ops, const sac_stream *stream,
                                 sac_mat x, sac_mat mid, sac_mat y, bool fast);

#endif
