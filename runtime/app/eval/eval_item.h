/* eval_item.h - a question of any benchmark, as its reader (sets/) makes it from a row of the official file: what
 * is shown, what is asked, and what the scorer (scores/) needs to know. An item without media is asked of any language model. */
#ifndef APP_EVAL_ITEM_H
#define APP_EVAL_ITEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVAL_MEDIA_MAX = 8, EVAL_LETTERS_MAX = 26, EVAL_DIMENSIONS_MAX = 6, EVAL_STOPS_MAX = 3 };

typedef struct eval_medium {
    bool is_video;
    const char *path;      /* relative, without ".."; NULL = base64 */
    const char *base64;    /* a picture's file */
    double start_s, end_s; /* of a video: only this stretch is shown, where end_s is above start_s */
} eval_medium;

/* A way in which a benchmark divides its questions: {"category", "existence"}. */
typedef struct eval_dimension {
    const char *name, *value;
} eval_dimension;

/* Texts belong to the set's JSON values. */
typedef struct eval_item {
    const char *question;
    const char *options[EVAL_LETTERS_MAX]; /* without letters */
    size_t n_options;
    const char *prompt; /* as the benchmark words it, behind the media */
    bool marks;         /* "<image K>" in texts stands for medium K (MMMU); media without a mark come first */
    eval_medium media[EVAL_MEDIA_MAX];
    size_t n_media;
    const json_t *subtitles; /* LongVideoBench: [{start, end, text}] to go between the frames; NULL = none */
    eval_dimension dimensions[EVAL_DIMENSIONS_MAX];
    size_t n_dimensions;
    const char *answer;    /* a letter, or the right text; NULL = the file does not tell (a test split) */
    const json_t *answers; /* all texts that count; NULL = `answer` alone */
    const char *kind;      /* of a benchmark whose questions are scored in several ways; NULL = one way */
    int64_t group;         /* MMBench: the index; MME: its picture */
    int max_tokens;        /* of this answer; 0 = the benchmark's */
    bool raw;              /* the prompt is asked as it stands, without chat format */
    bool may_cut; /* what does not fit is cut out of the prompt's middle (LongBench, InfiniteBench) */
    const char *stops[EVAL_STOPS_MAX]; /* texts that end the answer; NULL = no more */
    const json_t *classes;             /* LongBench: names among which the right one is */
} eval_item;

#endif
