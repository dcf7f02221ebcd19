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

/* Visual tokens of a video of n frames of this plan, of which the reducer leaves some out. */
int64_t sac_room_video_tokens(const sac_reduce *reduce, const sac_visual_plan *frame, int64_t n_frames);

/* Frames of this plan that so many tokens can hold, each with what stands between it and the next, and without what the reducer
 * leaves out; at least 1. */
int64_t sac_room_frames_in(const sac_model *m, const sac_reduce *reduce, int64_t n_tokens, const sac_visual_plan *frame);

#endif
