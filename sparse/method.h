/* method.h - how an attention method is named and set: `name` or `name:key=value,key=value`.
 *
 * Every method lists its settings in a table; parsing, help texts, ranges and the line that goes into results
 * come from it. Values are numbers; a setting with `choices` takes one of those names and its value is the
 * name's place. No setting may be given twice. */
#ifndef SAC_METHOD_H
#define SAC_METHOD_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>

#define SAC_METHOD_MAX_PARAMS 20

typedef struct sac_method_param {
    const char *name; /* NULL ends the table */
    double value;     /* default */
    double min, max;
    const char *help;
    const char *const *choices; /* NULL: any number; SAC_WHOLE: whole ones; or names, NULL-terminated */
} sac_method_param;

extern const char *const sac_method_whole[];
#define SAC_WHOLE sac_method_whole

/* Bytes of the name that `line` begins with. */
size_t sac_method_name_bytes(const char *line);

/* Values of params [SAC_METHOD_MAX_PARAMS] from the line's settings, defaults where it says nothing. A key
 * that begins with `prefix` ("base.") is skipped when prefix is given and taken without it when only_prefix
 * is set: a method over another passes settings on. `what` ("decode policy") is for messages. */
sac_status sac_method_parse(const char *what, const char *line, const sac_method_param *params,
                            const char *prefix, bool only_prefix, double *values, sac_error *err);

/* The whole line, every setting written out: "zipvl:tau=0.975,recent=64". Cut at capacity. */
void sac_method_print(const char *name, const sac_method_param *params, const double *values, char *text,
                      size_t capacity);

#endif
