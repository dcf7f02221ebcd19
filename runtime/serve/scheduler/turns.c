#include "turns.h"

bool serve_turn_is_short(double n, double n_older) {
    return 2 * n < n_older;
}

static size_t find_oldest(serve_turn *const *turns, size_t n) {
    size_t oldest = 0;
    for (size_t i = 1; i < n; i++)
        if (turns[i]->ticket < turns[oldest]->ticket) oldest = i;
    return oldest;
}

/* Of several that have as little left the oldest. */
static size_t find_shortest(serve_turn *const *turns, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        const serve_turn *t = turns[i], *b = turns[best];
        if (t->n_left < b->n_left || (t->n_left <= b->n_left && t->ticket < b->ticket)) best = i;
    }
    return best;
}

size_t serve_turn_next(serve_turn *const *turns, size_t n) {
    size_t oldest = find_oldest(turns, n), shortest = find_shortest(turns, n);
    const serve_turn *o = turns[oldest];
    bool may_go_between = serve_turn_is_short(turns[shortest]->n_left, o->n_left) && o->lent_ns <= o->own_ns;
    return may_go_between ? shortest : oldest;
}

void serve_turn_count(serve_turn *const *turns, size_t n, size_t ran, int64_t took_ns) {
    size_t oldest = find_oldest(turns, n);
    turns[ran]->own_ns += took_ns;
    if (ran != oldest) turns[oldest]->lent_ns += took_ns;
}
