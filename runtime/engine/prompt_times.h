/* prompt_times.h - videos whose frames stand behind or before their times in the prompt (SAC_FRAMES_TIMED,
 * SAC_FRAMES_SECONDS). */
#ifndef SAC_ENGINE_PROMPT_TIMES_H
#define SAC_ENGINE_PROMPT_TIMES_H

#include "media.h"
#include "prompt_chat.h"

/* Each video's one mark becomes, for every step of its time, "<0.3 seconds>", the token that begins vision, a mark and
 * the token that ends it; the tokens that the chat wrote around the one mark go, as in transformers 4.57, unless the chat's
 * settings keep them. Of SAC_FRAMES_SECONDS it becomes, for every step, the token that begins a picture, a mark, the token that
 * ends it and the seconds of its first frame; what the chat wrote around stays. */
sac_status sac_prompt_time_frames(const sac_session *s, sac_prompt_text *text, sac_error *err);

#endif
