/* method_names.h - methods by name, before a model is loaded for them. */
#ifndef APP_METHOD_NAMES_H
#define APP_METHOD_NAMES_H

#include "settings.h"

/* Is what --prefill, --decode and --kv begin with the name of a method? The error says which may be meant. What is asked
 * beyond names is checked when a session is made. */
sac_status method_names_check(const settings *s, sac_error *err);

/* The same of method lines, "zipvl:tau=0.9"; NULL: none is asked for. */
sac_status method_names_check_lines(const char *prefill, const char *decode, const char *kv, sac_error *err);

#endif
