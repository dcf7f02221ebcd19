/* plot.h - panels of drawings (svg.h): axes, ticks, and where a value stands. */
#ifndef APP_PLOT_H
#define APP_PLOT_H

#include "svg.h"

#include <stdbool.h>

#define PLOT_GREY       "#ccc"
#define PLOT_PALE       "#eee"
#define PLOT_BLUE       "#1f4e79"
#define PLOT_LIGHT_BLUE "#9fc5e8"
#define PLOT_RED        "#b22222"

/* A stretch of the page that shows values low..high; y axes run upwards, with a negative length. */
typedef struct plot_axis {
    double low, high;
    bool log;
    double at, length;
} plot_axis;

typedef struct plot_panel {
    const svg *s;
    plot_axis x, y;
} plot_panel;

/* Where on the page. */
double plot_place(const plot_axis *a, double v);

/* Title, lines of the y axis with their numbers, and the line of the x axis. */
void plot_frame(const plot_panel *p, const char *title);

/* A tick of the x axis with its text, or as many with numbers as fit. */
void plot_x_tick(const plot_panel *p, double v, const char *text);
void plot_x_ticks(const plot_panel *p);

/* A value's interval as a bar with ends. */
void plot_bar(const plot_panel *p, double x, double low, double high, const char *colour);

#endif
