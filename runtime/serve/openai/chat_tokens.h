/* chat_tokens.h - the tokens of a text, and of a conversation as the model's template writes it. */
#ifndef SERVE_CHAT_TOKENS_H
#define SERVE_CHAT_TOKENS_H

#include "request.h"

typedef struct serve_token_ids {
    int32_t *of; /* [n]; owned by whoever asked */
    size_t n;
} serve_token_ids;

/* False: *p says why not. *out is to be freed in both cases. */
bool serve_tokens_of_text(serve_token_ids *out, const sac_model *m, const char *text, size_t n, bool add_special, bool parse_special,
                          serve_problem *p);

/* Of a chat, in which a picture or video counts as one mark, and the name of a control token in a text as one of these. *out is zero
 * before. */
bool serve_tokens_of_chat(serve_token_ids *out, const sac_model *m, const serve_request *r, serve_problem *p);

/* The text as the template writes it, to be freed; NULL: *p says why. n_about: bytes that it may have; where it has more it is written
 * twice. */
char *serve_chat_text(const sac_model *m, const serve_request *r, size_t n_about, serve_problem *p);

/* *n: how many tokens serve_tokens_of_chat makes of this text. They are found once, and not kept. */
bool serve_tokens_count_chat(size_t *n, const sac_model *m, const char *text, serve_problem *p);

#endif
