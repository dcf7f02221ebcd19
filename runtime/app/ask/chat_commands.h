/* chat_commands.h - what begins with '/' at the chat's prompt. */
#ifndef APP_CHAT_COMMANDS_H
#define APP_CHAT_COMMANDS_H

#include "chat.h"

/* For Tab; in static storage. */
const chat_word *chat_commands_words(size_t *n_words);

/* Runs the command in `line`, which is changed. The error says which may be meant by one that is not known; *known: whether
 * there is such a command. */
sac_status chat_commands_run(chat *h, char *line, bool *known, sac_error *err);

#endif
