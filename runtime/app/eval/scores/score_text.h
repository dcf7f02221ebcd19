/* score_text.h - texts as Python handles them, of which the official scripts are made. All texts are UTF-8; what is made
 * lives in a pool until that is freed. Out of memory: the result is "", and pool->failed tells at the end. */
#ifndef APP_EVAL_SCORE_TEXT_H
#define APP_EVAL_SCORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text_pool {
    void **items;
    size_t n;
    bool failed;
} text_pool;

void text_pool_free(text_pool *p);
char *text_take(text_pool *p, size_t n_bytes); /* n_bytes and a zero byte, zeroed; NULL = out of memory */

char *text_copy(text_pool *p, const char *s, size_t n);
char *text_lower(text_pool *p, const char *s); /* str.lower(), without the Greek final sigma */
char *text_upper(text_pool *p,
                 const char *s); /* str.upper(), without characters that become several but for U+00DF */
char *text_strip(text_pool *p, const char *s);                          /* str.strip() */
char *text_strip_chars(text_pool *p, const char *s, const char *ascii); /* str.strip("...") */
char *text_replace(text_pool *p, const char *s, const char *from, const char *to);
char *text_words(text_pool *p, const char *s);          /* " ".join(s.split()) */
size_t text_word_count(const char *s);                  /* len(s.split()) */
size_t text_length(const char *s);                      /* code points */
bool text_is_space(uint32_t code_point);                /* str.isspace() */
bool text_is_digit(uint32_t code_point);                /* \d: decimal digits of any script */
bool text_is_word(uint32_t code_point);                 /* \w */
const char *text_last(const char *s, const char *part); /* where s.rfind(part) is, or NULL */

/* The character at p, and its length; a byte that is no UTF-8 is a character of its own, U+FFFD. The one before p. */
uint32_t text_next(const char *p, size_t *n_bytes);
uint32_t text_before(const char *start, const char *p);

/* float(s): white space around it, "inf", "nan", underscores between digits, ASCII digits only. */
bool text_float(const char *s, double *out);

#endif
