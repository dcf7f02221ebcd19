/* eval_media.h - the media of a benchmark's questions, and the messages that are made of them. */
#ifndef APP_EVAL_MEDIA_H
#define APP_EVAL_MEDIA_H

#include "conversation.h"
#include "eval_item.h"

/* The file of a medium in the folder: `path`, or its last part alone (benchmarks are unpacked in many ways), as it stands
 * or with an ending of pictures or videos. NOT_FOUND. On success *out is to be freed. */
sac_status eval_media_find(const char *folder, const eval_medium *m, char **out, sac_error *err);

/* The bytes of a medium in base64, to free. */
sac_status eval_media_bytes(const eval_medium *m, uint8_t **bytes, size_t *n_bytes, sac_error *err);

/* Adds the item's media and `text` to the last message: media first, or where "<image K>" stands. `model` says how a stretch
 * of a video and frames between subtitles are sampled. */
sac_status eval_media_add(conversation *c, const char *folder, const eval_item *item, const char *text,
                          const settings *s, const sac_model *model, sac_error *err);

#endif
