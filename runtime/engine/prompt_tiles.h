/* prompt_tiles.h - pictures and videos whose tiles stand behind texts in the prompt (sac_processor_text). */
#ifndef SAC_ENGINE_PROMPT_TILES_H
#define SAC_ENGINE_PROMPT_TILES_H

#include "media.h"
#include "prompt_chat.h"

/* Each picture's and each video's one mark becomes a mark for every tile, with the texts around them. */
sac_status sac_prompt_write_tiles(const sac_session *s, sac_prompt_text *text, sac_error *err);

#endif
