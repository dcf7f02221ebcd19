/* tokenizer_prefix.h - which of many strings start at a place of a text. Inside the tokenizer only.
 *
 * The strings are sorted; a walk narrows the range of those that agree with the bytes read so far by binary
 * search, so a step costs O(log n) and the set needs no memory beyond the sorted list. Used for added tokens
 * and for the Unigram model's lattice. */
#ifndef SAC_LLM_TOKENIZER_PREFIX_H
#define SAC_LLM_TOKENIZER_PREFIX_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sac_prefix_entry {
    const char *text; /* borrowed */
    uint32_t n_bytes; /* at least 1 */
    int32_t value;    /* entries with equal texts: the lowest value wins */
} sac_prefix_entry;

typedef struct sac_prefix_set {
    sac_prefix_entry *entry; /* sorted */
    uint32_t n;
    uint32_t first[257]; /* entries that start with byte b: first[b] .. first[b + 1] */
} sac_prefix_set;

/* Takes over the list (heap memory) and sorts it. */
void sac_prefix_set_make(sac_prefix_set *set, sac_prefix_entry *entry, size_t n);
void sac_prefix_set_free(sac_prefix_set *set);

typedef struct sac_prefix_walk {
    uint32_t low, high, depth;
} sac_prefix_walk;

static inline sac_prefix_walk sac_prefix_start(void) {
    return (sac_prefix_walk){0, 0, 0};
}
/* Reads one more byte of the text; false when no string goes on with it. */
bool sac_prefix_step(const sac_prefix_set *set, sac_prefix_walk *w, char byte);
/* Value of the string that ends exactly where the walk stands, -1 when none does. */
static inline int32_t sac_prefix_here(const sac_prefix_set *set, const sac_prefix_walk *w) {
    return set->entry[w->low].n_bytes == w->depth ? set->entry[w->low].value : -1;
}

#endif
