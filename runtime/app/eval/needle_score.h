/* needle_score.h - from an answer to a score of 0 to 1, by the rules of the benchmarks.
 *
 * all     RULER: the share of the right texts that the answer holds, letters' case aside (string_match_all)
 * part    RULER's questions about documents: does it hold any of them? (string_match_part)
 * number  InfiniteBench's PassKey and Number: is the first whole number in it the right one?
 * word    InfiniteBench's KV: is the right text among its words, once \n : " ' . , ? ! { } are blanks? */
#ifndef APP_NEEDLE_SCORE_H
#define APP_NEEDLE_SCORE_H

#include <jansson.h>
#include <stdbool.h>

typedef enum needle_metric {
    NEEDLE_ALL,
    NEEDLE_PART,
    NEEDLE_NUMBER,
    NEEDLE_WORD,
    NEEDLE_METRICS
} needle_metric;
extern const char *const needle_metric_names[NEEDLE_METRICS];

/* outputs: a list of texts, one at least. */
double needle_score(needle_metric metric, const char *response, const json_t *outputs);

#endif
