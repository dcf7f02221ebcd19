/* draft_head.h - EAGLE-3 heads that draft for a model (llm/eagle.h): each opened when the first session asks for it, and shared by all
 * that do. What a session has of its own is in its arena. */
#ifndef SAC_ENGINE_DRAFT_HEAD_H
#define SAC_ENGINE_DRAFT_HEAD_H

#include "engine.h"

/* Those that a model has; locked inside. */
typedef struct sac_draft_heads sac_draft_heads;
sac_status sac_draft_heads_create(sac_draft_heads **out, sac_error *err);
void sac_draft_heads_free(sac_draft_heads *d); /* NULL is fine; after all sessions */

/* What a sequence with this draft takes, added to the report, whose n_ctx is its length; opens the head. Nothing where the draft has
 * no head. UNSUPPORTED beside a method that drops tokens. */
sac_status sac_draft_head_plan(const sac_model *m, const sac_draft *draft, const sac_decoder_state *decoder,
                               sac_memory_report *report, sac_error *err);
/* Takes it, for a session that was planned. */
sac_status sac_draft_head_take(sac_session *s, sac_error *err);

/* What may follow row `past`, which is the last: at most `most` tokens into out, *n of them. *behind_s: seconds that it took to read
 * rows that it had fallen behind of, as at the beginning of an answer. */
sac_status sac_draft_head_guess(sac_session *s, const sac_ops *ops, const sac_stream *stream, int64_t past, int most, int32_t *out,
                                int *n, double *behind_s, sac_error *err);

#endif
