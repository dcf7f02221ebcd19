/* splitter.h - an answer's text as it comes, divided into what the model thinks, what it says, and which tools it calls.
 *
 * What is given does not depend on how the text is cut: a mark is held back while it may still grow, and so is a call until
 * its name is known and its arguments begin. What then turns out to be no call is text. Arguments are the model's own
 * text, piece by piece; where it breaks off within them, they do. White space around reasoning and before a call is dropped. */
#ifndef SERVE_SPLITTER_H
#define SERVE_SPLITTER_H

#include "call_format.h"
#include "reasoning.h"

typedef enum splitter_kind {
    SPLITTER_TEXT,
    SPLITTER_REASONING,
    SPLITTER_CALL,     /* a call begins; the text is its name */
    SPLITTER_ARGUMENTS /* a piece of the last call's */
} splitter_kind;

typedef struct splitter_options {
    const reasoning_format *reasoning;                  /* NULL = none is looked for */
    bool begins_inside;                                 /* the prompt ends within it */
    const call_format *calls;                           /* NULL = none are looked for */
    bool (*knows)(const void *tools, const char *name); /* whether a tool of that name may be called */
    const void *tools;
    void (*event)(void *ctx, splitter_kind kind, const char *text, size_t n);
    void *ctx;
} splitter_options;

typedef struct splitter splitter;

/* NULL without memory. */
splitter *splitter_open(const splitter_options *o);
void splitter_close(splitter *s); /* NULL is fine */
void splitter_restart(splitter *s);

/* False: there was no memory, and a part is lost. */
bool splitter_feed(splitter *s, const char *text, size_t n);
/* The answer is at its end: what was held back comes. */
bool splitter_finish(splitter *s);

/* Whether the text is within reasoning now. */
bool splitter_is_reasoning(const splitter *s);
/* Calls that have begun. */
int splitter_n_calls(const splitter *s);

#endif
