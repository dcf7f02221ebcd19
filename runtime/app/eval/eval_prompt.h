/* eval_prompt.h - how a question is put to the model. Scores of different prompts are not comparable. */
#ifndef APP_EVAL_PROMPT_H
#define APP_EVAL_PROMPT_H

#include "eval_set.h"

typedef enum eval_prompt {
    EVAL_PROMPT_OFFICIAL, /* as Video-MME words it */
    EVAL_PROMPT_LMMS,     /* as lmms-eval words it */
    EVAL_PROMPT_BARE,     /* question, options, "The best answer is:" and nothing before */
    EVAL_PROMPT_OPEN,     /* the question alone; the answer's text is looked up among the options */
    EVAL_PROMPT_OWN,      /* a text of the user's, with {question} and {options} in it */
} eval_prompt;

/* "official", "lmms-eval", "bare" or "open"; NULL = official. A text with "{question}" in it is the prompt itself. */
sac_status eval_prompt_parse(const char *name, eval_prompt *out, sac_error *err);
const char *eval_prompt_name(eval_prompt p);

/* Is the answer the text of an option instead of its letter? */
bool eval_prompt_is_open(eval_prompt p);

/* The user's text behind the video; to free. subtitles: NULL = asked without. own: the text of EVAL_PROMPT_OWN. A question
 * of another benchmark than Video-MME has its official prompt with it. NULL = out of memory. */
char *eval_prompt_text(eval_prompt p, const eval_question *q, const char *subtitles, const char *own);

/* The letter of a response under this prompt, 0 = none. */
char eval_prompt_letter(eval_prompt p, const eval_question *q, const char *response);

#endif
