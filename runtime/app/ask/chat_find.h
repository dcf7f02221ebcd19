/* chat_find.h - files by a name that is the same to a reader: an accent may be written with its letter or behind it (Unicode's
 * forms C and D). macOS writes names the one way, keyboards the other. */
#ifndef APP_CHAT_FIND_H
#define APP_CHAT_FIND_H

/* The path of a file that is there, whose name and folders are canonically equivalent to those of `path`; the caller's. NULL:
 * there is none (or no memory). */
char *chat_find_accents(const char *path);

#endif
