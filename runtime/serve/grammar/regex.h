/* regex.h - regular expressions as nodes of a grammar: ECMA 262's, as JSON schema's "pattern" and vLLM's structured_outputs.regex mean
 * them, as far as they are regular: characters, classes, \d \w \s and their opposites, groups, |, * + ? {m,n} (lazy ones, too),
 * ^ and $ at the ends of alternatives of the whole. Look-around, back references and \b are refused. */
#ifndef SERVE_REGEX_H
#define SERVE_REGEX_H

#include "grammar.h"

/* in_json: of characters as they stand within a JSON string. whole: the text matches from its first to its last character;
 * otherwise a part of it may, as a JSON schema says. -1: *why says what is wrong, or is NULL: g does. */
int regex_compile(grammar *g, const char *pattern, size_t n, bool whole, bool in_json, const char **why);

/* How many characters texts of the node have at least and at most; max -1 = no end. Of nodes that regex_compile made. */
void regex_lengths(const grammar *g, int node, int64_t *min, int64_t *max);

#endif
