/* chat_turn.h - a question and its answer, what is attached to the next one, and the way back. */
#ifndef APP_CHAT_TURN_H
#define APP_CHAT_TURN_H

#include "chat.h"

/* A failure within a chat is told, and SAC_OK returned; but for those that nothing can follow. */
sac_status chat_tell(sac_status st, const sac_error *err);

/* An empty conversation, with the system message if there is one. */
sac_status chat_start_over(chat *h, sac_error *err);

/* What was asked and not answered leaves the conversation and is kept for /retry; what was attached goes with the next
 * question. An answer cut short stays as far as it came. */
sac_status chat_ask(chat *h, const char *question, sac_error *err);

/* The question that got no answer, or else the last one, anew. */
sac_status chat_ask_again(chat *h, sac_error *err);

/* Takes the last question and its answer back; what it showed is attached again, and the question kept. */
sac_status chat_undo(chat *h, sac_error *err);

/* Attaches the files that `typed` names (chat_path.h). Those that cannot be shown are told, each in a line; the others stay. */
sac_status chat_attach_typed(chat *h, media_kind kind, const char *typed, sac_error *err);

/* Likewise where `line` is nothing but files that are there, each by what it is; *was: whether it is. */
sac_status chat_attach_dropped(chat *h, const char *line, bool *was, sac_error *err);
sac_status chat_attach(chat *h, const media_item *item, sac_error *err);

#endif
