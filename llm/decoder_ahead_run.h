/* decoder_ahead_run.h - the attention of drafted rows, of one sequence or in a batch. Of the decoder alone. */
#ifndef SAC_LLM_DECODER_AHEAD_RUN_H
#define SAC_LLM_DECODER_AHEAD_RUN_H

#include "decoder_run.h"

/* A layer's attention of hidden rows [first, first + n), whose keys and values are stored in the view from row `past` on: every
 * row's bits are those of a step of its own. The layer is one row longer then; the others lie behind its end. */
sac_status sac_decoder_attend_ahead(const decoder_run *r, int layer, int64_t first, int64_t n, sac_mat q, sac_kv_view kv,
                                    int64_t past);

#endif
