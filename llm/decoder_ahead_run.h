/* decoder_ahead_run.h - what a pass with drafted rows shares with one of several sequences. Of the decoder alone. */
#ifndef SAC_LLM_DECODER_AHEAD_RUN_H
#define SAC_LLM_DECODER_AHEAD_RUN_H

#include "decoder_run.h"

/* Tables for rows [past, past + n), which follow the sequence's end. */
sac_status sac_decoder_prepare_ahead(const decoder_run *r, int64_t past, int64_t n);

/* Where keys and values of n rows behind the sequence's end go in a layer; their queries' type. */
sac_block_part sac_decoder_part_ahead(const decoder_run *r, int layer, int64_t n);

/* A layer's attention of the rows of such a part, whose queries are q: on the CPU every row's bits are those of a step of its own. The layer
 * is one row longer then; the others lie behind its end. q is in the type of activations afterwards. */
sac_status sac_decoder_attend_ahead(const decoder_run *r, const sac_block_rows *rows, int layer, const sac_block_part *part, sac_mat q);

/* Row i of s->ahead_logits becomes the last of the sequence. */
void sac_decoder_go_ahead(sac_decoder_state *s, int64_t i);

#endif
