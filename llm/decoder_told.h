/* decoder_told.h - logits of rows that a device has made, to their sequences: what a choice needs of them, or all. Of the decoder
 * alone. */
#ifndef SAC_LLM_DECODER_TOLD_H
#define SAC_LLM_DECODER_TOLD_H

#include "decoder_run.h"

/* Rows of a step whose logits [n][vocab] are made. */
typedef struct decoder_told_rows {
    const sac_decoder *d;
    const sac_ops *ops;
    const sac_stream *stream;
    sac_decoder_state *const *states; /* [n] */
    int64_t n;
    float *logits;            /* on the device, unless there is none: on the host */
    const sac_told_room *room; /* at least n rows; NULL: all logits come to the host */
} decoder_told_rows;

/* Whether the device may tell what is wanted, as far as the model and the device go. */
bool sac_decoder_may_tell(const sac_decoder *d, const sac_decoder_state *s);

/* Whether it is no more than the largest logit: what is told of a row then depends on no token before it. */
bool sac_decoder_wants_largest(const sac_decoder *d, const sac_decoder_state *s);

/* To each sequence's `told`, or logits; waits for the device. */
sac_status sac_decoder_hand_out(const decoder_told_rows *r, sac_error *err);

#endif
