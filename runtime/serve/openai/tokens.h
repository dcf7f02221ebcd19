/* tokens.h - what every token of the model's vocabulary adds to a text. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H

#include "saccade/saccade.h"

/* A control token that answers are looked at for, though it adds nothing to their text: "[TOOL_CALLS]". */
typedef struct serve_mark {
    int32_t id;
    uint32_t n;
    char name[64]; /* n bytes */
} serve_mark;

enum { SERVE_MAX_MARKS = 8 };

typedef struct serve_tokens {
    const sac_model *model;
    int32_t n;
    const char **bytes; /* [n] into `all` */
    uint32_t *length;   /* [n]; 0 for ids that add nothing */
    bool *is_stop;      /* [n] */
    char *all;
    int32_t *order; /* [n_ordered] ids that add something and end no answer, sorted by their bytes */
    int32_t n_ordered;
    uint32_t *shared; /* [n_ordered] bytes that one has in common with the one before it */
    uint32_t *
        plain_from; /* [n] the bytes from here on are whole characters, none a control, a quote or a backslash */
    serve_mark marks[SERVE_MAX_MARKS];
    size_t n_marks;
} serve_tokens;

/* `marks`: names of control tokens, NULL-terminated or NULL; those that the vocabulary has become marks. */
sac_status serve_tokens_open(serve_tokens **out, const sac_model *m, const char *const *marks,
                             sac_error *err);
void serve_tokens_close(serve_tokens *t); /* NULL is fine */

/* Fills order, shared and plain_from, which have room, from bytes, length and is_stop. */
void serve_tokens_put_in_order(serve_tokens *t);

/* The id's mark, or NULL. */
const serve_mark *serve_tokens_mark(const serve_tokens *t, int32_t id);

#endif
