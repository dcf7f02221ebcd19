/* frames.h - pictures that are the frames of a video, with their times, from a folder or a list.
 *
 * Folder: every file with the ending of a picture, in order of name (numbers in names by value), one second
 * apart. List: a text file, one line a frame, "FILE SECONDS"; FILE is relative to the list's folder and may
 * hold blanks. Empty lines and lines that start with # are skipped; when no line gives seconds, frames are
 * one second apart. */
#ifndef APP_FRAMES_H
#define APP_FRAMES_H

#include "saccade/status.h"

#include <saccade/saccade.h>

#define FRAMES_MAX            ((size_t)1 << 20)
#define FRAMES_LIST_MAX_BYTES ((size_t)64 << 20)

typedef struct frame_list {
    sac_frame *items; /* paths are owned by the list */
    size_t n;
} frame_list;

/* On failure the list is empty. */
sac_status frame_list_read(frame_list *list, const char *path, sac_error *err);
void frame_list_free(frame_list *list);

#endif
