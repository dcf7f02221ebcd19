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

/* Of several, whether another of its group comes first. */
static bool has_to_wait(serve_turn *const *turns, size_t n, size_t i) {
    for (size_t k = 0; k < n; k++)
        if (turns[k]->group == turns[i]->group && turns[k]->priority < turns[i]->priority) return true;
    return false;
}

static size_t choose(serve_turn *const *turns, size_t n) {
    size_t oldest = find_oldest(turns, n), shortest = find_shortest(turns, n);
    const serve_turn *o = turns[oldest];
    bool may_go_between = serve_turn_is_short(turns[shortest]->n_left, o->n_left) && o->lent_ns <= o->own_ns;
    return may_go_between ? shortest : oldest;
}

size_t serve_turn_next(serve_turn *const *turns, size_t n) {
    serve_turn *some[SERVE_MOST_TURNS];
    size_t of[SERVE_MOST_TURNS], n_some = 0;
    for (size_t i = 0; i < n && n_some < SERVE_MOST_TURNS; i++) {
        if (has_to_wait(turns, n, i)) continue;
        of[n_some] = i;
        some[n_some++] = turns[i];
    }
    return of[choose(some, n_some)];
}

void serve_turn_order(serve_turn *const *turns, size_t n, size_t *order) {
    serve_turn *left[SERVE_MOST_TURNS];
    size_t of[SERVE_MOST_TURNS];
    n = n < SERVE_MOST_TURNS ? n : SERVE_MOST_TURNS;
    for (size_t i = 0; i < n; i++) left[i] = turns[i], of[i] = i;
    for (size_t n_left = n; n_left > 0; n_left--) {
        const size_t next = serve_turn_next(left, n_left);
        order[n - n_left] = of[next];
        for (size_t i = next; i + 1 < n_left; i++) left[i] = left[i + 1], of[i] = of[i + 1];
    }
}

void serve_turn_count(serve_turn *const *turns, size_t n, size_t ran, int64_t took_ns) {
    size_t oldest = find_oldest(turns, n);
    turns[ran]->own_ns += took_ns;
    if (ran != oldest) turns[oldest]->lent_ns += took_ns;
}
