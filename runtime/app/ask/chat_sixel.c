#include "chat_sixel.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 6, COLOURS = LEVELS * LEVELS * LEVELS, BAND = 6 };

static int level_of(float v) {
    int level = (int)(v * (LEVELS - 1) / 255 + 0.5f);
    return level < 0 ? 0 : level >= LEVELS ? LEVELS - 1 : level;
}

/* One row to colours; `error` [width + 2][3] and `next` are what earlier pixels leave to this row and the one below, each with a
 * column more on both sides. */
static void dither(const uint8_t *rgb, int width, float *error, float *next, uint8_t *colours) {
    for (int x = 0; x < width; x++) {
        int colour = 0;
        for (int c = 0; c < 3; c++) {
            int at = 3 * (x + 1) + c;
            float want = (float)rgb[3 * x + c] + error[at];
            int level = level_of(want);
            float rest = want - (float)level * 255 / (LEVELS - 1);
            error[at + 3] += rest * 7 / 16;
            next[at - 3] += rest * 3 / 16;
            next[at] += rest * 5 / 16;
            next[at + 3] += rest * 1 / 16;
            colour = colour * LEVELS + level;
        }
        colours[x] = (uint8_t)colour;
    }
}

static void put_run(FILE *f, int letter, int n) {
    if (n > 3)
        fprintf(f, "!%d%c", n, letter);
    else
        while (n-- > 0) fputc(letter, f);
}

/* The places of one colour in a band of `rows` rows. */
static void put_colour(FILE *f, const uint8_t *band, int width, int rows, int colour) {
    int last = '?', run = 0;
    fprintf(f, "#%d", colour);
    for (int x = 0; x < width; x++) {
        int bits = 0;
        for (int y = 0; y < rows; y++) bits |= (band[y * width + x] == colour) << y;
        if ('?' + bits != last) {
            put_run(f, last, run);
            last = '?' + bits;
            run = 0;
        }
        run++;
    }
    if (last != '?') put_run(f, last, run);
    fputc('$', f);
}

static void put_band(FILE *f, const uint8_t *band, int width, int rows) {
    bool there[COLOURS] = {false};
    for (int i = 0; i < rows * width; i++) there[band[i]] = true;
    for (int c = 0; c < COLOURS; c++)
        if (there[c]) put_colour(f, band, width, rows, c);
    fputc('-', f);
}

static void put_palette(FILE *f) {
    for (int c = 0; c < COLOURS; c++)
        fprintf(f, "#%d;2;%d;%d;%d", c, c / 36 * 20, c / 6 % 6 * 20, c % 6 * 20); /* percents */
}

bool chat_sixel_write(FILE *f, const uint8_t *rgb, int width, int height) {
    size_t n_row = 3 * ((size_t)width + 2);
    float *errors = calloc(2 * n_row, sizeof *errors), *here = errors, *next = errors ? errors + n_row : NULL;
    uint8_t *band = malloc((size_t)BAND * (size_t)width);
    bool ok = errors && band;
    if (ok) {
        fprintf(f, "\033P0;1q\"1;1;%d;%d", width, height);
        put_palette(f);
    }
    for (int y = 0; ok && y < height; y++) {
        dither(rgb + 3 * (size_t)y * (size_t)width, width, here, next,
               band + (size_t)(y % BAND) * (size_t)width);
        float *done = here;
        here = next;
        next = done;
        memset(next, 0, n_row * sizeof *next);
        if (y % BAND == BAND - 1 || y == height - 1) put_band(f, band, width, y % BAND + 1);
    }
    if (ok) fputs("\033\\", f);
    free(errors);
    free(band);
    return ok;
}
