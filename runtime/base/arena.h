/* arena.h - one block of memory, taken once, handed out in order, given back as a whole.
 *
 * Used for the session's state (taken when a session is created) and for step scratch (reset after each
 * step). Blocks are 64-byte aligned, so that vector code may load whole lines. Memory comes from mmap, in
 * small pages: untouched ones cost nothing, so a long context may be planned for without being paid for (huge
 * pages would be: every head's rows start a megabyte apart). Under ASan every block ends in a red zone and
 * what is not handed out is poisoned. */
#ifndef SAC_BASE_ARENA_H
#define SAC_BASE_ARENA_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAC_ARENA_ALIGN 64

typedef struct sac_arena {
    uint8_t *base;
    size_t capacity_bytes;
    size_t used_bytes;
    size_t peak_bytes;
    bool borrowed; /* memory of somebody else's */
} sac_arena;

/* Bytes that a block of n_bytes takes out of an arena; sums of it give the capacity to open with. */
size_t sac_arena_block_bytes(size_t n_bytes);

/* An arena without memory: takes give NULL and only add to used_bytes. With it a function that takes its
 * blocks is its own memory plan. */
sac_arena sac_arena_measure(void);

/* An arena over memory of somebody else's, e.g. a device's: it is handed out, never touched,
 * and not freed. */
sac_arena sac_arena_over(void *base, size_t capacity_bytes);

sac_status sac_arena_open(sac_arena *a, size_t capacity_bytes, sac_error *err);
void sac_arena_free(sac_arena *a); /* a zeroed or freed arena is fine */

/* Zeroed on first use only. NULL when the arena is full: the planner was wrong, callers assert or fail with
 * INTERNAL. */
void *sac_arena_take(sac_arena *a, size_t n_bytes);

/* Gives back everything taken after `mark` (an earlier used_bytes; 0 = all). */
void sac_arena_release(sac_arena *a, size_t mark);

#endif
