/* problem.h - why a request is refused, and how the APIs say so: OpenAI's {"error": {"message", "type", "param", "code"}},
 * Anthropic's {"type": "error", "error": {"type", "message"}}. */
#ifndef SERVE_PROBLEM_H
#define SERVE_PROBLEM_H

#include "saccade/status.h"

#include <stdbool.h>

/* Whose words a request and its answer are in. */
typedef enum serve_api {
    SERVE_API_COMPLETIONS, /* OpenAI's of texts; all others are of conversations */
    SERVE_API_CHAT,
    SERVE_API_RESPONSES, /* OpenAI's /v1/responses */
    SERVE_API_MESSAGES,  /* Anthropic's /v1/messages */
    SERVE_API_EMBEDDINGS, /* OpenAI's; of conversations or of texts */
    SERVE_API_SCORE, /* vLLM's /v1/score */
    SERVE_API_RERANK /* Jina's and Cohere's /v1/rerank */
} serve_api;

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
char *serve_problem_json(const serve_problem *p, serve_api api);

#endif
