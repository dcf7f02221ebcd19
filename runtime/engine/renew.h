/* renew.h - a sequence whose rows are all of no use for the token that comes: where an answer grows beyond the length up to
 * which LongRoPE turns rows by its short factors (llm/rope.h). Its tokens are run once more, as a prompt, which is what
 * transformers does when it generates; it takes as long as that prompt would, within one step. */
#ifndef SAC_ENGINE_RENEW_H
#define SAC_ENGINE_RENEW_H

#include "engine.h"

/* Whether the step that comes has to do so. */
bool sac_renew_is_due(const sac_session *s);

/* Runs the first n tokens of s->ids, which are all text, from the first one on; then the logits are those of the last. all_logits:
 * [n_out][vocab] for those of the last n_out, or NULL. Can be cancelled between pieces. On failure nothing is left of the
 * sequence. */
sac_status sac_renew(sac_session *s, int64_t n, int64_t n_out, float *all_logits, sac_error *err);

#endif
