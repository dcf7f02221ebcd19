#define _GNU_SOURCE
#include "eval_prompt.h"
#include "eval_score.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"official", "lmms-eval", "bare", "open"};

sac_status eval_prompt_parse(const char *name, eval_prompt *out, sac_error *err) {
    *out = EVAL_PROMPT_OFFICIAL;
    if (!name) return SAC_OK;
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (!strcmp(name, names[i])) {
            *out = (eval_prompt)i;
            return SAC_OK;
        }
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    "--prompt: official, lmms-eval, bare and open are known, found '%.40s'", name);
}

const char *eval_prompt_name(eval_prompt p) {
    return names[p];
}

bool eval_prompt_is_open(eval_prompt p) {
    return p == EVAL_PROMPT_OPEN;
}

#define SUBTITLES "This video's subtitles are listed below:"
#define BEFORE    "Select the best answer to the following multiple-choice question based on the video"
#define LETTER    "Respond with only the letter (A, B, C, or D) of the correct option."
#define BEST      "The best answer is:"
#define DIRECTLY  "Answer with the option's letter from the given choices directly."

/* The wording of the two projects, to the blank and the line end: Video-MME's README; lmms-eval's tasks
 * videomme (its question ends with an empty line and "Answer with ...") and videomme_w_subtitle (a blank
 * after "below:", the other end). Without subtitles, too, lmms-eval says "and the subtitles". */
char *eval_prompt_text(eval_prompt p, const eval_question *q, const char *subtitles) {
    const char *const *o = q->options;
    char *text = NULL;
    int n = -1;
    switch (p) {
    case EVAL_PROMPT_OFFICIAL:
        n = asprintf(&text, "%s%s%s" BEFORE ". " LETTER "\n%s\n%s\n%s\n%s\n%s\n" BEST,
                     subtitles ? SUBTITLES "\n" : "", subtitles ? subtitles : "", subtitles ? "\n" : "",
                     q->text, o[0], o[1], o[2], o[3]);
        break;
    case EVAL_PROMPT_LMMS:
        n = asprintf(&text, "%s%s%s" BEFORE " and the subtitles. " LETTER "\n%s\n%s\n%s\n%s\n%s\n%s",
                     subtitles ? SUBTITLES " \n" : "", subtitles ? subtitles : "", subtitles ? "\n" : "",
                     q->text, o[0], o[1], o[2], o[3], subtitles ? BEST : "\n" DIRECTLY);
        break;
    case EVAL_PROMPT_BARE:
    case EVAL_PROMPT_OPEN:
        n = asprintf(&text, "%s%s%s%s", subtitles ? SUBTITLES "\n" : "", subtitles ? subtitles : "",
                     subtitles ? "\n" : "", q->text);
        if (n < 0 || p == EVAL_PROMPT_OPEN) break;
        char *question = text;
        n = asprintf(&text, "%s\n%s\n%s\n%s\n%s\n" BEST, question, o[0], o[1], o[2], o[3]);
        free(question);
        break;
    }
    return n < 0 ? NULL : text;
}

char eval_prompt_letter(eval_prompt p, const eval_question *q, const char *response) {
    return eval_prompt_is_open(p) ? eval_letter_of_text(q, response) : eval_letter(response);
}
