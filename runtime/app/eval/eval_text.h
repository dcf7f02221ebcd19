/* eval_text.h - `saccade eval --text`: what a language model keeps of a long text, under any attention
 * methods. */
#ifndef APP_EVAL_TEXT_H
#define APP_EVAL_TEXT_H

#include "run.h"

/* Tasks: a text file (perplexity), "passkey" or "kv" (retrieval). The session is made here, of `length`
 * tokens and the little that the task adds. */
typedef struct text_task {
    const char *name; /* "passkey", "kv", or the path of a text */
    int64_t length;   /* tokens of each prompt */
    int64_t samples;  /* prompts */
    int64_t pairs;    /* kv: keys and values, among filler; 0 = as many as fill the length */
    int64_t tail;     /* perplexity: tokens measured after each prompt, one decode step each */
    uint64_t seed;    /* of keys and values */
} text_task;

/* Runs the task and prints a table, or one JSON object. */
sac_status eval_text(run *r, const text_task *t, sac_error *err);

#endif
