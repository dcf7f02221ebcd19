#ifndef SAC_OP_SCALE_ADD_H
#define SAC_OP_SCALE_ADD_H

#include "device.h"

/* y += factor x, each column of x times its scale: a residual with LayerScale (Touvron et al., arXiv:2103.17239, sec. 3),
 * or one that is normed or scaled as a whole before it is added. */
typedef struct sac_scale_add_args {
    sac_mat y, x;
    const float *scale; /* [cols], or NULL: 1 */
    float factor;       /* of x where scale is NULL; 0: 1 */
} sac_scale_add_args;

#endif
