/* answer.h - an answer on its way into the words of an API (voice.h): divided into text, reasoning and calls, counted, and
 * handed on. It has as many choices as were asked for, one made after the other. */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include "blocks.h"
#include "job.h"
#include "message.h"
#include "saccade/saccade.h"

#include <jansson.h>

typedef struct serve_voice serve_voice;

typedef struct serve_answer {
    serve_job *job;
    const serve_voice *voice;
    int choice;           /* that is being made */
    bool started;         /* its first token was told of */
    json_t *logprobs;     /* entries of tokens whose text is not out yet (a stream), or of all; see token_probs.h */
    int64_t n_characters; /* of the text that the entries stand for: a text completion's offsets */
    json_t *prompt;       /* entries of the prompt's tokens; NULL = not asked for */
    int64_t n_prompt_characters;
    int64_t n_prompt_tokens; /* once the prompt was run */
    json_t *usage;           /* of whole choices, as OpenAI's chats have it; NULL before the first is whole */
    json_t *places;          /* NULL = not asked for */
    splitter *split;         /* of the choice's text; NULL = all of it is content */
    int64_t n_reasoning;     /* tokens, of all choices */
    int64_t n_choice_tokens; /* of the choice that is being made */
    bool failed;             /* there was no memory to begin */
    bool prompt_told;        /* of the prompt that the choice belongs to: a stream has said all that it repeats of it */
    int64_t n_values;        /* about how many pieces of JSON were made that are not sent yet, beside texts */

    /* of the voice */
    json_t *choices;       /* those that are whole, unless they are streamed */
    serve_message message; /* what came out of the text */
    serve_blocks blocks;   /* likewise, of APIs whose answers are lists */
    int64_t n_events;      /* that were sent */
    float *vector;         /* [hidden] of embeddings, the slot's; NULL = none are made */
    float *query;          /* [hidden] of scores: the vector that documents are compared with; NULL before it is there */
    char reason[20];       /* why the answer ended */
    const char *stopped_by; /* the stop text that ended it, of the request; NULL = none */
} serve_answer;

void serve_answer_begin(serve_answer *a, serve_job *j);
/* Log probabilities of some more tokens of the prompt that the next choices go on with, in a stream; `entries` goes over. */
void serve_answer_prompt_part(serve_answer *a, json_t *entries);
/* All of them, or NULL where a stream has said them in parts; `entries` goes over to the answer. */
void serve_answer_prompt(serve_answer *a, json_t *entries, int64_t n_characters);
/* A choice's first token is there, with or without text: a stream says so at once. */
void serve_answer_start(serve_answer *a);
/* A piece of text came. */
void serve_answer_text(serve_answer *a, const char *utf8, size_t n);
/* Of a token, before the text that it completes: for log probabilities, and for control tokens that are read as text. */
void serve_answer_token(serve_answer *a, const sac_token_event *token);
/* A choice is whole. Of the first come the figures of the prompt. */
void serve_answer_choice(serve_answer *a, const sac_result *r, double kept_ratio);
/* All choices are whole. A stream's last event is left to serve_job_finish where it is the same for all answers. */
void serve_answer_finish(serve_answer *a);
/* Its last words are so many that other answers would wait for them. */
bool serve_answer_is_long(const serve_answer *a);
void serve_answer_free(serve_answer *a);

#endif
