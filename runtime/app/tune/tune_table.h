/* tune_table.h - where a search for settings may look: a line a method, with the values that its settings may take.
 *
 *   "prefill=zipvl:min=0,tau={0.8|0.9|0.95|0.975}"       four lines
 *   "decode=quest:budget={@/8|@/4}"                      @: tokens of a prompt, the median of the set's
 *
 * A budget that is a share of the prompt is a multiple of 16 tokens, 64 at least. */
#ifndef APP_TUNE_TABLE_H
#define APP_TUNE_TABLE_H

#include "method_list.h"

typedef enum tune_want { TUNE_PREFILL, TUNE_MEMORY, TUNE_DECODE, TUNE_WANTS } tune_want;
extern const char *const tune_want_names[TUNE_WANTS];

/* A method with its ranges, and what it can make less of (bits of tune_want). */
typedef struct tune_family {
    const char *text;
    unsigned wants;
} tune_family;
extern const tune_family tune_families[];
extern const size_t tune_n_families;

/* Adds the lines of all families that can do what is wanted, those of one family not side by side but each in its turn, so
 * that a list that is cut short has some of every method. A line that is there already is not added again. */
sac_status tune_table_add(method_list *list, tune_want want, int64_t prompt_tokens, sac_error *err);

/* Adds "prefill=... kv=...", unless it is there. */
sac_status tune_table_add_line(method_list *list, const char *line, sac_error *err);

/* How many lines a family's text stands for, and line i of them ("prefill=zipvl:tau=0.9"); to free, NULL = out of memory. */
size_t tune_family_count(const char *text);
char *tune_family_line(const char *text, size_t i, int64_t prompt_tokens);

#endif
