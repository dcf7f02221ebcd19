/* gbnf.h - grammars in llama.cpp's notation (GBNF): rules "name ::= ...", literals, classes, '.', groups, | * + ? {m,n}, comments from
 * '#' on; the rule "root" is the whole text. A rule may stand on several lines. */
#ifndef SERVE_GBNF_H
#define SERVE_GBNF_H

#include "grammar.h"

/* The node of root, or -1: `why` (of `room` bytes) says what is wrong, or is empty: g does. */
int gbnf_compile(grammar *g, const char *text, size_t n, char *why, size_t room);

#endif
