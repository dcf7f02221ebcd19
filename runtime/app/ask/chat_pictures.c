/* chat_pictures.c - see chat_pictures.h.
 *
 * kitty: https://sw.kovidgoyal.net/kitty/graphics-protocol, pixels as they are in pieces of 4,096 letters, no answer asked for (q=2).
 * iTerm2: https://iterm2.com/documentation-images.html, a JPEG. Sixel: chat_sixel.h. */
#define _GNU_SOURCE
#include "chat_pictures.h"
#include "chat_base64.h"
#include "chat_query.h"
#include "chat_sixel.h"
#include "image.h"
#include "jpeg_write.h"
#include "resize.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MAX = 48, ROWS_MAX = 14, PIECE = 4096 };

/* ---------------------------------------------------------------- which protocol */

static bool begins(const char *name, const char *with) {
    const char *value = getenv(name);
    return value && !strncmp(value, with, strlen(with));
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

static chat_graphics guess(void) {
    if (!is_set("TERM") || begins("TERM", "dumb") || begins("TERM", "linux") || is_set("STY") ||
        begins("TERM_PROGRAM", "Apple_Terminal"))
        return GRAPHICS_NONE;
    if (is_set("TMUX") || begins("TERM", "tmux") || begins("TERM", "screen")) return GRAPHICS_UNKNOWN;
    if (begins("TERM", "xterm-kitty") || begins("TERM", "xterm-ghostty") || begins("TERM_PROGRAM", "ghostty"))
        return GRAPHICS_KITTY;
    if (begins("TERM_PROGRAM", "iTerm") || begins("LC_TERMINAL", "iTerm2") ||
        begins("TERM_PROGRAM", "WezTerm") || begins("TERM_PROGRAM", "mintty"))
        return GRAPHICS_ITERM2;
    return GRAPHICS_UNKNOWN;
}

sac_status chat_pictures_open(chat_pictures *p, bool wanted, sac_error *err) {
    static const char *const names[] = {"auto", "none", "kitty", "iterm2", "sixel"}; /* as the enum */
    const char *asked = getenv("SACCADE_PICTURES");
    p->graphics = GRAPHICS_NONE;
    if (!asked || !*asked) asked = "auto";
    size_t which = 0;
    while (which < SAC_COUNT(names) && strcmp(asked, names[which])) which++;
    if (which == SAC_COUNT(names))
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "SACCADE_PICTURES=%.40s: give auto, none, kitty, iterm2 or sixel", asked);
    if (!wanted || !isatty(STDERR_FILENO)) return SAC_OK;
    p->graphics = which ? (chat_graphics)which : guess();
    return SAC_OK;
}

static void ask_terminal(chat_pictures *p, chat_line *lines) {
    char typed[CHAT_QUERY_TYPED_MAX + 1];
    bool in_tmux = is_set("TMUX") || begins("TERM", "tmux") || begins("TERM", "screen");
    chat_query_answer a;
    if (!chat_line_has_history(lines) || !chat_query(&a, typed)) return; /* later, maybe */
    p->graphics = a.has_kitty && !in_tmux ? GRAPHICS_KITTY : a.has_sixel ? GRAPHICS_SIXEL : GRAPHICS_NONE;
    chat_line_push(lines, typed);
}

/* ---------------------------------------------------------------- sizes */

/* As large as it is, but within a part of the window. */
static void fit(const sac_image *image, int *width, int *height) {
    struct winsize w = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || !w.ws_col || !w.ws_row) w.ws_col = 80, w.ws_row = 24;
    int cell_w = w.ws_xpixel / w.ws_col, cell_h = w.ws_ypixel / w.ws_row;
    if (cell_w < 4 || cell_w > 64 || cell_h < 4 || cell_h > 128) cell_w = 8, cell_h = 16;
    int columns = w.ws_col - 1 < COLUMNS_MAX ? w.ws_col - 1 : COLUMNS_MAX;
    int rows = w.ws_row / 2 < ROWS_MAX ? w.ws_row / 2 : ROWS_MAX;
    double sx = (double)(columns * cell_w) / image->width, sy = (double)(rows * cell_h) / image->height;
    double scale = sx < sy ? sx : sy;
    if (scale > 1) scale = 1;
    *width = (int)(scale * image->width + 0.5);
    *height = (int)(scale * image->height + 0.5);
    if (*width < 1) *width = 1;
    if (*height < 1) *height = 1;
}

static bool shrink(sac_image *image) {
    sac_error err;
    sac_image small = {0};
    int width, height;
    fit(image, &width, &height);
    if (width == image->width && height == image->height) return true;
    bool ok = sac_image_alloc(&small, width, height, NULL, &err) == SAC_OK &&
              sac_resize(small.rgb, width, height, image->rgb, image->width, image->height,
                         SAC_FILTER_BICUBIC, SAC_RESIZE_PILLOW, &err) == SAC_OK;
    sac_image_free(image);
    *image = small;
    return ok;
}

/* ---------------------------------------------------------------- what is written */

static void write_kitty(const sac_image *image) {
    char *text = chat_base64_write(image->rgb, (size_t)image->width * (size_t)image->height * 3);
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < n; i += PIECE) {
        bool more = i + PIECE < n;
        if (i == 0)
            fprintf(stderr, "\033_Ga=T,q=2,f=24,s=%d,v=%d,m=%d;", image->width, image->height, more);
        else
            fprintf(stderr, "\033_Gq=2,m=%d;", more);
        fprintf(stderr, "%.*s\033\\", PIECE, text + i);
    }
    free(text);
}

typedef struct buffer {
    uint8_t *bytes;
    size_t n, room;
    bool failed;
} buffer;

static void put(void *ctx, void *bytes, int n) {
    buffer *b = ctx;
    if (b->n + (size_t)n > b->room) {
        uint8_t *more = realloc(b->bytes, b->room = 2 * (b->n + (size_t)n));
        if (!more) b->failed = true;
        if (more) b->bytes = more;
    }
    if (b->failed) return;
    memcpy(b->bytes + b->n, bytes, (size_t)n);
    b->n += (size_t)n;
}

static void write_iterm2(const sac_image *image) {
    buffer b = {0};
    bool made = jpeg_write(put, &b, image->width, image->height, image->rgb, 85) && !b.failed;
    char *text = made ? chat_base64_write(b.bytes, b.n) : NULL;
    if (text)
        fprintf(stderr, "\033]1337;File=inline=1;size=%zu;width=%dpx;height=%dpx:%s\a", b.n, image->width,
                image->height, text);
    free(text);
    free(b.bytes);
}

void chat_pictures_show(chat_pictures *p, const media_item *item, chat_line *lines) {
    sac_image image = {0};
    sac_error err;
    if (p->graphics == GRAPHICS_UNKNOWN) ask_terminal(p, lines);
    if (p->graphics == GRAPHICS_UNKNOWN || p->graphics == GRAPHICS_NONE) return;
    sac_status st = item->bytes ? sac_image_decode(&image, item->bytes, item->n_bytes, NULL, &err)
                                : sac_image_open(&image, item->path, NULL, &err);
    if (st == SAC_OK && shrink(&image)) {
        if (p->graphics == GRAPHICS_KITTY) write_kitty(&image);
        if (p->graphics == GRAPHICS_ITERM2) write_iterm2(&image);
        if (p->graphics == GRAPHICS_SIXEL) chat_sixel_write(stderr, image.rgb, image.width, image.height);
        fputc('\n', stderr);
        fflush(stderr);
    }
    sac_image_free(&image);
}
