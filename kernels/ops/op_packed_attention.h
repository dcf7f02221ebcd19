#ifndef SAC_OP_PACKED_ATTENTION_H
#define SAC_OP_PACKED_ATTENTION_H

#include "packed_view.h"

#include <stdbool.h>

/* One query against packed rows of several parts, one after the other: o = softmax(scale q k^T) v. With o
 * NULL the scores are only written; with scores and o they are read, not computed. Rows whose score is below
 * min_score[head] do not count, and their values need not be read. lse as in attention. With `weights` what
 * stands in scores is exp(score - lse) instead, written or read, min_score is compared with that, and where
 * it is read lse becomes the logarithm of the sum of what counts. Variants may round a
 * head's q (times the keys' scale) to 16 bits, and its weights (times the values' scale) to 15 bits of the
 * largest of 256 rows. */
typedef struct sac_packed_attention_args {
    float *o;       /* [n_heads * head_dim], or NULL; may be q */
    const float *q; /* [n_heads * head_dim] */
    const sac_packed_rows *parts;
    int n_parts; /* at least one, all of the same heads */
    int n_heads;
    float scale;
    float *scores; /* [n_heads][stride] or NULL */
    int64_t stride;
    bool weights;
    const float *min_score; /* [n_heads] or NULL; not where weights are written */
    float *lse;             /* [n_heads] or NULL */
} sac_packed_attention_args;

#endif
