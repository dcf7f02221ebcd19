#include "reply.h"

#include <string.h>

/* The i-th stop text; NULL past the last. */
static const char *stop_text(const sac_reply *r, size_t i) {
    if (i < r->n_stops) return r->stops[i];
    return r->format_stops ? r->format_stops[i - r->n_stops] : NULL;
}

static bool send_to(sac_reply *r, const sac_events *e, size_t to) {
    size_t from = r->n_sent;
    if (to <= from) return true;
    r->n_sent = to;
    return !e || !e->text || e->text(e->ctx, r->text + from, to - from);
}

/* Bytes of the tail that a stop text may still grow from. */
static size_t held_back(const sac_reply *r) {
    size_t held = 0;
    const char *stop;
    for (size_t i = 0; (stop = stop_text(r, i)); i++) {
        size_t n = strlen(stop), most = n - 1 < r->n_bytes ? n - 1 : r->n_bytes;
        for (size_t k = most; n > 0 && k > held; k--)
            if (memcmp(r->text + r->n_bytes - k, stop, k) == 0) held = k;
    }
    return held;
}

/* The start of the first stop text that the text holds at or after `from`, or n_bytes. */
static size_t find_stop(const sac_reply *r, size_t from) {
    const char *stop;
    size_t first = r->n_bytes;
    for (size_t i = 0; (stop = stop_text(r, i)); i++) {
        size_t n = strlen(stop);
        for (size_t at = from; n > 0 && at + n <= r->n_bytes && at < first; at++)
            if (memcmp(r->text + at, stop, n) == 0) first = at;
    }
    return first;
}

sac_outcome sac_reply_append(sac_reply *r, const sac_events *e, const char *text, size_t n_bytes) {
    if (n_bytes > r->capacity - 1 - r->n_bytes) return SAC_FULL;
    if (n_bytes) memcpy(r->text + r->n_bytes, text, n_bytes);
    r->n_bytes += n_bytes;
    size_t stop = find_stop(r, r->n_sent);
    bool stopped = stop < r->n_bytes;
    if (stopped) r->n_bytes = stop;
    r->text[r->n_bytes] = 0;
    bool wanted = send_to(r, e, stopped ? stop : r->n_bytes - held_back(r));
    return !wanted ? SAC_LEFT : stopped ? SAC_STOPPED : SAC_GO_ON;
}

bool sac_reply_send(sac_reply *r, const sac_events *e) {
    return send_to(r, e, r->n_bytes);
}
