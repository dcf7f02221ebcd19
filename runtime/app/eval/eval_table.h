/* eval_table.h - the files that benchmarks come in, as JSON values: JSON, JSONL, and CSV and TSV as pandas writes
 * them (RFC 4180 with any separator: fields in double quotes may hold separators, line ends and doubled quotes).
 *
 * A row of CSV or TSV is an object of texts, named by the first line; an empty field is left out, as pandas reads it as
 * not there. Files come from strangers: what is not of the form is refused with file and line. */
#ifndef APP_EVAL_TABLE_H
#define APP_EVAL_TABLE_H

#include "saccade/status.h"

#include <jansson.h>
#include <stddef.h>

#define EVAL_TABLE_MAX_BYTES   ((size_t)1 << 30)
#define EVAL_TABLE_MAX_COLUMNS 256

/* What is in the text: the value of a JSON file; a list of objects for JSONL, CSV and TSV. `name` stands for the file
 * in errors. On success the caller releases *out. */
sac_status eval_table_parse(json_t **out, const char *text, size_t n_bytes, const char *name, sac_error *err);

/* A file's bytes, to free. NOT_FOUND, IO, BAD_FILE when it is larger than max_bytes. */
sac_status eval_table_bytes(char **text, size_t *n_bytes, const char *path, size_t max_bytes, sac_error *err);

#endif
