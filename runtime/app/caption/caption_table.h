/* caption_table.h - rows of CSV files and of lists, as the lines of a manifest that say the same. */
#ifndef APP_CAPTION_TABLE_H
#define APP_CAPTION_TABLE_H

#include "caption_input.h"

/* Bytes of the record at the beginning of text, without the line end behind it, which is no part of a quoted field
 * (RFC 4180). */
size_t caption_csv_record(const char *text, size_t n_bytes, char separator);

/* The first record: sets s->columns. BAD_FILE where two columns have a name, or none names files; BAD_CONFIG where
 * s->column is none of them. */
sac_status caption_csv_header(caption_source *s, const char *text, size_t n_bytes, sac_error *err);

/* The line or row as the object of a manifest (of a batch, the request). NULL with *why (to free) where it is none, and with
 * *why NULL without memory. Of CSV: the file's column becomes "image" or "video"; "id", "prompt" and "image_id" stay. */
json_t *caption_row_json(const caption_source *s, caption_kind kind, const char *text, size_t n_bytes,
                         char **why);

#endif
