/* caption_errors.h - what failed in a job: counted by kind for the report, and each item by its name in a file. */
#ifndef APP_CAPTION_ERRORS_H
#define APP_CAPTION_ERRORS_H

#include "caption_records.h"

#define CAPTION_ERRORS_FILE "failed.jsonl"

/* {"BAD_FILE": {"items": 2, "first": text, "ids": [the first 1000]}, ...}: of all records that are errors, those of
 * earlier runs too, in the order of the input. All of them go to folder/CAPTION_ERRORS_FILE, {"source", "id", "error":
 * {"status", "text"}} a line; where nothing failed there is no such file. */
sac_status caption_errors(const caption_records *r, const char *folder, json_t **errors, sac_error *err);

#endif
