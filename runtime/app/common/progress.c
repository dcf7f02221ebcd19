#define _GNU_SOURCE
#include "progress.h"
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Work that ends sooner shows no line at all; redrawing more often than the eye follows only costs time. */
static const double seconds_before_first = 0.3, seconds_between = 0.1;

static bool is_dumb(void) {
    const char *term = getenv("TERM");
    return !term || !*term || !strcmp(term, "dumb");
}

void progress_init(progress *p, bool quiet) {
    *p = (progress){.on = !quiet && isatty(STDERR_FILENO) && !is_dumb()};
    p->answer_visible = isatty(STDOUT_FILENO);
}

void progress_clear(progress *p) {
    if (p->drawn) fputs("\r\033[K", stderr);
    p->drawn = false;
}

static int terminal_columns(void) {
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

/* "12", "12.3k", "4.5M" */
static void print_count(char *text, size_t n_bytes, double v) {
    const char *unit = "";
    if (v >= 1e5) v /= 1e3, unit = "k";
    if (v >= 1e5) v /= 1e3, unit = "M";
    snprintf(text, n_bytes, *unit || (v < 10 && v != (double)(int)v) ? "%.1f%s" : "%.0f%s", v, unit);
}

/* What a stage counts; NULL when its steps mean nothing to a reader (layers, bytes). */
static const char *unit_of(const char *stage) {
    if (!strcmp(stage, "media") || !strcmp(stage, "vision")) return "frames";
    if (!strcmp(stage, "questions") || !strcmp(stage, "captions")) return stage;
    return !strcmp(stage, "decode") ? "tokens" : NULL;
}

void progress_duration(char *text, size_t n_bytes, double seconds) {
    if (seconds < 120)
        snprintf(text, n_bytes, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, n_bytes, "%.0f min", seconds / 60);
    else
        snprintf(text, n_bytes, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
}

static void draw(progress *p, int64_t done, int64_t total) {
    char line[240], count[24], rate[24], of[24], left[32];
    const char *unit = unit_of(p->stage);
    double seconds = sac_seconds_since(p->stage_ns), per_second = seconds > 0 ? (double)done / seconds : 0;
    int n = snprintf(line, sizeof line, "%-8s", *p->label ? p->label : p->stage);
    if (total > 0) {
        char bar[21] = "....................";
        double part = done < total ? (double)done / (double)total : 1;
        memset(bar, '#', (size_t)(20 * part));
        n += snprintf(line + n, sizeof line - (size_t)n, " [%s] %3.0f%%", bar, 100 * part);
    }
    print_count(count, sizeof count, (double)done);
    bool slow = per_second < 1; /* then by the minute */
    print_count(rate, sizeof rate - 4, slow ? 60 * per_second : per_second);
    strcat(rate, slow ? "/min" : "/s");
    print_count(of, sizeof of, (double)total);
    if (unit && total > 0)
        n += snprintf(line + n, sizeof line - (size_t)n, "  %s of %s %s  %s", count, of, unit, rate);
    else if (unit)
        n += snprintf(line + n, sizeof line - (size_t)n, " %s %s  %s", count, unit, rate);
    if (done > 0 && done < total) {
        progress_duration(left, sizeof left, (double)(total - done) / per_second);
        n += snprintf(line + n, sizeof line - (size_t)n, "  %s left", left);
    }
    if (*p->note) snprintf(line + n, sizeof line - (size_t)n, "  %s", p->note);
    fprintf(stderr, "\r%.*s\033[K", terminal_columns() - 1, line);
    fflush(stderr);
    p->drawn = true;
    p->drawn_ns = sac_now_ns();
}

void progress_update(void *ctx, const char *stage, int64_t done, int64_t total) {
    progress *p = ctx;
    if (!p->on) return;
    bool is_new = strncmp(p->stage, stage, sizeof p->stage - 1) != 0;
    if (is_new) {
        snprintf(p->stage, sizeof p->stage, "%s", stage);
        p->stage_ns = sac_now_ns();
    }
    if (p->answer_visible && !strcmp(stage, "decode")) {
        progress_clear(p);
        return;
    }
    bool wait = p->drawn ? !is_new && sac_seconds_since(p->drawn_ns) < seconds_between
                         : sac_seconds_since(p->stage_ns) < seconds_before_first;
    if (!wait) draw(p, done, total);
}

static bool wants_colour(const progress *p) {
    const char *no = getenv("NO_COLOR");
    return p->on && !(no && *no);
}
const char *progress_dim(const progress *p) {
    return wants_colour(p) ? "\033[2m" : "";
}
const char *progress_plain(const progress *p) {
    return wants_colour(p) ? "\033[0m" : "";
}
