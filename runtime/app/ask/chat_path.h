/* chat_path.h - paths as they are typed or pasted at the chat's prompt: in quotes, with backslashes before blanks, or
 * below "~/". */
#ifndef APP_CHAT_PATH_H
#define APP_CHAT_PATH_H

#include <stddef.h>

/* The path that `typed` means; the caller's, NULL without memory. A file of the very name that was typed wins. */
char *chat_path_read(const char *typed);

/* Takes quotes and backslashes off, in place (it only gets shorter). Returns the quote that is still open, or 0. */
char chat_path_unquote(char *path);

/* "~/x" below the home folder, otherwise a copy; the caller's, NULL without memory. */
char *chat_path_from_home(const char *path);

#endif
