/* fields.h - values out of a client's JSON. Absent and null leave *value as it was; what is of a wrong type
 * or out of range fills *p with a 400 that names the key, and gives false. */
#ifndef SERVE_FIELDS_H
#define SERVE_FIELDS_H

#include "problem.h"

#include <jansson.h>
#include <stdint.h>

bool serve_field_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *value,
                     serve_problem *p);
bool serve_field_real(const json_t *object, const char *key, double min, double max, double *value,
                      serve_problem *p);
bool serve_field_bool(const json_t *object, const char *key, bool *value, serve_problem *p);
bool serve_field_string(const json_t *object, const char *key, const char **value, serve_problem *p);
bool serve_field_object(const json_t *object, const char *key, const json_t **value, serve_problem *p);

#endif
