/* usage.h - what an answer took, as OpenAI's chat completions say it, with what was seen of pictures and videos beside. */
#ifndef SERVE_USAGE_H
#define SERVE_USAGE_H

#include "request.h"

/* {"prompt_tokens", "completion_tokens", ...} of a request's first choice. */
json_t *serve_usage_of(const serve_request *request, const sac_result *r, double kept_ratio);
/* Another choice's counts; n_prompt: 0 unless it has a prompt of its own. */
void serve_usage_add(json_t *usage, int64_t n_prompt, const sac_result *r);
void serve_usage_set_reasoning(json_t *usage, int64_t n);

int64_t serve_usage_prompt(const json_t *usage);
int64_t serve_usage_cached(const json_t *usage);
int64_t serve_usage_answer(const json_t *usage);
/* {"reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"} of all choices; borrowed. Guessed tokens that were
 * rejected (--draft) are no part of the answer and of no other count. */
const json_t *serve_usage_details(const json_t *usage);
/* Copies what OpenAI's has besides: visual_tokens, frames, kept_ratio, media. */
void serve_usage_copy_own(json_t *to, const json_t *usage);

#endif
