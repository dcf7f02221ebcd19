#include "pace.h"

#include <math.h>

typedef struct list {
    int64_t *index; /* or NULL */
    int64_t n, last;
} list;

static void put(list *l, int64_t frame) {
    if (l->n && frame == l->last) return;
    if (l->index) l->index[l->n] = frame;
    l->last = frame;
    l->n++;
}

/* numpy.linspace(first, last, n, dtype=int) */
static void put_evenly(list *l, int64_t first, int64_t last, int64_t n) {
    const double step = n > 1 ? (double)(last - first) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++)
        put(l, i && i == n - 1 ? last : (int64_t)floor((double)i * step + (double)first));
}

static void put_at(list *l, double frame, int64_t most) {
    frame = ceil(frame);
    put(l, frame < (double)most ? (int64_t)frame : most);
}

/* fps frames a second, each the first at its time or behind it; of a video longer than most_s as many as that would have. */
static void by_seconds(list *l, const sac_frame_request *r, int64_t total, double fps) {
    const double duration = (double)total / fps;
    if (duration <= r->most_s) {
        const double asked = floor(duration * r->fps);
        const int64_t n = asked > 1 ? (int64_t)asked : 1;
        for (int64_t i = 0; i < n && (!l->n || l->last < total - 1); i++)
            put_at(l, (double)i * fps / r->fps, total - 1);
        return;
    }
    const int64_t n = (int64_t)(r->most_s * r->fps);
    if (n >= total) {
        put_evenly(l, 0, total - 1, total);
        return;
    }
    const double step = n > 1 ? duration / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++)
        put_at(l, (i && i == n - 1 ? duration : (double)i * step) * fps, total - 1);
}

/* 3 frames a second of up to half a minute, 1 of up to five, one in two seconds of more; twice as many, as two share a patch, and
 * never more than MOST. The first at each of those times or behind it, or as many evenly. */
static void by_length(list *l, int64_t total, double fps) {
    enum { MOST = 640, MOST_S = 2400, SHARED = 2 };
    const double duration = (double)total / fps, counted = fmin(duration, MOST_S),
                 target = counted <= 30    ? 3
                          : counted <= 300 ? 1
                                           : 0.5;
    const double asked = floor(counted * target * SHARED);
    const int64_t n = asked < MOST ? (int64_t)asked : MOST;
    if (total < n) {
        put_evenly(l, 0, total - 1, total);
        return;
    }
    const double step = 1 / (SHARED * target), frame_s = 1 / fps, end = floor(duration);
    double next = 0;
    int64_t last = 0, n_met = 0;
    for (int64_t i = 0; i < total; i++) {
        if ((double)i * frame_s < next) continue;
        next += step;
        last = i;
        n_met++;
        if (next >= end) break;
    }
    if (n_met != n) {
        put_evenly(l, 0, n_met < n ? last : total - 1, n > 0 ? n : 1);
        return;
    }
    next = 0;
    for (int64_t i = 0; i < total && l->n < n; i++) {
        if ((double)i * frame_s < next) continue;
        next += step;
        put(l, i);
    }
}

int64_t sac_pace_choose(const sac_frame_request *request, int64_t total, double fps, int64_t *index) {
    list l = {.index = index};
    if (request->pace == SAC_PACE_LENGTH)
        by_length(&l, total, fps);
    else
        by_seconds(&l, request, total, fps);
    if (!l.n) put(&l, 0);
    return l.n;
}
