/* problem.h - why a request is refused, and how OpenAI's API says so:
 * {"error": {"message", "type", "param", "code"}}. */
#ifndef SERVE_PROBLEM_H
#define SERVE_PROBLEM_H

#include "saccade/status.h"

#include <stdbool.h>

typedef struct serve_problem {
    int status;       /* HTTP; 0 = no problem */
    int retry_after_s; /* for 429 and 503: when to come again; 0 = soon */
    const char *code; /* "context_length_exceeded", or NULL */
    char param[64];   /* the key of the request that is wrong, or empty */
    char message[400];
} serve_problem;

/* Fills *p and returns false, so that a check reads: return serve_refuse(p, 400, "n", NULL, "..."). param and
 * code may be NULL. */
bool serve_refuse(serve_problem *p, int status, const char *param, const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A failure of the library in HTTP's words. */
bool serve_refuse_status(serve_problem *p, sac_status status, const sac_error *err);

/* The JSON text, owned by the caller; NULL without memory. */
char *serve_problem_json(const serve_problem *p);

#endif
