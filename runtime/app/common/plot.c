#include "plot.h"

#include <math.h>

double plot_place(const plot_axis *a, double v) {
    double low = a->log ? log(a->low) : a->low, high = a->log ? log(a->high) : a->high;
    double part = high > low ? ((a->log ? log(v) : v) - low) / (high - low) : 0.5;
    return a->at + a->length * part;
}

/* 1, 2 or 5 times a power of ten, so that four to seven of it make the range. */
static double tick_step(double range) {
    double step = pow(10, floor(log10(range / 7)));
    double rest = range / 7 / step;
    return step * (rest > 5 ? 10 : rest > 2 ? 5 : rest > 1 ? 2 : 1);
}

static int decimals_of(double step) {
    return step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
}

void plot_frame(const plot_panel *p, const char *title) {
    double step = tick_step(p->y.high - p->y.low);
    char text[32];
    svg_text(p->s, p->x.at, p->y.at + p->y.length - 16, 14, SVG_START, title);
    for (double v = ceil(p->y.low / step) * step; v <= p->y.high + 1e-9 * step; v += step) {
        double y = plot_place(&p->y, v);
        snprintf(text, sizeof text, "%.*f", decimals_of(step), v);
        svg_line(p->s, p->x.at, y, p->x.at + p->x.length, y, PLOT_PALE, 1);
        svg_text(p->s, p->x.at - 6, y + 4, 11, SVG_END, text);
    }
    svg_line(p->s, p->x.at, p->y.at, p->x.at + p->x.length, p->y.at, PLOT_GREY, 1);
}

void plot_x_tick(const plot_panel *p, double v, const char *text) {
    double x = plot_place(&p->x, v);
    svg_line(p->s, x, p->y.at, x, p->y.at + 4, PLOT_GREY, 1);
    svg_text(p->s, x, p->y.at + 16, 11, SVG_MIDDLE, text);
}

void plot_x_ticks(const plot_panel *p) {
    double step = tick_step(p->x.high - p->x.low);
    char text[32];
    for (double v = ceil(p->x.low / step) * step; v <= p->x.high + 1e-9 * step; v += step) {
        snprintf(text, sizeof text, "%.*f", decimals_of(step), v);
        plot_x_tick(p, v, text);
    }
}

void plot_bar(const plot_panel *p, double x, double low, double high, const char *colour) {
    double from = plot_place(&p->y, low), to = plot_place(&p->y, high);
    svg_line(p->s, x, from, x, to, colour, 1);
    svg_line(p->s, x - 4, from, x + 4, from, colour, 1);
    svg_line(p->s, x - 4, to, x + 4, to, colour, 1);
}
