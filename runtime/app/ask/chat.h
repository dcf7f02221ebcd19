/* chat.h - the state of a chat, and what its parts do with it. */
#ifndef APP_CHAT_H
#define APP_CHAT_H

#include "chat_line.h"
#include "chat_pictures.h"
#include "run.h"

/* What was counted of answers. */
typedef struct chat_count {
    int64_t n_answers, n_tokens;
    double seconds;
    int64_t last_tokens, last_prompt, last_visual, last_reused; /* of the last one, [0] before any */
    double last_vision, last_prefill, last_decode, last_total;
} chat_count;

typedef struct chat {
    run *r;
    settings own; /* as the command line has them, with what /set changed; r->s points here */
    const settings *given;
    conversation c;
    media_list pending; /* shown with the next question */
    char *kept;         /* a question that got no answer, for /retry; or NULL */
    chat_line *lines;
    chat_pictures pictures;
    chat_count count;
    bool done;
} chat;

#endif
