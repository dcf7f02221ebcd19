/* conversation.h - the messages of a run or a chat, with everything in them owned. */
#ifndef APP_CONVERSATION_H
#define APP_CONVERSATION_H

#include "settings.h"

#include <saccade/saccade.h>

typedef struct conversation {
    sac_message *messages;
    size_t n_messages;
} conversation;

/* Begins a message; role must be a constant. */
sac_status conversation_begin(conversation *c, const char *role, sac_error *err);

/* Adds to the last message. */
sac_status conversation_add_text(conversation *c, const char *text, size_t n_bytes, sac_error *err);
sac_status conversation_add_media(conversation *c, const media_item *item, const settings *s, sac_error *err);

/* The same for a file in memory, which the conversation then owns; kind: MEDIA_IMAGE or MEDIA_VIDEO. */
sac_status conversation_add_bytes(conversation *c, media_kind kind, void *bytes, size_t n_bytes,
                                  const settings *s, sac_error *err);

/* Decoded pixels, width * height * 3 bytes a frame, which the conversation then owns, as it does time_s (NULL: a picture).
 * Of a video the options but those that choose frames count: these are chosen. */
sac_status conversation_add_pixels(conversation *c, const sac_pixels *pixels, const settings *s, sac_error *err);

/* A whole message of one text. */
sac_status conversation_add_message(conversation *c, const char *role, const char *text, sac_error *err);

/* A user message: the media in order, then the question. */
sac_status conversation_ask(conversation *c, const settings *s, const media_list *media, const char *question,
                            sac_error *err);

/* Drops messages from index n on; 0 = all. */
void conversation_cut(conversation *c, size_t n);
void conversation_free(conversation *c);

/* Fails early, before a large model is loaded, when a file cannot be read. */
sac_status media_list_check(const media_list *media, sac_error *err);

/* A copy, checked likewise, in which pictures and videos that come through a pipe ("-" is standard input) are read. */
sac_status media_list_take(media_list *out, const media_list *media, sac_error *err);

#endif
