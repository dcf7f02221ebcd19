/* suggest.h - the name that somebody may have meant by one that does not exist. */
#ifndef APP_SUGGEST_H
#define APP_SUGGEST_H

#include <stddef.h>

/* Starts as {.typed = "..."}; offer it every name there is. */
typedef struct suggestion {
    const char *typed;
    const char *best; /* the nearest so far; NULL: none is near */
    size_t distance;
} suggestion;

/* Names count as near by the letters that are added, dropped, changed or swapped with the next: one, or two of a name
 * with at least six, or a beginning of at least three letters. Longer than 60 bytes: never. */
void suggest_offer(suggestion *s, const char *name);

#endif
