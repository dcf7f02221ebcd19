/* scan.h - characters of a pattern's or a grammar's text. */
#ifndef SERVE_SCAN_H
#define SERVE_SCAN_H

#include "grammar.h"

typedef struct scan {
    const char *at, *end;
    const char *why; /* the first thing that is wrong; NULL = nothing yet */
} scan;

enum { SCAN_MAX_DEPTH = 64, SCAN_MAX_TIMES = 100000 };

/* Remembers why; -1, to be returned in place of a node. */
int scan_fail(scan *s, const char *why);
/* Whether the text goes on with the byte, which is then read. */
bool scan_take(scan *s, char c);
/* The next character. */
bool scan_character(scan *s, uint32_t *c);
/* A number of exactly n hexadecimal digits. */
bool scan_hex(scan *s, int n, uint32_t *c);
/* "m}", "m,}" or "m,n}", behind the "{"; max -1 = no end. False, and nothing is read: it is none of these. */
bool scan_times(scan *s, int64_t *min, int64_t *max);

#endif
