/* module_pattern.h - patterns of modules' names in configurations. They are Python's, and PCRE2 reads the same of them; a pattern
 * of a stranger has limits on the work of a match. */
#ifndef SAC_MODELS_MODULE_PATTERN_H
#define SAC_MODELS_MODULE_PATTERN_H

#include "status.h"

#include <stdbool.h>

/* Whether the pattern matches `module` from its start, and, `whole`, to its end. Where captured is given and it does, *captured is
 * the number that the last group caught. BAD_FILE, with the key, for what is no pattern, or one that takes too long. */
sac_status sac_module_match(const char *key, const char *pattern, bool whole, const char *module, bool *found, long *captured,
                            sac_error *err);

#endif
