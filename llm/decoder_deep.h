/* decoder_deep.h - DeepStack (Meng et al., arXiv:2406.04334, as Qwen3-VL has it): after each of the first layers of a
 * prompt, features of another layer of the vision tower are added to the rows that show pictures. Of the decoder
 * alone. What is added belongs to a place of the sequence, so neither chunks nor tokens that are cached or dropped
 * change it. */
#ifndef SAC_LLM_DECODER_DEEP_H
#define SAC_LLM_DECODER_DEEP_H

#include "decoder_run.h"
#include "prefill.h"

/* To hidden rows [first, first + n), which the layer under way has made; none where its number is n_deep or above. */
sac_status sac_decoder_add_deep(const sac_prefill_work *w, int64_t first, int64_t n);
/* The same to rows y that stand elsewhere, after another layer, in the order of a stream that may be another than the work's. */
sac_status sac_decoder_add_deep_to(const sac_prefill_work *w, const sac_stream *stream, int layer, int64_t first, sac_mat y);

/* What later layers add moves with the hidden rows: row kept[i] of the prompt becomes row i. */
sac_status sac_decoder_move_deep(const sac_prefill_work *w, const int32_t *kept, int64_t n_kept);

#endif
