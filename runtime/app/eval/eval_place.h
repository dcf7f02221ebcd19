/* eval_place.h - where in a JSON text a value stands, so that a refusal can name its line (jansson keeps
 * lines of syntax errors only), and what it is. */
#ifndef APP_EVAL_PLACE_H
#define APP_EVAL_PLACE_H

#include <jansson.h>
#include <stddef.h>

/* `text`..`end`: one value of valid JSON, after any white space. path: "questions[1].options[0]". The value
 * there, or the innermost one around the place where it is missing. */
const char *eval_place_find(const char *text, const char *end, const char *path);

/* Line of `at` in a text that starts at `text`, from 1. */
size_t eval_place_line(const char *text, const char *at);

const char *eval_place_kind(const json_t *v); /* "a list", for "expected a text, found a list" */

#endif
