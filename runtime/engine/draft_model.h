/* draft_model.h - a smaller model that drafts for another: opened when the first session asks for it, and shared by all that do.
 * It reads the text of a sequence: rows of pictures and videos, and tokens that it has no embedding for, are left out of its own. */
#ifndef SAC_ENGINE_DRAFT_MODEL_H
#define SAC_ENGINE_DRAFT_MODEL_H

#include "engine.h"

/* Those that a model has; locked inside. */
typedef struct sac_draft_models sac_draft_models;
sac_status sac_draft_models_create(sac_draft_models **out, sac_error *err);
void sac_draft_models_free(sac_draft_models *d); /* after the sessions; NULL is fine */

/* The sequence in which a model drafts for a session, and what it would take. BAD_ARGUMENT where the two models' tokens differ, with the
 * first that does; UNSUPPORTED for a model with a vision half. Freed as a session. Needs `of`'s configuration and its context. */
sac_status sac_draft_model_open(sac_session **out, const sac_model *of, const sac_draft *draft, int64_t n_ctx, sac_error *err);
/* Adds it to what a session of `of` takes. */
sac_status sac_draft_model_plan(const sac_model *of, const sac_draft *draft, sac_memory_report *report, sac_error *err);

/* What may follow row `past`, which is the last: at most `most` tokens into out, *n of them. *behind_s: seconds that it took to
 * follow a sequence that it had fallen behind of, as at the beginning of an answer, before it guessed. */
sac_status sac_draft_model_guess(sac_session *s, int64_t past, int most, int32_t *out, int *n, double *behind_s, sac_error *err);

#endif
