/* chat_settings.h - /set, /methods and /stats: what a chat may be told while it goes on, and what it says of itself. */
#ifndef APP_CHAT_SETTINGS_H
#define APP_CHAT_SETTINGS_H

#include "chat.h"

/* Nothing: lists what can be set. "NAME VALUE" or "NAME=VALUE": an option of sampling, of videos or of the session, or a name
 * of --set. "NAME" alone: as it was when the chat began. On failure everything is as it was. */
sac_status chat_set(chat *h, const char *value, sac_error *err);

/* Nothing: the methods that run and those there are. "prefill=zipvl kv=mixed": others, in a session made anew; "dense": none. On
 * failure those before stay. */
sac_status chat_methods(chat *h, const char *value, sac_error *err);

/* To standard error. */
void chat_stats(const chat *h);

/* Names for Tab, NULL-terminated, in static storage. */
const char *const *chat_set_names(void);
const char *const *chat_method_names(void);

#endif
