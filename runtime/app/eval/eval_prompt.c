#define _GNU_SOURCE
#include "eval_prompt.h"
#include "eval_score.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"official", "lmms-eval", "bare", "open", "own"};

sac_status eval_prompt_parse(const char *name, eval_prompt *out, sac_error *err) {
    *out = EVAL_PROMPT_OFFICIAL;
    if (!name) return SAC_OK;
    if (strstr(name, "{question}")) {
        *out = EVAL_PROMPT_OWN;
        return SAC_OK;
    }
    for (size_t i = 0; i < EVAL_PROMPT_OWN; i++)
        if (!strcmp(name, names[i])) {
            *out = (eval_prompt)i;
            return SAC_OK;
        }
    return sac_fail(
        err, SAC_BAD_ARGUMENT,
        "--prompt: official, lmms-eval, bare, open, or a text with {question} in it, found '%.40s'", name);
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

/* The options a line each, of Video-MME with the letters that they have. */
static void write_options(FILE *f, const eval_question *q) {
    size_t n = q->item ? q->item->n_options : EVAL_OPTIONS;
    for (size_t i = 0; i < n; i++) {
        if (q->item)
            fprintf(f, "%s%c. %s", i ? "\n" : "", (char)('A' + i), q->item->options[i]);
        else
            fprintf(f, "%s%s", i ? "\n" : "", q->options[i]);
    }
}

/* `own` with what its two words stand for. */
static char *own_text(const eval_question *q, const char *own) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    while (*own) {
        if (!strncmp(own, "{question}", 10)) {
            fputs(q->text, f);
            own += 10;
        } else if (!strncmp(own, "{options}", 9)) {
            write_options(f, q);
            own += 9;
        } else {
            fputc(*own++, f);
        }
    }
    if (!fclose(f)) return text;
    free(text);
    return NULL;
}

static char *item_text(eval_prompt p, const eval_question *q) {
    const eval_item *item = q->item;
    if (p == EVAL_PROMPT_OPEN) return strdup(q->text);
    if (p == EVAL_PROMPT_BARE) return own_text(q, item->n_options ? "{question}\n{options}" : "{question}");
    return strdup(item->prompt);
}

/* The wording of the two projects, to the blank and the line end: Video-MME's README; lmms-eval's tasks
 * videomme (its question ends with an empty line and "Answer with ...") and videomme_w_subtitle (a blank
 * after "below:", the other end). Without subtitles, too, lmms-eval says "and the subtitles". */
char *eval_prompt_text(eval_prompt p, const eval_question *q, const char *subtitles, const char *own) {
    const char *const *o = q->options;
    if (q->item && p != EVAL_PROMPT_OWN) return item_text(p, q);
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
    case EVAL_PROMPT_OWN:
        if (!subtitles) return own_text(q, own);
        text = own_text(q, own);
        char *alone = text;
        if (alone) n = asprintf(&text, SUBTITLES "\n%s\n%s", subtitles, alone);
        free(alone);
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
