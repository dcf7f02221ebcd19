/* draft_model.h - a smaller model that drafts for another: opened when the first session asks for it, and shared by all that do.
 * It reads the text of a sequence: rows of pictures and videos, and tokens that it has no embedding for, are left out of its own. */
#ifndef SAC_ENGINE_DRAFT_MODEL_H
#define SAC_ENGINE_DRAFT_MODEL_H

#include "decoder_draft.h"
#include "engine.h"

/* Those that a model has; locked inside. Whoever frees it takes the models first, after all sessions. */
typedef struct sac_draft_models sac_draft_models;
sac_status sac_draft_models_create(sac_draft_models **out, sac_error *err);
sac_model *sac_draft_models_take(sac_draft_models *d); /* one of them, whose pool is another's; NULL: none are left */
void sac_draft_models_free(sac_draft_models *d);       /* NULL is fine */
/* Those that are open, at most `most` of them. Returns how many. */
size_t sac_draft_models_list(sac_draft_models *d, const sac_model **out, size_t most);

/* The one of a path, opened if there is none yet. */
typedef sac_status (*sac_draft_opener)(sac_model **out, const sac_model *of, const char *path, sac_error *err);
sac_status sac_draft_models_find(const sac_model *of, const char *path, sac_draft_opener open, sac_model **out, sac_error *err);
/* That of a draft: BAD_ARGUMENT where the two models' tokens differ, with the first that does; UNSUPPORTED for one with a vision
 * half. It runs on the threads of `of`. */
sac_status sac_draft_model_find(sac_model **out, const sac_model *of, const sac_draft *draft, sac_error *err);

/* Of its sequence beside one of n_ctx tokens; and what that takes, added to what the other takes. */
sac_session_config sac_draft_model_config(const sac_model *draft, int64_t n_ctx);
void sac_draft_model_add_memory(sac_memory_report *to, const sac_memory_report *its);

/* What may follow row `past`, which is the last: at most `most` tokens into out, *n of them. *behind_s: seconds that it took to
 * follow a sequence that it had fallen behind of, as at the beginning of an answer, before it guessed. */
sac_status sac_draft_model_guess(sac_session *s, int64_t past, int most, int32_t *out, int *n, double *behind_s, sac_error *err);

/* The same in two halves, for sessions whose draft model goes on for all of them together (sac_decoder_go_on_together): first its
 * sequence comes near the text, and *lane says what it is to run. lane->s NULL: it has to guess by itself; lane->most 0: none this time. */
sac_status sac_draft_model_ready(sac_session *s, int64_t past, int most, int32_t *out, sac_draft_lane *lane, double *behind_s,
                                 sac_error *err);
/* Afterwards, also of a failure. */
void sac_draft_model_ran(sac_session *s, const sac_draft_lane *lane);

#endif
