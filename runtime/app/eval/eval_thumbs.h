/* eval_thumbs.h - small pictures of media, as "data:" addresses for a page. */
#ifndef APP_EVAL_THUMBS_H
#define APP_EVAL_THUMBS_H

#include "eval_item.h"

#include <stdio.h>

enum { EVAL_THUMB_SIDE = 128, EVAL_THUMB_FRAMES = 4 };

/* Thumbnails of a page together take no more than this; media after that get none. */
#define EVAL_THUMBS_MAX_BYTES ((size_t)48 << 20)

/* Base64 of bytes, without line ends. */
void eval_write_base64(FILE *f, const unsigned char *bytes, size_t n);

/* Writes an <img> for a picture, EVAL_THUMB_FRAMES of them for a video. What cannot be decoded becomes a short note. */
void eval_thumbs_write(FILE *f, const char *folder, const eval_medium *m);

#endif
