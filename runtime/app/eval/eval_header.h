/* eval_header.h - all that the answers of a run depend on, as one JSON object. */
#ifndef APP_EVAL_HEADER_H
#define APP_EVAL_HEADER_H

#include "eval_run.h"

#include <stdbool.h>

#define EVAL_FORMAT 1

/* {"saccade_eval": 1, "version", "started", "set": {...}, "prompt", "subtitles", "reuse", "model": {...},
 * "machine", "settings": {...}}. set_path: as given. NULL = out of memory, or *err when the model's files
 * cannot be read. */
json_t *eval_header(const run *r, const eval_task *t, const char *set_path, sac_error *err);

/* Writes into `what` the first thing in which two headers differ: "settings.session.kv is "f16" there and
 * "f32" now". When it was started, where its files lie and how many of a set's questions it asks make no difference. */
bool eval_header_differs(const json_t *there, const json_t *now, char *what, size_t n_bytes);

#endif
