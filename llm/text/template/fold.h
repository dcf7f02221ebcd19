/* fold.h - templates that Jinja refuses while it compiles them, although they could run. */
#ifndef SAC_LLM_TEMPLATE_FOLD_H
#define SAC_LLM_TEMPLATE_FOLD_H

#include "syntax.h"

/* BAD_FILE: a dict of constants that the optimizer takes has a key that cannot be hashed. `root` has its places. */
sac_status sac_tmpl_check_folded(const sac_tmpl_source *s, const sac_tmpl_node *root);

#endif
