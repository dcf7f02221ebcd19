/* chat_line.h - what a person types at the chat's prompt: a question or a command, of one line or several.
 *
 * Several lines are one text when they stand between two """, or when a line ends in a backslash (not a command's).
 * On a terminal lines have an editor and a history (chat_edit.h, chat_history.h), elsewhere they are read as they
 * come. */
#ifndef APP_CHAT_LINE_H
#define APP_CHAT_LINE_H

#include "chat_complete.h"
#include "saccade/status.h"

typedef struct chat_line chat_line;

/* `words` must outlive it. A history that cannot be kept is told in a line and is no failure. */
sac_status chat_line_open(chat_line **out, const chat_word *words, size_t n_words, sac_error *err);

/* *text: without blanks around it, owned until the next call; "" after Ctrl-C in the middle of something, NULL at the
 * end of input. Ctrl-C with nothing typed: SAC_CANCELLED. */
sac_status chat_line_read(chat_line *l, const char *prompt, char **text, sac_error *err);

/* Keys that came while nobody read a line: the next line begins with them. Nothing without an editor. */
void chat_line_push(chat_line *l, const char *keys);

/* Whether Up brings back what was typed before. */
bool chat_line_has_history(const chat_line *l);

void chat_line_close(chat_line *l); /* NULL is fine */

#endif
