/* chat_pictures.h - small pictures on the terminal, so that one sees what is attached: by the protocol of kitty, of iTerm2, or
 * sixel, where the terminal is known for one or says so itself. Otherwise nothing is shown. */
#ifndef APP_CHAT_PICTURES_H
#define APP_CHAT_PICTURES_H

#include "chat_line.h"
#include "settings.h"

typedef enum chat_graphics {
    GRAPHICS_UNKNOWN,
    GRAPHICS_NONE,
    GRAPHICS_KITTY,
    GRAPHICS_ITERM2,
    GRAPHICS_SIXEL
} chat_graphics;

typedef struct chat_pictures {
    chat_graphics graphics; /* UNKNOWN: the terminal is asked with the first picture */
} chat_pictures;

/* From $SACCADE_PICTURES (auto, none, kitty, iterm2, sixel), $TERM and $TERM_PROGRAM. Not wanted, or standard error is no
 * terminal: none. Within GNU screen none, within tmux only what tmux itself says (it may be attached from anywhere). */
sac_status chat_pictures_open(chat_pictures *p, bool wanted, sac_error *err);

/* A picture that was opened before; one that cannot be shown is left out without a word. What was typed while the terminal
 * was asked goes to `lines`. */
void chat_pictures_show(chat_pictures *p, const media_item *item, chat_line *lines);

#endif
