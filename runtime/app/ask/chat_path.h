/* chat_path.h - paths as they are typed or pasted at the chat's prompt, and as terminals write them when files are dropped on
 * them: in quotes of both kinds or $'...', with backslashes, below "~/", as file:// addresses, with %20 for a blank, several
 * in one line or on lines of their own. */
#ifndef APP_CHAT_PATH_H
#define APP_CHAT_PATH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct chat_paths {
    char **items; /* [n] */
    size_t n;
} chat_paths;

/* The paths that `typed` means: one, where a file has the very name that was typed, otherwise one a word. Words of which
 * none is there are one path, as typed. False without memory; freed by the caller in either case. */
bool chat_paths_read(chat_paths *out, const char *typed);

/* Likewise where `line` is nothing but paths that are there, with a '/' or a '.' in each; otherwise out->n is 0. */
bool chat_paths_find(chat_paths *out, const char *line);
void chat_paths_free(chat_paths *paths);

/* The one path that `typed` means, as a file to write; the caller's, NULL without memory. */
char *chat_path_read(const char *typed);

/* Takes quotes and backslashes off, in place (it only gets shorter). Returns the quote that is still open, or 0. */
char chat_path_unquote(char *path);

/* "~" and "~/x" are the home folder and below, otherwise a copy; the caller's, NULL without memory. */
char *chat_path_from_home(const char *path);

#endif
