/* chat_history.h - what was typed at the chat's prompt, kept in a file from chat to chat.
 *
 * The file is $XDG_STATE_HOME/saccade/history, or ~/.local/state/saccade/history: one entry a line, in which \n is a
 * line end and \\ a backslash; readable by its owner only. Several chats may add to it at once. */
#ifndef APP_CHAT_HISTORY_H
#define APP_CHAT_HISTORY_H

#include "saccade/status.h"

#include <stddef.h>

#define CHAT_HISTORY_MAX       1000 /* entries that are kept when the file has grown past CHAT_HISTORY_MAX_BYTES */
#define CHAT_HISTORY_MAX_BYTES ((size_t)1 << 20)

typedef struct chat_history {
    char *path; /* NULL: no home folder, nothing is kept */
    char **
        entries; /* [n_entries], the oldest first, at most CHAT_HISTORY_MAX; as they were when it was opened */
    size_t n_entries;
} chat_history;

/* Makes the folders and reads the file; one that has grown too long is cut. On failure `h` keeps nothing and is
 * still to be closed. */
sac_status chat_history_open(chat_history *h, sac_error *err);

/* Adds an entry to the file; nothing when there is none. */
sac_status chat_history_add(const chat_history *h, const char *text, sac_error *err);

void chat_history_close(chat_history *h);

#endif
