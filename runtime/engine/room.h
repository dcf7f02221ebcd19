/* room.h - what a context leaves to the media of a conversation; the rule behind sac_room_* (saccade.h), as the engine
 * itself asks it. */
#ifndef SAC_ENGINE_ROOM_H
#define SAC_ENGINE_ROOM_H

#include "engine.h"
#include "processor.h"

/* Tokens that the next video may take. Of the videos that are not counted yet there must be one. */
int64_t sac_room_share(const sac_room *room);

/* A picture, with the texts around its tiles, or the next video, takes so many tokens. */
void sac_room_take_picture(sac_room *room, int64_t n_tokens, const sac_visual_plan *plan);
void sac_room_take_video(sac_room *room, int64_t n_tokens);

/* Frames of this plan that so many tokens can hold, each with what stands between it and the next; at least 1. */
int64_t sac_room_frames_in(const sac_model *m, int64_t n_tokens, const sac_visual_plan *frame);

#endif
