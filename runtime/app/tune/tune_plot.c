/* tune_plot.c - the front as a drawing (tune_report.h). */
#include "plot.h"
#include "status.h"
#include "tune_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 760, LEFT = 60, RIGHT = 30, TOP = 60, HEIGHT = 260, LINE = 18, FOOT = 60, BETWEEN = 70 };

/* What accuracy is drawn against. */
enum { COST, SECONDS, MEGABYTES, PANELS };
static const char *const against[PANELS] = {"cost, % of dense's", "seconds of prefill and decode a question",
                                            "megabytes of keys and values a question"};

static double x_of(const tune_result *r, int what) {
    const double values[PANELS] = {100 * r->point.cost, compare_row_seconds(r->row), r->cache_bytes / 1e6};
    return values[what];
}

static void stretch(plot_axis *a, double low, double high) {
    a->low = fmin(a->low, low);
    a->high = fmax(a->high, high);
}

static bool is_shown(const tune_result *r, int what) {
    return r->row->refused == SAC_OK && isfinite(x_of(r, what));
}

/* None costs as little and is as right; of the cost as the report says it. */
static bool is_front(const tune_result *r, size_t n, size_t at, int what) {
    bool beaten = false;
    if (what == COST) return r[at].front;
    for (size_t k = 0; k < n && !beaten; k++) {
        double x = x_of(&r[k], what), mine = x_of(&r[at], what);
        double v = r[k].row->score.figure.value, my = r[at].row->score.figure.value;
        beaten = k != at && is_shown(&r[k], what) && x <= mine && v >= my && (x < mine || v > my);
    }
    return !beaten;
}

static void interval_of(const tune_result *r, double *v, double *low, double *high) {
    const eval_estimate *figure = &r->row->score.figure;
    *v = 100 * figure->value;
    *low = 100 * figure->low;
    *high = 100 * figure->high;
}

static int by_x(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void draw_points(const plot_panel *p, const tune_result *r, size_t n, int what, double *xy) {
    size_t on_front = 0;
    for (size_t i = 0; i < n; i++) {
        double v, low, high, x = plot_place(&p->x, x_of(&r[i], what));
        if (!is_shown(&r[i], what)) continue;
        interval_of(&r[i], &v, &low, &high);
        plot_bar(p, x, low, high, PLOT_LIGHT_BLUE);
        if (!is_front(r, n, i, what)) continue;
        xy[2 * on_front] = x;
        xy[2 * on_front++ + 1] = plot_place(&p->y, v);
    }
    qsort(xy, on_front, 2 * sizeof *xy, by_x);
    svg_polyline(p->s, xy, on_front, PLOT_BLUE, 2);
    for (size_t i = 0; i < n; i++) {
        double v, low, high, x = plot_place(&p->x, x_of(&r[i], what));
        char number[16];
        if (!is_shown(&r[i], what)) continue;
        interval_of(&r[i], &v, &low, &high);
        snprintf(number, sizeof number, "%zu", i);
        svg_circle(p->s, x, plot_place(&p->y, v), r[i].chosen ? 6 : 4, i ? PLOT_BLUE : PLOT_RED);
        svg_text(p->s, x + 8, plot_place(&p->y, v) - 6, 11, SVG_START, number);
    }
}

static void draw_legend(const svg *s, const tune_result *r, size_t n) {
    double y = TOP + PANELS * HEIGHT + (PANELS - 1) * BETWEEN + FOOT;
    for (size_t i = 0; i < n; i++, y += LINE) {
        char number[16], line[200];
        snprintf(number, sizeof number, "%zu", i);
        snprintf(line, sizeof line, "%.120s: cost %.1f %%, %.2f %% right%s%s", r[i].row->line->name,
                 100 * r[i].point.cost, 100 * r[i].row->score.figure.value, r[i].front ? ", front" : "",
                 r[i].chosen ? ", chosen" : "");
        svg_text(s, LEFT, y, 12, SVG_END, number);
        svg_text(s, LEFT + 10, y, 12, SVG_START, line);
    }
}

static void draw(const svg *s, const tune_search *t, const tune_result *r, int what, double *xy) {
    plot_panel p = {
        .s = s,
        .x = {.low = 0, .high = what == COST ? 100 : 1e-6, .at = LEFT, .length = WIDTH - LEFT - RIGHT},
        .y = {.low = 100, .high = 0, .at = TOP + HEIGHT + what * (HEIGHT + BETWEEN), .length = -HEIGHT}};
    for (size_t i = 0; i < t->test.n_rows; i++) {
        double v, low, high;
        if (!is_shown(&r[i], what)) continue;
        interval_of(&r[i], &v, &low, &high);
        stretch(&p.x, 0, 1.05 * x_of(&r[i], what));
        stretch(&p.y, fmax(0, low - 0.5), high > 100 ? high + 0.5 : fmin(100, high + 0.5));
    }
    char title[160];
    snprintf(title, sizeof title, "%.60s, %%, with 95 %% intervals, against %s",
             compare_score_name(&t->test.set), against[what]);
    plot_frame(&p, title);
    plot_x_ticks(&p);
    draw_points(&p, r, t->test.n_rows, what, xy);
}

sac_status tune_plot_write(const tune_search *t, const tune_result *results, const char *path,
                           sac_error *err) {
    double *xy = calloc(2 * t->test.n_rows, sizeof *xy);
    svg s;
    if (!xy) return sac_fail_no_memory(err);
    sac_status st =
        svg_open(&s, path, WIDTH,
                 TOP + PANELS * HEIGHT + (PANELS - 1) * BETWEEN + FOOT + LINE * (double)t->test.n_rows, err);
    if (st == SAC_OK) {
        char title[80];
        snprintf(title, sizeof title, "saccade tune --want %s --lose %g", tune_want_names[t->aim.want],
                 t->s->lose);
        svg_describe(&s, title,
                     "Accuracy of the settings found against cost, time and bytes; the list below has their "
                     "names and figures.");
        svg_text(&s, LEFT, 24, 16, SVG_START, title);
        for (int what = 0; what < PANELS; what++) draw(&s, t, results, what, xy);
        draw_legend(&s, results, t->test.n_rows);
        st = svg_close(&s, err);
    }
    free(xy);
    return st;
}
