/* caption_each.h - what the writers of results share: the records of a job in the order of its input, and files that
 * are there whole or not at all. */
#ifndef APP_CAPTION_EACH_H
#define APP_CAPTION_EACH_H

#include "caption_records.h"
#include "draft.h"

/* Called for each item in order. json: its record, borrowed; text: the same, a line of captions.jsonl. */
typedef sac_status (*caption_each_fn)(void *ctx, size_t source, const json_t *json, const char *text,
                                      size_t n_bytes, sac_error *err);
sac_status caption_each(const caption_records *r, size_t source, caption_each_fn fn, void *ctx,
                        sac_error *err);

/* A draft (draft.h) in a folder. */
sac_status caption_file_open(draft *d, const char *folder, const char *name, sac_error *err);
sac_status caption_file_write(draft *d, const void *bytes, size_t n_bytes, sac_error *err);
/* st: of the writing; not SAC_OK = the file is dropped. Returns st, or what went wrong at the end. */
sac_status caption_file_close(draft *d, sac_status st, sac_error *err);

const char *caption_source_name(const caption_records *r, size_t source);

#endif
