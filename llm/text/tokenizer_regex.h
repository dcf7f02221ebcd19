/* tokenizer_regex.h - the regular expressions of tokenizer.json, run by PCRE2. Inside the tokenizer only.
 *
 * The files are written for Oniguruma with Ruby's syntax. Patterns are rewritten so that PCRE2 takes them the
 * same way (\s, \w, \b, \v, script names, ...), and what means something else there and is not rewritten is
 * refused by name. Classes follow Unicode 14 in Debian 12's PCRE2. */
#ifndef SAC_LLM_TOKENIZER_REGEX_H
#define SAC_LLM_TOKENIZER_REGEX_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct sac_regex {
    void *code; /* pcre2_code */
    bool has_jit;
} sac_regex;

/* literal: the pattern is a plain string. The pattern must be valid UTF-8. */
sac_status sac_regex_compile(sac_regex *re, const char *pattern, size_t n_bytes, bool literal,
                             sac_error *err);
void sac_regex_free(sac_regex *re); /* a zeroed one is fine */

typedef struct sac_regex_scratch { /* for one thread */
    void *match, *context, *stack;
} sac_regex_scratch;

void sac_regex_scratch_free(sac_regex_scratch *s);

/* Walks over all matches as Oniguruma's find_iter does: after an empty match it goes on one character later,
 * and an empty match right behind the last match does not count. */
typedef struct sac_regex_iter {
    const sac_regex *re;
    sac_regex_scratch *scratch;
    const char *text;
    size_t n_bytes, at, last_end;
    bool any;
} sac_regex_iter;

sac_regex_iter sac_regex_find(const sac_regex *re, sac_regex_scratch *scratch, const char *text,
                              size_t n_bytes);
/* *found = false at the end. A pattern that backtracks without end is BAD_FILE. */
sac_status sac_regex_next(sac_regex_iter *it, size_t *begin, size_t *end, bool *found, sac_error *err);

#endif
