/* room.h - how many frames of its videos a conversation leaves room for, before they are decoded. */
#ifndef INTAKE_ROOM_H
#define INTAKE_ROOM_H

#include "saccade/saccade.h"

/* Tokens of the context that texts, pictures and an answer leave to the videos (and lists of frames), of
 * which there are *n_videos, counted as the engine counts them. May be negative. */
int64_t intake_room(const sac_model *m, int64_t n_ctx, const sac_message *messages, size_t n_messages,
                    int64_t *n_videos);

/* Frames that so many tokens can hold; at least 1. */
int64_t intake_room_frames(const sac_model_info *info, int64_t n_tokens);

#endif
