/* prompt_scores.h - log probabilities of a text completion's own prompt: OpenAI's 'echo' with 'logprobs'. The prompt is run in
 * chunks that leave the logits of every token. They are of the model's distribution as it is: no temperature, bias or penalty. */
#ifndef SERVE_PROMPT_SCORES_H
#define SERVE_PROMPT_SCORES_H

#include "request.h"
#include "tokens.h"

typedef struct serve_prompt_scores serve_prompt_scores;

/* The session is begun anew; it, the tokens and the prompt must outlive it. n_top < 0: no log probabilities are wanted, the prompt is
 * run alone. n_copies: choices that repeat the entries; *n_given: entries of the request so far, which this adds to. TOO_LONG: the
 * prompt does not fit the session, or so many entries are not given. */
sac_status serve_prompt_scores_open(serve_prompt_scores **out, sac_session *s, const serve_tokens *tokens,
                                    const serve_prompt *prompt, int n_top, int64_t n_copies, int64_t *n_given,
                                    int64_t n_ctx, sac_error *err);
void serve_prompt_scores_free(serve_prompt_scores *p); /* NULL is fine */

/* The next piece, of about so many seconds at most as far as it can be cut (0 = any): work of the model, or what the logits of some
 * tokens say. *done: that was the last. UNSUPPORTED for a prefill method that drops tokens. `events`, which may be NULL, must
 * stay until then. */
sac_status serve_prompt_scores_next(serve_prompt_scores *p, double seconds, const sac_events *events, bool *done, sac_error *err);
double serve_prompt_scores_left(const serve_prompt_scores *p); /* about how many tokens are still to be run */
int64_t serve_prompt_scores_n(const serve_prompt_scores *p);    /* tokens of the prompt */

/* Entries as token_probs.h has them of texts, one a token, of those that were scored since they were taken last: the caller's, NULL
 * without memory. *n_characters: of all so far. */
json_t *serve_prompt_scores_take(serve_prompt_scores *p, int64_t *n_characters);

#endif
