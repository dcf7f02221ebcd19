/* eval_row.h - what readers of benchmarks (sets/) share: fields of a row, refused by file, row and field, and items. */
#ifndef APP_EVAL_ROW_H
#define APP_EVAL_ROW_H

#include "eval_bench.h"

/* What readers need to know of a file. */
struct eval_reader {
    eval_set *set;
    const eval_bench *bench;
    const char *file;   /* for errors */
    const char *stem;   /* its name without folder and ending: MVBench's tasks, POPE's splits */
    const char *folder; /* where it lies; NULL = nowhere */
    const json_t *root;
    const char *key; /* of a row that is a member of an object */
    size_t number;   /* of the row, from 1 */
    sac_error *err;
};

/* "FILE: row 3: label: TEXT" */
__attribute__((format(printf, 3, 4))) sac_status eval_row_refuse(eval_reader *r, const char *field,
                                                                 const char *format, ...);

/* A text; a number is its digits. Optional: NULL where it is missing, null or empty. */
sac_status eval_row_text(eval_reader *r, const json_t *row, const char *field, const char **out);
sac_status eval_row_optional(eval_reader *r, const json_t *row, const char *field, const char **out);
/* A whole number, or a text of one, within min..max. */
sac_status eval_row_int(eval_reader *r, const json_t *row, const char *field, int64_t min, int64_t max,
                        int64_t *out);
/* A number at least 0; missing or null: as *out was. */
sac_status eval_row_seconds(eval_reader *r, const json_t *row, const char *field, double *out);
/* A list of texts, not empty. Missing or null: NULL where `optional`. */
sac_status eval_row_texts(eval_reader *r, const json_t *row, const char *field, bool optional,
                          const json_t **out);
/* The list that is read has `most` texts at most: what a scorer does for each of them, or for each pair, stays little. */
sac_status eval_row_at_most(eval_reader *r, const char *field, const json_t *list, size_t most);
/* The options of an item, a list of 2 to EVAL_LETTERS_MAX texts. */
sac_status eval_row_options(eval_reader *r, const json_t *row, const char *field, eval_item *item);

/* A text that the set keeps; NULL = out of memory. */
__attribute__((format(printf, 2, 3))) const char *eval_row_format(eval_reader *r, const char *format, ...);
/* A text that the set keeps: the template with "{name}" for each of the names (NULL-terminated pairs of name and text) replaced, once.
 * NULL = out of memory. */
const char *eval_row_fill(eval_reader *r, const char *template, const char *const *pairs);
/* The item's options, a line each: "A. cat\nB. dog" with before "" and after ". ". NULL = out of memory. */
const char *eval_row_letters(eval_reader *r, const eval_item *item, const char *before, const char *after);

/* A file below the media folder; refused when its name leaves it. */
sac_status eval_row_file(eval_reader *r, const char *field, const char *path, bool is_video, eval_item *item);
/* A picture in `field`: base64, or the name of a file. */
sac_status eval_row_picture(eval_reader *r, const json_t *row, const char *field, eval_item *item);

void eval_row_dimension(eval_item *item, const char *name, const char *value); /* value NULL: none */
/* item->answer = the letter of option i. */
sac_status eval_row_letter(eval_reader *r, const char *field, int64_t i, eval_item *item);
/* The option that is this text, or a letter. */
sac_status eval_row_right_option(eval_reader *r, const char *field, const char *text, eval_item *item);
/* The option of this letter, or that is this text: of files whose answers are letters, as options may be, too ("B" at A). */
sac_status eval_row_right_letter(eval_reader *r, const char *field, const char *text, eval_item *item);

/* Adds the item; its prompt must be there (NULL = out of memory). id: unique in the set. */
sac_status eval_row_add(eval_reader *r, const char *id, const eval_item *item);
/* The same; its id is the row's key, else its "id", else the file's stem and the row's number. */
sac_status eval_row_add_numbered(eval_reader *r, const json_t *row, const eval_item *item);

#endif
