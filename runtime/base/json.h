/* json.h - reading JSON files of strangers: jansson, with limits, and getters that say which key was wrong.
 *
 * jansson is strict (UTF-8, no trailing text) and bounds nesting (2,048). Every getter names the key in its
 * error; callers put the file's name in front (sac_fail_prefix). */
#ifndef SAC_BASE_JSON_H
#define SAC_BASE_JSON_H

#include "status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAC_JSON_MAX_BYTES ((size_t)256 << 20)

/* On success *out is owned by the caller: json_decref. Duplicate keys are refused. */
sac_status sac_json_parse(json_t **out, const char *text, size_t n_bytes, sac_error *err);
/* An integer beyond 64 bits is read as a real, see below. */
sac_status sac_json_parse_large(json_t **out, const char *text, size_t n_bytes, sac_error *err);
/* The error names the file. An integer beyond 64 bits is read as a real, as Python's writers leave such numbers in
 * files of configuration. */
sac_status sac_json_parse_file(json_t **out, const char *path, sac_error *err);

/* Optional values: absent or null leaves *value as it was (the default); a wrong type or
 * range is BAD_FILE. */
sac_status sac_json_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *value,
                            sac_error *err);
sac_status sac_json_get_float(const json_t *object, const char *key, double *value, sac_error *err);
sac_status sac_json_get_bool(const json_t *object, const char *key, bool *value, sac_error *err);
/* *value is borrowed from the object. */
sac_status sac_json_get_string(const json_t *object, const char *key, const char **value, sac_error *err);
/* The object / array under key, or NULL when absent or null. */
sac_status sac_json_get_object(const json_t *object, const char *key, const json_t **value, sac_error *err);
sac_status sac_json_get_array(const json_t *object, const char *key, const json_t **value, sac_error *err);

#endif
