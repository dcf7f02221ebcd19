/* chat_edit.h - a line with an editor, through libedit: arrows, Home and End, history, Tab, bracketed paste, wide
 * characters. ~/.editrc is read, as by all programs that use libedit. */
#ifndef APP_CHAT_EDIT_H
#define APP_CHAT_EDIT_H

#include "chat_complete.h"
#include "chat_history.h"
#include "saccade/status.h"

typedef struct chat_edit chat_edit;

/* NULL: there is no editor, for the build is without libedit, the terminal cannot move its cursor, or standard input
 * or error is no terminal. `history` and `words` must outlive it. */
chat_edit *chat_edit_open(const chat_history *history, const chat_word *words, size_t n_words);

/* *text: one line or, pasted, several, without the last line end; the editor's until the next call. NULL at the end of
 * input. *interrupted: Ctrl-C. */
sac_status chat_edit_read(chat_edit *e, const char *prompt, char **text, bool *interrupted, sac_error *err);

/* The next line begins with these keys. */
void chat_edit_push(chat_edit *e, const char *keys);

/* The next Up shows this. */
void chat_edit_remember(chat_edit *e, const char *text);

void chat_edit_close(chat_edit *e); /* NULL is fine */

#endif
