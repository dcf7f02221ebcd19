/* reasoning.h - how a model marks what it thinks before it answers. One line each in reasoning.c. */
#ifndef SERVE_REASONING_H
#define SERVE_REASONING_H

#include <stddef.h>

typedef struct reasoning_format {
    const char *name;    /* "think"; --reasoning-parser's */
    const char *aliases; /* other names, "|qwen3|...|" */
    const char *opener, *closer;
    const char *const *marks; /* control tokens that are read as text, NULL-terminated */
} reasoning_format;

/* By name or alias; NULL = there is none. */
const reasoning_format *reasoning_format_find(const char *name);
/* The first that has a mark in the text; NULL = none. */
const reasoning_format *reasoning_format_of(const char *text);

#endif
