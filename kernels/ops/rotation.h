#ifndef SAC_ROTATION_H
#define SAC_ROTATION_H

#include "device.h"

#include <stdbool.h>

/* Rotary position embedding in place on every head's first rot_dim channels (Su et al., arXiv:2104.09864).
 * Pairs are (i, i + rot_dim/2), Hugging Face's layout, or (2i, 2i + 1) when interleaved (GGUF's for the llama
 * family). Turning back takes pos[row] positions away again: R(-p) x, without the
 * table's attention factor. */
typedef struct sac_rotation {
    const float *cos_sin; /* [positions][rot_dim/2][2], cos and sin times `factor` */
    int rot_dim;
    bool interleaved;
    float factor; /* yarn's attention factor, else 1 */
} sac_rotation;

#endif
