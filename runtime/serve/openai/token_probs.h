/* token_probs.h - log probabilities of tokens as OpenAI's API says them: a chat's entries, a text completion's four lists. */
#ifndef SERVE_TOKEN_PROBS_H
#define SERVE_TOKEN_PROBS_H

#include "tokens.h"

#include <jansson.h>

/* {"token", "logprob", "bytes", "top_logprobs": [the same without the last]}. */
json_t *serve_probs_of_chat(const serve_tokens *t, const sac_token_event *token);

/* {"token", "logprob", "offset", "top_logprobs": {text: log probability}} of a text completion, the token itself among the last. `token`
 * alone is known of a prompt's first one: both are null then. */
json_t *serve_probs_of_text(const serve_tokens *t, const sac_token_event *token, bool known, int64_t offset);

/* Those of a text completion side by side: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. */
json_t *serve_probs_lists(const json_t *entries);

/* Characters that a token begins: text offsets count them. */
int64_t serve_probs_n_characters(const serve_tokens *t, int32_t id);

#endif
