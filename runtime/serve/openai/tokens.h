/* tokens.h - what every token of the model's vocabulary adds to a text. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H

#include "saccade/saccade.h"

typedef struct serve_tokens {
    const sac_model *model;
    int32_t n;
    const char **bytes; /* [n] into `all` */
    uint32_t *length;   /* [n]; 0 for ids that add nothing */
    bool *is_stop;      /* [n] */
    char *all;
} serve_tokens;

sac_status serve_tokens_open(serve_tokens **out, const sac_model *m, sac_error *err);
void serve_tokens_close(serve_tokens *t); /* NULL is fine */

#endif
