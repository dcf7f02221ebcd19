/* score_words.h - texts as lists of numbered words, for score_overlap.h's rules. */
#ifndef APP_EVAL_SCORE_WORDS_H
#define APP_EVAL_SCORE_WORDS_H

#include "score_text.h"

#include <jansson.h>

/* Which number a word has: the same in both texts. */
typedef struct word_book {
    json_t *numbers;
    size_t n;
} word_book;

/* Words of a text, or of a sentence. */
typedef struct word_list {
    uint32_t *ids; /* of the pool, [room] */
    size_t n, room;
} word_list;

/* False = out of memory (the pool says it, too). */
bool word_list_begin(text_pool *p, word_list *l, size_t room);
/* Beyond the room: dropped. */
void word_list_add(text_pool *p, word_book *b, word_list *l, const char *word, size_t n_bytes);
/* What single blanks separate, as str.split(" "): an empty text is one empty word. letters: single characters. */
void word_list_split(text_pool *p, word_book *b, word_list *l, const char *text, size_t n_bytes,
                     bool letters);

/* The longest common subsequence of x and y: marks[i] = x's word i is of it. Of equal ways the one that goes back in y (`y_first`) or in
 * x. Bounded by both lists' room; false = out of memory. */
bool word_list_common(text_pool *p, const word_list *x, const word_list *y, bool y_first, bool *marks);

void word_book_free(word_book *b);

#endif
