/* progress.h - one line on a terminal about work that takes long: stage, bar, rate, time left. */
#ifndef APP_PROGRESS_H
#define APP_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct progress {
    bool on; /* standard error is a terminal that can go back on its line, and nobody asked for quiet */
    bool answer_visible; /* the answer streams to a terminal: no line while it does */
    bool drawn;          /* a line is on the screen now */
    char stage[16];
    char label[24], note[40];   /* shown in place of the stage, and at the end; the caller writes them */
    int64_t stage_ns, drawn_ns; /* when the stage began and the line was drawn last (sac_now_ns) */
} progress;

void progress_init(progress *p, bool quiet);

/* A sac_progress_fn. ctx: the progress. */
void progress_update(void *ctx, const char *stage, int64_t done, int64_t total);

/* "34 s", "12 min", "3 h 05 min" */
void progress_duration(char *text, size_t n_bytes, double seconds);

/* Removes the line. */
void progress_clear(progress *p);

/* Dims text on standard error, or "" where colour is not wanted (not a terminal, NO_COLOR, a dumb terminal).
 */
const char *progress_dim(const progress *p);
const char *progress_plain(const progress *p);

#endif
