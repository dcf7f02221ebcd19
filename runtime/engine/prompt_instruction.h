/* prompt_instruction.h - a sentence behind a video that says how long it is and when its frames are (LLaVA-Video, arXiv:2410.02713). */
#ifndef SAC_ENGINE_PROMPT_INSTRUCTION_H
#define SAC_ENGINE_PROMPT_INSTRUCTION_H

#include "media.h"
#include "prompt_chat.h"

/* Where the model asks for it. Each video has one mark; the sentence begins with a newline and stands right behind it. How long frames
 * that are no video's last is not known: up to the last of them. */
sac_status sac_prompt_instruct(const sac_session *s, sac_prompt_text *text, sac_error *err);

#endif
