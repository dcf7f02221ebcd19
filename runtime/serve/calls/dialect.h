/* dialect.h - how a model writes tool calls and reasoning, which its chat template shows. */
#ifndef SERVE_DIALECT_H
#define SERVE_DIALECT_H

#include "call_format.h"
#include "reasoning.h"

#include "saccade/saccade.h"

enum { DIALECT_MAX_MARKS = 8 };

typedef struct serve_dialect {
    const sac_model *model;
    const call_format *calls;                 /* NULL = calls stay text */
    const reasoning_format *reasoning;        /* NULL = reasoning stays text */
    bool takes_tools;                         /* the template writes the tools that it is given */
    const char *marks[DIALECT_MAX_MARKS + 1]; /* control tokens that are read as text, NULL-terminated */
} serve_dialect;

/* What the options of the two parsers ask for: NULL and "auto" look at what the template makes of small conversations, "none" is
 * none. BAD_ARGUMENT for a name that is not known. */
sac_status serve_dialect_find(serve_dialect *d, const sac_model *m, const char *tool_parser,
                              const char *reasoning_parser, sac_error *err);

/* Whether the prompt of a conversation ends within reasoning, which the answer then goes on with; *closed: it ends right behind some that
 * is closed, so that none will come. A conversation that the template refuses ends in neither. */
bool serve_dialect_ends_inside(const serve_dialect *d, const sac_message *messages, size_t n_messages,
                               const sac_chat_options *o, bool *closed);

#endif
