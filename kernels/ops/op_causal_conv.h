#ifndef SAC_OP_CAUSAL_CONV_H
#define SAC_OP_CAUSAL_CONV_H

#include "device.h"
#include "state_rows.h"

enum { SAC_CONV_MOST = 8 }; /* largest width */

/* A convolution along the rows of a sequence, of each channel by itself, that looks at no later row:
 *   y[t][c] = silu(sum over j < width of w[j][c] x[t - width + 1 + j][c])
 * A part's state is the width - 1 rows before its first, the oldest first: [width - 1][channels]. y may be x. However
 * rows are cut into calls, a row's bits are the same on the CPU. */
typedef struct sac_causal_conv_args {
    sac_mat y, x;   /* [rows][channels] */
    const float *w; /* [width][channels] */
    int width;      /* 1 to SAC_CONV_MOST */
    const sac_state_rows *parts; /* [n_parts], of all rows together; on the host */
    int n_parts;
} sac_causal_conv_args;

#endif
