#ifndef SAC_OP_CHOICE_ATTEND_H
#define SAC_OP_CHOICE_ATTEND_H

#include "kv_view.h"
#include "rotation.h"

/* A step over what choice_step left and the sequence's last rows where they lie, where a device gains by not
 * moving them: q = softmax(scale q k^T) v over rows 0 .. n_far - 1 of `far`, met by q turned back by n_rows -
 * n_far - local positions, and rows n_rows - local .. n_rows - 1 of src, met by q as it is: rope only knows
 * distances, and from q to the last rows they are those of the sequence. */
typedef struct sac_choice_attend_args {
    sac_mat q; /* [1][n_heads * head_dim], replaced by the output */
    sac_kv_view far, src;
    int64_t n_far, local, n_rows;
    sac_rotation rotation;
    int n_heads;
    float scale;
} sac_choice_attend_args;

#endif
