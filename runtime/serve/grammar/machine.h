/* machine.h - a text read byte by byte against a grammar. Where several readings are possible they are followed side by
 * side: a reading is a stack of frames, stacks share what they have in common, and no more than MACHINE_MAX_READINGS are
 * followed. What is dropped beyond them is only not offered: each that is left leads to a text of the grammar.
 *
 * The machine has levels: level 0 is what has been read; machine_try reads one byte more of level k into level k + 1, so
 * tokens that begin alike are tried together. */
#ifndef SERVE_MACHINE_H
#define SERVE_MACHINE_H

#include "grammar.h"

enum { MACHINE_MAX_READINGS = 160, MACHINE_MAX_LEVELS = 1024 };

typedef struct machine machine;

/* The grammar must outlive it. NULL without memory. */
machine *machine_open(const grammar *g);
void machine_close(machine *m); /* NULL is fine */
void machine_restart(machine *m);

/* Reads a byte from level k < MACHINE_MAX_LEVELS on, into level k + 1. False: it may not come there, or there is no memory. */
bool machine_try(machine *m, int level, unsigned char byte);
/* Level k becomes level 0. */
void machine_keep(machine *m, int level);
/* May the text end there? */
bool machine_may_end(const machine *m, int level);
/* Whether it may do nothing but end. */
bool machine_is_done(const machine *m, int level);
/* Whether any n bytes of whole characters but controls, quotes and backslashes may come there: within a JSON string. False where
 * that is not sure. */
bool machine_is_free(const machine *m, int level, uint32_t n_bytes);

/* Steps that all calls so far took, a fraction of a microsecond each: what a caller bounds its time by. */
uint64_t machine_work(const machine *m);

/* try and keep of one byte. */
bool machine_step(machine *m, unsigned char byte);

#endif
