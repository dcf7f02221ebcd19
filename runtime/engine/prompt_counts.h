/* prompt_counts.h - videos whose frames stand behind their numbers in the prompt (SAC_FRAMES_COUNTED). */
#ifndef SAC_ENGINE_PROMPT_COUNTS_H
#define SAC_ENGINE_PROMPT_COUNTS_H

#include "media.h"
#include "prompt_chat.h"

/* Each picture's mark stands between the token that begins vision and the one that ends it; each video's one mark becomes,
 * for every frame, "Frame1: " and such a mark, frames on lines of their own (transformers' InternVLProcessor). */
sac_status sac_prompt_count_frames(const sac_session *s, sac_prompt_text *text, sac_error *err);

#endif
