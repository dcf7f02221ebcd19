/* turns.h - which of several prompts runs its next piece.
 *
 * Prompts of like length one after the other: in turns the first would be late and the last no earlier. A short
 * one may go between the pieces of a long one, for half of the time. Until it is through, that takes twice its own
 * time and holds the long one up by as much as the short one takes. So it wins more than the long one loses when it
 * has less than half as much left. The oldest prompt has the other half of the time, whoever comes: none starves, but by one
 * whose client (or, where all share priorities, anybody) gives it an earlier priority: that runs first. */
#ifndef SERVE_TURNS_H
#define SERVE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A prompt on its way, as far as its turns go. */
typedef struct serve_turn {
    uint64_t ticket; /* order in which prompts were let in */
    uint64_t group;  /* of prompts whose priorities are compared */
    int64_t priority; /* lower is earlier */
    double n_left;   /* about how many of its tokens are still to be run */
    int64_t own_ns;  /* that its pieces took */
    int64_t lent_ns; /* that pieces of younger prompts took while it was the oldest */
} serve_turn;

enum { SERVE_MOST_TURNS = 256 };

/* Whether a prompt with n tokens left may go between the pieces of one with n_older left. */
bool serve_turn_is_short(double n, double n_older);

/* The one of n >= 1 prompts whose piece is next; n at most SERVE_MOST_TURNS. */
size_t serve_turn_next(serve_turn *const *turns, size_t n);

/* Who is next, who would be if that one were gone, and so on: order[n] are places among the turns. */
void serve_turn_order(serve_turn *const *turns, size_t n, size_t *order);

/* A piece of turns[ran] took so long. */
void serve_turn_count(serve_turn *const *turns, size_t n, size_t ran, int64_t took_ns);

#endif
