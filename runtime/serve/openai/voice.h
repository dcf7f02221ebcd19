/* voice.h - how an API says an answer. One file each: voice_openai.c (chat and text completions), voice_responses.c,
 * voice_messages.c, voice_embeddings.c, voice_score.c. */
#ifndef SERVE_VOICE_H
#define SERVE_VOICE_H

#include "answer.h"
#include "request.h"

struct serve_voice {
    /* Of a choice: its first token is there. Of a stream alone. */
    void (*start)(serve_answer *a);
    /* Of a stream of a text completion: log probabilities of some more tokens of the prompt, which all its choices repeat. NULL
     * elsewhere. */
    void (*prompt)(serve_answer *a, const json_t *entries);
    /* A piece of the answer; of a call first its name. */
    void (*part)(serve_answer *a, splitter_kind kind, const char *text, size_t n);
    /* A choice is whole; `reason` is OpenAI's finish_reason. */
    void (*choice)(serve_answer *a, const sac_result *r, const char *reason);
    /* All are: the whole answer goes out, or the end of the stream. */
    void (*finish)(serve_answer *a);
};

extern const serve_voice serve_voice_openai, serve_voice_responses, serve_voice_messages,
    serve_voice_embeddings, serve_voice_score;

/* Log probabilities of a chat's tokens that have come since they were taken last: a list; NULL where none are asked for. */
json_t *serve_voice_take_probs(serve_answer *a);

/* One event of a stream; `data` goes over. name NULL = an event without one, as OpenAI's completions are. */
void serve_voice_send(serve_job *j, const char *name, json_t *data);
/* The whole answer; goes over. */
void serve_voice_reply(serve_job *j, json_t *whole);

#endif
