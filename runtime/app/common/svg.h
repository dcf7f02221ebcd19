/* svg.h - drawings as SVG files: the few shapes that this command's pictures are made of. A file is complete
 * or not there. */
#ifndef APP_SVG_H
#define APP_SVG_H

#include "draft.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct svg {
    FILE *f; /* for what the functions below do not draw */
    draft file;
} svg;

/* Begins a white page of so many pixels. */
sac_status svg_open(svg *s, const char *path, double width, double height, sac_error *err);

/* What the page shows, for those who cannot see it: a name and a sentence. Right after svg_open. */
void svg_describe(const svg *s, const char *name, const char *text);

/* Ends the page and gives the file its name. A page that was never opened (zeroed) is fine. */
sac_status svg_close(svg *s, sac_error *err);

/* Removes the unfinished file; NULL-safe after svg_close. */
void svg_abandon(svg *s);

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

/* Any bytes of UTF-8; control characters become spaces, what is not UTF-8 a '?'. y: the base line. */
void svg_text(const svg *s, double x, double y, int size, svg_anchor anchor, const char *text);
void svg_line(const svg *s, double x1, double y1, double x2, double y2, const char *colour, double width);
void svg_rect(const svg *s, double x, double y, double width, double height, const char *colour);
void svg_circle(const svg *s, double x, double y, double radius, const char *colour);

/* Points as x, y, x, y ... */
void svg_polyline(const svg *s, const double *xy, size_t n_points, const char *colour, double width);

#endif
