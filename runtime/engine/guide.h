/* guide.h - the second sequence that classifier-free guidance runs beside an answer: the negative prompt, or the last
 * token of the prompt where there is none, and then the answer's tokens. It is a session of its own, which the first
 * one holds and whose memory is part of its plan. */
#ifndef SAC_ENGINE_GUIDE_H
#define SAC_ENGINE_GUIDE_H

#include "engine.h"

/* Whether a session of this configuration has one. */
bool sac_guide_wanted(const sac_model *m, const sac_session_config *config);
/* The configuration of the second one. */
sac_session_config sac_guide_config(const sac_session_config *config);
/* Adds what the second one takes to the first one's report. */
void sac_guide_add_memory(sac_memory_report *to, const sac_memory_report *guide);

/* BAD_ARGUMENT: the answer's settings ask for guidance and the session has no room for it. */
sac_status sac_guide_check(const sac_session *s, sac_error *err);
/* The prompt has been run. */
sac_status sac_guide_start(sac_session *s, sac_error *err);
/* Runs the answer's last token there and changes the sampler's scores. */
sac_status sac_guide_choose(sac_session *s, sac_error *err);

#endif
