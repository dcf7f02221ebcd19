/* prompts.h - what a text completion goes on with: a text, a list of texts, token ids, or a list of such lists. */
#ifndef SERVE_PROMPTS_H
#define SERVE_PROMPTS_H

#include "request.h"

/* Fills r->prompts, r->echo and r->score_prompt. Ids are below n_vocab. */
bool serve_prompts_parse(serve_request *r, int n_vocab, serve_problem *p);
void serve_prompts_free(serve_request *r);

/* The text of a prompt: its own, or what its ids are. Freed by the caller; NULL without memory. */
char *serve_prompt_text(const serve_prompt *prompt, const sac_model *m, size_t *n_bytes);

/* Token ids of a JSON list, to be freed; NULL: *p says why. */
int32_t *serve_read_ids(const json_t *list, int n_vocab, const char *param, serve_problem *p);

#endif
