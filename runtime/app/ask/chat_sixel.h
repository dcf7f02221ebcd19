/* chat_sixel.h - pictures as DEC's sixels: six rows of one column are a letter, and a band is written once for each colour that it
 * has (VT330/VT340 Programmer Reference Manual, vol. 2, ch. 14). Colours are the 216 of a cube of six levels, dithered (Floyd and
 * Steinberg 1976). */
#ifndef APP_CHAT_SIXEL_H
#define APP_CHAT_SIXEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* rgb [height][width][3]. False without memory; then nothing is written. */
bool chat_sixel_write(FILE *f, const uint8_t *rgb, int width, int height);

#endif
