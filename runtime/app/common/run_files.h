/* run_files.h - files of a run that are there whole or not at all. */
#ifndef APP_RUN_FILES_H
#define APP_RUN_FILES_H

#include "saccade/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* DIR/name, to free; NULL = out of memory. */
char *run_files_path(const char *folder, const char *name);

/* Makes the folder, and those above it, unless they are there. */
sac_status run_files_make_folder(const char *folder, sac_error *err);

/* What is in a folder survives a loss of power from here on; a file system that cannot do that is no failure.
 */
void run_files_sync_folder(const char *folder);

/* Writes the text and a line end beside its place, and then renames it to folder/name. */
sac_status run_files_write_text(const char *folder, const char *name, const char *text, sac_error *err);

/* The same of `json`, which is released in any case; NULL = out of memory. */
sac_status run_files_write_json(const char *folder, const char *name, json_t *json, sac_error *err);

/* Tells whether a model is the same without reading all of it: names, sizes and some bytes of the file, or of
 * each file of the folder. 16 hexadecimal digits. */
sac_status run_files_fingerprint(const char *path, char out[17], sac_error *err);

#endif
