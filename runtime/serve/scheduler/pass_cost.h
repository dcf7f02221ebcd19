/* pass_cost.h - what passes of the model have taken, and so how many rows of prompts the next one may take along. Arithmetic
 * alone: no clock is read here. */
#ifndef SERVE_PASS_COST_H
#define SERVE_PASS_COST_H

#include "pauses.h"

#include <stdbool.h>
#include <stddef.h>

/* All in seconds; 0 = not measured. */
typedef struct serve_pass_cost {
    double step_s; /* a step of all answers, with what they guess ahead: so long nothing else runs */
    double bare_s; /* one without guesses: where rows of prompts go along, nobody guesses */
    double row_s;  /* how much longer than that for each row of a prompt */
    int n_unlearnt; /* passes with rows of prompts that tell nothing yet: in its first one a device loads kernels */
} serve_pass_cost;

/* One that has come back. */
typedef struct serve_pass_ran {
    double took_s;
    size_t n_rows;     /* of answers, guesses included; 0: all tokens were there already, which tells nothing */
    size_t n_guessed;  /* of these (sac_batch_ran) */
    size_t n_prompt;   /* rows of prompts beside them */
} serve_pass_ran;

void serve_pass_learn(serve_pass_cost *c, const serve_pass_ran *ran);

/* How many rows of prompts, at most `most`, the next pass may take along to come back within the target (serve_pause_rows); 0
 * also where no step was measured. */
int64_t serve_pass_room(const serve_pass_cost *c, double target, int64_t most);

/* What the target leaves of the next pass behind n rows of prompts, when since_s has gone by since the last one; 0: nothing, or rows
 * were not measured. */
double serve_pass_left(const serve_pass_cost *c, double target, int64_t n, double since_s);

/* How many rows of prompts take as long as a step without them; 0: not measured. */
double serve_pass_step_rows(const serve_pass_cost *c);

/* As serve_pass_room, for the prompt whose turn it is, of which *apart tells whether it was refused before. One that is refused goes apart to
 * its end: it is asked once. With each that is, a row counts for a fifth less, so that after some prompts it is measured again. */
int64_t serve_pass_ask(serve_pass_cost *c, double target, bool *apart, int64_t most);

/* So many of `room` rows beside n steps that the pass has a multiple of `tile` rows in all: on a device tiles are full then, and a
 * few plans of products serve all passes. Where that leaves fewer than SERVE_PASS_LEAST: all. */
enum { SERVE_PASS_TILE = 64 };
size_t serve_pass_whole(size_t room, size_t n, size_t tile);

#endif
