#define _GNU_SOURCE
#include "compare_plot.h"
#include "plot.h"
#include "run_files.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- what is drawn */

typedef enum figure { ACCURACY, KEPT, READ, KV_FACTOR, FIGURES } figure;

static const char *const titles[FIGURES] = {
    "%, with 95 % intervals", "kept: share of tokens in prefill attention",
    "rows read in a step, of those stored", "KV factor: how much smaller than f16"};

/* Value, and the interval around it; NAN where there is none. */
typedef struct value {
    double v, low, high;
} value;

static value get(const compare_row *row, figure what) {
    const double plain[FIGURES] = {0, row->did.kept, row->did.decode_read, row->did.kv_factor};
    if (row->refused != SAC_OK) return (value){(double)NAN, (double)NAN, (double)NAN};
    if (what != ACCURACY) return (value){plain[what], plain[what], plain[what]};
    const eval_estimate *f = &row->score.figure;
    return (value){100 * f->value, 100 * f->low, 100 * f->high};
}

static void stretch(plot_axis *a, value v) {
    if (!isfinite(v.v)) return;
    a->low = fmin(a->low, v.low);
    a->high = fmax(a->high, v.high);
}

/* A little air around what there is, but none where nothing can be: a share is 0 to 1. */
static void finish_axis(plot_axis *a, figure what) {
    double air = fmax(0.05 * (a->high - a->low), what == ACCURACY ? 0.5 : 0.01);
    a->low = fmax(a->low - air, 0);
    a->high += air;
    if (what == ACCURACY && a->high - air <= 100) a->high = fmin(a->high, 100); /* CIDEr goes beyond */
    if (what == KEPT || what == READ) a->low = 0, a->high = 1;
}

static void draw_dense(const plot_panel *p, double v) {
    double y = plot_place(&p->y, v), end = p->x.at + p->x.length;
    svg_line(p->s, p->x.at, y, end, y, PLOT_RED, 1);
    svg_text(p->s, end + 4, y + 4, 11, SVG_START, "dense");
}

/* ---------------------------------------------------------------- a sweep */

typedef struct point {
    double x;
    const char *label;
    const compare_row *row;
} point;

typedef struct curve {
    point *points; /* [n], ascending */
    size_t n;
    bool numbers; /* of the values; otherwise nothing lies between two points */
} curve;

static int by_x(const void *a, const void *b) {
    double x = ((const point *)a)->x, y = ((const point *)b)->x;
    return (x > y) - (x < y);
}

/* Values that are all numbers stand where they belong, others side by side. */
static void sort_points(const comparison *c, const method_sweep *s, curve *out) {
    out->numbers = true;
    for (size_t i = 0; i < s->n; i++) {
        char *end;
        out->points[i] = (point){strtod(s->over[i], &end), s->over[i], &c->rows[s->lines[i]]};
        out->numbers = out->numbers && !*end && isfinite(out->points[i].x);
    }
    for (size_t i = 0; !out->numbers && i < s->n; i++) out->points[i].x = (double)i;
    qsort(out->points, s->n, sizeof *out->points, by_x);
}

static plot_axis x_axis(const curve *k, double at, double length) {
    plot_axis a = {.low = k->points[0].x, .high = k->points[k->n - 1].x, .at = at, .length = length};
    if (a.low > 0 && a.high / a.low >= 20) {
        a.log = true;
        a.low /= 1.1;
        a.high *= 1.1;
    } else {
        double air = 0.04 * (a.high - a.low);
        a.low -= air;
        a.high += air;
    }
    return a;
}

static void draw_curve(const plot_panel *p, const curve *c, figure what) {
    double *xy = calloc(2 * c->n, sizeof *xy);
    size_t k = 0;
    for (size_t i = 0; i < c->n; i++) {
        const point *at = &c->points[i];
        value v = get(at->row, what);
        double x = plot_place(&p->x, at->x);
        if (at->row->refused != SAC_OK) svg_text(p->s, x, p->y.at - 4, 10, SVG_MIDDLE, "refused");
        if (!isfinite(v.v)) continue;
        double y = plot_place(&p->y, v.v);
        if (what == ACCURACY) plot_bar(p, x, v.low, v.high, PLOT_LIGHT_BLUE);
        if (xy) xy[k++] = x, xy[k++] = y;
    }
    if (xy && c->numbers) svg_polyline(p->s, xy, k / 2, PLOT_BLUE, 2);
    for (size_t i = 0; i + 1 < k; i += 2) svg_circle(p->s, xy[i], xy[i + 1], 4, PLOT_BLUE);
    free(xy);
}

/* A label that would touch the one before it stands a line lower; one without room there, too, is left out. */
static void label_points(const plot_panel *p, const curve *k) {
    enum { LINES = 2, LINE_HEIGHT = 12 };
    double free_from[LINES] = {-1e9, -1e9};
    for (size_t i = 0; i < k->n; i++) {
        double x = plot_place(&p->x, k->points[i].x), half = 3.5 * (double)strlen(k->points[i].label) + 3;
        int line = 0;
        while (line < LINES && x - half < free_from[line]) line++;
        plot_x_tick(p, k->points[i].x, line ? "" : k->points[i].label);
        if (line == LINES) continue;
        if (line) svg_text(p->s, x, p->y.at + 16 + line * LINE_HEIGHT, 11, SVG_MIDDLE, k->points[i].label);
        free_from[line] = x + half;
    }
}

static plot_axis y_axis(const comparison *c, const curve *k, figure what) {
    value dense = get(&c->rows[0], what);
    plot_axis a = {.low = dense.v, .high = dense.v};
    for (size_t i = 0; i < k->n; i++) stretch(&a, get(k->points[i].row, what));
    finish_axis(&a, what);
    return a;
}

static bool differs_from_dense(const comparison *c, const curve *k, figure what) {
    double dense = get(&c->rows[0], what).v;
    for (size_t i = 0; i < k->n; i++)
        if (fabs(get(k->points[i].row, what).v - dense) > 1e-3) return true;
    return what == ACCURACY;
}

enum { WIDTH = 760, LEFT = 60, RIGHT = 70, TOP = 72, TALL = 260, LOW = 150, BETWEEN = 64 };

static void draw_sweep(const svg *s, const comparison *c, const method_sweep *sweep, const curve *k,
                       const bool *shown) {
    double y = TOP;
    svg_text(s, LEFT, 24, 16, SVG_START, sweep->name);
    char *line = method_line_text(sweep->part);
    if (line && strcmp(line, sweep->name)) svg_text(s, WIDTH - RIGHT, 24, 12, SVG_END, line);
    free(line);
    for (int what = 0; what < FIGURES; what++) {
        if (!shown[what]) continue;
        double height = what == ACCURACY ? TALL : LOW;
        plot_panel p = {s, x_axis(k, LEFT, WIDTH - LEFT - RIGHT), y_axis(c, k, (figure)what)};
        p.y.at = y + height;
        p.y.length = -height;
        char title[160];
        snprintf(title, sizeof title, "%s%s%s", what == ACCURACY ? compare_score_name(&c->set) : "",
                 what == ACCURACY ? ", " : "", titles[what]);
        plot_frame(&p, title);
        label_points(&p, k);
        if (isfinite(get(&c->rows[0], (figure)what).v)) draw_dense(&p, get(&c->rows[0], (figure)what).v);
        draw_curve(&p, k, (figure)what);
        y += height + BETWEEN;
    }
}

static sac_status write_sweep(const comparison *c, const method_sweep *sweep, const char *path,
                              sac_error *err) {
    curve k = {.points = calloc(sweep->n, sizeof(point)), .n = sweep->n};
    if (!k.points) return sac_fail_no_memory(err);
    bool shown[FIGURES];
    double height = TOP;
    svg s;
    sort_points(c, sweep, &k);
    for (int what = 0; what < FIGURES; what++) {
        shown[what] = differs_from_dense(c, &k, (figure)what);
        if (shown[what]) height += (what == ACCURACY ? TALL : LOW) + BETWEEN;
    }
    sac_status st = svg_open(&s, path, WIDTH, height - BETWEEN / 2.0, err);
    if (st == SAC_OK) {
        draw_sweep(&s, c, sweep, &k, shown);
        st = svg_close(&s, err);
    }
    free(k.points);
    return st;
}

/* ---------------------------------------------------------------- the overview */

enum { PANEL = 470, GAP = 90, HEIGHT = 340, LINE = 18 };

/* Numbers beside their dots, each where it meets neither a dot nor another number. */
typedef struct labels {
    double *xy; /* [n] pairs: where a number's base line begins */
    size_t n;
    double *dots; /* [n_dots] pairs */
    size_t n_dots;
} labels;

enum { LABEL_WIDTH = 14, LABEL_HEIGHT = 9 };

static bool is_free(const labels *l, double x, double y) {
    for (size_t i = 0; i < l->n; i++)
        if (fabs(l->xy[2 * i] - x) < LABEL_WIDTH + 2 && fabs(l->xy[2 * i + 1] - y) < LABEL_HEIGHT + 2)
            return false;
    for (size_t i = 0; i < l->n_dots; i++) {
        double dx = l->dots[2 * i] - x, dy = l->dots[2 * i + 1] - y;
        if (dx > -5 && dx < LABEL_WIDTH + 5 && dy > -LABEL_HEIGHT - 5 && dy < 5) return false;
    }
    return true;
}

/* The nearest free place; a thin line leads to one that is not beside its dot. */
static void put_label(const plot_panel *p, labels *l, double x, double y, const char *text) {
    enum { COLUMNS_MAX = 7, LINES_MAX = 14, LEADS_FROM = 16 };
    double best = INFINITY, at_x = x + 6, at_y = y - 4;
    for (int line = -LINES_MAX; line <= LINES_MAX; line++)
        for (int column = 0; column < COLUMNS_MAX;
             column++) { /* right of the dot, left of it, and so on outward */
            double shift = 6 + column / 2 * (LABEL_WIDTH + 4),
                   to_x = column % 2 ? x - shift - LABEL_WIDTH : x + shift, to_y = y + 4 + 4 * line;
            double far = hypot(to_x + LABEL_WIDTH / 2.0 - x, to_y - LABEL_HEIGHT / 2.0 - y);
            bool inside = to_y < p->y.at && to_y - LABEL_HEIGHT > p->y.at + p->y.length - 14;
            if (far >= best || !inside || !is_free(l, to_x, to_y)) continue;
            best = far;
            at_x = to_x;
            at_y = to_y;
        }
    if (isfinite(best) && best > LEADS_FROM) {
        double to_x = at_x + (at_x < x ? LABEL_WIDTH : 0), to_y = at_y - LABEL_HEIGHT / 2.0;
        svg_line(p->s, x, y, to_x, to_y, "#999", 0.7);
    }
    l->xy[2 * l->n] = at_x;
    l->xy[2 * l->n++ + 1] = at_y;
    svg_text(p->s, at_x, at_y, 11, SVG_START, text);
}

/* Two pages of two panels: what is saved and read (overview), time and bytes with their fronts (front). */
typedef enum axis { SAVED, ROWS, TIME, BYTES } axis;
static const char *const against[] = {[SAVED] = "attention FLOPs saved in prefill, %",
                                      [ROWS] = "rows read in a step, %",
                                      [TIME] = "seconds of prefill and decode a question",
                                      [BYTES] = "megabytes of keys and values a question"};
static const double least_high[] = {[SAVED] = 10, [ROWS] = 100, [TIME] = 0, [BYTES] = 0};

/* Where a row stands; false: it is not shown there. A row that saves neither FLOPs nor rows is shown with the first. */
static bool overview_x(const compare_row *row, int which, bool is_dense, double *x) {
    double saved = 100 * row->did.flops_saved, read = 100 * row->did.decode_read;
    bool reads_less = isfinite(read) && read < 99.95;
    const double values[] = {[SAVED] = saved,
                             [ROWS] = read,
                             [TIME] = compare_row_seconds(row),
                             [BYTES] = row->did.kv_bytes_token * row->prompt_tokens / 1e6};
    *x = values[which];
    if (row->refused != SAC_OK || !isfinite(*x)) return false;
    return is_dense || which >= TIME || (which == ROWS ? reads_less : saved > 0.05 || !reads_less);
}

static int by_first(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A line through the rows that no other beats: none costs as little and is as right. */
static void draw_front(const plot_panel *p, const comparison *c, int which) {
    double *xy = calloc(2 * c->n_rows, sizeof *xy), x, other;
    size_t n = 0;
    for (size_t i = 0; xy && i < c->n_rows; i++) {
        bool beaten = !overview_x(&c->rows[i], which, i == 0, &x);
        double v = get(&c->rows[i], ACCURACY).v;
        for (size_t k = 0; k < c->n_rows && !beaten; k++) {
            if (k == i || !overview_x(&c->rows[k], which, k == 0, &other)) continue;
            double its = get(&c->rows[k], ACCURACY).v;
            beaten = other <= x && its >= v && (other < x || its > v);
        }
        if (beaten) continue;
        xy[2 * n] = plot_place(&p->x, x);
        xy[2 * n++ + 1] = plot_place(&p->y, v);
    }
    if (n) qsort(xy, n, 2 * sizeof *xy, by_first);
    if (n) svg_polyline(p->s, xy, n, PLOT_BLUE, 2);
    free(xy);
}

static void draw_overview_panel(const svg *s, const comparison *c, int which, labels *l) {
    plot_panel p = {.s = s,
               .x = {.high = least_high[which], .at = LEFT + which % 2 * (PANEL + GAP), .length = PANEL},
               .y = {.low = 1e9, .high = -1e9, .at = TOP + HEIGHT, .length = -HEIGHT}};
    double x;
    for (size_t i = 0; i < c->n_rows; i++) {
        if (!overview_x(&c->rows[i], which, i == 0, &x)) continue;
        p.x.high = fmax(p.x.high, 1.05 * x);
        stretch(&p.y, get(&c->rows[i], ACCURACY));
    }
    if (p.y.low > p.y.high) p.y.low = 0, p.y.high = 100; /* no step was made: nothing was read */
    finish_axis(&p.y, ACCURACY);
    char title[160];
    snprintf(title, sizeof title, "%.60s, %%, against %s", compare_score_name(&c->set), against[which]);
    if (!(p.x.high > 0)) p.x.high = 1;
    plot_frame(&p, title);
    plot_x_ticks(&p);
    if (which >= TIME) draw_front(&p, c, which);
    draw_dense(&p, get(&c->rows[0], ACCURACY).v);
    l->n = l->n_dots = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        if (!overview_x(&c->rows[i], which, i == 0, &x)) continue;
        value v = get(&c->rows[i], ACCURACY);
        plot_bar(&p, plot_place(&p.x, x), v.low, v.high, PLOT_LIGHT_BLUE);
        l->dots[2 * l->n_dots] = plot_place(&p.x, x);
        l->dots[2 * l->n_dots++ + 1] = plot_place(&p.y, get(&c->rows[i], ACCURACY).v);
    }
    for (size_t i = c->n_rows; i-- > 0;) { /* dense last, on top */
        char text[16];
        if (!overview_x(&c->rows[i], which, i == 0, &x)) continue;
        double y = plot_place(&p.y, get(&c->rows[i], ACCURACY).v);
        snprintf(text, sizeof text, "%zu", i);
        svg_circle(s, plot_place(&p.x, x), y, 4, i ? PLOT_BLUE : PLOT_RED);
        put_label(&p, l, plot_place(&p.x, x), y, text);
    }
}

static void draw_legend(const svg *s, const comparison *c) {
    double y = TOP + HEIGHT + BETWEEN;
    for (size_t i = 0; i < c->n_rows; i++, y += LINE) {
        const compare_row *row = &c->rows[i];
        char number[16], text[160];
        snprintf(number, sizeof number, "%zu", i);
        if (row->refused != SAC_OK)
            snprintf(text, sizeof text, "%.120s: refused", row->line->name);
        else
            snprintf(text, sizeof text, "%.120s: %.2f %%", row->line->name, 100 * row->score.figure.value);
        svg_text(s, LEFT, y, 12, SVG_END, number);
        svg_text(s, LEFT + 10, y, 12, SVG_START, text);
    }
}

static sac_status write_overview(const comparison *c, axis first, const char *path, sac_error *err) {
    svg s;
    labels l = {.xy = calloc(4 * c->n_rows, sizeof(double))};
    if (!l.xy) return sac_fail_no_memory(err);
    l.dots = l.xy + 2 * c->n_rows;
    double width = LEFT + 2 * PANEL + GAP + RIGHT;
    double height = TOP + HEIGHT + BETWEEN + (double)c->n_rows * LINE;
    sac_status st = svg_open(&s, path, width, height, err);
    if (st == SAC_OK) {
        svg_describe(&s, first == TIME ? "Accuracy against time and bytes" : "Accuracy against what was saved",
                     "A dot for each method, with the 95 % interval of its accuracy; the list below has their names and figures.");
        svg_text(&s, LEFT, 24, 16, SVG_START,
                 first == TIME ? "Attention methods compared: time and bytes, with the front as a line" : "Attention methods compared");
        for (int i = 0; i < 2; i++) draw_overview_panel(&s, c, (int)first + i, &l);
        draw_legend(&s, c);
        st = svg_close(&s, err);
    }
    free(l.xy);
    return st;
}

sac_status compare_plot_write(const comparison *c, const char *folder, sac_error *err) {
    static const char *const pages[] = {"overview.svg", "front.svg"};
    char *path = NULL;
    sac_status st = SAC_OK;
    for (int i = 0; i < 2 && st == SAC_OK; i++) {
        path = run_files_path(folder, pages[i]);
        st = path ? write_overview(c, i ? TIME : SAVED, path, err) : sac_fail_no_memory(err);
        free(path);
    }
    for (size_t i = 0; i < c->list.n_sweeps && st == SAC_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "sweep%zu.svg", i + 1);
        path = run_files_path(folder, name);
        st = path ? write_sweep(c, &c->list.sweeps[i], path, err) : sac_fail_no_memory(err);
        free(path);
    }
    return st;
}
