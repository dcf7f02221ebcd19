/* stop_strings.h - "stop_strings": the answer ends with the token in which one of them ends, and keeps it, as with
 * transformers' StopStringCriteria. Prompt and answer are looked at as one text. */
#ifndef SAC_ENGINE_STOP_STRINGS_H
#define SAC_ENGINE_STOP_STRINGS_H

#include "engine.h"

/* id: the answer's newest token, which has not been run yet. */
bool sac_stop_string_ends(const sac_session *s, int32_t id);

#endif
