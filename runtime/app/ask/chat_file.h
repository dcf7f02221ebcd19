/* chat_file.h - a conversation as a file: JSON, a list of {"role", "content"}, whose content is a list of
 *
 *   {"type": "text", "text": ...}
 *   {"type": "image" | "video" | "frames", "file": absolute path, "sha256": of what it held, "sampling": {...}}
 *
 * Pictures and videos stay where they are. "sha256" says whether a file is still the one (of frames: of all of them, with names
 * and times); a file without it is taken as it is. What came through a pipe is in the file itself, as "base64". "sampling" has
 * what chose the frames of a video, as options are named. */
#ifndef APP_CHAT_FILE_H
#define APP_CHAT_FILE_H

#include "conversation.h"

#define CHAT_FILE_MAX_BYTES ((size_t)64 << 20)

/* Whole or not at all. A file of the name that is no saved conversation is not written over. What is not there any more is
 * told in a line and saved by its name. */
sac_status chat_file_save(const conversation *c, const char *path, sac_error *err);

/* On failure *c is empty. The error names the file, and the one that has moved or changed. Questions and answers take turns,
 * behind at most one system message, and an answer is last. */
sac_status chat_file_load(conversation *c, const char *path, sac_error *err);

#endif
