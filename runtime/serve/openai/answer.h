/* answer.h - an answer in OpenAI's words: one JSON object, or the chunks of a stream. It has as many choices
 * as were asked for, one made after the other. */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include "job.h"
#include "message.h"
#include "saccade/saccade.h"

#include <jansson.h>

typedef struct serve_answer {
    serve_job *job;
    int choice;            /* that is being made */
    bool has_role;         /* of this choice: a chat's first chunk is out */
    json_t *logprobs;      /* entries of tokens whose text is not out yet (a stream), or of all; a text
                         completion's are {token, logprob, offset, top} until they are sent */
    size_t n_bytes;        /* of the text that the entries stand for: a text completion's offsets */
    json_t *choices;       /* those that are whole, unless they are streamed */
    json_t *usage;         /* of those; NULL before the first is whole */
    json_t *places;        /* NULL = not asked for */
    splitter *split;       /* of the choice's text; NULL = all of it is content */
    serve_message message; /* what came out of it */
    int64_t n_reasoning;   /* tokens, of all choices */
    bool failed;           /* there was no memory to begin */
} serve_answer;

void serve_answer_begin(serve_answer *a, serve_job *j);
/* A choice's first token is there, with or without text: a chat stream says so at once. */
void serve_answer_start(serve_answer *a);
/* A piece of text came. */
void serve_answer_text(serve_answer *a, const char *utf8, size_t n);
/* Of a token, before the text that it completes: for log probabilities, and for control tokens that are read as text. */
void serve_answer_token(serve_answer *a, const sac_token_event *token);
/* A choice is whole. Of the first come the figures of the prompt. */
void serve_answer_choice(serve_answer *a, const sac_result *r, double kept_ratio);
/* All choices are whole. A stream's [DONE] is left to serve_job_finish. */
void serve_answer_finish(serve_answer *a);
void serve_answer_free(serve_answer *a);

#endif
